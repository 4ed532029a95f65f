"""Shapes, strides and the memory they span, independent of any device."""

from __future__ import annotations

import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import c_size_t
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from kerneldsl.contract.locations import Location
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, KernelError
from kerneldsl.errors.kernels import wrong_value
from kerneldsl.errors.values import as_int, safe_repr
from kerneldsl.language.element_types import (
    DTYPE_NAMES,
    ELEMENT_TYPES,
    NUMPY_NAMES,
    element_name,
    numpy_dtype,
)
from kerneldsl.language.kinds import Layout

__all__ = [
    "MAX_AXES",
    "MAX_RUNS",
    "HostMemory",
    "Order",
    "Pieces",
    "Shape",
    "address_of",
    "as_strided_like",
    "byte_bounds",
    "checked_dtype",
    "checked_order",
    "checked_shape",
    "contiguous_strides",
    "copy_pieces",
    "host_view",
    "is_dense",
    "layout_of",
    "overlapping",
    "read_dtype",
    "read_host_array",
    "same_memory_order",
]


_T = TypeVar("_T")

Shape: TypeAlias = int | tuple[int, ...]
#: "C": the last axis is contiguous in memory; "F": the first.
Order: TypeAlias = Literal["C", "F"]


_KNOWN_DTYPES = frozenset(map(numpy_dtype, NUMPY_NAMES))
#: Dtypes by their most usual names, which are classes: a look-up costs less than NumPy's
#: conversion.
_DTYPES_OF_CLASSES: dict[type, np.dtype[Any]] = {
    **{dtype.type: dtype for dtype in _KNOWN_DTYPES},
    **{kind: np.dtype(kind) for kind in (bool, float, complex)},
}
_C = "C"
#: Contiguous pieces of a copy: locations of destination and source, and bytes.
Pieces: TypeAlias = list[tuple[Location, Location, int]]
#: NumPy arrays have no more.
MAX_AXES = 64
#: Most contiguous runs that are copied one by one; more are copied as one span.
MAX_RUNS = 256


def checked_shape(shape: Any) -> tuple[int, ...]:
    """Return the extents as ints; raise `ArgumentTypeError` or `ArgumentValueError` for others."""
    if type(shape) is int and shape >= 0:
        return (shape,)
    if type(shape) is tuple and len(shape) <= MAX_AXES:
        for extent in shape:
            if type(extent) is not int or not 0 <= extent < 2**63:
                break
        else:
            return shape
    is_sequence = isinstance(shape, Sequence) or (isinstance(shape, np.ndarray) and shape.ndim)
    if is_sequence and len(shape) > MAX_AXES:
        raise ArgumentValueError(
            f"shape {safe_repr(shape)} has {len(shape)} extents",
            value=shape,
            limit=f"An array has {MAX_AXES} axes at most, as NumPy's",
        )
    items = tuple(shape) if is_sequence else (shape,)
    extents = tuple(n for n in map(as_int, items) if n is not None)
    if len(extents) != len(items):
        raise ArgumentTypeError(
            f"shape {safe_repr(shape)} contains a value that is not an int",
            value=shape,
            limit="A shape must be an int or a tuple of ints",
            remedy="Use // where a division gives a float",
        )
    if not all(0 <= n < 2**63 for n in extents):
        raise ArgumentValueError(
            f"shape {safe_repr(shape)} has a negative extent, or one beyond int64",
            value=shape,
            limit="Extents must be 0 or more, and fit int64",
            remedy="Pass the number of elements of each axis; reshape alone computes one",
        )
    return extents


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype, if device arrays of it exist; raise `ArgumentTypeError` otherwise."""
    if isinstance(dtype, type):
        known = _DTYPES_OF_CLASSES.get(dtype)
        if known is not None:
            return known
    is_name = isinstance(dtype, str) and dtype in ELEMENT_TYPES
    is_name = is_name and not ELEMENT_TYPES[dtype].is_vector  # of which NumPy has no dtype
    found: np.dtype[Any] = numpy_dtype(dtype) if is_name else read_dtype(dtype)
    if found in _KNOWN_DTYPES:
        return found
    if element_name(found) is None:
        from kerneldsl.errors.conversions import odd_dtype

        shown, limit, remedy = odd_dtype(found, DTYPE_NAMES)
        # The dtype may be that of an array, or one that a constructor was given.
        raise ArgumentTypeError(
            f"there are no device arrays of dtype {shown}",
            value=found,
            limit=limit,
            remedy=f"Choose another dtype. If you have an array, {remedy[0].lower()}{remedy[1:]}",
        )
    return found


def read_dtype(dtype: Any) -> np.dtype[Any]:
    """Return NumPy's dtype for an object; raise `ArgumentTypeError` if there is none."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except Exception as error:
        raise ArgumentTypeError(
            f"{safe_repr(dtype)} is not a dtype",
            value=dtype,
            limit=f"dtypes are {', '.join(DTYPE_NAMES)}",
            remedy="Write np.float32; extents are one tuple: kd.empty((3, 4))",
        ) from error
    return found


