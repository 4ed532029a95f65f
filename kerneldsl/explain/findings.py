"""Findings about a kernel's accesses of memory, with places, reasons and remedies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kerneldsl.explain.accesses import AccessReport
from kerneldsl.explain.arrangements import Arrangement, Padding, Swizzle, arrangements_of
from kerneldsl.explain.explanation import Finding
from kerneldsl.explain.launched import Launched
from kerneldsl.explain.requests import WARP_LANES
from kerneldsl.explain.symbols import Expression, neighbour_stride
from kerneldsl.explain.tally import AccessTally, Tallies
from kerneldsl.explain.text import short_number
from kerneldsl.explain.values import Memory, Space
from kerneldsl.frontend.rows.whole_arrays import whole_arrays
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.planner.work import SECTOR_BYTES
from kerneldsl.utilities.formatting import format_percent

__all__ = ["bank_conflicts", "coalescing", "local_arrays", "whole_array_work"]

#: An access that uses less than this part of its sectors is reported.
_USED = 0.6
#: Wavefronts beyond those without conflicts that are reported.
_CONFLICTS = 1.05

_STAGE = "stage a tile in shared memory"


def coalescing(accesses: Sequence[AccessReport]) -> Iterator[Finding]:
    """Yield the accesses of global memory that touch more than they need."""
    for each in accesses:
        if each.space != "global" or each.efficiency >= _USED or each.requests == 0:
            continue
        sectors = each.sectors_per_request
        needed = each.needed_bytes / each.requests / SECTOR_BYTES
        if sectors < needed + 1.0:  # one sector at least, whatever is asked for
            continue
        reason = _reason_of(each)
        yield Finding(
            "coalescing",
            each.where,
            sectors,
            f"a warp's {each.operation} of {each.array} touches {sectors:.3g} sectors where "
            f"{max(1.0, needed):.3g} would do: {format_percent(each.efficiency)} is used",
            f"Memory moves sectors of {SECTOR_BYTES} bytes, and {reason.why}",
            reason.remedy,
            weight=SECTOR_BYTES * each.sectors - each.needed_bytes,
        )


def bank_conflicts(accesses: Sequence[AccessReport], one_block: Tallies) -> Iterator[Finding]:
    """Yield the accesses of shared memory that take more wavefronts than they need."""
    for each in accesses:
        if each.space != "shared" or not each.least_wavefronts:
            continue
        ratio = each.wavefronts / each.least_wavefronts
        if ratio < _CONFLICTS:
            continue
        yield Finding(
            "bank conflicts",
            each.where,
            each.wavefronts_per_request,
            f"a warp's {each.operation} of {each.array} takes {each.wavefronts_per_request:.3g} "
            f"wavefronts where {each.least_wavefronts / each.requests:.3g} would do",
            "Words of one bank, 128 bytes apart, are served one after the other",
            _arrangement(each.array, one_block),
            weight=128 * (each.wavefronts - each.least_wavefronts),
        )


def _arrangement(array: str, one_block: Tallies) -> str:
    """Return which longer rows, and which swizzle, take the conflicts of an array away."""
    tallies = [
        each
        for each in one_block.accesses.values()
        if each.memory.space is Space.SHARED and each.memory.name == array
    ]
    memory = tallies[0].memory
    now = sum(each.wavefronts for each in tallies)
    costs = {each: _wavefronts(tallies, each) for each in arrangements_of(memory)}
    pads = {each: n for each, n in costs.items() if isinstance(each, Padding) and n < now}
    swizzles = {each: n for each, n in costs.items() if isinstance(each, Swizzle) and n < now}
    if not pads and not swizzles:
        return (
            "Neither longer rows nor exchanging a row's elements helps; let neighbouring threads "
            "access neighbouring elements"
        )
    saved = f"{short_number(now)} wavefronts of a block become "
    found = []
    if pads:
        pad = min(pads, key=lambda each: pads[each])
        found.append(f"{_padded(pad, memory)}: {saved}{short_number(pads[pad])}")
    if swizzles:
        swizzle = min(swizzles, key=lambda each: swizzles[each])
        found.append(f"{_swizzled(swizzle, memory)}: {saved}{short_number(swizzles[swizzle])}")
    remedy = ". Or ".join(found)
    return remedy[0].upper() + remedy[1:]


def _padded(pad: Padding, memory: Memory) -> str:
    if len(memory.shape) == 1:
        term = "i // 32" if pad.elements == 1 else f"i // 32 * {pad.elements}"
        return f"Put element i at i + {term} of a longer array"
    return f"Make the array {pad.shape(memory)} instead of {memory.shape}"


def _swizzled(swizzle: Swizzle, memory: Memory) -> str:
    if len(memory.shape) == 1:
        term = swizzle._replace(shift=swizzle.shift + 5).term("i")
        return f"put element i at i ^ {term} of the same array"
    before = "…, " if len(memory.shape) > 2 else ""
    return f"put element [{before}i, j] at [{before}i, j ^ {swizzle.term('i')}] of the same array"


def _wavefronts(tallies: Sequence[AccessTally], arrangement: Arrangement) -> float:
    """Return the wavefronts of an array that is arranged so.

    Accesses that data decides, and others that longer rows do not change, have those they have. To
    swizzle an array, each access has to be rewritten.
    """
    return sum(
        math.inf
        if isinstance(arrangement, Swizzle)
        and arrangement not in each.moved
        and not each.depends_on_data
        else each.moved.get(arrangement, each.wavefronts)
        for each in tallies
    )


def local_arrays(tallies: Tallies, accesses: Sequence[AccessReport]) -> Iterator[Finding]:
    """Yield the local arrays that are indexed by what is known only at run time."""
    for memory in tallies.made.values():
        if memory.space is not Space.LOCAL:
            continue
        touched = [
            each
            for each in accesses
            if each.space == "local" and any(not i.is_Integer for i in each.index)
            if tallies_of(tallies, each) is memory
        ]
        if not touched:
            continue
        first = touched[0]
        yield Finding(
            "local memory",
            first.where,
            memory.nbytes,
            f"{first.array} takes {memory.nbytes} bytes of each thread and is indexed by "
            f"{', '.join(map(str, first.index))}",
            "Registers have no index: unless the compiler unrolls the loop in full, the array lies "
            "in local memory, which goes through the caches to device memory",
            "Index it by constants or by short loops of constant length, or use shared memory",
            weight=memory.nbytes * sum(each.threads for each in touched),
        )


def whole_array_work(
    unit: FunctionUnit, launch: Launched, arrays: Sequence[Memory]
) -> Iterator[Finding]:
    """Yield the places where each thread goes through a whole array of the arguments."""
    shapes = {each.name: each.shape for each in arrays}
    threads = math.prod(launch.extent or (*launch.grid_dim, *launch.block_dim))
    for each in whole_arrays(unit, shapes, threads):
        yield Finding(
            *("whole array", each.where, each.elements * each.threads, each.what, each.why),
            each.remedy,
            # Only one thread's part of the moved elements is needed.
            weight=8 * each.elements * (each.threads - 1),
        )


def tallies_of(tallies: Tallies, access: AccessReport) -> Memory | None:
    """Return the array of an access."""
    for each in tallies.accesses.values():
        if each.site.where == access.where and each.memory.name == access.array:
            return each.memory
    return None


class _Reason(NamedTuple):
    """Reason why a request touches more sectors than it needs, and what to write instead."""

    why: str
    remedy: str


def _reason_of(access: AccessReport) -> _Reason:
    """Return why a request of global memory touches more sectors than it needs."""
    if access.is_tile:
        return _Reason(
            "each thread takes neighbours of the tile one by one",
            "Take long rows as tiles of one axis: neighbours are then one access",
        )
    if access.certainty == "estimate":
        return _Reason(
            "data decides where neighbouring threads access it",
            "Sort or group the indices, or gather through shared memory",
        )
    if access.record_bytes and access.stride in (-1, 0, 1):
        return _of_field(access)
    apart = "neighbouring threads are not equally far apart"
    if access.stride is not None:
        apart = f"neighbouring threads are {access.stride} elements apart"
    steps = [neighbour_stride(each) for each in access.index]
    moving = [(axis, step) for axis, step in enumerate(steps) if step != 0]
    axis, step = moving[0] if moving else (0, None)
    if len(moving) != 1 or step is None or len(steps) != len(access.axis_bytes):
        return _Reason(apart, f"Let neighbouring threads access neighbouring elements, or {_STAGE}")
    nearest = _nearest(access.axis_bytes)
    if nearest is not None and access.axis_bytes[nearest] < access.axis_bytes[axis]:
        name = _name(nearest, len(steps))
        return _Reason(apart, f"Let threadIdx.x run along the array's {name}, or {_STAGE}")
    if step not in (-1, 1):
        far: Expression = -step if step.could_extract_minus_sign() else step
        return _Reason(
            apart,
            f"Put elements that are {far} apart side by side, at [k, i] instead of [{far}*i + k], "
            "or read all of the block's in order into shared memory",
        )
    if access.axis_bytes[axis] > max(access.itemsize, access.record_bytes):
        name = _name(axis, len(steps))
        return _Reason(
            f"the array's elements lie {access.axis_bytes[axis]} bytes apart along its {name}",
            "Pass a contiguous array, such as np.ascontiguousarray(…) makes of a view",
        )
    lanes = access.threads / access.requests
    if access.stride is None and lanes < WARP_LANES:
        return _Reason(
            f"{lanes:.3g} of a warp's {WARP_LANES} lanes are at work, with elements between theirs "
            "that are not asked for",
            "Put what is accessed side by side, and let neighbouring threads do it",
        )
    return _Reason(
        "a warp accesses short parts of several rows",
        f"Make the block's rows along threadIdx.x longer, {WARP_LANES} threads or more",
    )


def _of_field(access: AccessReport) -> _Reason:
    """Return the reason of a field, with neighbours a record apart, or of a record."""
    if access.itemsize == access.record_bytes:
        return _Reason(
            f"a record's {access.itemsize} bytes are copied one by one",
            "Copy the fields that are needed, of a dtype with align=True or each in an array of "
            "its own",
        )
    why = f"the field is {access.itemsize} of a record's {access.record_bytes} bytes"
    remedy = "Keep the field in an array of its own, where neighbours lie side by side"
    if access.is_bytewise:
        why += ", requested byte by byte since the dtype is packed"
        remedy += ", or at least declare the dtype with align=True"
    return _Reason(why, remedy)


def _nearest(axis_bytes: Sequence[int]) -> int | None:
    """Return the axis along which neighbours are nearest, among those with several elements."""
    axes = [axis for axis, nbytes in enumerate(axis_bytes) if nbytes]
    return min(axes, key=lambda axis: abs(axis_bytes[axis]), default=None)


def _name(axis: int, ndim: int) -> str:
    if axis == ndim - 1:
        return "last axis"
    return "first axis" if axis == 0 else f"axis {axis}"
