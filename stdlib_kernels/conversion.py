"""Conversion of arrays to another dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError
from kerneldsl.utilities.tracebacks import shorten_errors
from stdlib_kernels.copying import copy_elements

__all__ = ["convert"]


@shorten_errors
def convert(array: kd.DeviceArray, dtype: Any) -> kd.DeviceArray:
    """Return a new array of another dtype, whose elements a kernel converts on the array's device.

    Parameters
    ----------
    array : device array
        Of any rank and layout.
    dtype : dtype
        The new one.

    Returns
    -------
    device array
        Of the same shape, contiguous in C order. Conversions are those of ``numpy.ndarray.astype``;
        a float that the new dtype does not hold becomes what the device makes of it.

    Raises
    ------
    kerneldsl.errors.ArgumentTypeError
        Where device arrays have no such dtype, or complex numbers would lose their imaginary parts.

    See Also
    --------
    numpy.ndarray.astype
    """
    made = kd.empty(array.shape, dtype, device=array.device)
    if array.dtype.kind == "c" and made.dtype.kind != "c":
        raise ArgumentTypeError(
            f"an array of dtype {array.dtype} was to be converted to {made.dtype}",
            value=np.dtype(dtype),
            limit="The imaginary parts would be lost",
            remedy="Write a kernel that takes .real, or abs(), of each element",
        )
    if not array.size:
        return made
    source, out = array, made
    if array.layout == "C" and array.ndim != 1:
        source, out = array.reshape(-1), made.reshape(-1)
    copy_elements(source, out)
    return made
