"""Places and order: searches, sorts, elements by their places, and distinct elements."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stdlib_kernels import movement
from stdlib_kernels import sort as sorting
from stdlib_kernels.array_api.binary import not_equal
from stdlib_kernels.array_api.manipulation import reshape
from stdlib_kernels.array_api.reductions import diff
from stdlib_kernels.array_api.unary import imag, real
from stdlib_kernels.arrays import allocate, contiguous_1d
from stdlib_kernels.checks import Array, check_array
from stdlib_kernels.compact import flatnonzero, nonzero
from stdlib_kernels.elementwise import where
from stdlib_kernels.functions import library_function
from stdlib_kernels.movement import put_along_axis, take_along_axis
from stdlib_kernels.parameters import wrong_value
from stdlib_kernels.scan import cumsum

__all__ = [
    "argsort",
    "nonzero",
    "searchsorted",
    "sort",
    "take",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "where",
]


class UniqueAll(NamedTuple):
    """Distinct elements: where each is first, which of them each element is, and how many of it."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """Distinct elements, and how many there are of each."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """Distinct elements, and which of them each element is."""

    values: Any
    inverse_indices: Any


@library_function
def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Sort the elements along an axis.

    {parameters: real array}
    {sorted axis}
    stable : bool
        Whether equal elements keep their order; they always do.
    {like x: , and its shape}
    {raises and see: numpy.sort}
    >>> sort(np.array([3, 1, 4])).tolist()
    [1, 3, 4]
    """
    if not x.ndim:
        raise wrong_value("x", x, "It has an axis to sort along")
    return sorting.sort(x, axis, descending=descending)


@library_function
def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Find the places that sort the elements along an axis.

    {parameters: real array}
    {sorted axis}
    stable : bool
        Whether equal elements keep their order; they always do.
    {returns: int64 array}
        Of `x`'s kind and shape.
    {raises and see: numpy.argsort}
    >>> argsort(np.array([3, 1, 4])).tolist()
    [1, 0, 2]
    """
    if not x.ndim:
        raise wrong_value("x", x, "It has an axis to sort along")
    return sorting.argsort(x, axis, descending=descending)


@library_function
def searchsorted(
    x1: Array, x2: Array, /, *, side: str = "left", sorter: Array | None = None
) -> Any:
    """Find for each value the place before which it belongs in a sorted array.

    {parameters}
    x1 : array of shape (n,)
        In rising order, NaN last, if no `sorter` says the order.
    x2 : array
        The values, of `x1`'s kind.
    side : str
        ``"left"``, before elements that are equal to a value, or ``"right"``, behind them.
    sorter : integer array of shape (n,), optional
        The places that sort `x1`.
    {returns: int64 array}
        Of `x2`'s shape and kind.
    {raises and see: numpy.searchsorted}
    >>> searchsorted(np.array([1, 2, 3]), np.array([2, 4])).tolist()
    [1, 3]
    """
    ordered = x1 if sorter is None else movement.take(x1, sorter, 0)
    return sorting.searchsorted(ordered, x2, side)


@library_function
def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Any:
    """Take slices along an axis from places.

    {parameters: array}
    indices : array
        Integers of `x`'s kind; from -n to n - 1 along an axis of n, for which the host waits for
        the device.
    axis : int, optional
        Along which; needed but for arrays of one axis.
    {like x}
    {raises and see: numpy.take}
    >>> take(np.array([5, 6, 7]), np.array([2, 0])).tolist()
    [7, 5]
    """
    if axis is None and x.ndim != 1:
        raise wrong_value("axis", axis, "It may be left away for arrays of one axis")
    return movement.take(x, indices, 0 if axis is None else axis)


@library_function
def unique_all(x: Array, /) -> UniqueAll:
    """Find the distinct elements, in rising order, their first places, and their counts.

    A NaN differs from every other one. The host waits for the device.

    {parameters: array}
    {returns: values, indices, inverse_indices, counts : array}
        The distinct elements; where each is first in the flattened array; of `x`'s shape, which of
        them each element is; and how many there are of each.
    {raises and see: numpy.unique_all}
    >>> found = unique_all(np.array([3, 1, 3]))
    >>> found.values.tolist(), found.indices.tolist(), found.inverse_indices.tolist()
    ([1, 3], [1, 0], [1, 0, 1])
    """
    flat, order, flags, starts = _runs(x)
    places = movement.take(order, starts)
    inverse = allocate(order, order.shape, order.dtype)
    if order.size:
        numbers = cumsum(flags, dtype=np.int64)
        put_along_axis(inverse, order, numbers - 1, 0, mode="clip")
    values = movement.take(flat, places)
    return UniqueAll(values, places, reshape(inverse, tuple(x.shape)), _counts(starts, flat))


@library_function
def unique_counts(x: Array, /) -> UniqueCounts:
    """Find the distinct elements, in rising order, and how many there are of each.

    A NaN differs from every other one. The host waits for the device.

    {parameters: array}
    {returns: values, counts : array}
    {raises and see: numpy.unique_counts}
    >>> found = unique_counts(np.array([3, 1, 3]))
    >>> found.values.tolist(), found.counts.tolist()
    ([1, 3], [1, 2])
    """
    flat, order, _, starts = _runs(x)
    values = movement.take(flat, movement.take(order, starts))
    return UniqueCounts(values, _counts(starts, flat))


@library_function
def unique_inverse(x: Array, /) -> UniqueInverse:
    """Find the distinct elements, in rising order, and which of them each element is.

    A NaN differs from every other one. The host waits for the device.

    {parameters: array}
    {returns: values, inverse_indices : array}
        The second one of `x`'s shape.
    {raises and see: numpy.unique_inverse}
    >>> found = unique_inverse(np.array([3, 1, 3]))
    >>> found.values.tolist(), found.inverse_indices.tolist()
    ([1, 3], [1, 0, 1])
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


@library_function
def unique_values(x: Array, /) -> Any:
    """Find the distinct elements, in rising order.

    A NaN differs from every other one. The host waits for the device.

    {parameters: array}
    {returns: array of shape (m,)}
        Of `x`'s kind and dtype.
    {raises and see: numpy.unique_values}
    >>> unique_values(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    flat, order, _, starts = _runs(x)
    return movement.take(flat, movement.take(order, starts))


def _runs(x: Array) -> tuple[Array, Array, Array, Array]:
    """Return the elements, the places that sort them, where runs begin, and the places of these."""
    check_array("x", x, halves=True)
    flat = contiguous_1d(x)
    if flat.dtype.kind == "c":  # by real parts, those that are equal by imaginary parts
        order = sorting.argsort(imag(flat))
        order = movement.take(order, sorting.argsort(movement.take(real(flat), order)))
    else:
        order = sorting.argsort(flat)
    flags = allocate(flat, flat.shape, np.dtype(np.bool_))
    if flat.size:
        ordered = movement.take(flat, order)
        flags[:1] = True
        if flat.size > 1:
            not_equal(ordered[1:], ordered[:-1], out=flags[1:])
    return flat, order, flags, flatnonzero(flags)


def _counts(starts: Array, flat: Array) -> Any:
    end = allocate(starts, (1,), starts.dtype)
    end[...] = flat.size
    return diff(starts, append=end)
