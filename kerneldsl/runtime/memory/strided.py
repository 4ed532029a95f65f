"""Shapes, strides and the memory they span, without any device."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from ctypes import c_size_t
from typing import Any

import numpy as np

from kerneldsl.language.kinds import Layout

__all__ = [
    "HostMemory",
    "address_of",
    "as_strided_like",
    "byte_bounds",
    "contiguous_strides",
    "host_view",
    "is_dense",
    "layout_of",
    "offsets",
    "run_axis",
    "same_memory_order",
]


def contiguous_strides(shape: tuple[int, ...], itemsize: int, order: str = "C") -> tuple[int, ...]:
    """Strides in bytes of a contiguous array of a shape, in C or Fortran order."""
    if len(shape) == 1:
        return (itemsize,)
    strides = [0] * len(shape)
    step = itemsize
    for axis in reversed(range(len(shape))) if order == "C" else range(len(shape)):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Layout:
    """Contiguity as NumPy sees it: axes of extent 1 do not matter, empty arrays are contiguous."""
    if 0 in shape:
        return "C"
    for layout in ("C", "F"):
        wanted = contiguous_strides(shape, itemsize, layout)
        if all(n == 1 or s == w for n, s, w in zip(shape, strides, wanted, strict=True)):
            return "C" if layout == "C" else "F"
    return "A"


def byte_bounds(
    pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> tuple[int, int]:
    """First and past-the-last address of a strided array; both the pointer if it is empty."""
    low = high = pointer
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 0:
            return pointer, pointer
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high + itemsize


def is_dense(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether every byte between the first and the last element belongs to exactly one element."""
    step = itemsize
    axes = sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n != 1)
    for stride, extent in axes:
        if stride != step:
            return 0 in shape
        step *= extent
    return True


def same_memory_order(
    shape: tuple[int, ...], left: tuple[int, ...], right: tuple[int, ...]
) -> bool:
    """Whether elements follow each other in memory in the same way; extents of 1 do not matter."""
    return all(n == 1 or a == b for n, a, b in zip(shape, left, right, strict=True))


class HostMemory:
    """Memory at an address, as NumPy's array interface; keeps its owner alive."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        #: What keeps the memory alive.
        self.owner = owner


def host_view(
    pointer: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    owner: Any,
    is_read_only: bool = False,
) -> np.ndarray[Any, Any]:
    """A NumPy array over host memory that belongs to somebody else."""
    if 0 in shape:  # an empty array may have the null address, which NumPy does not take
        return np.empty(shape, dtype)
    interface = {
        "shape": shape,
        "strides": strides,
        "typestr": dtype.str,
        "data": (pointer, is_read_only),
        "version": 3,
    }
    view = np.asarray(HostMemory(interface, owner))
    # The array interface has no names for the dtypes of other packages.
    return view if view.dtype == dtype else view.view(dtype)


def as_strided_like(array: np.ndarray[Any, Any], strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The array, copied if its elements do not follow each other in memory as the strides say."""
    if same_memory_order(array.shape, strides, array.strides):
        return array
    low, high = byte_bounds(0, array.shape, strides, array.itemsize)
    memory = np.empty(high - low, np.uint8)
    ordered = host_view(memory.ctypes.data - low, array.shape, strides, array.dtype, memory)
    ordered[...] = array
    return ordered


def run_axis(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    """First axis from which on the elements are contiguous in C order."""
    step = itemsize
    axis = len(shape)
    while axis and (shape[axis - 1] == 1 or strides[axis - 1] == step):
        axis -= 1
        step *= shape[axis]
    return axis


def offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> Iterator[int]:
    """Distance in bytes of each element from the first, in C order; further strides are ignored."""
    for index in np.ndindex(*shape):
        yield sum(i * s for i, s in zip(index, strides, strict=False))


# --------------------------------------------------------------------------- addresses


def _interface_address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


_DATA_OFFSET = object.__basicsize__
_from_address = c_size_t.from_address


def _member_address(array: np.ndarray[Any, Any]) -> int:
    # PyArrayObject begins with the object's head, then ``char *data`` (NumPy C API, "Python Types
    # and C-Structures"); reading it there takes a tenth of the time of array.ctypes.data.
    return _from_address(id(array) + _DATA_OFFSET).value


def _choose_address() -> Callable[[np.ndarray[Any, Any]], int]:
    probe = np.zeros((3, 3))[1:, 2]
    if sys.implementation.name == "cpython" and _member_address(probe) == _interface_address(probe):
        return _member_address
    return _interface_address


#: The address of an array's first element.
address_of = _choose_address()
