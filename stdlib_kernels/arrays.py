"""Array handling of library functions: bring to a device, allocate, return.

A function takes NumPy arrays or device arrays and returns the same kind. On a target with the
host's memory, NumPy arrays are used without a copy. For another target they are copied once, so
that a function of several kernels does not copy at each launch.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded import may_overlap
from kerneldsl.repeating.recorded_calls import is_captured, note_constant, note_made, note_scalar
from stdlib_kernels.checks import Array, Out, check_out
from stdlib_kernels.copying import copy_array
from stdlib_kernels.parameters import axis_or_flat

__all__ = [
    "allocate",
    "along_or_flat",
    "around_axis",
    "computed",
    "constant_beside",
    "contiguous",
    "contiguous_1d",
    "destination",
    "finish",
    "is_contiguous",
    "is_on_host",
    "on_device",
    "source_and_result",
    "to_host",
    "to_like",
]

#: Bytes of constants up to which a device keeps them.
MAX_KEPT_BYTES = 1 << 16


def on_device(array: Array) -> Array:
    """Return the array itself where kernels can reach it, else a copy on the current device."""
    if isinstance(array, kd.DeviceArray) or kd.current_target() == "cpu":
        return array
    return kd.to_device(array)


def along_or_flat(array: Array, axis: Any) -> tuple[Array, int]:
    """Return an array where kernels can reach it, and an axis from 0 on; flattened without one."""
    place = axis_or_flat(axis, array.ndim)
    if place is None:
        return contiguous(on_device(array)).reshape((-1,)), 0
    return on_device(array), place


def contiguous_1d(array: Array) -> Array:
    """Return all elements in C order as a one-dimensional array: a view where one is possible."""
    return array if array.ndim == 1 else contiguous(array).reshape(-1)


def contiguous(array: Array) -> Array:
    """Return an array with contiguous elements in C order: itself, or a copy."""
    if is_contiguous(array):
        return np.ascontiguousarray(array) if isinstance(array, np.ndarray) else array
    copy = allocate(array, array.shape, array.dtype)
    copy_array(array, copy)
    return copy


def around_axis(array: Array, axis: int) -> Array:
    """Return an array as three axes: all before one, that one, all after it; a view if possible.

    `axis` is from 0 on.
    """
    if array.ndim == 1:
        return array[None, :, None]
    if not array.ndim:
        return array.reshape((1, 1, 1))
    before, after = math.prod(array.shape[:axis]), math.prod(array.shape[axis + 1 :])
    return contiguous_1d(array).reshape((before, array.shape[axis], after))


def is_contiguous(array: Array) -> bool:
    """Return whether elements follow each other in C order without gaps."""
    if isinstance(array, kd.DeviceArray):
        return array.layout == "C"
    return bool(array.flags.c_contiguous)


def allocate(
    like: Array, shape: tuple[int, ...], dtype: np.dtype[Any], *, zero: bool = False
) -> Array:
    """Make an array of the kind of `like` and on its device."""
    made: Array
    if isinstance(like, np.ndarray):
        made = np.zeros(shape, dtype) if zero else np.empty(shape, dtype)
    else:
        made = (kd.zeros if zero else kd.empty)(shape, dtype, device=like.device)
    note_made(made, is_zero=zero)
    return made


def destination(
    source: Array, shape: tuple[int, ...], dtype: np.dtype[Any], out: Array | None, *inputs: Array
) -> Array:
    """Return `out` where kernels can write to it directly, else a new array beside `source`.

    It can if it has the kind of `source`, and shares no memory with an input.
    """
    reachable = isinstance(out, kd.DeviceArray) == isinstance(source, kd.DeviceArray)
    if out is None or not reachable or any(may_overlap(out, a) for a in (source, *inputs)):
        return allocate(source, shape, dtype)
    return out


def source_and_result(
    x: Array,
    out: Out,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *inputs: Array,
    any_layout: bool = False,
) -> tuple[Array, Array]:
    """Check `out`, and return where kernels read an array, and write a result of a shape.

    That is contiguous in C order, or with `any_layout` as `out` is; see `destination`.
    """
    check_out(out, like=x, shape=shape, dtype=dtype)
    source = on_device(x)
    usable = out if out is None or any_layout or is_contiguous(out) else None
    return source, destination(source, shape, dtype, usable, *inputs)


def to_like(like: Array, array: np.ndarray[Any, Any]) -> Array:
    """Return a NumPy array's elements as an array of the kind of `like`, on its device."""
    return array if isinstance(like, np.ndarray) else kd.to_device(array, device=like.device)


def constant_beside(like: Array, numbers: np.ndarray[Any, Any]) -> Array:
    """Return numbers that follow from a call's options beside an array; nothing writes them.

    A device keeps numbers of recent calls, because for a copy to a GPU the host waits for the GPU's
    earlier work.
    """
    if isinstance(like, np.ndarray):
        found: Array = np.ascontiguousarray(numbers)
    elif numbers.nbytes > MAX_KEPT_BYTES:
        return _upload(like.device, numbers)
    else:
        found = _uploaded(like.device, numbers.dtype, numbers.shape, numbers.tobytes())
        if found.is_closed:
            _uploaded.cache_clear()
            found = _uploaded(like.device, numbers.dtype, numbers.shape, numbers.tobytes())
    note_constant(found)
    return found


@lru_cache(64)
def _uploaded(
    device: kd.Device, dtype: np.dtype[Any], shape: tuple[int, ...], numbers: bytes
) -> kd.DeviceArray:
    return _upload(device, np.frombuffer(numbers, dtype).reshape(shape))


def _upload(device: kd.Device, numbers: np.ndarray[Any, Any]) -> kd.DeviceArray:
    """Copy numbers now, also while the current stream is captured."""
    stream = kd.default_stream(device) if is_captured(device) else None
    return kd.to_device(numbers, device=device, stream=stream)


def finish(result: Array, *, like: Array, out: Array | None = None) -> Any:
    """Return a result in `out`, or as an array of the kind of `like`.

    A result of rank 0 becomes a NumPy scalar where `like` is a NumPy array.
    """
    if out is None:
        host = isinstance(like, np.ndarray)
        found = result.copy_to_host() if host and isinstance(result, kd.DeviceArray) else result
        if host and found.ndim == 0:
            note_scalar(found)
            return found[()]
        return found
    if result is not out:
        copy_array(result, out)
    return out


def to_host(array: Array | np.generic) -> np.ndarray[Any, Any]:
    """Return an array's elements on the host."""
    return array.copy_to_host() if isinstance(array, kd.DeviceArray) else np.asarray(array)


def computed(array: Array | np.generic, instead: Any) -> Any:
    """Return the one element of an array, for which the host waits.

    On a device that runs no kernel, as in a dry run, it is what is given `instead`.
    """
    if isinstance(array, np.ndarray):
        return array.item(0)
    is_dry = isinstance(array, kd.DeviceArray) and array.device.is_simulated
    return instead if is_dry else to_host(array).reshape(-1)[0]


def is_on_host(array: Array) -> bool:
    """Return whether kernels of an array run on the host's cores."""
    return isinstance(array, np.ndarray) or array.device.shares_host_memory