def checked_order(order: Any) -> Order:
    """Return the order; raise `ArgumentValueError` if it is neither "C" nor "F"."""
    if order is _C:  # as it mostly is; an array that is equal to it is refused below
        return "C"
    if isinstance(order, str) and order in ("C", "F"):
        return "C" if order == "C" else "F"
    raise wrong_value("order", order, 'It must be "C" or "F"')


def read_host_array(value: Any, dtype: np.dtype[Any] | None = None) -> np.ndarray[Any, Any]:
    """Return NumPy's array of an object; raise `ArgumentTypeError` if NumPy cannot make one.

    With a `dtype` of records, a tuple is one record, and a number is the value of every field.
    """
    try:
        return np.asarray(value, dtype)
    except KernelError:  # of a device array that is not converted implicitly
        raise
    except Exception as error:
        raise ArgumentTypeError(
            f"{safe_repr(value)} cannot be made an array",
            value=value,
            limit=f"NumPy says: {type(error).__name__}: {error}",
            remedy="Pass a NumPy array, or numbers in lists of equal lengths"
            if dtype is None
            else f"Pass a tuple with a value for each field of {dtype}, or a list of such tuples",
        ) from error


def contiguous_strides(shape: tuple[int, ...], itemsize: int, order: str = "C") -> tuple[int, ...]:
    """Return the strides in bytes of a contiguous array of a shape, in C or Fortran order."""
    if len(shape) == 1:
        return (itemsize,)
    strides = [0] * len(shape)
    step = itemsize
    for axis in reversed(range(len(shape))) if order == "C" else range(len(shape)):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Layout:
    """Return contiguity as NumPy sees it: axes of extent 1 are ignored, empty arrays contiguous."""
    if 0 in shape:
        return "C"
    for layout in ("C", "F"):
        wanted = contiguous_strides(shape, itemsize, layout)
        if all(n == 1 or s == w for n, s, w in zip(shape, strides, wanted, strict=True)):
            return "C" if layout == "C" else "F"
    return "A"


