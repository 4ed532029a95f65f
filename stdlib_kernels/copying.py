"""Copies from array to array, of any layout, and conversions."""

from __future__ import annotations

from typing import Any

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch_over, run_on_host
from kerneldsl.utilities.tracebacks import shorten_errors
from stdlib_kernels.parameters import check_conversion

__all__ = ["convert", "copy_array", "copy_elements", "is_true", "itself"]


def itself(v: Any) -> Any:
    """Return the value."""
    return v


def is_true(v: Any) -> Any:
    """Return whether a number is not 0."""
    return v != 0


@kd.kernel(wraparound=False)
def copy_1d(source, out, *, convert):
    i = kd.grid(1)
    if i < out.shape[0]:
        out[i] = convert(source[i])


@kd.kernel(wraparound=False)
def copy_2d(source, out, *, convert):
    i, j = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = convert(source[i, j])


@kd.kernel(wraparound=False)
def copy_3d(source, out, *, convert):
    i, j, k = kd.grid(3)
    if i < out.shape[0] and j < out.shape[1] and k < out.shape[2]:
        out[i, j, k] = convert(source[i, j, k])


def copy_elements(source: kd.DeviceArray, out: kd.DeviceArray, convert: Any = None) -> None:
    """Copy an array of any rank over another of the same shape on the same device.

    A function may be given that each element goes through.
    """
    if out.ndim > 3:
        axis = out.shape.index(min(out.shape))  # there are the fewest launches along the shortest
        for i in range(out.shape[axis]):
            at: Any = (*(slice(None),) * axis, i)
            copy_elements(source[at], out[at], convert)
        return
    if out.ndim == 0:
        source, out = source.reshape(1), out.reshape(1)
    kernel = {1: copy_1d, 2: copy_2d, 3: copy_3d}[out.ndim]
    if convert is None:
        # An explicit conversion is intended; a launch would warn of one from floats to integers.
        convert = itself if source.dtype == out.dtype else out.dtype.type
    launch_over(kernel, out.shape, source, out, convert=convert)


def copy_array(source: Any, out: Any) -> None:
    """Copy an array over another of the same shape, each on a device or on the host."""
    if isinstance(source, kd.DeviceArray) and isinstance(out, kd.DeviceArray):
        copy_elements(source, out)
        return
    run_on_host(_assign, source, out)


def _assign(source: Any, out: Any) -> None:
    out[...] = source.copy_to_host() if isinstance(source, kd.DeviceArray) else source


@shorten_errors
def convert(array: kd.DeviceArray, dtype: Any) -> kd.DeviceArray:
    """Return a new array of another dtype; a kernel converts the elements on the array's device.

    This is `kerneldsl.DeviceArray.astype`.
    """
    made = kd.empty(array.shape, dtype, device=array.device)
    is_truth = array.dtype.kind == "c" and made.dtype.kind == "b"  # which loses no part
    if not is_truth:
        check_conversion(array.dtype, made.dtype)
    if not array.size:
        return made
    source, out = array, made
    if array.layout == "C" and array.ndim != 1:
        source, out = array.reshape(-1), made.reshape(-1)
    copy_elements(source, out, is_true if is_truth else None)
    return made
