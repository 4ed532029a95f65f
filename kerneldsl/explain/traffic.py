"""Parts of each array that a launch touches, and how often a block touches the same."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kerneldsl.explain.explanation import ArrayTraffic
from kerneldsl.explain.tally import AccessTally, split_keys
from kerneldsl.explain.threads import Threads
from kerneldsl.explain.values import Memory
from kerneldsl.planner.work import SECTOR_BYTES

__all__ = ["array_traffic"]


def array_traffic(memory: Memory, tallies: Iterable[AccessTally], threads: Threads) -> ArrayTraffic:
    """Return what a launch does to one array.

    Sectors are counted exactly where all blocks were walked. Else they are the sum of what the
    walked blocks touch, for all blocks, but no more than lies between the first and the last byte
    that is touched: blocks that share sectors mostly share all between.
    """
    mine = [each for each in tallies if each.memory is memory]
    loads = [each for each in mine if not each.is_store or each.is_atomic]
    stores = [each for each in mine if each.is_store]
    read_bytes, block_sectors = _touched(loads, threads)
    requested = sum(each.sectors for each in loads)
    return ArrayTraffic(
        memory.name,
        memory.nbytes,
        read_bytes,
        _touched(stores, threads)[0],
        SECTOR_BYTES * requested,
        requested / block_sectors if block_sectors else 0.0,
    )


def _touched(tallies: list[AccessTally], threads: Threads) -> tuple[float, float]:
    """Return the bytes that accesses touch, and the sectors that blocks do, each block's own."""
    sets = [each.sector_keys() for each in tallies]
    if not any(map(len, sets)):
        return 0.0, 0.0
    sectors, blocks = split_keys(np.unique(np.concatenate(sets)))
    many = max(each.weight for each in tallies if each.sets)
    by_blocks = float(threads.block_weights[blocks].sum()) * many
    lowest = min(each.low for each in tallies if each.low is not None)
    highest = max(each.high for each in tallies)
    between = -(-(highest - lowest) // SECTOR_BYTES)
    if threads.is_whole and many == 1.0:
        return float(SECTOR_BYTES * len(np.unique(sectors))), by_blocks
    return float(SECTOR_BYTES * min(between, by_blocks)), by_blocks
