"""Sorts of rows, whatever sorts them: a tile, a radix sort of a GPU's, or one of a host's.

What other families sort by, too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import Array, allocate, contiguous_1d, is_on_host
from stdlib_kernels.sort.host import sort_on_host
from stdlib_kernels.sort.onesweep import sort_long_rows
from stdlib_kernels.sort.tiles import MAX_WIDTH, sort_short_rows
from stdlib_kernels.sort.words import as_words, order_of

__all__ = ["as_rows", "sort_places", "sort_rows"]


@kd.kernel(wraparound=False)
def take_in_rows(values, places, out):
    """Take elements by their places in rows: ``values[rows, n], places[rows, m], out[rows, m]``."""
    i, j = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = values[i, places[i, j]]


def as_rows(array: Array, axis: int | None) -> tuple[Array, Callable[[Array], Array]]:
    """Return contiguous rows along an axis, and what makes an array of that axis of such rows.

    `axis` is from 0 on; without one all elements are one row, and stay it.
    """
    if axis is None:
        return contiguous_1d(array[None]).reshape((1, array.size)), lambda rows: rows.reshape((-1,))
    order = (*(k for k in range(array.ndim) if k != axis), axis)
    back = tuple(int(k) for k in np.argsort(order))
    moved = array.transpose(order)
    count = moved.size // max(1, moved.shape[-1])

    def restored(rows: Array) -> Array:
        shape = (*moved.shape[:-1], rows.shape[-1])
        found = rows.reshape(shape).transpose(back)
        return contiguous_1d(found).reshape(found.shape)

    return contiguous_1d(moved[None]).reshape((count, moved.shape[-1])), restored


def sort_rows(
    keys: Array, values: Array | None = None, *, descending: bool = False, gives: str = "keys"
) -> tuple[Array, Array | None]:
    """Sort each row, equal elements in their order, NaN last or, in descending order, first.

    ``keys[rows, n]`` are contiguous, on a device. Returned are new keys, and what `gives` says
    beside them: ``"keys"`` nothing, ``"values"`` those of ``values[rows, n]``, of any dtype, or
    ``"places"``, where in its row each element was, as int64.
    """
    if not keys.size:
        beside = np.dtype(np.int64) if values is None else values.dtype
        return allocate(keys, keys.shape, keys.dtype), allocate(keys, keys.shape, beside)
    if values is not None and values.dtype.itemsize > 8:
        ordered, places = sort_rows(keys, descending=descending, gives="places")
        moved = allocate(values, values.shape, values.dtype)
        take_in_rows.forall(*values.shape)(values, places, moved)
        return ordered, moved
    order = order_of(keys.dtype, descending=descending)
    sort = sort_long_rows if keys.shape[1] > MAX_WIDTH else sort_short_rows
    if is_on_host(keys):
        sort = sort_on_host
    words = None if values is None else as_words(values)
    ordered, found = sort(as_words(keys), words, order, gives)
    if found is not None and values is not None:
        found = found.view(values.dtype)
    return ordered.view(keys.dtype), found


def sort_places(keys: Array, *, descending: bool = False) -> Array:
    """Return where in its row each element of the sorted rows was, as `sort_rows` does."""
    _, places = sort_rows(keys, descending=descending, gives="places")
    assert places is not None
    return places
