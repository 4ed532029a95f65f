"""Findings about repeated reads of a block, with the tile that would avoid them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from kerneldsl.explain.accesses import AccessReport
from kerneldsl.explain.explanation import ArrayTraffic, Finding
from kerneldsl.explain.tally import AccessTally, Tallies, settled, split_keys
from kerneldsl.explain.threads import Threads
from kerneldsl.explain.values import Memory, Space
from kerneldsl.planner.work import SECTOR_BYTES
from kerneldsl.utilities.formatting import format_bytes

__all__ = ["array_traffic", "reuse"]

#: The number of requests of a sector by a block from which on it is a finding.
_AGAIN = 2.0
#: Iterations of a loop with elements in a tile, if not all fit.
_ROUNDS = 32
#: Bytes of static shared memory of a block (CUDA C++ Programming Guide, "Compute Capabilities":
#: a launch must request more).
_STATIC_BYTES = 48 * 1024

#: Sectors that the L2 cache reads from device memory together, as it does unless
#: ``cudaLimitMaxL2FetchGranularity`` says otherwise (CUDA Runtime API, "Device Management").
_FETCHED_SECTORS = 2


def reuse(
    arrays: Sequence[ArrayTraffic],
    accesses: Sequence[AccessReport],
    *walked: tuple[Tallies, Threads],
    counters: Collection[str],
) -> Iterator[Finding]:
    """Yield the arrays with sectors that blocks request repeatedly.

    The tile is that of the first interpreted block, or of another one if that block is not active.
    It contains the elements that are requested again. If loads read separate ranges, it is the
    range with the most avoidable requests.
    """
    for array in arrays:
        reads = [
            each
            for each in accesses
            if each.array == array.name and each.operation == "load" and each.space == "global"
            # Successive requests of tiles and of bytes share sectors anyway.
            if not each.is_tile and not each.is_bytewise
        ]
        if array.block_reads < _AGAIN or not reads:
            continue
        most = max(reads, key=lambda each: each.sectors)
        yield Finding(
            "reuse",
            most.where,
            array.block_reads,
            f"a block requests each sector of {array.name} {array.block_reads:.3g} times",
            "Each time it goes to the level-1 cache, and to the level-2 cache where that is full",
            _remedy(array.name, reads, walked, counters),
            weight=array.requested_bytes * (1.0 - 1.0 / array.block_reads),
        )


def _remedy(
    name: str,
    reads: Sequence[AccessReport],
    walked: Sequence[tuple[Tallies, Threads]],
    counters: Collection[str],
) -> str:
    """Return which tile of an array a block should read once."""
    whole = walked[-1]
    for tallies, _ in walked:
        loads = _read_again(
            [
                each
                for each in tallies.accesses.values()
                if each.memory.name == name
                and each.memory.space is Space.GLOBAL
                and not each.is_store
            ],
            whole,
        )
        box = _box(loads)
        if box is None:
            continue
        memory = loads[0].memory
        if not tallies.is_sampled and math.prod(box) * memory.itemsize <= _STATIC_BYTES:
            return (
                f"Read the block's {_tile(box, memory)} once, wait with kd.syncthreads(), and read "
                "them there"
            )
        places = {each.site.where for each in loads}
        mine = [each for each in reads if each.where in places]
        axes = _counters(mine, counters, len(box))
        if any(axes):
            tile = tuple(
                min(n, _ROUNDS) if found else n for n, found in zip(box, axes, strict=True)
            )
            names = " and ".join(sorted(set().union(*axes)))
            return (
                f"Go through {names} in steps of {_ROUNDS}: for each read {_tile(tile, memory)}, "
                "wait with kd.syncthreads(), use them, and wait again"
            )
    return "Read a tile into shared memory once, wait with kd.syncthreads(), and read it there"


def _tile(shape: tuple[int, ...], memory: Memory) -> str:
    """Say how many elements are read, and into what."""
    extents = " × ".join(map(str, shape))
    dtype = f"np.{memory.dtype}" if hasattr(np, memory.dtype) else "…"
    return (
        f"{extents} elements, {format_bytes(math.prod(shape) * memory.itemsize)}, into "
        f"kd.shared.array({shape if len(shape) > 1 else shape[0]}, {dtype})"
    )


def _read_again(
    loads: Sequence[AccessTally], whole: tuple[Tallies, Threads]
) -> Sequence[AccessTally]:
    """Return the loads of one range that a block requests again, among separate ranges.

    The number of requests is that of the whole launch, with more iterations of loops. Loads of an
    unknown range are omitted.
    """
    groups: list[list[AccessTally]] = []
    for each in loads:
        if each.box:
            near = [group for group in groups if any(_is_near(each, other) for other in group)]
            groups = [group for group in groups if group not in near]
            groups.append([each, *itertools.chain(*near)])
    if len(groups) == 1:
        return groups[0]
    tallies, threads = whole

    def spared(group: list[AccessTally]) -> float:
        found = [tallies.accesses.get(each.key, each) for each in group]
        times = _block_reads(found, threads)
        return sum(each.sectors for each in found) * (1.0 - 1.0 / times) if times >= _AGAIN else 0.0

    best = max(groups, key=spared, default=[])
    return best if best and spared(best) else []


def _is_near(one: AccessTally, other: AccessTally) -> bool:
    """Return whether the ranges of two loads overlap, or are neighbours."""
    if not one.box or not other.box or len(one.box) != len(other.box):
        return False
    pairs = zip(one.box, other.box, strict=True)
    return all(a[0] <= b[1] + 1 and b[0] <= a[1] + 1 for a, b in pairs)


def _box(loads: Sequence[AccessTally]) -> tuple[int, ...] | None:
    """Return the extents of the elements that a block reads, if they do not depend on data."""
    ranges = [each.box for each in loads if each.box]
    if len({len(each) for each in ranges}) != 1:
        return None
    return tuple(
        max(high for _, high in axis) - min(low for low, _ in axis) + 1
        for axis in zip(*ranges, strict=True)
    )


def _counters(
    reads: Sequence[AccessReport], counters: Collection[str], ndim: int
) -> list[frozenset[str]]:
    """Return the variables of loops in the index along each axis."""
    found = [frozenset[str]()] * ndim
    for each in reads:
        for axis, index in enumerate(each.index[:ndim]):
            found[axis] |= set(map(str, index.free_symbols)).intersection(counters)
    return found


def array_traffic(memory: Memory, tallies: Iterable[AccessTally], threads: Threads) -> ArrayTraffic:
    """Return what a launch does to one array.

    Sectors are counted exactly if all blocks were walked. Otherwise the count of the walked blocks
    is scaled to all blocks. It is limited by the range from the first to the last byte that is
    accessed, since blocks that share sectors mostly share that range. Device memory is read in
    pairs of sectors.
    """
    mine = [each for each in tallies if each.memory is memory]
    loads = [each for each in mine if not each.is_store or each.is_atomic]
    stores = [each for each in mine if each.is_store]
    fetches = _touched(loads, threads, _FETCHED_SECTORS)[0]
    requested = sum(each.sectors for each in loads)
    return ArrayTraffic(
        memory.name,
        memory.nbytes,
        _FETCHED_SECTORS * SECTOR_BYTES * fetches,
        SECTOR_BYTES * _touched(stores, threads)[0],
        SECTOR_BYTES * requested,
        _block_reads(loads, threads),
    )


def _block_reads(loads: list[AccessTally], threads: Threads) -> float:
    """Return how often a block requests a sector that some loads read, on average."""
    block_sectors = _touched(loads, threads)[1]
    return sum(each.sectors for each in loads) / block_sectors if block_sectors else 0.0


def _touched(tallies: list[AccessTally], threads: Threads, group: int = 1) -> tuple[float, float]:
    """Return the groups of sectors that accesses touch, and those that blocks do, each its own."""
    sets = [each.sector_keys() for each in tallies]
    if not any(map(len, sets)):
        return 0.0, 0.0
    sectors, blocks = split_keys(np.unique(np.concatenate(sets)))
    groups = np.unique(np.stack([sectors // group, blocks]), axis=1)
    many = max(each.weight for each in tallies if each.sets)
    by_blocks = settled(float(threads.block_weights[groups[1]].sum()) * many)
    lowest = min(each.low for each in tallies if each.low is not None)
    highest = max(each.high for each in tallies)
    between = -(-(highest - lowest) // (group * SECTOR_BYTES))
    if threads.is_whole and many == 1.0:
        return float(len(np.unique(groups[0]))), by_blocks
    return float(min(between, by_blocks)), by_blocks
