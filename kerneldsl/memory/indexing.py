"""Views of device arrays by NumPy's own indexing, without any memory."""

from __future__ import annotations

from types import EllipsisType
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.values import a_type
from kerneldsl.memory.geometry import ArrayGeometry

__all__ = ["BasicIndex", "byte_offset", "checked_index", "holds_array", "phantom"]

_BasicItem: TypeAlias = SupportsIndex | slice | EllipsisType | None
#: What a device array can be indexed with.
BasicIndex: TypeAlias = _BasicItem | tuple[_BasicItem, ...]

#: Types of items that most indices have, of which nothing else need be asked.
_USUAL = frozenset({int, slice, EllipsisType, type(None)})


def checked_index(index: Any) -> tuple[Any, ...]:
    """Return the items of an index that gives a view.

    Raises `ArgumentTypeError` if one of them is something else than an int, a slice, ``...`` or
    ``None``.
    """
    items = index if isinstance(index, tuple) else (index,)
    for item in items:
        # Of a class or a foreign object hasattr may say, or raise, anything.
        kind = type(item)
        if kind not in _USUAL and (
            kind in (bool, np.bool_)
            or not (
                (hasattr(kind, "__index__") and not hasattr(kind, "shape"))
                or isinstance(item, np.integer)
            )
        ):
            raise ArgumentTypeError(
                f"a device array cannot be indexed with {a_type(item)}",
                value=index,
                limit="Views are taken with ints, slices, ... and None, and copies with device "
                "arrays of booleans or integers",
                remedy="Copy the index to the device, with kd.to_device(index)",
            )
    if not any(item is Ellipsis for item in items):
        items = (*items, Ellipsis)  # so that NumPy gives a view of rank 0, not an element
    return items


def holds_array(index: Any) -> bool:
    """Return whether an index is a device array or has one in it, and so gives copies."""
    if type(index) in _USUAL:
        return False
    if isinstance(index, tuple):
        return any(isinstance(item, ArrayGeometry) for item in index)
    return isinstance(index, ArrayGeometry)


def phantom(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """Return a NumPy array over no memory of its own; its elements must not be touched.

    Views of it have the shape and strides of views of the array that it stands for.
    """
    # By the array interface, which has no names for the dtypes of other packages.
    known = dtype if dtype.isbuiltin == 1 else np.dtype(f"V{dtype.itemsize}")
    view = np.asarray(_Interface(shape, strides, known.str))
    return view if known is dtype else view.view(dtype)


def byte_offset(view: np.ndarray[Any, Any]) -> int:
    """Return how far a view of a phantom begins after the start of the phantom."""
    address: int = view.__array_interface__["data"][0]
    return address - _ADDRESS


class _Interface:
    """Tell NumPy, as an array's owner, that all phantoms begin at one address."""

    __slots__ = ("__array_interface__",)

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], code: str) -> None:
        place = {"shape": shape, "strides": strides, "typestr": code, "data": (_ADDRESS, True)}
        self.__array_interface__ = {**place, "version": 3}


#: Where phantoms begin; it is never read.
_MEMORY = np.empty(1, np.complex128)
_ADDRESS: int = _MEMORY.ctypes.data
