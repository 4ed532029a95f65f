"""Oracles of reductions of tiles, which combine elements in the documented order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["fold", "fold_row"]

_WARP = 32


def _group(count: int, threads: int) -> int:
    """Neighbours that a thread takes at a time."""
    return next((n for n in (4, 2) if count % (n * threads) == 0), 1)


def _pairs(values: list[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Combine in a binary tree in which neighbours meet first."""
    while len(values) > 1:
        met = [combine(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = met + (values[-1:] if len(values) % 2 else [])
    return values[0]


def fold(tile: np.ndarray, threads: int, combine: Callable[[Any, Any], Any]) -> Any:
    """Combine all elements: of each thread, of the lanes of each warp, of the warps."""
    flat = tile.reshape(-1)
    group = _group(flat.size, threads)
    places = min(threads * group, flat.size)
    found = list(flat[:places])
    for start in range(places, flat.size, places):
        for place, value in enumerate(flat[start : start + places]):
            found[place] = combine(found[place], value)
    own = [_pairs(found[i : i + group], combine) for i in range(0, len(found), group)]
    warps = [_pairs(own[i : i + _WARP], combine) for i in range(0, len(own), _WARP)]
    total = warps[0]
    for value in warps[1:]:
        total = combine(total, value)
    return total


def fold_row(row: np.ndarray, combine: Callable[[Any, Any], Any]) -> Any:
    """Combine the elements of a row: as many accumulators as a warp has lanes, then neighbours."""
    lanes = min(_WARP, row.size)
    found = list(row[:lanes])
    for start in range(lanes, row.size, lanes):
        for lane, value in enumerate(row[start : start + lanes]):
            found[lane] = combine(found[lane], value)
    return _pairs(found, combine)
