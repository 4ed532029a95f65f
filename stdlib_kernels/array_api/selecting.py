"""Indexing by arrays: by a mask or by integers, with copies and assignments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import a_type, as_int
from kerneldsl.repeating.recorded_calls import launch_over
from stdlib_kernels import movement
from stdlib_kernels.array_api.binary import add, multiply
from stdlib_kernels.array_api.manipulation import reshape
from stdlib_kernels.array_api.ranges import arange
from stdlib_kernels.arrays import contiguous
from stdlib_kernels.compact import compress, nonzero
from stdlib_kernels.copying import copy_elements
from stdlib_kernels.elementwise import where

__all__ = ["assign", "select"]


def select(x: kd.DeviceArray, index: Any) -> kd.DeviceArray:
    """Return the elements at an index that contains arrays, as a copy."""
    items = index if isinstance(index, tuple) else (index,)
    if len(items) == 1 and items[0].dtype == np.bool_:
        return _masked(x, items[0])
    places, first, count = _places(x, items)
    flat = _by_places(x, first, count)
    found: kd.DeviceArray = movement.take(flat, places, first, mode="clip")
    return found


def assign(x: kd.DeviceArray, index: Any, value: Any) -> None:
    """Replace elements of an array: all, or those at an index that contains arrays."""
    if index is ...:
        _fill_from(x, value)
        return
    items = index if isinstance(index, tuple) else (index,)
    if len(items) == 1 and items[0].dtype == np.bool_:
        _check_mask(x, items[0])
        if _is_one(value):
            shape = (*items[0].shape, *(1 for _ in x.shape[items[0].ndim :]))
            _fill_from(x, where(reshape(items[0], shape), _as_array(x, value), x))
            return
        if not items[0].ndim:
            raise _wrong_assignment("a mask of rank 0")
        items = nonzero(items[0])
    places, first, count = _places(x, items)
    if x.layout != "C":
        raise _wrong_assignment("an array that is not contiguous in C order")
    flat = _by_places(x, first, count)
    shape = (*x.shape[:first], *places.shape, *x.shape[first + count :])
    source = contiguous(_as_array(x, value).broadcast_to(shape))
    before, after = math.prod(x.shape[:first]), math.prod(x.shape[first + count :])
    n = places.size
    if not source.size:
        return
    launch_over(
        put_slices,
        (before, n, after),
        source.reshape((before, n, after)),
        places.reshape((n,)),
        flat.reshape((before, -1, after)),
    )


@kd.kernel(wraparound=False)
def put_slices(values, places, out):
    """Write slices: ``values[a, m, b], places[m], out[a, n, b]``."""
    i, j, k = kd.grid(3)
    out[i, places[j], k] = values[i, j, k]


def _fill_from(x: kd.DeviceArray, value: Any) -> None:
    """Copy another array, broadcast and converted, to an array."""
    source = value.broadcast_to(x.shape)
    if x.size:
        copy_elements(source, x)


def _is_one(value: Any) -> bool:
    return not isinstance(value, kd.DeviceArray | np.ndarray | list | tuple) or (
        isinstance(value, kd.DeviceArray | np.ndarray) and not value.ndim
    )


def _as_array(x: kd.DeviceArray, value: Any) -> kd.DeviceArray:
    """Return a value as an array of another one's dtype, on its device."""
    if isinstance(value, kd.DeviceArray):
        return value if value.dtype == x.dtype else value.astype(x.dtype)
    if isinstance(value, np.ndarray | list | tuple):
        return kd.to_device(np.asarray(value, x.dtype), device=x.device)
    return kd.full((), value, x.dtype, device=x.device)


def _check_mask(x: kd.DeviceArray, mask: kd.DeviceArray) -> None:
    if mask.ndim > x.ndim or mask.shape != x.shape[: mask.ndim]:
        raise IndexError(
            f"a mask of shape {mask.shape} does not fit an array of shape {x.shape}: it must "
            "have the array's first axes"
        )


