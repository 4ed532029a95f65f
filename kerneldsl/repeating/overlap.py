"""The memory that an array is in, which two arrays may share."""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.device_memory import PooledBuffer

__all__ = ["bounds_of", "may_overlap", "start_of"]


def start_of(array: Any) -> int:
    """Return the address of an array's first element."""
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.pointer)


def bounds_of(array: Any) -> tuple[int, int]:
    """Return the addresses between which an array's elements lie; see `start_of`."""
    low = high = start_of(array)
    if not array.size:
        return low, high
    if array.flags.c_contiguous if isinstance(array, np.ndarray) else array.layout == "C":
        return low, low + int(array.nbytes)
    for n, step in zip(array.shape, array.strides, strict=True):
        if step < 0:
            low += (n - 1) * step
        else:
            high += (n - 1) * step
    return low, high + int(array.dtype.itemsize)


def may_overlap(left: Any, right: Any) -> bool:
    """Return whether two arrays may share memory, by their bounds."""
    if isinstance(left, DeviceArray) != isinstance(right, DeviceArray):
        return False
    if isinstance(left, DeviceArray) and _are_of_two_buffers(left._owner, right._owner):
        return False
    low_left, high_left = bounds_of(left)
    low_right, high_right = bounds_of(right)
    return low_left < high_right and low_right < high_left


def _are_of_two_buffers(left: Any, right: Any) -> bool:
    """Return whether pools gave two owners their memory, each by itself."""
    return left is not right and type(left) is PooledBuffer and type(right) is PooledBuffer
