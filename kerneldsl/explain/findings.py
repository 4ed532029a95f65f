"""Findings about a kernel's accesses of memory, with places and what to write instead."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from kerneldsl.explain.accesses import AccessReport
from kerneldsl.explain.arrangements import Arrangement, Padding, Swizzle, arrangements_of
from kerneldsl.explain.explanation import Finding
from kerneldsl.explain.launched import Launched
from kerneldsl.explain.neighbours import reason_of
from kerneldsl.explain.tally import AccessTally, Tallies
from kerneldsl.explain.text import short_number
from kerneldsl.explain.values import Memory, Space
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.planner.work import SECTOR_BYTES
from kerneldsl.transforms.rows.whole_arrays import whole_arrays

__all__ = ["bank_conflicts", "coalescing", "local_arrays", "whole_array_work"]

#: An access whose sectors are used less than this is told of.
_USED = 0.6
#: Wavefronts beyond those without conflicts that are told of.
_CONFLICTS = 1.05


def coalescing(accesses: Sequence[AccessReport]) -> Iterator[Finding]:
    """Yield the accesses of global memory that touch more than they need."""
    for each in accesses:
        if each.space != "global" or each.efficiency >= _USED or each.requests == 0:
            continue
        sectors = each.sectors_per_request
        needed = each.needed_bytes / each.requests / SECTOR_BYTES
        if sectors < needed + 1.0:  # one sector at least, whatever is asked for
            continue
        reason = reason_of(each)
        yield Finding(
            "coalescing",
            each.where,
            sectors,
            f"a warp's {each.operation} of {each.array} touches {sectors:.3g} sectors where "
            f"{max(1.0, needed):.3g} would do: {100 * each.efficiency:.3g} % is used",
            f"Memory moves sectors of {SECTOR_BYTES} bytes, and {reason.why}",
            reason.remedy,
            weight=SECTOR_BYTES * each.sectors - each.needed_bytes,
        )


def bank_conflicts(
    accesses: Sequence[AccessReport], one_block: Tallies, names: Mapping[Memory, str]
) -> Iterator[Finding]:
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
            _arrangement(each.array, one_block, names),
            weight=128 * (each.wavefronts - each.least_wavefronts),
        )


def _arrangement(array: str, one_block: Tallies, names: Mapping[Memory, str]) -> str:
    """Return which longer rows, and which swizzle, take the conflicts of an array away."""
    tallies = [
        each
        for each in one_block.accesses.values()
        if each.memory.space is Space.SHARED and names.get(each.memory) == array
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
            # Of what each of them moves one thread's part is needed.
            weight=8 * each.elements * (each.threads - 1),
        )


def tallies_of(tallies: Tallies, access: AccessReport) -> Memory | None:
    """Return the array of an access."""
    for each in tallies.accesses.values():
        if each.where == access.where and each.text == access.text:
            return each.memory
    return None
