"""Elements that are taken from places, and put to places."""

from __future__ import annotations

from typing import Any

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, ReadOnlyArrayError
from kerneldsl.errors.values import safe_repr
from stdlib_kernels.arrays import (
    Array,
    allocate,
    around_axis,
    check_array,
    check_out,
    check_same_kind,
    contiguous_1d,
    finish,
    is_contiguous,
    on_device,
)
from stdlib_kernels.functions import library_function
from stdlib_kernels.movement.places import check_places, check_range, place_function
from stdlib_kernels.movement.tiles import copy_array, over
from stdlib_kernels.parameters import axis_of

__all__ = ["put_along_axis", "take", "take_along_axis"]


@kd.kernel(wraparound=False)
def take_elements(x, places, out, *, place):
    """Take elements: ``x[n], places[m], out[m]``."""
    j = kd.grid(1)
    out[j] = x[place(places[j], x.size)]


@kd.kernel(wraparound=False)
def take_slices(x, places, out, *, place, is_last):
    """Take slices: ``x[a, n, b], places[m], out[a, m, b]``."""
    i, j, k = kd.grid(3)
    if is_last:
        j, k = k, j
    if i < out.shape[0] and j < out.shape[1] and k < out.shape[2]:
        out[i, j, k] = x[i, place(places[j], x.shape[1]), k]


@kd.kernel(wraparound=False)
def take_each(x, places, out, *, place, is_last):
    """Take elements: ``x[a, n, b], places[a, m, b], out[a, m, b]``."""
    i, j, k = kd.grid(3)
    if is_last:
        j, k = k, j
    if i < out.shape[0] and j < out.shape[1] and k < out.shape[2]:
        out[i, j, k] = x[i, place(places[i, j, k], x.shape[1]), k]


@kd.kernel(wraparound=False)
def put_each(values, places, out, *, place, combine, is_last):
    """Put elements: ``values[a, m, b], places[a, m, b], out[a, n, b]``."""
    i, j, k = kd.grid(3)
    if is_last:
        j, k = k, j
    if i < places.shape[0] and j < places.shape[1] and k < places.shape[2]:
        at, v = (i, place(places[i, j, k], out.shape[1]), k), values[i, j, k]
        if combine == "add":
            kd.atomic.add(out, at, v)
        elif combine == "max":
            kd.atomic.max(out, at, v)
        elif combine == "min":
            kd.atomic.min(out, at, v)
        else:
            out[at] = v


@library_function
def take(
    x: Array,
    indices: Array,
    axis: int | None = None,
    *,
    mode: str = "raise",
    out: Array | None = None,
) -> Any:
    """Take elements, or slices along an axis, from places.

    {parameters: array}
    indices : array
        Integers of `x`'s kind, and of any shape and layout; not uint64.
    {along or flattened}
    {mode}
    {out}
    {returns: array}
        Of `x`'s kind and dtype, and its shape but for that of `indices` in the place of the axis;
        `out`, where it is given.
    {raises and see: numpy.take}
    {examples}
    >>> take(np.array([5, 6, 7]), np.array([2, -1, 0])).tolist()
    [7, 7, 5]
    """
    check_array("x", x, halves=True)
    check_places("indices", indices, x)
    place = place_function(mode)
    at = None if axis is None else axis_of(axis, x.ndim)
    before, n, after = (), x.size, ()
    if at is not None:
        before, n, after = tuple(x.shape[:at]), x.shape[at], tuple(x.shape[at + 1 :])
    shape = (*before, *indices.shape, *after)
    check_out(out, like=x, shape=shape, dtype=x.dtype)
    source, places = on_device(x), contiguous_1d(on_device(indices)).reshape((-1,))
    found = allocate(source, shape, x.dtype)
    check_range("indices", places, n, mode)
    if found.size:
        taken = around_axis(contiguous_1d(source).reshape((-1,)) if at is None else source, at or 0)
        given = found.reshape((taken.shape[0], places.size, taken.shape[2]))
        if given.shape[::2] == (1, 1):
            flat = taken[0, :, 0], places, given[0, :, 0]
            take_elements.forall(places.size)(*flat, place=place)
        else:
            over(take_slices, given.shape, taken, places, given, place=place)
    return finish(found, like=x, out=out)


