"""Arrays in order, and what puts them in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentValueError
from kerneldsl.utilities.flags import read_flag
from stdlib_kernels.arrays import Array, check_array, check_out, check_same_kind, finish, on_device
from stdlib_kernels.functions import library_function
from stdlib_kernels.parameters import axis_of
from stdlib_kernels.sort.rows import as_rows, sort_places, sort_rows

__all__ = ["argsort", "sort", "sort_pairs"]


@library_function
def sort(
    x: Array, axis: int | None = -1, *, descending: bool = False, out: Array | None = None
) -> Any:
    """Sort an array along an axis.

    {parameters: real array}
    {sorted axis}
    {descending}
    {out}
    {returns: array}
        Of `x`'s kind and dtype, and its shape, or of shape ``(x.size,)`` without an axis; `out`,
        where it is given. NaN come last, in descending order first; 0 and -0 are equal, and keep
        their order, as all equal elements do.
    {raises and see: numpy.sort}
    {examples}
    >>> sort(np.array([3, 1, 4, 1, 5])).tolist()
    [1, 1, 3, 4, 5]
    >>> sort(np.array([[3, 1], [4, 1]]), axis=0, descending=True).tolist()
    [[4, 1], [3, 1]]
    """
    place, shape = _checked(x, axis)
    check_out(out, like=x, shape=shape, dtype=x.dtype)
    rows, restored = as_rows(on_device(x), place)
    found, _ = sort_rows(rows, descending=read_flag("descending", descending))
    return finish(restored(found), like=x, out=out)


@library_function
def argsort(
    x: Array, axis: int | None = -1, *, descending: bool = False, out: Array | None = None
) -> Any:
    """Find the places of the elements that put an array in order along an axis.

    {parameters: real array}
    {sorted axis}
    {descending}
    out : int64 array, optional
        Where the result goes, of the result's shape and of `x`'s kind.
    {returns: int64 array}
        Of `x`'s kind, and its shape, or of shape ``(x.size,)`` without an axis; `out`, where it is
        given. The order is that of `sort`; equal elements keep theirs.
    {raises and see: numpy.argsort}
    {examples}
    >>> argsort(np.array([3, 1, 4, 1, 5])).tolist()
    [1, 3, 0, 2, 4]
    """
    place, shape = _checked(x, axis)
    check_out(out, like=x, shape=shape, dtype=np.dtype(np.int64))
    rows, restored = as_rows(on_device(x), place)
    places = sort_places(rows, descending=read_flag("descending", descending))
    return finish(restored(places), like=x, out=out)


@library_function
def sort_pairs(
    keys: Array, values: Array, axis: int | None = -1, *, descending: bool = False
) -> Any:
    """Sort keys along an axis, and move the values that belong to them.

    {parameters}
    keys : array
        NumPy's, a device array, or one of another library; of any rank and layout. bool, integer or
        float.
    values : array
        Of the kind and shape of `keys`; bool, integer, float or complex.
    {sorted axis}
    {descending}
    {returns: keys, values : array}
        As `sort` returns; the values of equal keys keep their order.
    {raises and see: numpy.argsort}
    {examples}
    >>> keys, values = sort_pairs(np.array([3, 1, 2]), np.array([0.5, 0.25, 0.125]))
    >>> keys.tolist(), values.tolist()
    ([1, 2, 3], [0.25, 0.125, 0.5])
    """
    place, _ = _checked(keys, axis, "keys")
    check_array("values", values, halves=True)
    check_same_kind("values", values, "keys", keys)
    if tuple(values.shape) != tuple(keys.shape):
        raise ArgumentValueError(
            f"values has the shape {tuple(values.shape)}",
            value=tuple(values.shape),
            limit=f"There is one for each of the keys, of the shape {tuple(keys.shape)}",
        )
    rows, restored = as_rows(on_device(keys), place)
    beside, _ = as_rows(on_device(values), place)
    asked = read_flag("descending", descending)
    found = sort_rows(rows, beside, descending=asked, gives="values")
    return tuple(finish(restored(e), like=keys, out=None) for e in found if e is not None)


def _checked(x: Array, axis: int | None, name: str = "x") -> tuple[int | None, tuple[int, ...]]:
    """Return the axis from 0 on, and the shape of the result."""
    check_array(name, x, kinds="biuf", halves=True)
    if axis is None:
        return None, (x.size,)
    return axis_of(axis, x.ndim), tuple(x.shape)