def byte_bounds(
    start: Location, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> tuple[Location, Location]:
    """Return the first and past-the-last location of an array; both the start if it is empty."""
    low = high = start
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 0:
            return start, start
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high + itemsize


def overlapping(
    items: Iterable[_T], byte_range: Callable[[_T], tuple[Location, Location]]
) -> list[tuple[Location, Location, list[_T]]]:
    """Group items with overlapping bytes.

    Return for each group its first and past-the-last location and its items, in their order.
    """
    groups: list[tuple[Location, Location, list[_T]]] = []
    ranges = [(*byte_range(item), item) for item in items]
    for low, high, item in sorted(ranges, key=operator.itemgetter(0)):
        if groups and low < groups[-1][1]:
            first, end, group = groups[-1]
            groups[-1] = first, max(end, high), [*group, item]
        else:
            groups.append((low, high, [item]))
    return groups


def is_dense(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Return whether every byte from the first to the last element belongs to one element."""
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
    """Return whether two arrays have the same order in memory; extents of 1 do not matter."""
    return all(n == 1 or a == b for n, a, b in zip(shape, left, right, strict=True))


class HostMemory:
    """Memory at an address, as NumPy's array interface; keeps its owner alive."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        #: Owner of the memory.
        self.owner = owner


def host_view(
    pointer: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    owner: Any,
    is_read_only: bool = False,
) -> np.ndarray[Any, Any]:
    """Return a NumPy array over host memory of another owner."""
    if 0 in shape:  # an empty array may have the null address, which NumPy does not take
        return np.empty(shape, dtype)
    interface = {
        "shape": shape,
        "strides": strides,
        # The array interface has no names for the dtypes of other packages.
        "typestr": dtype.str if dtype.isbuiltin == 1 else f"|V{dtype.itemsize}",
        "data": (pointer, is_read_only),
        "version": 3,
    }
    view = np.asarray(HostMemory(interface, owner))
    return view if view.dtype == dtype else view.view(dtype)


def as_strided_like(array: np.ndarray[Any, Any], strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return the array, copied if it has other strides."""
    if same_memory_order(array.shape, strides, array.strides):
        return array
    low, high = byte_bounds(0, array.shape, strides, array.itemsize)
    memory = np.empty(high - low, np.uint8)
    ordered = host_view(memory.ctypes.data - low, array.shape, strides, array.dtype, memory)
    ordered[...] = array
    return ordered


# --------------------------------------------------------------------------- copies


def copy_pieces(
    shape: tuple[int, ...],
    itemsize: int,
    destination: tuple[Location, tuple[int, ...]],
    source: tuple[Location, tuple[int, ...]],
    max_count: int = MAX_RUNS,
) -> Pieces | None:
    """Plan a copy between two arrays of one shape, as a list of contiguous pieces.

    `destination` and `source` are the location of the first element, and strides in bytes; no
    extent is 0. Return the location of the destination and of the source and the bytes of each
    piece, or ``None`` for more than `max_count` pieces.

    Examples
    --------
    >>> copy_pieces((2, 3), 4, (0, (12, 4)), (100, (12, 4)))
    [(0, 100, 24)]
    >>> copy_pieces((2, 3), 4, (0, (12, 4)), (100, (40, 4)))
    [(0, 100, 12), (12, 140, 12)]
    """
    (to, left), (come_from, right) = destination, source
    if is_dense(shape, left, itemsize) and same_memory_order(shape, left, right):
        low, high = byte_bounds(to, shape, left, itemsize)
        return [(low, come_from + (low - to), high - low)]
    if max_count == 1:
        return None
    axis = max(_run_axis(shape, left, itemsize), _run_axis(shape, right, itemsize))
    if math.prod(shape[:axis]) > max_count:
        return None
    nbytes = math.prod(shape[axis:]) * itemsize
    starts = zip(_offsets(shape[:axis], left), _offsets(shape[:axis], right), strict=True)
    return [(to + a, come_from + b, nbytes) for a, b in starts]


def _run_axis(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    """Return the first axis from which on the elements are contiguous in C order."""
    step = itemsize
    axis = len(shape)
    while axis and (shape[axis - 1] == 1 or strides[axis - 1] == step):
        axis -= 1
        step *= shape[axis]
    return axis


def _offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> Iterator[int]:
    """Return each element's byte offset from the first, in C order; further strides are ignored."""
    steps = ([i * s for i in range(n)] for n, s in zip(shape, strides, strict=False))
    return map(sum, itertools.product(*steps))


# --------------------------------------------------------------------------- addresses


def _interface_address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


_DATA_OFFSET = object.__basicsize__
_from_address = c_size_t.from_address


def _member_address(array: np.ndarray[Any, Any]) -> int:
    # PyArrayObject begins with the object's head, then ``char *data`` (NumPy C API, "Python Types
    # and C-Structures"). Reading it there takes a tenth of the time of array.ctypes.data.
    return _from_address(id(array) + _DATA_OFFSET).value


def _choose_address() -> Callable[[np.ndarray[Any, Any]], int]:
    probe = np.zeros((3, 3))[1:, 2]
    if sys.implementation.name == "cpython" and _member_address(probe) == _interface_address(probe):
        return _member_address
    return _interface_address


#: The address of an array's first element.
address_of = _choose_address()
