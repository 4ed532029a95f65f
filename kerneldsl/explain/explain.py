"""Explaining a launch: from a kernel and its arguments to what a person should know of it."""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kerneldsl.contract import Artifact, Compiler, Device, Dim3, Specialization
from kerneldsl.contract.promises import has_narrow_integers, is_narrow
from kerneldsl.errors import ToolMissingError
from kerneldsl.errors.kernels import wrong_type
from kerneldsl.explain.accesses import AccessReport, Certainty, source_text
from kerneldsl.explain.arguments import Given, read_given
from kerneldsl.explain.arithmetic import (
    divergence,
    double_arithmetic,
    index_arithmetic,
    integer_division,
)
from kerneldsl.explain.explanation import FLOPS, TENSOR_FMA, BranchReport, Explanation
from kerneldsl.explain.findings import bank_conflicts, coalescing, local_arrays, whole_array_work
from kerneldsl.explain.formulas import launch_formulas
from kerneldsl.explain.indices import Indices
from kerneldsl.explain.launched import Launched, launched
from kerneldsl.explain.reuse import array_traffic, reuse
from kerneldsl.explain.roofline import roofline
from kerneldsl.explain.sites import Site
from kerneldsl.explain.symbols import Expression, import_sympy, neighbour_stride
from kerneldsl.explain.tally import AccessTally, BranchTally
from kerneldsl.explain.values import Space
from kerneldsl.ir.frontend.written import WrittenReader
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import ScalarKind, format_signature
from kerneldsl.placement.registry import get_target
from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, occupancy
from kerneldsl.planner.block_occupancy import Occupancy

__all__ = ["explain_kernel", "explained_device", "report_access", "report_branch"]

#: Architecture that is described if none is named and no GPU is there.
_ARCH = "sm_90"


def explained_device(target: str, arch: str | None) -> Device:
    """Return the device that a launch is explained for: one that is there, or a described one."""
    if arch is not None and type(arch) is not str:
        raise wrong_type("arch", arch, 'An architecture is a str as "sm_90"')
    here = get_target(target).devices()
    return here[0] if arch is None and here else get_target(target).described(arch or _ARCH)


def explain_kernel(
    compiler: Compiler,
    specialization: Specialization,
    arguments: Sequence[Any] | None,
    device: Device,
    *,
    compiled: Callable[[Specialization], Artifact] | None = None,
    block: Dim3 | None = None,
    grid: Dim3 | None = None,
    extent: tuple[int, ...] | None = None,
    sizes: Mapping[str, Any] | None = None,
    shared_bytes: int = 0,
) -> Explanation:
    """Explain a kernel for arguments, or for those that a signature and `sizes` stand for.

    - `compiler`: reads the kernel with types.
    - `specialization`: the kernel and its arguments' types.
    - `arguments`: the arguments; ``None`` where their types alone are known.
    - `device`: the device that it would be launched on.
    - `compiled`: compiles the kernel, for its registers and for what the optimizing passes did.
    - `block`, `grid`: the launch.
    - `extent`: extent of the launch, if it has one.
    - `sizes`: value of an integer or shape of an array, by parameter, for a signature.
    - `shared_bytes`: dynamic shared memory of a block.
    """
    import_sympy()  # before what takes long
    unit, traits = specialization.unit, specialization.traits
    function = compiler.typed_regions(unit, specialization.kinds, WrittenReader)
    given = read_given(
        unit.parameters, specialization.kinds, arguments, traits.written, sizes, extent
    )
    names_written = {unit.parameters[position] for position in traits.written}
    written = [each for each in given.arrays if each.name.partition(".")[0] in names_written]
    launch = launched(traits, given.arrays, written, block=block, grid=grid, extent=extent)
    tallies, threads, one_block = launch.interpret(
        function,
        given.values,
        wraps=specialization.options.wraparound,
        shared_bytes=shared_bytes,
    )
    is_sampled = tallies.is_sampled or not threads.is_whole
    artifact = None
    if compiled is not None:
        artifact = compiled(_for_sizes(specialization, launch, given))
    indices = Indices(function, None if extent is None else len(extent))
    accesses = tuple(report_access(each, indices) for each in _in_order(tallies.accesses.values()))
    arrays = tuple(
        array_traffic(memory, tallies.accesses.values(), threads) for memory in given.arrays
    )
    branches = tuple(map(report_branch, _in_order(tallies.branches.values())))
    operations: dict[tuple[str, str], float] = defaultdict(float)
    for each in tallies.floats.values():
        operations[each.dtype, each.name] += each.count
    scalars = dict(zip(unit.parameters, given.values, strict=True))
    formulas = launch_formulas(
        tallies,
        function,
        indices,
        launch,
        given.arrays,
        {name: int(n) for name, n in scalars.items() if _is_integer(n)},
        is_sampled=is_sampled,
    )
    single, double = (_flops(operations, is_double=each) for each in (False, True))
    moved = sum(each.read_bytes + each.written_bytes for each in arrays)
    findings = [
        *coalescing(accesses),
        *bank_conflicts(accesses, one_block),
        *local_arrays(tallies, accesses),
        *reuse(
            arrays,
            accesses,
            (one_block, launch.middle),
            (tallies, threads),
            counters=indices.counters,
        ),
        *divergence(branches),
        *double_arithmetic(function, specialization.kinds, tallies),
        *integer_division(tallies),
        *whole_array_work(unit, launch, given.arrays),
        *(index_arithmetic(function, tallies) if specialization.options.wraparound else ()),
    ]
    return Explanation(
        kernel=unit.qualname,
        signature=format_signature(specialization.kinds),
        arch=device.arch,
        block_dim=launch.block_dim,
        grid_dim=launch.grid_dim,
        accesses=accesses,
        branches=branches,
        arrays=arrays,
        operations=dict(operations),
        lanes_at_work=tallies.lanes / tallies.slots if tallies.slots else 1.0,
        formulas=formulas,
        roofline=roofline(device, moved, single, double),
        occupancy=_held(device, artifact, launch.block_dim, shared_bytes),
        findings=tuple(sorted(findings, key=lambda each: -each.weight)),
        passes=None if artifact is None else artifact.passes,
        assumed={**given.assumed, **launch.assumed},
        left_out=tuple(sorted(tallies.left_out)),
        is_sampled=is_sampled,
    )


