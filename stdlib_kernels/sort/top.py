"""The largest elements, by sorting tiles of which each gives its first ones to the next round."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import as_int, safe_repr
from kerneldsl.utilities.flags import read_flag
from stdlib_kernels.arrays import Array, allocate, check_array, contiguous_1d, finish, on_device
from stdlib_kernels.functions import library_function
from stdlib_kernels.parameters import axis_of
from stdlib_kernels.sort.rows import as_rows, sort_rows
from stdlib_kernels.sort.tiles import ITEMS, MAX_WIDTH, sort_short_rows
from stdlib_kernels.sort.words import Order, as_words, order_of

__all__ = ["top_k"]

#: How many are found tile by tile at most; for more of them rows are sorted.
MAX_FIRST = MAX_WIDTH // 8


@kd.kernel
def sort_part(keys, out, values, out_values, flip, parts, *, width, rank, last, is_first):
    """Give the first elements of parts: ``keys[rows, n], out[rows * parts, k]``, values alike.

    In the first round values are places.
    """
    row, at = kd.blockIdx.x // parts, kd.blockIdx.x % parts * width
    words = kd.tile.load(keys[row], at, width, other=last)
    places = words.map(rank, flip).argsort()
    kd.tile.store(out[kd.blockIdx.x], 0, words.take(places))
    if is_first:
        kd.tile.store(out_values[kd.blockIdx.x], 0, places + at)
    else:
        kd.tile.store(
            out_values[kd.blockIdx.x], 0, kd.tile.load(values[row], at, width).take(places)
        )


@library_function
def top_k(x: Array, k: int, axis: int = -1, *, largest: bool = True) -> Any:
    """Find the largest elements along an axis, and their places.

    {parameters: real array}
    k : int
        How many.
    {along}
    largest : bool
        Whether they are the largest, or the smallest.
    {returns: values : array}
        The largest first, or the smallest; of `x`'s kind and dtype, and its shape but for `k`
        along the axis. NaN are larger than all others.
    places : int64 array
        Where along the axis they are. Of equal elements the first is taken.
    {raises and see: numpy.argpartition}
    {examples}
    >>> values, places = top_k(np.array([3, 1, 4, 1, 5]), 2)
    >>> values.tolist(), places.tolist()
    ([5, 4], [4, 2])
    """
    check_array("x", x, kinds="biuf", halves=True)
    place = axis_of(axis, x.ndim)
    count = as_int(k)
    if count is None:
        raise ArgumentTypeError(f"k is {safe_repr(k)}", value=k, limit="It is an int")
    if not 0 <= count <= x.shape[place]:
        raise ArgumentValueError(
            f"k is {safe_repr(count)}",
            value=k,
            limit=f"There are {x.shape[place]} elements along the axis",
        )
    rows, restored = as_rows(on_device(x), place)
    order = order_of(x.dtype, descending=read_flag("largest", largest))
    if not count or not rows.shape[0]:
        shape = (rows.shape[0], count)
        found: Any = (allocate(rows, shape, d) for d in (x.dtype, np.dtype(np.int64)))
    elif rows.shape[1] > MAX_WIDTH and count > MAX_FIRST:
        whole = sort_rows(rows, descending=largest, gives="places")
        found = (
            contiguous_1d(each[:, :count]).reshape((-1, count))
            for each in whole
            if each is not None
        )
    else:
        found = _first_of_rows(as_words(rows), count, order)
    values, places = (restored(each) for each in found)
    return tuple(finish(each, like=x, out=None) for each in (values.view(x.dtype), places))


def _first_of_rows(keys: Array, count: int, order: Order) -> Any:
    """Return the first words of each row, and their places."""
    values: Array | None = None
    while keys.shape[1] > MAX_WIDTH:
        rows, n = keys.shape
        parts = -(-n // MAX_WIDTH)
        shape = (rows * parts, count)
        out, out_values = (allocate(keys, shape, d) for d in (keys.dtype, np.dtype(np.int64)))
        sort_part[rows * parts, MAX_WIDTH // ITEMS](
            keys,
            out,
            out_values if values is None else values,
            out_values,
            order.flip,
            parts,
            width=MAX_WIDTH,
            rank=order.rank,
            last=order.last,
            is_first=values is None,
        )
        keys, values = (each.reshape((rows, parts * count)) for each in (out, out_values))
    gives = "places" if values is None else "values"
    return sort_short_rows(keys, values, order, gives, count)
