"""Copies from array to array on one device, of any layout."""

from __future__ import annotations

from typing import Any

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError

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
    """Copy an array over another of the same shape on the same device.

    Raises
    ------
    ArgumentTypeError
        Where they have more than three dimensions.
    """
    if out.ndim == 0:
        source, out = source.reshape(1), out.reshape(1)
    kernels = {1: copy_1d, 2: copy_2d, 3: copy_3d}
    if out.ndim not in kernels:
        raise ArgumentTypeError(
            f"a device array of {out.ndim} dimensions would have to be copied",
            value=tuple(out.shape),
            limit="Only arrays of up to 3 dimensions are, where they are not contiguous",
            remedy="Pass one that is contiguous in C order",
        )
    # Said, a conversion is meant: of floats to integers a launch would warn.
    convert = _as_it_is if source.dtype == out.dtype else out.dtype.type
    kernels[out.ndim].forall(*out.shape)(source, out, convert=convert)
