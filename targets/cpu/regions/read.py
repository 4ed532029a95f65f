"""Reading a kernel into the region that one worker runs for a block or an element.

A kernel that has no blocks is rewritten here, as rows of elements.
"""

from __future__ import annotations

import operator
from functools import partial

from kerneldsl.contract import Specialization
from kerneldsl.ir.frontend.read import argument_types, read_function
from kerneldsl.ir.nonnegative import mark_indices
from kerneldsl.ir.operations import Function, Operation, Region
from kerneldsl.ir.ranges import ranges_of
from kerneldsl.ir.recognize import operator_of
from kerneldsl.ir.simplify import decide_branches, simplify
from kerneldsl.ir.typing import Typing
from kerneldsl.ir.work import count_work
from kerneldsl.lowering.loop_marks import NOT_INTERLEAVED
from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock
from kerneldsl.lowering.numba_internals.host_code import host_contexts
from targets.cpu.codegen.storage import StaticArray
from targets.cpu.regions.row_parts import in_parts
from targets.cpu.regions.row_regions import (
    element_rows,
    hoist_shared_loads,
    narrow_bounds,
    replace_rows,
    version_nonnegative_starts,
)
from targets.cpu.regions.rows import axes_of_rows

__all__ = ["read_kernel", "remarks_on_arrays"]


def read_kernel(spec: Specialization) -> tuple[Function, Region]:
    """Return the typed function of a kernel, and the region that runs for a block or an element."""
    is_of_elements, is_debug = spec.traits.uses_grid_only, spec.options.debug
    if spec.traits.syncs_grid:
        from targets.cpu.regions.block_kernels import refuse_chains

        refuse_chains(spec.unit)
    kinds = argument_types(spec.unit, spec.kinds)
    typing = host_contexts().typing_context
    checks = spec.options.checks_division
    function = read_function(
        spec.unit, kinds, typing, debug=is_debug, checks_division=checks, raises=True
    )
    spec.unit.require_bodies("cpu")  # also of what an overload calls
    if spec.traits.has_barrier:
        from kerneldsl.ir.barriers import analyze_barriers
        from targets.cpu.runtime.faults import refuse_divergent_barriers

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


# -- rows of elements ------------------------------------------------------------------------------


_INDEX = (0, 2**62)
#: Loads of an element that keep a processor busy with one vector at a time.
_MANY = 6
_LOOPS = {"for", "for_each", "while", "labeled"}


def element_region(function: Function, spec: Specialization) -> Region:
    """Return the region of a function, which is rewritten in place."""
    body, axes = function.body, axes_of_rows(spec, function.work)
    simplify(body)
    mark_indices(function, wraparound=spec.options.wraparound)
    if spec.options.debug:
        element_rows(function, axes)
    else:
        _write_rows(function, axes)
    return body


def _write_rows(function: Function, axes: str) -> None:
    """Write the body of a kernel as rows, in place.

    `axes` are the axes of rows that the axes of ``grid`` are.
    """
    body = function.body
    # Many kernels have no loops, and import nothing that rewrites these.
    has_loops = any(each.name in _LOOPS for each in body.walk())
    known = ranges_of(function, {"grid": _INDEX})
    index = element_rows(function, axes)
    known |= {each.result: _INDEX for each in body.operations if each.name.startswith("grid.")}
    known[index] = _INDEX
    replace_rows(body, partial(narrow_bounds, known=known))
    if any(operator_of(each) is operator.xor for each in body.walk()):
        from targets.cpu.regions.lanes.halves import in_halves

        replace_rows(body, in_halves)
    replace_rows(body, partial(in_parts, known=known))
    if has_loops:
        from targets.cpu.regions.lanes.rows import in_strips

        replace_rows(body, in_strips)
        version_nonnegative_starts(body)
    replace_rows(body, hoist_shared_loads)
    simplify(body)
    _mark_short_rows(body)


def _mark_short_rows(body: Region) -> None:
    """Have LLVM compute one vector at a time in the rows of volumes, which are short.

    With several at a time, much of a row of 64 elements would be left for the loop after them.
    """
    if not any(each.name == "grid.z" for each in body.operations):
        return
    for row in body.walk():
        if row.name == "row" and sum(each.name == "array.load" for each in row.walk()) >= _MANY:
            row.attributes.setdefault("marks", (NOT_INTERLEAVED,))


# -- remarks ---------------------------------------------------------------------------------------


def remarks_on_arrays(spec: Specialization) -> tuple[str, ...]:
    """Return what to say of each local array that stays one: what it costs, what to write.

    The kernel has been compiled.
    """
    with global_compiler_lock:
        _, region = read_kernel(spec)
    sites = {
        operation.attributes["site"]: operation
        for operation in region.walk()
        if operation.name == "local.array"
    }
    return tuple(map(_remark, sites.values()))


def _remark(operation: Operation) -> str:
    unit, name = operation.attributes["site"]
    where = unit.locate_use(name)
    return (
        f"{StaticArray(operation.attributes['use'], where)} (line {where.lineno}) stays in memory: "
        "an index of it is not known when the kernel is compiled, it is used as a whole, it has "
        "several axes or many elements, or the loops over it would be long when they are written "
        "out. Threads use it one after the other, unless the indices are the same for all of "
        "them. Arrays of some numbers, indexed by constants or in short loops of constant "
        "length, become variables."
    )
