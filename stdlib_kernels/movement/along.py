"""Elements moved along axes, one axis after the other: turned round, repeated, surrounded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.repeating.calls import launch_over, refuse_to_repeat
from kerneldsl.repeating.overlap import may_overlap
from stdlib_kernels.arrays import allocate, along_or_flat, around_axis, finish, on_device
from stdlib_kernels.checks import Array, Ints, check_array
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import (
    axes_of,
    choice_of,
    each_axis_of,
    integer_of,
    integers_of,
    scalar_of,
    wrong_value,
)
from stdlib_kernels.stencil.borders import border_of, place

__all__ = ["flip", "fresh", "over", "pad", "repeat", "roll", "tile"]

#: Bytes of an array at most, as NumPy counts them.
MAX_BYTES = (1 << 63) - 1


def over(kernel: Any, shape: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Launch a kernel over three axes along which threads follow each other, the last one first.

    Where that has an extent of 1, the middle one is the last, as `is_last` tells the kernel.
    """
    is_last = shape[2] == 1
    extent = (shape[0], 1, shape[1]) if is_last else shape
    launch_over(kernel, extent, *args, is_last=is_last, **constants)


@kd.kernel(wraparound=False)
def move_along(x, out, shift, fill, *, origin, is_last):
    """Move along the middle one of three axes, by where each element is: -1 for `fill`."""
    i, j, k = kd.grid(3)
    if is_last:
        j, k = k, j
    at = origin(j, x.shape[1], shift)
    out[i, j, k] = x[i, at, k] if at >= 0 else fill


#: Where the elements of an axis of n come from, by functions and what these are given.
_ORIGINS = {
    "flip": lambda j, n, shift: n - 1 - j,
    "tile": lambda j, n, shift: (j - shift) % n,
    # As for `tile` where the shift is 0 to n, without a division.
    "roll": lambda j, n, shift: j - shift if j >= shift else j - shift + n,
    "repeat": lambda j, n, count: j // count,
}


def _moved(x: Array, axis: int, extent: int, origin: Any, shift: int, fill: Any = 0) -> Array:
    """Return an array with another extent along an axis, whose elements come from places."""
    shape = (*x.shape[:axis], extent, *x.shape[axis + 1 :])
    if math.prod(shape) * x.dtype.itemsize > MAX_BYTES:
        raise ArgumentValueError(
            f"the result has {safe_repr(extent)} elements along axis {axis}",
            value=extent,
            limit=f"An array has {MAX_BYTES} bytes at most",
            remedy="Make it of parts that fit into memory",
        )
    found = allocate(x, shape, x.dtype)
    if found.size:
        given = around_axis(found, axis)
        source, fill = around_axis(x, axis), x.dtype.type(fill)
        over(move_along, given.shape, source, given, shift, fill, origin=origin)
    return found


@repeated_function
def flip(x: Array, axis: Ints | None = None) -> Any:
    """Reverse the order of elements along axes, in new memory.

    {parameters: array}
    axis : int or tuple of int, optional
        Along which; all axes by default.
    {like x: , and its shape}
    {raises and see: numpy.flip : gives a view instead.}
    >>> flip(np.array([[1, 2], [3, 4]]), 1).tolist()
    [[2, 1], [4, 3]]
    """
    check_array("x", x, halves=True)
    found = on_device(x)
    for each in axes_of(axis, x.ndim):
        found = _moved(found, each, x.shape[each], _ORIGINS["flip"], 0)
    return finish(fresh(found, x), like=x)


