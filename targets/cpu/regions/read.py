"""From a kernel to the region that one worker runs for a block or an element."""

from __future__ import annotations

from kerneldsl.contract import Specialization
from kerneldsl.ir.frontend.read import argument_types, read_function
from kerneldsl.ir.operations import Function, Region
from kerneldsl.ir.simplify import decide_branches
from kerneldsl.ir.typing import Typing
from kerneldsl.ir.work import count_work
from kerneldsl.lowering.numba_internals.host_code import host_contexts
from targets.cpu.regions.element_kernels import element_region
from targets.cpu.regions.rows import axes_of_rows

__all__ = ["read_kernel"]


def read_kernel(spec: Specialization) -> tuple[Function, Region]:
    """Return the typed function of a kernel, and the region that runs for a block or an element."""
    is_of_elements, is_debug = spec.traits.uses_grid_only, spec.options.debug
    if spec.traits.syncs_grid:
        from targets.cpu.regions.grid_barriers import refuse_chains

        refuse_chains(spec.unit)
    kinds = argument_types(spec.unit, spec.kinds)
    typing = host_contexts().typing_context
    function = read_function(spec.unit, kinds, typing, debug=is_debug, raises=True)
    if spec.traits.has_barrier:
        from kerneldsl.ir.barriers import analyze_barriers
        from targets.cpu.barriers import refuse_divergent_barriers

        function.barriers = analyze_barriers(function, spec)
        refuse_divergent_barriers(function.barriers.problems)
    function.work = count_work(function)
    decide_branches(function.body)
    if is_debug:
        from targets.cpu.regions.faults import place_faults

        place_faults(function, axes_of_rows(spec, function.work) if is_of_elements else None)
    elif any(each.name == "local.array" for each in function.body.walk()):
        from targets.cpu.regions.local_elements import name_elements

        name_elements(function, wraparound=spec.options.wraparound)
    if not is_of_elements:
        from targets.cpu.regions.block_kernels import block_region  # much that elements do without

        return function, block_region(function, spec, Typing.of(typing))
    return function, element_region(function, spec)
