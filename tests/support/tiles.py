"""Oracles of reductions and scans of tiles, which combine elements in the documented order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.arrays import random_array
from tests.support.groups import scan_of_warp

__all__ = [
    "TILE_BLOCKS",
    "fold",
    "fold_row",
    "places_in_order",
    "reduced",
    "scan",
    "scan_row",
    "sort_key",
    "sort_row",
    "sorted_number",
    "special_values",
    "summed",
]

_WARP = 32
#: Blocks with whole warps, with a partial one, and with less than one.
TILE_BLOCKS = (128, 100, 7)


def special_values(rng: np.random.Generator, count: int, dtype: str) -> np.ndarray:
    """Small numbers, NaN, infinities and -0 among floats."""
    array = random_array(rng, count, "float32" if dtype == "bfloat16" else dtype).astype(dtype)
    if np.dtype(dtype).kind == "f" or dtype == "bfloat16":
        places = rng.permutation(count)[:4]
        array[places[: len(array[places])]] = np.array([np.nan, -0.0, 0.0, np.inf], dtype)[
            : len(places)
        ]
    return array


def summed(dtype: np.dtype) -> Any:
    """The dtype in which elements are added."""
    if dtype.kind in "bi":
        return np.int64
    if dtype.kind == "u":
        return np.uint64
    return np.float32 if dtype.itemsize < 4 else dtype


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


def scan(tile: np.ndarray, threads: int, *, exclusive: bool = False) -> np.ndarray:
    """Sums up to each element of a tile, counted along its last axis first."""
    flat = tile.reshape(-1)
    group = _group(flat.size, threads)
    places = threads * group
    starts = [
        (first, min(first + _WARP * group, round_ + places, flat.size))
        for round_ in range(0, flat.size, places)
        for first in range(round_, min(round_ + places, flat.size), _WARP * group)
    ]
    return _scan_segments(flat, starts, group, exclusive=exclusive)


def scan_row(row: np.ndarray, *, exclusive: bool = False) -> np.ndarray:
    """Sums up to each element of a row, by as many neighbours as a warp has lanes."""
    starts = [(first, min(first + _WARP, row.size)) for first in range(0, row.size, _WARP)]
    return _scan_segments(row, starts, 1, exclusive=exclusive)


def _scan_segments(
    flat: np.ndarray, segments: list[tuple[int, int]], group: int, *, exclusive: bool
) -> np.ndarray:
    out = np.empty_like(flat)
    carry: Any = None
    for start, end in segments:
        own = [list(np.add.accumulate(flat[i : i + group])) for i in range(start, end, group)]
        sums = scan_of_warp({i: each[-1] for i, each in enumerate(own)}, lambda a, b: a + b)
        for lane, each in enumerate(own):
            parts = [part for part in (carry, sums.get(lane - 1)) if part is not None]
            before = parts[0] if parts else None
            if len(parts) == 2:
                before = parts[0] + parts[1]
            given = (
                [before if before is not None else flat.dtype.type(0), *each] if exclusive else each
            )
            for place in range(group):
                value = given[place]
                if before is not None and not (exclusive and place == 0):
                    value = before + value
                out[start + lane * group + place] = value
        last = sums[len(own) - 1]
        carry = last if carry is None else carry + last
    return out


def _extreme(name: str) -> Any:
    """The larger or smaller of two: a NaN yields to a number, and -0 is below 0."""

    def choose(a: Any, b: Any) -> Any:
        if a != a or b != b:
            return b if a != a else a
        if a == b:
            one, two = (a, b) if math.copysign(1, a) < math.copysign(1, b) else (b, a)
        else:
            one, two = (a, b) if a < b else (b, a)
        return two if name == "max" else one

    return choose


@np.errstate(all="ignore")
def reduced(name: str, tile: np.ndarray, threads: int, by: Any = fold) -> Any:
    """Return what a tile is reduced to, a number.

    Parameters
    ----------
    name : str
        The reduction.
    tile : ndarray
        The elements.
    threads : int
        Threads of the block.
    by : callable
        Combines all elements: given them, `threads` and how two become one.
    """
    wide = summed(tile.dtype)
    if name in ("any", "all"):
        return getattr(np, name)(tile != 0)
    if name in ("argmax", "argmin"):
        wider = tile.astype(np.float32) if tile.dtype == "bfloat16" else tile
        return np.int64(getattr(np, name)(wider))
    if name == "mean":
        real = tile.astype(np.float64) if wide in (np.int64, np.uint64) else tile.astype(wide)
        total = by(real, threads, lambda a, b: a + b)
        return total / real.real.dtype.type(tile.size)
    if name == "sum":
        return by(tile.astype(wide), threads, lambda a, b: a + b)
    if name == "prod":
        return by(tile.astype(wide), threads, lambda a, b: a * b)
    return by(tile, threads, _extreme(name))


def sort_row(row: np.ndarray) -> np.ndarray:
    """A row in rising order: -0 before 0, NaN last."""
    return np.array(sorted(row, key=_order), row.dtype)


def places_in_order(row: np.ndarray) -> np.ndarray:
    """Where the elements of the sorted row were; those that are equal keep their order."""
    return np.array(sorted(range(row.size), key=lambda place: _order(row[place])), np.int64)


def _order(value: Any) -> tuple[bool, Any, bool]:
    if value != value:
        return True, 0, False
    return False, value, not np.signbit(value) if value == 0 else False


def sort_key(value: Any) -> Any:
    """An unsigned integer that is in that order, of 64 bits where the value has as many."""
    kind = np.dtype(value.dtype)
    wide = np.uint64 if kind.itemsize == 8 else np.uint32
    if kind.kind == "u":
        return wide(value)
    if kind.kind == "i":
        return wide(int(value) - int(np.iinfo(kind).min))
    number = np.asarray(value, "f8" if kind.itemsize == 8 else "f4")
    width = 8 * number.itemsize
    bits, sign = int(number.view(wide)), 1 << (width - 1)
    if number != number:
        return wide(2 * sign - 1)
    return wide(2 * sign - 1 - bits if bits & sign else bits | sign)


def sorted_number(dtype: str, key: Any) -> Any:
    """The number of such an integer."""
    kind = np.dtype(dtype)
    if kind.kind == "u":
        return kind.type(key)
    if kind.kind == "i":
        return kind.type(int(key) + int(np.iinfo(kind).min))
    width = 8 * key.dtype.itemsize
    bits, sign = int(key), 1 << (width - 1)
    bits = bits ^ sign if bits & sign else 2 * sign - 1 - bits
    return np.asarray(bits, key.dtype).view(f"f{width // 8}").astype(kind)[()]
