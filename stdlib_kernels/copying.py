"""Copies from array to array on one device, of any layout."""

from __future__ import annotations

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError

__all__ = ["copy_elements"]


@kd.kernel(wraparound=False)
def copy_1d(source, out):
    i = kd.grid(1)
    if i < out.shape[0]:
        out[i] = source[i]


@kd.kernel(wraparound=False)
def copy_2d(source, out):
    i, j = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = source[i, j]


@kd.kernel(wraparound=False)
def copy_3d(source, out):
    i, j, k = kd.grid(3)
    if i < out.shape[0] and j < out.shape[1] and k < out.shape[2]:
        out[i, j, k] = source[i, j, k]


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
    kernels[out.ndim].forall(*out.shape)(source, out)