def _for_sizes(specialization: Specialization, launch: Launched, given: Given) -> Specialization:
    """Return what is compiled for a launch with the sizes that are explained."""
    threads = tuple(map(operator.mul, launch.grid_dim, launch.block_dim))
    shapes = [each.shape for each in given.arrays]
    integers = [
        int(value)
        for kind, value in zip(specialization.kinds, given.values, strict=True)
        if isinstance(kind, ScalarKind) and kind.dtype == "int64" and _is_integer(value)
    ]
    are_all = len(integers) == len(specialization.layout.integers)
    promises = replace(
        specialization.promises,
        is_narrow=is_narrow(launch.extent or (), shapes, () if launch.extent else threads),
        has_narrow_integers=are_all and has_narrow_integers(integers),
    )
    return replace(specialization, promises=promises)


def _is_integer(value: Any) -> bool:
    """Return whether a value is an integer; to NumPy a duration is one."""
    return isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64)


def _flops(operations: Mapping[tuple[str, str], float], *, is_double: bool) -> float:
    return sum(
        FLOPS.get(name, 0) * count
        for (dtype, name), count in operations.items()
        # Nothing says at which rate tensor cores multiply.
        if ELEMENT_TYPES[dtype].is_double == is_double and name != TENSOR_FMA
    )


def _held(
    device: Device, artifact: Artifact | None, block: Dim3, shared_bytes: int
) -> Occupancy | None:
    """Return what a multiprocessor holds; ``None`` where the model or the registers are missing."""
    try:
        resources = None if artifact is None else artifact.resources()
    except ToolMissingError:
        return None
    if resources is None or resources.registers is None:
        return None
    limits = DeviceOccupancyLimits.from_device(device)
    kernel = KernelResources.from_resources(resources, limits)
    return occupancy(limits, kernel, math.prod(block), shared_bytes)


def _in_order(tallies: Any) -> list[Any]:
    return sorted(tallies, key=lambda each: (each.site.where.filename, each.site.where.lineno))


# -- reports --------------------------------------------------------------------------------------


def report_access(tally: AccessTally, indices: Indices) -> AccessReport:
    is_tile = tally.tile_share is not None
    index, offset = ((), None) if is_tile else indices.place(tally.operations)
    operation = "atomic" if tally.is_atomic else "store" if tally.is_store else "load"
    certainty: Certainty = "exact"
    if tally.depends_on_data:
        certainty = "estimate"
    elif tally.is_uncertain:
        certainty = "bound"
    memory = tally.memory
    is_counted = memory.space is Space.GLOBAL
    return AccessReport(
        array=memory.name,
        space=memory.space.value,
        operation=operation,
        text=shown_text(tally.site),
        where=tally.site.where,
        itemsize=tally.itemsize,
        index=index,
        offset=offset,
        stride=_stride(tally, offset),
        requests=tally.requests,
        threads=tally.lanes,
        sectors=tally.sectors if is_counted else 0.0,
        needed_bytes=tally.needed_bytes if is_counted else 0.0,
        wavefronts=tally.wavefronts,
        least_wavefronts=tally.least_wavefronts,
        same_address=tally.lanes / tally.addresses if tally.addresses else 1.0,
        certainty=certainty,
        is_tile=is_tile,
        record_bytes=0 if tally.part is None else tally.part.record_bytes,
        field_offset=0 if tally.part is None else tally.part.offset,
        is_bytewise=tally.part is not None and not tally.part.is_aligned,
        axis_bytes=tuple(
            nbytes if extent > 1 else 0
            for nbytes, extent in zip(memory.strides, memory.shape, strict=True)
        ),
    )


def _stride(tally: AccessTally, offset: Expression | None) -> Expression | int | None:
    """Return the stride as a formula if it contains symbols, else the counted number."""
    met = tally.stride
    if met is None or tally.depends_on_data:
        return None
    formula = None if offset is None else neighbour_stride(offset)
    return formula if formula is not None and formula.free_symbols else met


def report_branch(tally: BranchTally) -> BranchReport:
    """Return the report of a branch or a loop."""
    return BranchReport(
        tally.site.where,
        shown_text(tally.site),
        tally.is_loop,
        tally.warps,
        tally.divergent,
        tally.share,
        tally.depends_on_data,
    )


def shown_text(site: Site) -> str:
    """Return the user's text."""
    return source_text(site.where) or site.text
