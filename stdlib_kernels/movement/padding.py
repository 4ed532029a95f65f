"""Padding of arrays, along one axis after the other, as in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch_over, refuse_to_repeat
from stdlib_kernels.arrays import allocate, around_axis, contiguous, finish, on_device
from stdlib_kernels.checks import Array, check_array
from stdlib_kernels.copying import itself
from stdlib_kernels.elementwise.calls import map_call
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.gathering import over
from stdlib_kernels.movement.along import fresh, moved
from stdlib_kernels.parameters import choice_of, computing_dtype, scalar_of, wrong_type, wrong_value
from stdlib_kernels.reduce import extremes, summation
from stdlib_kernels.sort.rows import as_rows, sort_rows
from stdlib_kernels.stencil.borders import border_of, place

__all__ = ["pad"]


def _beyond(mode: str) -> Any:
    """Return the source indices of the elements around an array, as for a filter's border."""
    number = border_of(mode, 0).mode
    return lambda j, n, shift: place(number, j - shift, n)


#: Modes by NumPy's names; SciPy has other names for them.
_BORDERS = {
    "constant": _beyond("constant"),
    "edge": _beyond("nearest"),
    "reflect": _beyond("mirror"),
    "symmetric": _beyond("reflect"),
    "wrap": _beyond("wrap"),
}


#: Modes with a point reflection at the edge element. Their period is twice the extent less this.
_REFLECTIONS = {"reflect": 2, "symmetric": 0}


def _floor(v: Any) -> Any:
    return math.floor(v)


def _nearest(v: Any) -> Any:
    return np.rint(v)


@kd.kernel(wraparound=False)
def ramp_along(x, out, before, start, end, *, number, rounded, store, is_last):
    """Copy the middle one of three axes between rows of numbers from `start`, and to `end`."""
    i, j, k = kd.grid(3)
    if is_last:
        j, k = k, j
    n, after = x.shape[1], out.shape[1] - before - x.shape[1]
    if j < before:
        step = (number(x[i, 0, k]) - start) / number(before)
        out[i, j, k] = store(rounded(number(j) * step + start))
    elif j < before + n:
        out[i, j, k] = x[i, j - before, k]
    else:
        step = (number(x[i, n - 1, k]) - end) / number(after)
        out[i, j, k] = store(rounded(number(out.shape[1] - 1 - j) * step + end))


