"""Elements moved along axes, one axis after the other: turned round, repeated."""

from __future__ import annotations

import math
import operator
from typing import Any

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import safe_repr
from stdlib_kernels.arrays import Array, allocate, around_axis, check_array, finish, on_device
from stdlib_kernels.functions import library_function
from stdlib_kernels.movement.tiles import over
from stdlib_kernels.overlap import may_overlap
from stdlib_kernels.parameters import axes_of, axis_of

__all__ = ["around", "flip", "fresh", "moved_along", "repeat", "roll", "tile"]

#: Bytes of an array at most, as NumPy counts them.
MAX_BYTES = (1 << 63) - 1


@kd.kernel(wraparound=False)
def move_along(x, out, shift, fill, *, place, is_last):
    """Move along the middle one of three axes, by where each element is: -1 for `fill`."""
    i, j, k = kd.grid(3)
    if is_last:
        j, k = k, j
    if i < out.shape[0] and j < out.shape[1] and k < out.shape[2]:
        at = place(j, x.shape[1], shift)
        out[i, j, k] = x[i, at, k] if at >= 0 else fill


def _from_the_end(j: Any, n: Any, shift: Any) -> Any:
    return n - 1 - j


def around(j: Any, n: Any, shift: Any) -> Any:
    """Return where an element comes from that is shifted by so many places."""
    return (j - shift) % n


def _rolled(j: Any, n: Any, shift: Any) -> Any:
    # As `around` where the shift is 0 to n, without a division.
    return j - shift if j >= shift else j - shift + n


def _each_often(j: Any, n: Any, count: Any) -> Any:
    return j // count


def moved_along(x: Array, axis: int, extent: int, place: Any, shift: int, fill: Any = 0) -> Array:
    """Return an array with another extent along an axis, whose elements come from places."""
    shape = (*x.shape[:axis], extent, *x.shape[axis + 1 :])
    if math.prod(shape) * x.dtype.itemsize > MAX_BYTES:
        raise ArgumentValueError(
            f"the result has {safe_repr(extent)} elements along axis {axis}",
            value=extent,
            limit=f"An array has {MAX_BYTES} bytes at most",
        )
    found = allocate(x, shape, x.dtype)
    if found.size:
        given = around_axis(found, axis)
        source, fill = around_axis(x, axis), x.dtype.type(fill)
        over(move_along, given.shape, source, given, shift, fill, place=place)
    return found


@library_function
def flip(x: Array, axis: int | tuple[int, ...] | None = None) -> Any:
    """Reverse the order of elements along axes, in new memory.

    {parameters: array}
    axis : int or tuple of int, optional
        Along which; all axes by default.
    {returns: array}
        Of `x`'s kind, dtype and shape.
    {raises and see: numpy.flip : gives a view instead.}
    {examples}
    >>> flip(np.array([[1, 2], [3, 4]]), 1).tolist()
    [[2, 1], [4, 3]]
    """
    check_array("x", x, halves=True)
    found = on_device(x)
    axes = axes_of(axis, x.ndim)
    for each in axes:
        found = moved_along(found, each, x.shape[each], _from_the_end, 0)
    return finish(fresh(found, x), like=x, out=None)


@library_function
def roll(x: Array, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None) -> Any:
    """Shift elements along axes; those that leave at one end enter at the other.

    {parameters: array}
    shift : int or tuple of int
        By how many places, towards higher indices; one for each axis, or for all.
    axis : int or tuple of int, optional
        Along which; by default along the flattened array, whose shape stays.
    {returns: array}
        Of `x`'s kind, dtype and shape.
    {raises and see: numpy.roll}
    {examples}
    >>> roll(np.array([1, 2, 3, 4]), 1).tolist()
    [4, 1, 2, 3]
    """
    check_array("x", x, halves=True)
    shifts = _integers("shift", shift)
    if axis is None:
        if len(shifts) != 1:
            raise ArgumentValueError(
                f"shift is {safe_repr(shift)}", value=shift, limit="Without an axis it is one int"
            )
        flat = around_axis(on_device(x)[None], 0).reshape((-1,))
        found = moved_along(flat, 0, x.size, _rolled, shifts[0] % max(1, x.size))
        return finish(found.reshape(tuple(x.shape)), like=x, out=None)
    given = axis if isinstance(axis, tuple) else (axis,)
    axes = [axis_of(each, x.ndim) for each in given]
    if len(shifts) not in (1, len(axes)):
        raise ArgumentValueError(
            f"shift is {safe_repr(shift)}", value=shift, limit=f"There are {len(axes)} axes"
        )
    found = on_device(x)
    for each, by in zip(axes, shifts * (len(axes) // len(shifts)), strict=True):
        found = moved_along(found, each, x.shape[each], _rolled, by % max(1, x.shape[each]))
    return finish(fresh(found, x), like=x, out=None)


@library_function
def repeat(x: Array, repeats: int, axis: int | None = None) -> Any:
    """Repeat each element, or slice along an axis.

    {parameters: array}
    repeats : int
        How often each is in the result.
    {along or flattened}
    {returns: array}
        Of `x`'s kind and dtype.
    {raises and see: numpy.repeat}
    {examples}
    >>> repeat(np.array([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    """
    check_array("x", x, halves=True)
    (count,) = _counts("repeats", repeats, 1)
    source, at = on_device(x), 0
    if axis is None:
        source = around_axis(source[None], 0).reshape((-1,))
    else:
        at = axis_of(axis, x.ndim)
    found = moved_along(source, at, source.shape[at] * count, _each_often, count)
    return finish(found, like=x, out=None)


@library_function
def tile(x: Array, reps: int | tuple[int, ...]) -> Any:
    """Repeat an array along its axes.

    {parameters: array}
    reps : int or tuple of int
        How often along each axis, the last one of them along the last axis; those that are missing
        are 1, and so are extents that `x` lacks.
    {returns: array}
        Of `x`'s kind and dtype.
    {raises and see: numpy.tile}
    {examples}
    >>> tile(np.array([1, 2]), 2).tolist()
    [1, 2, 1, 2]
    """
    check_array("x", x, halves=True)
    counts = _counts("reps", reps)
    counts = (1,) * (x.ndim - len(counts)) + counts
    found = on_device(x)[(None,) * (len(counts) - x.ndim)]
    for axis, count in enumerate(counts):
        if count != 1:
            found = moved_along(found, axis, found.shape[axis] * count, around, 0)
    return finish(fresh(found, x), like=x, out=None)


def fresh(found: Array, x: Array) -> Array:
    """Return an array that shares no memory with what the caller gave."""
    if found.size and may_overlap(found, x):
        return moved_along(found.reshape((1, *found.shape)), 0, 1, around, 0).reshape(found.shape)
    return found


def _integers(name: str, given: Any) -> tuple[int, ...]:
    try:
        return tuple(
            operator.index(each)
            for each in (given if isinstance(given, tuple | list) else (given,))
        )
    except Exception as error:  # what a foreign object raises
        raise ArgumentTypeError(
            f"{name} is {safe_repr(given)}", value=given, limit="It is an int, or a tuple of them"
        ) from error


def _counts(name: str, given: Any, wanted: int | None = None) -> tuple[int, ...]:
    counts = _integers(name, given)
    if any(each < 0 for each in counts) or (wanted is not None and len(counts) != wanted):
        raise ArgumentValueError(
            f"{name} is {safe_repr(given)}", value=given, limit="It has ints, 0 or more"
        )
    return counts
