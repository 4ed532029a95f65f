"""Elements, and places of elements, by a condition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.arrays import (
    Array,
    allocate,
    around_axis,
    check_array,
    check_out,
    check_same_kind,
    contiguous_1d,
    finish,
    on_device,
)
from stdlib_kernels.compact.chosen import choose, is_not_zero, is_zero
from stdlib_kernels.elementwise.calls import map_call
from stdlib_kernels.functions import library_function
from stdlib_kernels.parameters import axis_of

__all__ = ["compress", "flatnonzero", "nonzero", "partition"]


@kd.kernel(wraparound=False)
def take_slices(x, places, out):
    """Take slices of the middle one of three axes: ``x[a, n, b], places[m], out[a, m, b]``."""
    i, j, k = kd.grid(3)
    if i < out.shape[0] and j < out.shape[1] and k < out.shape[2]:
        out[i, j, k] = x[i, places[j], k]


def _coordinate(place: Any, step: Any, extent: Any) -> Any:
    return place // step % extent


@library_function
def compress(
    condition: Array, x: Array, axis: int | None = None, *, out: Array | None = None
) -> Any:
    """Take the elements, or slices along an axis, for which a condition holds.

    {parameters}
    condition : array of shape (m,)
        Of `x`'s kind; what is not 0 is taken. There may be fewer than elements, but not more.
    {array}
    axis : int, optional
        Of which slices are taken; by default the array is taken as flattened in C order.
    {out}
    {returns: array}
        Of `x`'s kind and dtype, in the order of the elements; `out`, where it is given.
    {raises and see: numpy.compress}
    {examples}
    >>> compress(np.array([True, False, True]), np.array([5, 6, 7])).tolist()
    [5, 7]
    >>> compress(np.array([0, 1]), np.array([[1, 2], [3, 4]]), axis=1).tolist()
    [[2], [4]]
    """
    check_array("x", x, halves=True)
    check_array("condition", condition, halves=True, ndim=1)
    check_same_kind("condition", condition, "x", x)
    place = None if axis is None else axis_of(axis, x.ndim)
    n = x.size if place is None else x.shape[place]
    if condition.size > n:
        raise ArgumentValueError(
            f"condition has {condition.size} elements, and there are {n} to choose from",
            value=condition.size,
            limit="There is one of each at most",
        )
    flags, source = on_device(condition), on_device(x)
    if place is None:
        found = choose(flags, contiguous_1d(source), is_not_zero)
    else:
        places = choose(flags, None, is_not_zero)
        shape = (*x.shape[:place], places.size, *x.shape[place + 1 :])
        found = allocate(source, shape, x.dtype)
        if found.size:
            taken, given = around_axis(source, place), around_axis(found, place)
            take_slices.forall(*given.shape)(taken, places, given)
    check_out(out, like=x, shape=tuple(found.shape), dtype=x.dtype)
    return finish(found, like=x, out=out)


@library_function
def flatnonzero(x: Array) -> Any:
    """Find the places of the elements that are not zero in the flattened array.

    {parameters: array}
    {returns: int64 array of one axis}
        Of `x`'s kind, in rising order. A NaN is not zero.
    {raises and see: numpy.flatnonzero}
    {examples}
    >>> flatnonzero(np.array([[0, 3], [2, 0]])).tolist()
    [1, 2]
    """
    check_array("x", x, halves=True)
    return finish(choose(contiguous_1d(on_device(x)), None, is_not_zero), like=x, out=None)


@library_function
def nonzero(x: Array) -> Any:
    """Find the places of the elements that are not zero, along each axis.

    {parameters: array}
    {returns: tuple of int64 arrays of one axis}
        An array for each axis of `x`, of its kind; the elements in C order. A NaN is not zero.
    {raises}
    kerneldsl.errors.ArgumentValueError
        Where `x` has no axes.
    {see: numpy.nonzero}
    {examples}
    >>> [each.tolist() for each in nonzero(np.array([[0, 3], [2, 0]]))]
    [[0, 1], [1, 0]]
    """
    check_array("x", x, halves=True)
    if not x.ndim:
        raise ArgumentValueError(
            "nonzero: x has no axes", value=x, remedy="Reshape it to (1,), or compare it with 0"
        )
    places = choose(contiguous_1d(on_device(x)), None, is_not_zero)
    dtype = np.dtype(np.int64)
    found = []
    for axis in range(x.ndim):
        step = math.prod(x.shape[axis + 1 :])
        values = [places, step, x.shape[axis]]
        (each,) = map_call(_coordinate, values, [dtype], [None], places, exact=True)
        found.append(finish(each, like=x, out=None))
    return tuple(found)


@library_function
def partition(condition: Array, x: Array) -> Any:
    """Bring the elements for which a condition holds before the others.

    (`numpy.partition` does something else: it partitions by size.)

    {parameters}
    condition : array
        Of `x`'s kind and shape; what is not 0 comes first.
    {array}
    {returns: elements : array of shape (x.size,)}
        Of `x`'s kind and dtype; both parts are in the order of the elements in C order.
    count : int
        The size of the first part.
    {raises and see: numpy.compress}
    {examples}
    >>> x = np.array([5, 6, 7, 8])
    >>> elements, count = partition(x % 2 == 0, x)
    >>> elements.tolist(), count
    ([6, 8, 5, 7], 2)
    """
    check_array("x", x, halves=True)
    check_array("condition", condition, halves=True)
    check_same_kind("condition", condition, "x", x)
    if tuple(condition.shape) != tuple(x.shape):
        raise ArgumentValueError(
            f"condition has the shape {tuple(condition.shape)}, and x {tuple(x.shape)}",
            value=tuple(condition.shape),
            limit="They have one shape",
        )
    flags, source = (contiguous_1d(on_device(each)) for each in (condition, x))
    found = allocate(source, (source.size,), x.dtype)
    count = choose(flags, source, is_not_zero, found).size
    choose(flags, source, is_zero, found[count:])
    return finish(found, like=x, out=None), count
