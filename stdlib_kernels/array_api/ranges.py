"""Numbers at equal distances, and grids of coordinates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.values import a_type
from kerneldsl.repeating.recorded_calls import launch_over
from stdlib_kernels.array_api.conversion import asarray, documented_creation
from stdlib_kernels.copying import itself
from stdlib_kernels.parameters import dtype_of, integer_of, wrong_value

__all__ = ["arange", "linspace", "meshgrid"]


@kd.kernel(wraparound=False)
def fill_range(out, start, step, stop, last, *, number, whole, convert):
    """Fill ``out[n]`` with numbers at equal distances; the element `last` is `stop`."""
    i = kd.grid(1)
    out[i] = convert(whole(stop if i == last else start + number(i) * step))


def floored(v: Any) -> Any:
    """Return the largest integer that is not above a number."""
    return np.floor(v)


@documented_creation
def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
) -> kd.DeviceArray:
    """Make an array of numbers with a given distance, from a first number to a limit.

    Parameters
    ----------
    start : number
        The first number. Without `stop`, the limit, and the first number is 0.
    stop : number, optional
        The limit, which is not included.
    step : number
        The distance.
    dtype : dtype, optional
        Dtype of the elements; by default int64 for ints, and float64 if one of them is a float.
        Floats are computed as float64 and rounded once.
    device : str or Device, optional
        Device of the array; by default the current one.

    {returns}
    >>> xp.arange(1, 6, 2).tolist()
    [1, 3, 5]
    """
    first, end = (0, start) if stop is None else (start, stop)
    given = [_real(name, each) for name, each in (("start", first), ("stop", end), ("step", step))]
    is_integer = all(isinstance(each, int) for each in given)
    wanted = dtype_of(
        dtype, None if dtype is not None else (np.int64 if is_integer else np.float64)
    )
    first, end, step = given
    if step == 0:
        raise wrong_value("step", step, "It must not be 0")
    count = len(range(first, end, step)) if is_integer else _count(first, end, step)
    number: np.dtype[Any] = np.dtype(np.float64)
    if is_integer and wanted.kind in "iu":
        number = np.dtype(np.uint64 if wanted.kind == "u" else np.int64)
    else:
        step = (first + step) - first
    made = kd.empty(count, wanted, device=device)
    if count:
        if number.kind != "f":
            ends = np.iinfo(wanted)
            for name, each in (("start", first), ("stop", first + (count - 1) * step)):
                if not ends.min <= each <= ends.max:
                    raise wrong_value(
                        name, each, f"{wanted} has numbers from {ends.min} to {ends.max}"
                    )
        kind = number.type
        begin, distance = (kind(n % 2**64 if kind is np.uint64 else n) for n in (first, step))
        _fill(made, begin, distance, kind(0), -1, kind)
    return made


def _real(name: str, value: Any) -> Any:
    """Return a real number as Python's int or float."""
    if isinstance(value, bool | int | np.integer | np.bool_):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value)
    raise ArgumentTypeError(
        f"{name} is {a_type(value)}", value=value, limit="It must be a real number"
    )


def _count(start: float, stop: float, step: float) -> int:
    length = (stop - start) / step
    if not math.isfinite(length):
        raise wrong_value("stop", stop, "The range must have finitely many numbers")
    return max(0, math.ceil(length))


def _fill(
    made: kd.DeviceArray,
    start: Any,
    step: Any,
    stop: Any,
    last: int,
    number: Any,
    whole: Any = itself,
) -> None:
    constants = {"number": number, "whole": whole, "convert": made.dtype.type}
    launch_over(fill_range, made.shape, made, start, step, stop, last, **constants)


@documented_creation
def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> kd.DeviceArray:
    """Make an array of a given number of elements at equal distances.

    Parameters
    ----------
    start, stop : number
        The first element, and the end.
    num : int
        The number of elements.
    dtype : dtype, optional
        Dtype of the elements; by default float64, or complex128 if one of them is complex. Integers
        are rounded down.
    device : str or Device, optional
        Device of the array; by default the current one.
    endpoint : bool
        Whether `stop` is the last element.

    {returns}
    >>> xp.linspace(0, 1, 3).tolist()
    [0.0, 0.5, 1.0]
    """
    count = integer_of("num", num, 0)
    is_complex = any(isinstance(each, complex | np.complexfloating) for each in (start, stop))
    number = np.dtype(np.complex128 if is_complex else np.float64)
    wanted = dtype_of(dtype, number)
    made = kd.empty(count, wanted, device=device)
    first, end = (number.type(each) for each in (start, stop))
    parts = max(count - 1 if endpoint else count, 1)
    if count:
        last = count - 1 if endpoint and count > 1 else -1
        whole = floored if wanted.kind in "iu" and not is_complex else itself
        _fill(made, first, number.type((end - first) / parts), end, last, number.type, whole)
    return made


@documented_creation
def meshgrid(*arrays: Any, indexing: str = "xy") -> list[kd.DeviceArray]:
    """Make arrays of coordinates from vectors of coordinates.

    Parameters
    ----------
    *arrays : array of shape (n,)
        The coordinates along each axis.
    indexing : str
        ``"xy"``: the first vector is along the second axis. ``"ij"``: along the first.

    {returns}
    >>> [each.tolist() for each in xp.meshgrid(xp.arange(2), xp.arange(2))]
    [[[0, 1], [0, 1]], [[0, 0], [1, 1]]]
    """
    if indexing not in ("xy", "ij"):
        raise wrong_value("indexing", indexing, "It must be 'xy' or 'ij'")
    vectors = [asarray(each) for each in arrays]
    for n, each in enumerate(vectors):
        if each.ndim > 1:
            raise wrong_value(f"arrays[{n}]", each, "It must be a vector")
    vectors = [each.reshape((-1,)) if not each.ndim else each for each in vectors]
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = 1, 0
    shape = tuple(vectors[n].shape[0] for n in order)
    made = []
    for n, each in enumerate(vectors):
        at: Any = tuple(slice(None) if m == n else None for m in order)
        made.append(each[at].broadcast_to(shape).copy())
    return made