def _masked(x: kd.DeviceArray, mask: kd.DeviceArray) -> kd.DeviceArray:
    """Return the slices that a mask selects; the host waits for their number."""
    if any(n != m and n for n, m in zip(mask.shape, x.shape, strict=False)):
        _check_mask(x, mask)
    if mask.ndim > x.ndim:
        _check_mask(x, mask)
    rest = x.shape[mask.ndim :]
    if mask.shape != x.shape[: mask.ndim]:  # a mask of no elements takes none
        return kd.empty((0, *rest), x.dtype, device=x.device)
    count = math.prod(mask.shape)
    flags = contiguous(mask).reshape((count,))
    slices = reshape(x, (count, *rest))
    if not x.size:
        found = int(np.count_nonzero(mask.copy_to_host())) if count else 0
        return kd.empty((found, *rest), x.dtype, device=x.device)
    taken: kd.DeviceArray = compress(flags, slices, axis=0)
    return taken


def _places(x: kd.DeviceArray, items: tuple[Any, ...]) -> tuple[kd.DeviceArray, int, int]:
    """Return the indices of integer arrays and ints in some axes, which are merged into one.

    The result includes the first of these axes, and their number.
    """
    each_axis = _without_ellipsis(x, items)
    whole = [isinstance(each, slice) and each == slice(None) for each in each_axis]
    named = [n for n, is_whole in enumerate(whole) if not is_whole]
    if not named or named != list(range(named[0], named[-1] + 1)):
        raise _wrong_index(items, "Arrays and ints stand side by side")
    first, total = named[0], None
    step = 1
    for axis in reversed(named):
        extent, item = x.shape[axis], each_axis[axis]
        if isinstance(item, kd.DeviceArray) and item.dtype.kind in "iu":
            place: Any = _wrapped(item, extent)
        elif not isinstance(item, bool | kd.DeviceArray) and as_int(item) is not None:
            number = int(item)
            if not -extent <= number < extent:
                raise IndexError(f"index {number} is out of bounds for axis {axis} of {extent}")
            place = number % extent
        else:
            raise _wrong_index(items, "Beside arrays an index has ints, : and ...")
        part = place * step if isinstance(place, int) else multiply(place, step)
        total = part if total is None else _sum(total, part)
        step *= extent
    if not isinstance(total, kd.DeviceArray):
        raise _wrong_index(items, "Arrays are of integers, or one of booleans is alone")
    return total, first, len(named)


def _sum(a: Any, b: Any) -> Any:
    return a + b if isinstance(a, int) and isinstance(b, int) else add(a, b)


def _wrapped(item: kd.DeviceArray, extent: int) -> kd.DeviceArray:
    """Return indices counted from 0; the host waits for the device, to report wrong ones."""
    counted = item.astype(np.int64)
    axis = arange(extent, device=item.device)
    found: kd.DeviceArray = movement.take(axis, counted, 0)
    return found


def _without_ellipsis(x: kd.DeviceArray, items: tuple[Any, ...]) -> list[Any]:
    """Return an item for each axis."""
    at = next((n for n, each in enumerate(items) if each is ...), len(items))
    given = [each for each in items if each is not ...]
    missing = x.ndim - len(given)
    if missing < 0 or len(items) - len(given) > 1 or any(each is None for each in given):
        raise _wrong_index(
            items, f"There must be one item for each of {x.ndim} axes, and none may be None"
        )
    given[at:at] = [slice(None)] * missing
    return given


def _by_places(x: kd.DeviceArray, first: int, count: int) -> kd.DeviceArray:
    """Return the array with some of its axes merged into one."""
    extent = math.prod(x.shape[first : first + count])
    found: kd.DeviceArray = reshape(x, (*x.shape[:first], extent, *x.shape[first + count :]))
    return found


def _wrong_index(items: Any, limit: str) -> ArgumentTypeError:
    words = ", ".join(map(a_type, items))
    return ArgumentTypeError(
        f"a device array cannot be indexed with {words}",
        value=items,
        limit=limit,
        remedy="Take a view first, or use stdlib_kernels.movement.take(…)",
    )


def _wrong_assignment(what: str) -> ArgumentValueError:
    return ArgumentValueError(
        f"several elements cannot be assigned through {what}",
        limit="Elements are assigned through masks and places of contiguous arrays",
        remedy="Copy the array first, with array.copy()",
    )