@library_function
def take_along_axis(
    x: Array, indices: Array, axis: int = -1, *, mode: str = "raise", out: Array | None = None
) -> Any:
    """Take for each place along an axis the element that an index names.

    {parameters: array}
    indices : array
        Integers of `x`'s kind, not uint64, and of its shape but for the axis.
    {along}
    {mode}
    {out}
    {returns: array}
        Of `x`'s kind and dtype, and the shape of `indices`; `out`, where it is given.
    {raises and see: numpy.take_along_axis}
    {examples}
    >>> take_along_axis(np.array([[5, 6], [7, 8]]), np.array([[1], [0]])).tolist()
    [[6], [7]]
    """
    at = _checked(x, indices, axis)
    place = place_function(mode)
    shape = tuple(indices.shape)
    check_out(out, like=x, shape=shape, dtype=x.dtype)
    source, places = on_device(x), around_axis(on_device(indices), at)
    found = allocate(source, shape, x.dtype)
    check_range("indices", contiguous_1d(places), x.shape[at], mode)
    if found.size:
        given = around_axis(found, at)
        over(take_each, given.shape, around_axis(source, at), places, given, place=place)
    return finish(found, like=x, out=out)


@library_function
def put_along_axis(
    x: Array,
    indices: Array,
    values: Array,
    axis: int = -1,
    *,
    mode: str = "raise",
    combine: str = "replace",
) -> Any:
    """Put elements to places along an axis of an array, which is changed.

    {parameters: array}
    indices : array
        Integers of `x`'s kind, not uint64, and of its shape but for the axis.
    values : array
        Of the shape of `indices`, and of `x`'s kind and dtype.
    {along}
    {mode}
    combine : str
        What becomes of an element and the values for it: ``"replace"``, one of these if there are
        several; ``"add"``, floats on a GPU in another order each time; ``"max"`` or ``"min"``, of
        which a NaN yields to a number. bool and complex are replaced alone.
    {returns: array}
        `x` itself.
    {raises and see: numpy.put_along_axis, numpy.ufunc.at}
    {examples}
    >>> x = np.zeros(3)
    >>> put_along_axis(x, np.array([0, 2, 0]), np.array([1.0, 2.0, 4.0]), combine="add").tolist()
    [5.0, 0.0, 2.0]
    """
    at = _checked(x, indices, axis)
    place = place_function(mode)
    check_array("values", values, dtypes=(x.dtype.name,))
    check_same_kind("values", values, "x", x)
    if tuple(values.shape) != tuple(indices.shape):
        raise ArgumentValueError(
            f"values has the shape {tuple(values.shape)}",
            value=tuple(values.shape),
            limit=f"There is one for each index, {tuple(indices.shape)}",
        )
    if not isinstance(combine, str) or combine not in ("replace", "add", "max", "min"):
        raise ArgumentValueError(
            f"combine is {safe_repr(combine)}",
            value=combine,
            limit="It is 'replace', 'add', 'max' or 'min'",
        )
    if combine != "replace" and x.dtype.kind in "bc":
        raise ArgumentTypeError(
            f"x has the dtype {x.dtype}", value=x.dtype, limit="Its elements are replaced alone"
        )
    read_only = x.is_read_only if isinstance(x, kd.DeviceArray) else not x.flags.writeable
    if read_only:
        raise ReadOnlyArrayError("x is a read-only array", value=x, remedy="Pass a copy of it")
    result, places = on_device(x), around_axis(on_device(indices), at)
    check_range("indices", contiguous_1d(places), x.shape[at], mode)
    if places.size:
        if not is_contiguous(result):
            copy = allocate(result, tuple(x.shape), x.dtype)
            copy_array(result, copy)
            result = copy
        over(
            put_each,
            places.shape,
            around_axis(on_device(values), at),
            places,
            around_axis(result, at),
            place=place,
            combine=combine,
        )
    return finish(result, like=x, out=x)


def _checked(x: Array, indices: Array, axis: int) -> int:
    """Return the axis from 0 on along which elements are taken or put one by one."""
    check_array("x", x, halves=True)
    check_places("indices", indices, x)
    at = axis_of(axis, x.ndim)
    shape, wanted = list(indices.shape), list(x.shape)
    if indices.ndim == x.ndim:
        wanted[at] = shape[at]
    if shape != wanted:
        raise ArgumentValueError(
            f"indices has the shape {tuple(indices.shape)}",
            value=tuple(indices.shape),
            limit=f"But for axis {at} it is that of x, {tuple(x.shape)}",
        )
    return at
