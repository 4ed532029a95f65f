"""Sorts of short rows: several of them in a tile."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import Array, allocate
from stdlib_kernels.sort.words import Order

__all__ = ["MAX_WIDTH", "sort_short_rows"]

#: Elements of a tile, as many as a row has at most; and of those each thread has 16.
MAX_WIDTH, ITEMS = 1024, 16


@kd.kernel
def sort_tile(
    keys, out, values, out_values, flip, *, count, width, rank, last, gives
):  # fmt: skip
    """Sort rows, or the first elements of them: ``keys[rows, n], out[rows, ≤ n]``.

    What is moved beside the keys is said by `gives`: ``"keys"`` nothing, ``"values"``, or
    ``"places"``.
    """
    at = (kd.blockIdx.x * count, 0)
    words = kd.tile.load(keys, at, (count, width), other=last)
    places = words.map(rank, flip).argsort()
    kd.tile.store(out, at, words.take(places))
    if gives == "places":
        kd.tile.store(out_values, at, places)
    if gives == "values":
        kd.tile.store(out_values, at, kd.tile.load(values, at, (count, width)).take(places))


def sort_short_rows(
    keys: Array, values: Array | None, order: Order, gives: str, first: int | None = None
) -> tuple[Array, Array | None]:
    """Sort the words of each row, as `sort_rows` does, and give the first ones."""
    rows, n = keys.shape
    shape = (rows, n if first is None else first)
    out = allocate(keys, shape, keys.dtype)
    beside = out
    if gives != "keys":
        beside = allocate(keys, shape, np.dtype(np.int64) if values is None else values.dtype)
    width = max(32, 1 << (n - 1).bit_length())
    count = MAX_WIDTH // width
    sort_tile[-(-rows // count), MAX_WIDTH // ITEMS](
        keys,
        out,
        keys if values is None else values,
        beside,
        order.flip,
        count=count,
        width=width,
        rank=order.rank,
        last=order.last,
        gives=gives,
    )
    return out, None if gives == "keys" else beside
