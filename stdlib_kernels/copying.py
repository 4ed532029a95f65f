"""Copies from array to array on one device, of any layout."""

from __future__ import annotations

from typing import Any

import kerneldsl as kd
from stdlib_kernels.repeating import launch_over

__all__ = ["copy_elements"]


def _as_it_is(v: Any) -> Any:
    return v


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


def copy_elements(source: kd.DeviceArray, out: kd.DeviceArray) -> None:
    """Copy an array of any rank over another of the same shape on the same device."""
    if out.ndim > 3:
        axis = out.shape.index(min(out.shape))  # there are the fewest launches along the shortest
        for i in range(out.shape[axis]):
            at: Any = (*(slice(None),) * axis, i)
            copy_elements(source[at], out[at])
        return
    if out.ndim == 0:
        source, out = source.reshape(1), out.reshape(1)
    kernel = {1: copy_1d, 2: copy_2d, 3: copy_3d}[out.ndim]
    # Said, a conversion is meant: of floats to integers a launch would warn.
    convert = _as_it_is if source.dtype == out.dtype else out.dtype.type
    launch_over(kernel, out.shape, source, out, convert=convert)