@repeated_function
def roll(x: Array, shift: Ints, axis: Ints | None = None) -> Any:
    """Shift elements along axes; those that leave at one end enter at the other.

    {parameters: array}
    shift : int or tuple of int
        By how many places, towards higher indices; one for each axis, or for all.
    axis : int or tuple of int, optional
        Along which; by default along the flattened array, whose shape stays.
    {like x: , and its shape}
    {raises and see: numpy.roll}
    >>> roll(np.array([1, 2, 3, 4]), 1).tolist()
    [4, 1, 2, 3]
    """
    check_array("x", x, halves=True)
    shifts = integers_of("shift", shift)
    found, _ = along_or_flat(x, None) if axis is None else (on_device(x), 0)
    axes: tuple[int, ...] = (0,) if axis is None else each_axis_of(axis, x.ndim)
    if len(shifts) not in (1, len(axes)):
        raise wrong_value("shift", shift, f"There is one, or one for each of the {len(axes)} axes")
    for each, by in zip(axes, shifts * (len(axes) // len(shifts)), strict=True):
        n = found.shape[each]
        found = _moved(found, each, n, _ORIGINS["roll"], by % max(1, n))
    found = found if axes else fresh(found, x)
    return finish(found.reshape(tuple(x.shape)), like=x)


@repeated_function
def repeat(x: Array, repeats: int, axis: int | None = None) -> Any:
    """Repeat each element, or slice along an axis.

    {parameters: array}
    repeats : int
        How often each is in the result.
    {along or flattened}
    {like x}
    {raises and see: numpy.repeat}
    >>> repeat(np.array([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    """
    check_array("x", x, halves=True)
    count = integer_of("repeats", repeats, 0)
    source, at = along_or_flat(x, axis)
    return finish(_moved(source, at, source.shape[at] * count, _ORIGINS["repeat"], count), like=x)


@repeated_function
def tile(x: Array, reps: Ints) -> Any:
    """Repeat an array along its axes.

    {parameters: array}
    reps : int or tuple of int
        How often along each axis, the last one of them along the last axis; those that are missing
        are 1, and so are extents that `x` lacks.
    {like x}
    {raises and see: numpy.tile}
    >>> tile(np.array([1, 2]), 2).tolist()
    [1, 2, 1, 2]
    """
    check_array("x", x, halves=True)
    counts = integers_of("reps", reps, 0)
    counts = (1,) * (x.ndim - len(counts)) + counts
    found = on_device(x)[(None,) * (len(counts) - x.ndim)]
    for axis, count in enumerate(counts):
        if count != 1:
            found = _moved(found, axis, found.shape[axis] * count, _ORIGINS["tile"], 0)
    return finish(fresh(found, x), like=x)


def fresh(found: Array, x: Array) -> Array:
    """Return an array that shares no memory with what the caller gave."""
    if found.size and may_overlap(found, x):
        return _moved(found[None], 0, 1, _ORIGINS["tile"], 0).reshape(tuple(found.shape))
    return found


def _beyond(mode: str) -> Any:
    """Return where what surrounds an array comes from, as a filter's border of a mode does."""
    number = border_of(mode, 0).mode
    return lambda j, n, shift: place(number, j - shift, n)


#: Modes by NumPy's names, which SciPy has for others.
_MODES = {
    "constant": _beyond("constant"),
    "edge": _beyond("nearest"),
    "reflect": _beyond("mirror"),
    "symmetric": _beyond("reflect"),
    "wrap": _beyond("wrap"),
}


@repeated_function
def pad(x: Array, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    """Surround an array with elements.

    {parameters: array}
    pad_width : int, or tuples of ints
        How many before and behind the elements along each axis: ``((before, behind), …)``, one such
        pair for all axes, or one number for all.
    mode : str
        What they are: ``"constant"``; ``"edge"``, the nearest element; ``"reflect"``, those beyond
        the nearest one in reverse; ``"symmetric"``, the nearest one too; ``"wrap"``, those from the
        other end.
    constant_values : number
        The constant.
    {like x}
    {raises and see: numpy.pad}
    >>> pad(np.array([1, 2, 3]), (2, 1), "reflect").tolist()
    [3, 2, 1, 2, 3, 2]
    """
    check_array("x", x, halves=True)
    origin = _MODES[choice_of("mode", mode, _MODES)]
    fill = scalar_of("constant_values", constant_values, x.dtype)
    found = on_device(x)
    for axis, (before, behind) in enumerate(_widths(pad_width, x.ndim)):
        n = x.shape[axis]
        if before + behind:
            if not n and mode != "constant":
                limit = f"Along axis {axis} are no elements, which only a constant surrounds"
                raise wrong_value("mode", mode, limit, "Say mode='constant'")
            found = _moved(found, axis, before + n + behind, origin, before, fill)
    return finish(fresh(found, x), like=x)


def _widths(given: Any, ndim: int) -> list[tuple[int, int]]:
    if not isinstance(given, int | tuple):
        refuse_to_repeat()
    try:
        wide = np.broadcast_to(np.asarray(given), (ndim, 2))
    except Exception as error:  # what NumPy, or a foreign object, raises
        raise wrong_value("pad_width", given, f"It is a number, a pair, or {ndim} pairs") from error
    if wide.dtype.kind not in "iu" or (wide.size and int(wide.min()) < 0):
        raise wrong_value("pad_width", given, "It has integers, 0 or more")
    return [(int(a), int(b)) for a, b in wide]