@kd.kernel(wraparound=False)
def reflect_along(x, out, before, period, *, number, store, is_last):
    """Continue the middle one of three axes through its edge elements, by point reflections."""
    i, j, k = kd.grid(3)
    if is_last:
        j, k = k, j
    n = x.shape[1]
    turns = (j - before) // period
    at = j - before - turns * period
    low, high = number(x[i, 0, k]), number(x[i, n - 1, k])
    if at < n:
        v = number(x[i, at, k])
    else:
        v = number(2) * high - number(x[i, period - at + (n - 1 - period // 2), k])
    out[i, j, k] = store(v + number(turns) * number(2) * (high - low))


@kd.kernel(wraparound=False)
def surround_along(x, low, high, out, before, *, is_last):
    """Copy the middle one of three axes between values: ``low[a, 1, c], high[a, 1, c]``."""
    i, j, k = kd.grid(3)
    if is_last:
        j, k = k, j
    if j < before:
        out[i, j, k] = low[i, 0, k]
    elif j < before + x.shape[1]:
        out[i, j, k] = x[i, j - before, k]
    else:
        out[i, j, k] = high[i, 0, k]


@kd.kernel(wraparound=False)
def middle_of_rows(ordered, out, *, number):
    """Find the median of sorted rows: ``ordered[m, n], out[m]``; with NaN in a row it is NaN."""
    i = kd.grid(1)
    n = ordered.shape[1]
    last = number(ordered[i, n - 1])
    low, high = number(ordered[i, (n - 1) // 2]), number(ordered[i, n // 2])
    middle = (low + high) / number(2) if n % 2 == 0 else low
    out[i] = last if last != last else middle  # noqa: PLR0124 - NaN alone differs


def _median(x: Array, axis: int) -> Array:
    rows, _ = as_rows(x, axis)
    ordered = sort_rows(rows)[0]
    number = np.dtype(np.float64) if x.dtype.kind in "biu" else x.dtype
    found = allocate(rows, (rows.shape[0],), number)
    if found.size:
        exact = computing_dtype(number).type
        launch_over(middle_of_rows, (found.size,), ordered, found, number=exact)
    return found.reshape((*x.shape[:axis], 1, *x.shape[axis + 1 :]))


#: Modes that compute the new elements from those along an axis.
_STATISTICS: dict[str, Any] = {
    "maximum": lambda x, axis: extremes.max(x, axis, keepdims=True),
    "minimum": lambda x, axis: extremes.min(x, axis, keepdims=True),
    "mean": lambda x, axis: summation.mean(x, axis, keepdims=True),
    "median": _median,
}
_MODES = (*_BORDERS, "linear_ramp", "empty", *_STATISTICS)


@repeated_function
def pad(
    x: Array,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: Any = 0,
    end_values: Any = 0,
    stat_length: Any = None,
    reflect_type: str = "even",
) -> Any:
    """Add elements around an array.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    pad_width : int, or tuples of ints
        The numbers of elements before and after the array along each axis:
        ``((before, after), …)``, one such pair for all axes, or one number for all.
    mode : str
        The new elements. ``"constant"``: `constant_values`. ``"edge"``: the nearest element.
        ``"reflect"``: the array mirrored at the edge, without the edge element. ``"symmetric"``:
        the same with the edge element. ``"wrap"``: elements from the other end. ``"linear_ramp"``:
        a linear ramp from the edge to `end_values`. ``"maximum"``, ``"minimum"``, ``"mean"`` or
        ``"median"``: of elements along the axis. ``"empty"``: undefined.
    constant_values, end_values : number, or tuples of numbers
        The constants, and the outermost numbers of ramps, in the form of `pad_width`.
    stat_length : int, or tuples of ints, optional
        The number of elements at each edge for a statistic, in the form of `pad_width`; by default
        all.
    reflect_type : str
        For ``"reflect"`` and ``"symmetric"``: ``"even"`` takes mirrored elements, and ``"odd"``
        subtracts them from twice the edge element.

    Returns
    -------
    array
        Same kind and dtype as `x`.
        Means and medians of integers are rounded to the nearest integer.

    See Also
    --------
    numpy.pad

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.movement import pad
    >>> pad(np.array([1, 2, 3]), (2, 1), "reflect").tolist()
    [3, 2, 1, 2, 3, 2]
    >>> pad(np.array([4, 8]), (2, 1), "linear_ramp", end_values=(0, 2)).tolist()
    [0, 2, 4, 8, 2]
    """
    check_array("x", x, halves=True)
    choice_of("mode", mode, _MODES)
    is_odd = choice_of("reflect_type", reflect_type, ("even", "odd")) == "odd"
    widths = _pairs("pad_width", pad_width, x.ndim, 0)
    lengths: list[Any] = [(None, None)] * x.ndim
    if stat_length is not None:
        lengths = _pairs("stat_length", stat_length, x.ndim, 1)
    fills = _fills("constant_values", constant_values, x)
    ends = _fills("end_values", end_values, x)
    found = on_device(x)
    for axis, (before, after) in enumerate(widths):
        extent = before + x.shape[axis] + after
        if before + after and mode not in ("constant", "empty") and not x.shape[axis]:
            limit = f"Along axis {axis} are no elements, which only a constant surrounds"
            raise wrong_value("mode", mode, limit, "Say mode='constant'")
        if not before + after:
            continue
        if mode == "linear_ramp":
            found = _ramped(found, axis, extent, before, ends[axis])
        elif mode in _STATISTICS:
            sides = _sides(found, axis, _STATISTICS[mode], lengths[axis])
            found = _surrounded(found, axis, extent, before, *sides)
        elif is_odd and mode in _REFLECTIONS and x.shape[axis] > 1:
            found = _reflected(found, axis, extent, before, _REFLECTIONS[mode])
        else:
            origin = _BORDERS["constant" if mode == "empty" else mode]
            found = moved(found, axis, extent, origin, before, *fills[axis])
    return finish(fresh(found, x), like=x)


def _ramped(x: Array, axis: int, extent: int, before: int, ends: tuple[Any, Any]) -> Array:
    found = allocate(x, (*x.shape[:axis], extent, *x.shape[axis + 1 :]), x.dtype)
    if found.size:
        number = np.complex128 if x.dtype.kind == "c" else np.float64
        is_whole = x.dtype.kind in "iu"
        how = {"rounded": _floor if is_whole else itself, "store": x.dtype.type}
        given, numbers = around_axis(found, axis), map(number, ends)
        arrays = (around_axis(x, axis), given, before, *numbers)
        over(ramp_along, given.shape, *arrays, number=number, **how)
    return found


def _reflected(x: Array, axis: int, extent: int, before: int, lacking: int) -> Array:
    found = allocate(x, (*x.shape[:axis], extent, *x.shape[axis + 1 :]), x.dtype)
    if found.size:
        number = np.dtype(np.int64) if x.dtype.kind == "b" else computing_dtype(x.dtype)
        given, period = around_axis(found, axis), 2 * x.shape[axis] - lacking
        arrays = (around_axis(x, axis), given, before, period)
        over(reflect_along, given.shape, *arrays, number=number.type, store=x.dtype.type)
    return found


def _sides(x: Array, axis: int, statistic: Any, lengths: tuple[Any, Any]) -> tuple[Array, Array]:
    """Return a statistic of the first elements along an axis, and of the last ones."""
    n = x.shape[axis]
    before, after = (n if each is None else min(each, n) for each in lengths)
    first: tuple[Any, ...] = (*(slice(None),) * axis, slice(0, before))
    last: tuple[Any, ...] = (*(slice(None),) * axis, slice(n - after, n))
    low = _stored(statistic(contiguous(x[first]), axis), x.dtype)
    if before == after == n:
        return low, low
    return low, _stored(statistic(contiguous(x[last]), axis), x.dtype)


def _stored(found: Array, dtype: np.dtype[Any]) -> Array:
    """Return a statistic in the dtype of the elements, rounded for integers."""
    if found.dtype == dtype:
        return found
    rounded = _nearest if dtype.kind in "iu" else itself
    result: Array = map_call(rounded, [found], [dtype], [None], found)[0]
    return result


def _surrounded(x: Array, axis: int, extent: int, before: int, low: Array, high: Array) -> Array:
    found = allocate(x, (*x.shape[:axis], extent, *x.shape[axis + 1 :]), x.dtype)
    if found.size:
        given, *arrays = (around_axis(each, axis) for each in (found, x, low, high))
        over(surround_along, given.shape, *arrays, given, before)
    return found


def _fills(name: str, given: Any, x: Array) -> list[tuple[Any, Any]]:
    """Return a number of the array's dtype for both sides of each axis."""
    return [
        (scalar_of(name, low, x.dtype), scalar_of(name, high, x.dtype))
        for low, high in _each_side(name, given, x.ndim)
    ]


def _pairs(name: str, given: Any, ndim: int, least: int) -> list[tuple[int, int]]:
    """Return an integer for both sides of each axis, at least the given minimum."""
    pairs = _each_side(name, given, ndim)
    limit = f"It must have integers, {least} or more"
    wide = np.asarray(pairs) if pairs else np.zeros((0, 2), int)
    if wide.dtype.kind not in "iu":
        raise wrong_type(name, given, limit)
    if wide.size and int(wide.min()) < least:
        raise wrong_value(name, given, limit)
    return [(int(low), int(high)) for low, high in wide]


def _each_side(name: str, given: Any, ndim: int) -> list[tuple[Any, Any]]:
    """Expand values for all axes, or for both sides of each, to both sides of each axis."""
    if not isinstance(given, int | float | complex | tuple | np.generic):
        refuse_to_repeat()  # calls are alike whatever is in their arrays
    try:
        wide = np.broadcast_to(np.asarray(given), (ndim, 2)).tolist()
    except Exception as error:  # what NumPy, or a foreign object, raises
        is_empty = isinstance(given, tuple | list) and not given
        wrong = wrong_type if is_empty else wrong_value
        raise wrong(name, given, f"It must be a number, a pair, or {ndim} pairs") from error
    return [(low, high) for low, high in wide]
