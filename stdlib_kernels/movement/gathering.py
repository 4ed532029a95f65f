"""Elements read from and written to given indices."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import (
    along_or_flat,
    around_axis,
    contiguous,
    contiguous_1d,
    finish,
    on_device,
)
from stdlib_kernels.checks import (
    Array,
    Out,
    check_alike,
    check_array,
    check_other_axes,
    check_out,
    check_writable,
)
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.gathering import check_indices, check_range, over, take_each, take_places
from stdlib_kernels.movement.along import fresh
from stdlib_kernels.parameters import axis_of, choice_of, wrong_type

__all__ = ["put_along_axis", "take", "take_along_axis"]


_REMEDY = "Correct it, or pass mode='wrap' or mode='clip'"
#: The position of an index along an axis of n, by modes; it divides only if needed.
_PLACES = {
    "raise": lambda k, n: np.int64(k) + n if np.int64(k) < 0 else np.int64(k),
    "wrap": lambda k, n: np.int64(k) if np.int64(k) >= 0 and np.int64(k) < n else np.int64(k) % n,
    "clip": lambda k, n: min(max(np.int64(k), 0), n - 1),
}


@kd.kernel(wraparound=False)
def put_each(values, places, out, *, place, combine, is_last):
    """Write elements: ``values[a, m, b], places[a, m, b], out[a, n, b]``."""
    i, j, k = kd.grid(3)
    if is_last:
        j, k = k, j
    at, v = (i, place(places[i, j, k], out.shape[1]), k), values[i, j, k]
    if combine == "add":
        kd.atomic.add(out, at, v)
    elif combine == "max":
        kd.atomic.max(out, at, v)
    elif combine == "min":
        kd.atomic.min(out, at, v)
    else:
        out[at] = v


@repeated_function
def take(
    x: Array, indices: Array, axis: int | None = None, *, mode: str = "raise", out: Out = None
) -> Any:
    """Return the elements, or slices along an axis, at given indices.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    indices : array
        Integers, not uint64. Any shape and layout. Same kind as `x`.
    axis : int, optional
        The axis along which the function works; by default the array is flattened in C order.
    mode : str
        The treatment of indices out of range. ``"raise"`` raises an error, so the host waits for
        the device. ``"wrap"`` takes the index modulo the extent. ``"clip"`` takes the first or the
        last element, and negative indices do not count from the end.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.

    Returns
    -------
    array
        Same kind and dtype as `x`, and its shape with that of `indices` instead of the axis. `out`
        if it is given.

    See Also
    --------
    numpy.take

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.movement import take
    >>> take(np.array([5, 6, 7]), np.array([2, -1, 0])).tolist()
    [7, 7, 5]
    """
    check_array("x", x, halves=True)
    check_indices("indices", indices, x)
    place = _PLACES[choice_of("mode", mode, _PLACES)]
    source, at = along_or_flat(x, axis)
    shape = (*source.shape[:at], *indices.shape, *source.shape[at + 1 :])
    check_out(out, like=x, shape=shape, dtype=x.dtype)
    places = contiguous(on_device(indices)).reshape((-1,))
    if mode == "raise" or not source.shape[at]:
        check_range("indices", places, source.shape[at], -source.shape[at], _REMEDY)
    return finish(take_places(source, places, at, place).reshape(shape), like=x, out=out)


@repeated_function
def take_along_axis(
    x: Array, indices: Array, axis: int | None = -1, *, mode: str = "raise", out: Out = None
) -> Any:
    """Return the elements at given indices along an axis, with an index for each position.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    indices : array
        Integers, not uint64, with the shape of `x` except for the axis. Same kind as `x`.
    axis : int, optional
        Along which; ``None`` takes the array as flattened in C order.
    mode : str
        The treatment of indices out of range. ``"raise"`` raises an error, so the host waits for
        the device. ``"wrap"`` takes the index modulo the extent. ``"clip"`` takes the first or the
        last element, and negative indices do not count from the end.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.

    Returns
    -------
    array
        Same kind and dtype as `x`, with the shape of `indices`. `out` if it is given.

    See Also
    --------
    numpy.take_along_axis

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.movement import take_along_axis
    >>> take_along_axis(np.array([[5, 6], [7, 8]]), np.array([[1], [0]])).tolist()
    [[6], [7]]
    """
    if axis is None:
        check_array("x", x, halves=True)
        check_indices("indices", indices, x)
        values, at = contiguous_1d(on_device(x)), 0
        check_other_axes("indices", indices, 0, "the flattened x", values)
    else:
        values, at = x, _checked(x, indices, axis)
    place = _PLACES[choice_of("mode", mode, _PLACES)]
    check_out(out, like=x, shape=tuple(indices.shape), dtype=x.dtype)
    places, length = on_device(indices), values.shape[at]
    if mode == "raise" or not length:
        check_range("indices", places, length, -length, _REMEDY)
    return finish(take_each(on_device(values), places, at, place), like=x, out=out)


@repeated_function
def put_along_axis(
    x: Array,
    indices: Array,
    values: Array,
    axis: int = -1,
    *,
    mode: str = "raise",
    combine: str = "replace",
) -> Any:
    """Write elements to given indices along an axis of an array, in place.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    indices : array
        Integers, not uint64, with the shape of `x` except for the axis. Same kind as `x`.
    values : array
        Same shape as `indices`, and same kind and dtype as `x`.
    axis : int
        The axis along which the function works.
    mode : str
        The treatment of indices out of range. ``"raise"`` raises an error, so the host waits for
        the device. ``"wrap"`` takes the index modulo the extent. ``"clip"`` takes the first or the
        last element, and negative indices do not count from the end.
    combine : str
        How an element and its values are combined. ``"replace"``: the element becomes one of the
        values. ``"add"``: on a GPU, floats are added in another order each time. ``"max"`` or
        ``"min"``: a NaN is replaced by a number. For bool and complex only ``"replace"``.

    Returns
    -------
    array
        `x` itself.

    See Also
    --------
    numpy.put_along_axis, numpy.ufunc.at

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.movement import put_along_axis
    >>> x = np.zeros(3)
    >>> put_along_axis(x, np.array([0, 2, 0]), np.array([1.0, 2.0, 4.0]), combine="add").tolist()
    [5.0, 0.0, 2.0]
    """
    at = _checked(x, indices, axis)
    place = _PLACES[choice_of("mode", mode, _PLACES)]
    check_array("values", values, dtypes=(x.dtype.name,))
    check_alike("values", values, "indices", indices)
    choice_of("combine", combine, ("replace", "add", "max", "min"))
    if combine != "replace" and x.dtype.kind in "bc":
        limit = f"For x of dtype {x.dtype} it must be 'replace'"
        raise wrong_type("combine", combine, limit, "Omit it, or convert x")
    check_writable("x", x)
    result, places = on_device(x), around_axis(fresh(on_device(indices), x), at)
    if mode == "raise" or not x.shape[at]:
        check_range("indices", places, x.shape[at], -x.shape[at], _REMEDY)
    if places.size:
        result = contiguous(result)
        given = around_axis(fresh(on_device(values), x), at)
        arrays = given, places, around_axis(result, at)
        over(put_each, places.shape, *arrays, place=place, combine=combine)
    return finish(result, like=x, out=x)


def _checked(x: Array, indices: Array, axis: int) -> int:
    """Return the axis, counted from 0, along which elements are read or written."""
    check_array("x", x, halves=True)
    check_indices("indices", indices, x)
    at = axis_of(axis, x.ndim)
    check_other_axes("indices", indices, at, "x", x)
    return at
