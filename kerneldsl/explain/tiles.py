"""Requests of ``kd.tile.load`` and ``kd.tile.store``: which elements a block's threads take when.

Elements belong to threads as :class:`~kerneldsl.ir.tiles.layout.Layout` says. One access of up to
16 bytes takes neighbours of a tile with one axis, if the whole tile is within the array and at a
multiple of a group's size. Other elements are accessed one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kerneldsl.explain.threads import Threads
from kerneldsl.explain.values import Value, View
from kerneldsl.ir.tiles.layout import Layout
from kerneldsl.language.element_types import ELEMENT_TYPES

__all__ = ["TileRequest", "tile_requests", "tile_starts"]

#: Most bytes that one access takes.
_MAX_BYTES = 16


class TileRequest(NamedTuple):
    """An access of all threads, each of so many bytes from its address on."""

    addresses: NDArray[np.int64]
    mask: NDArray[np.bool_]
    nbytes: int


def tile_starts(
    view: View, at: Sequence[Value], threads: Threads, random: np.random.Generator
) -> tuple[list[NDArray[np.int64]], bool]:
    """Return the first index of each block's tile, for each lane, and whether data decides it.

    Where data does, it is drawn at random, the same for all threads of a block.
    """
    starts, is_unknown = [], view.is_unknown
    for value, extent in zip(at, view.shape, strict=True):
        if isinstance(value, int | np.integer | np.ndarray) and not isinstance(value, bool):
            start = np.asarray(value, np.int64)
        else:
            is_unknown = True
            drawn = random.integers(0, max(1, int(extent)), len(threads.block_places))
            start = np.repeat(drawn, threads.lanes_per_block)
        starts.append(np.broadcast_to(start, (threads.lane_count,)))
    return starts, is_unknown


def tile_requests(
    view: View,
    starts: Sequence[NDArray[np.int64]],
    shape: tuple[int, ...],
    threads: Threads,
    active: NDArray[np.bool_],
) -> Iterator[TileRequest]:
    """Yield the accesses by which a block's threads take the elements of a tile."""
    layout = Layout(math.prod(shape), math.prod(threads.block_dim))
    blocks = len(threads.block_places)
    thread = np.tile(np.arange(threads.lanes_per_block), blocks)
    base = np.asarray(view.memory.base + view.offset, np.int64)
    is_wide = active & _is_wide(view, starts, layout, base)
    width = min(layout.group, max(1, _MAX_BYTES // view.itemsize))
    for turn in range(layout.rounds):
        first = (turn * layout.threads + thread) * layout.group
        for within in range(layout.group):
            number = first + within
            index = np.unravel_index(np.minimum(number, layout.count - 1), shape)
            places = [start + part for start, part in zip(starts, index, strict=True)]
            inside = active & (number < layout.count)
            for place, extent in zip(places, view.shape, strict=True):
                inside &= (place >= 0) & (place < extent)
            steps = (place * stride for place, stride in zip(places, view.strides, strict=True))
            addresses: Any = base + sum(steps)
            if within % width == 0 and is_wide.any():
                yield TileRequest(addresses, inside & is_wide, width * view.itemsize)
            if not is_wide.all():
                yield TileRequest(addresses, inside & ~is_wide, view.itemsize)


def _is_wide(
    view: View, starts: Sequence[NDArray[np.int64]], layout: Layout, base: NDArray[np.int64]
) -> Any:
    """Return for each lane whether its block takes groups of neighbours by wide accesses."""
    row = ELEMENT_TYPES[view.memory.dtype]
    is_plain = len(starts) == 1 and view.strides == (view.itemsize,) and not row.is_complex
    if layout.group == 1 or not is_plain or view.itemsize != view.memory.itemsize:
        return np.False_
    (start,) = starts
    (extent,) = view.shape
    is_inside = (start >= 0) & (start + layout.count <= extent)
    return is_inside & ((base + start * view.itemsize) % (layout.group * view.itemsize) == 0)
