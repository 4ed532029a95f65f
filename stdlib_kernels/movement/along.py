"""Elements moved along axes, one axis after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.repeating.recorded import may_overlap
from kerneldsl.repeating.recorded_calls import refuse_to_repeat
from stdlib_kernels.arrays import allocate, along_or_flat, around_axis, finish, on_device, to_host
from stdlib_kernels.checks import Array, Ints, check_array
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.gathering import over
from stdlib_kernels.parameters import axes_of, each_axis_of, integers_of, wrong_value

__all__ = ["flip", "fresh", "moved", "repeated", "roll", "tile"]

#: The largest number of bytes of an array, as in NumPy.
MAX_BYTES = (1 << 63) - 1


@kd.kernel(wraparound=False)
def move_along(x, out, shift, before, after, *, origin, is_last):
    """Move elements along the middle one of three axes, by their indices; -1 is no element."""
    i, j, k = kd.grid(3)
    if is_last:
        j, k = k, j
    at = origin(j, x.shape[1], shift)
    if at >= 0:
        out[i, j, k] = x[i, at, k]
    else:
        out[i, j, k] = before if j < shift else after


#: The indices from which the elements of an axis of n come, as functions and their arguments.
_ORIGINS = {
    "flip": lambda j, n, shift: n - 1 - j,
    "tile": lambda j, n, shift: (j - shift) % n,
    # This is `tile` for shifts from 0 to n, without a division.
    "roll": lambda j, n, shift: j - shift if j >= shift else j - shift + n,
    "repeat": lambda j, n, count: j // count,
}


def moved(
    x: Array, axis: int, extent: int, origin: Any, shift: int, before: Any = 0, after: Any = 0
) -> Array:
    """Return an array with another extent along an axis, with elements from given indices.

    An index without an element is filled with `before` up to `shift`, and with `after` from there
    on.
    """
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
        numbers = shift, x.dtype.type(before), x.dtype.type(after)
        over(move_along, given.shape, around_axis(x, axis), given, *numbers, origin=origin)
    return found


@repeated_function
def flip(x: Array, axis: Ints | None = None) -> Any:
    """Reverse the order of elements along axes, in new memory.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int or tuple of int, optional
        The axes to reverse; by default all.

    Returns
    -------
    array
        Same kind and dtype as `x`, and its shape.

    See Also
    --------
    numpy.flip : returns a view instead.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.movement import flip
    >>> flip(np.array([[1, 2], [3, 4]]), 1).tolist()
    [[2, 1], [4, 3]]
    """
    check_array("x", x, halves=True)
    found = on_device(x)
    for each in axes_of(axis, x.ndim):
        found = moved(found, each, x.shape[each], _ORIGINS["flip"], 0)
    return finish(fresh(found, x), like=x)


@repeated_function
def roll(x: Array, shift: Any, axis: Ints | None = None) -> Any:
    """Shift elements along axes; those beyond one end appear at the other.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    shift : int, tuple of int, or int array
        The distance, towards higher indices; one for each axis, or one for all. Several shifts of
        one axis are added. An array is read on the host.
    axis : int or tuple of int, optional
        The axes; by default the flattened array is shifted, and keeps its shape.

    Returns
    -------
    array
        Same kind and dtype as `x`, and its shape.

    See Also
    --------
    numpy.roll

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.movement import roll
    >>> roll(np.array([1, 2, 3, 4]), 1).tolist()
    [4, 1, 2, 3]
    """
    check_array("x", x, halves=True)
    shifts = _shifts_of(shift)
    found, _ = along_or_flat(x, None) if axis is None else (on_device(x), 0)
    axes: tuple[int, ...] = (0,) if axis is None else each_axis_of(axis, x.ndim)
    if len(axes) == 1:
        shifts = (sum(shifts),)
    if len(shifts) not in (1, len(axes)):
        raise wrong_value("shift", shift, f"There must be one, or one for each of {len(axes)} axes")
    for each, by in zip(axes, shifts * (len(axes) // len(shifts)), strict=True):
        n = found.shape[each]
        found = moved(found, each, n, _ORIGINS["roll"], by % max(1, n))
    found = found if axes else fresh(found, x)
    return finish(found.reshape(tuple(x.shape)), like=x)


def _shifts_of(shift: Any) -> tuple[int, ...]:
    """Return shifts that are given as an int, as several, or as an array."""
    if not isinstance(shift, np.ndarray | kd.DeviceArray):
        return integers_of("shift", shift)
    refuse_to_repeat()  # calls are alike whatever is in their arrays
    check_array("shift", shift, kinds="iu")
    if shift.ndim > 1:
        raise wrong_value("shift", shift, "It must have one axis at most")
    return tuple(map(int, to_host(shift).reshape(-1)))


@repeated_function
def tile(x: Array, reps: Ints) -> Any:
    """Repeat an array along its axes.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    reps : int or tuple of int
        The number of repetitions along each axis; the last number belongs to the last axis. Missing
        numbers are 1. If there are more numbers than axes, `x` gets axes of extent 1.

    Returns
    -------
    array
        Same kind and dtype as `x`.

    See Also
    --------
    numpy.tile

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.movement import tile
    >>> tile(np.array([1, 2]), 2).tolist()
    [1, 2, 1, 2]
    """
    check_array("x", x, halves=True)
    counts = integers_of("reps", reps, 0)
    counts = (1,) * (x.ndim - len(counts)) + counts
    found = on_device(x)[(*(None,) * (len(counts) - x.ndim), ...)]
    for axis, count in enumerate(counts):
        if count != 1:
            found = moved(found, axis, found.shape[axis] * count, _ORIGINS["tile"], 0)
    return finish(fresh(found, x), like=x)


def fresh(found: Array, x: Array) -> Array:
    """Return an array that shares no memory with the arguments of the call."""
    if found.size and may_overlap(found, x):
        return moved(found[None], 0, 1, _ORIGINS["tile"], 0).reshape(tuple(found.shape))
    return found


def repeated(x: Array, axis: int, count: int) -> Array:
    """Return an array with each element along an axis repeated, on a device for kernels."""
    return moved(x, axis, x.shape[axis] * count, _ORIGINS["repeat"], count)
