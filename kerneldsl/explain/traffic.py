"""Parts of each array that a launch touches, and how often a block touches the same."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kerneldsl.explain.explanation import ArrayTraffic
from kerneldsl.explain.tally import AccessTally, settled, split_keys
from kerneldsl.explain.threads import Threads
from kerneldsl.explain.values import Memory
from kerneldsl.planner.work import SECTOR_BYTES

__all__ = ["array_traffic", "block_reads"]

#: Sectors that the L2 cache reads from device memory together, as it does unless
#: ``cudaLimitMaxL2FetchGranularity`` says otherwise (CUDA Runtime API, "Device Management").
_FETCHED_SECTORS = 2


def array_traffic(memory: Memory, tallies: Iterable[AccessTally], threads: Threads) -> ArrayTraffic:
    """Return what a launch does to one array.

    Sectors are counted exactly where all blocks were walked. Else they are the sum of what the
    walked blocks touch, for all blocks, but no more than lies between the first and the last byte
    that is touched: blocks that share sectors mostly share all between. What is read comes from
    device memory in pairs of sectors.
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
        block_reads(loads, threads),
    )


def block_reads(loads: list[AccessTally], threads: Threads) -> float:
    """Return how often a block asks for a sector that some loads read, on average."""
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
