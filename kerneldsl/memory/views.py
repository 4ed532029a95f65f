"""Views of device arrays: indices, fields, other shapes, axes and dtypes of the same memory.

NumPy computes a view from a phantom array with the same shape and strides, which is never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import EllipsisType
from typing import Any, Self, SupportsIndex, TypeAlias

import numpy as np

from kerneldsl.contract.locations import alignment_number
from kerneldsl.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    AttributeUnavailableError,
    KernelError,
)
from kerneldsl.errors.values import a_type, safe_repr
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.protocols import library_function
from kerneldsl.memory.strided import checked_dtype, checked_shape
from kerneldsl.utilities.tracebacks import shorten_errors_of

__all__ = ["ArrayViews", "BasicIndex", "byte_offset", "holds_array", "phantom"]


@shorten_errors_of()
class ArrayViews(ArrayGeometry):
    """Indexing of device arrays, and NumPy's methods that copy nothing."""

    __slots__ = ()

    @property
    def T(self) -> Self:
        """View with the axes reversed."""
        return self._view(self._phantom().T)

    @property
    def mT(self) -> Self:
        """View with the last two axes exchanged: each matrix of a stack transposed.

        Raises
        ------
        AttributeUnavailableError
            If there are fewer than two axes.
        """
        if len(self.shape) < 2:
            raise AttributeUnavailableError(
                f"an array of shape {self.shape} has no matrices to transpose",
                value="mT",
                limit="mT exchanges the last two axes",
                remedy="Add axes, as in array[None, :]",
            )
        return self._view(self._phantom().swapaxes(-1, -2))

    def __getitem__(self, index: BasicIndex | str) -> Self:
        if isinstance(index, str):
            return self._field(index)
        if holds_array(index):
            found: Self = library_function("select")(self, index)
            return found
        items = checked_index(index)
        try:
            return self._view(self._phantom()[items])
        except Exception as error:
            if isinstance(error, KernelError):
                raise
            if isinstance(error, IndexError) and re.search("out of bounds|too many", str(error)):
                raise  # as of a NumPy array; loops over indices end by it
            raise ArgumentTypeError(
                f"an array of shape {self.shape} cannot be indexed with {safe_repr(index)}",
                value=index,
                limit=f"NumPy says: {error}",
            ) from error

    def _field(self, name: str) -> Self:
        """Return the view of a field of every record."""
        if self.dtype.names is None or name not in self.dtype.names:
            known = ", ".join(self.dtype.names or ()) or "none"
            raise ArgumentTypeError(
                f"an array of dtype {self.dtype} cannot be indexed with {name!r}, no field",
                value=name,
                limit=f"Its fields are: {known}",
            )
        view = self._phantom()[name]
        location = self.location + byte_offset(view)
        element = view.dtype
        steps = (s for s, n in zip(view.strides, view.shape, strict=True) if n > 1)
        if any(n % element.alignment for n in (alignment_number(location), *steps)):
            raise ArgumentTypeError(
                f"the field {name!r} is not aligned in an array of dtype {self.dtype}",
                value=name,
                limit=f"A device reads {element} at multiples of {element.alignment} bytes",
                remedy="Make the dtype with align=True, or read the field in a kernel",
            )
        return self._over(location, view.shape, view.strides, self.is_read_only, element)

    def reshape(self, *shape: int | tuple[int, ...]) -> Self:
        """Return a view of another shape; one extent may be -1.

        Parameters
        ----------
        *shape : int or tuple of int
            The extents.

        Raises
        ------
        ArgumentValueError
            If the array is not contiguous in C order, or the sizes differ.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> kd.zeros(6).reshape(2, -1).shape
        (2, 3)
        """
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        if self.layout != "C":
            raise ArgumentValueError(
                f"an array of shape {self.shape} and strides {self.strides} cannot be reshaped "
                "without a copy",
                value=wanted,
                limit="reshape gives views of arrays that are contiguous in C order",
                remedy=f"Copy it first: array.copy().reshape({safe_repr(wanted)})",
            )
        try:
            return self._view(self._phantom().reshape(wanted))
        except KernelError:  # such as that of a closed array
            raise
        except Exception as error:
            raise ArgumentValueError(
                f"an array of shape {self.shape} cannot be reshaped to {safe_repr(wanted)}",
                value=wanted,
                limit=f"NumPy says: {error}",
            ) from error

    def transpose(self, *axes: Any) -> Self:
        """Return a view with the axes reversed, or in the given order.

        Parameters
        ----------
        *axes : int, or one tuple of int
            A permutation of the axes; by default the reversed order.

        Raises
        ------
        ArgumentValueError
            If `axes` is not a permutation of the axes.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> kd.zeros((2, 3, 4)).transpose(1, 0, 2).shape
        (3, 2, 4)
        """
        try:
            return self._view(self._phantom().transpose(*axes))
        except Exception as error:
            if isinstance(error, KernelError):
                raise
            raise ArgumentValueError(
                f"an array of shape {self.shape} cannot be transposed to the axes "
                f"{safe_repr(axes)}",
                value=axes,
                limit=f"NumPy says: {error}",
            ) from error

    def broadcast_to(self, shape: tuple[int, ...]) -> Self:
        """Return a read-only view of another shape, in which axes of extent 1 are repeated.

        Raises
        ------
        ArgumentValueError
            If the array cannot be broadcast to the shape.
        """
        extents = checked_shape(shape)
        try:
            view = np.broadcast_to(self._phantom(), extents)
        except (ValueError, OverflowError) as error:
            raise ArgumentValueError(
                f"an array of shape {self.shape} cannot be broadcast to {safe_repr(shape)}",
                value=shape,
                limit="Extents along an axis, counted from the last one, are equal or 1",
                remedy="Insert axes, as in x[:, None]",
            ) from error
        return self._over(self.location + byte_offset(view), view.shape, view.strides, True)

    def view(self, dtype: Any = None) -> Self:
        """Return a view of the same bytes, optionally with another dtype.

        Parameters
        ----------
        dtype : dtype, optional
            The dtype. If its elements have another size, the last axis must be contiguous and
            changes its length, as in `numpy.ndarray.view`.

        Raises
        ------
        ArgumentTypeError
            If there are no device arrays of the dtype, or its elements would not be aligned.
        ArgumentValueError
            If the last axis is not contiguous, or its bytes do not form whole elements.

        Examples
        --------
        >>> import numpy as np
        >>> import kerneldsl as kd
        >>> kd.to_device(np.ones(1, np.float32)).view("uint32").copy_to_host()
        array([1065353216], dtype=uint32)
        """
        element = self.dtype if dtype is None else checked_dtype(dtype)
        try:
            view = self._phantom().view(element)
        except (ValueError, TypeError) as error:
            raise ArgumentValueError(
                f"an array of shape {self.shape}, strides {self.strides} and dtype {self.dtype} "
                f"cannot be viewed as {element}",
                value=element,
                limit=f"NumPy says: {error}",
                remedy="Convert the elements with array.astype(dtype)",
            ) from error
        steps = (s for s, n in zip(view.strides, view.shape, strict=True) if n > 1)
        if any(n % element.alignment for n in (alignment_number(self.location), *steps)):
            raise ArgumentTypeError(
                f"elements of {element} would not be aligned in an array of dtype {self.dtype} "
                f"and strides {self.strides}",
                value=element,
                limit=f"A device reads such elements at multiples of {element.alignment} bytes",
                remedy="Take the view of a copy: array.copy().view(dtype)",
            )
        return self._over(self.location, view.shape, view.strides, self.is_read_only, element)

    def _phantom(self) -> np.ndarray[Any, Any]:
        return phantom(self.shape, self.strides, self.dtype)

    def _view(self, view: np.ndarray[Any, Any]) -> Self:
        """Return the view of this array that is like a view of its phantom."""
        location = self.location + byte_offset(view)
        return self._over(location, view.shape, view.strides, self.is_read_only)

    def as_read_only(self) -> Self:
        """Return a view that neither kernels nor copies may write.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> kd.zeros(3).as_read_only().is_read_only
        True
        """
        return self._over(self.location, self.shape, self.strides, is_read_only=True)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a device array of rank 0")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        raise ArgumentTypeError(
            "a device array cannot be iterated over element by element",
            limit="Each element would be a separate transfer",
            remedy="Iterate over array.copy_to_host(), or take views array[i] for i in "
            "range(len(array))",
        )


_BasicItem: TypeAlias = SupportsIndex | slice | EllipsisType | None
#: Types of indices of a device array.
BasicIndex: TypeAlias = _BasicItem | tuple[_BasicItem, ...]

#: Types of items that most indices have. They need no further check.
_USUAL = frozenset({int, slice, EllipsisType, type(None)})


def checked_index(index: Any) -> tuple[Any, ...]:
    """Return the items of an index that gives a view.

    Raises `ArgumentTypeError` if one of them is something else than an int, a slice, ``...`` or
    ``None``.
    """
    items = index if isinstance(index, tuple) else (index,)
    for item in items:
        # The result of hasattr for a class or a foreign object is arbitrary, and it may raise.
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
    """Return a NumPy array without memory; its elements must not be accessed.

    Views of it have the shape and strides of views of the array that it stands for.
    """
    # The array interface has no names for the dtypes of other packages.
    known = dtype if dtype.isbuiltin == 1 else np.dtype(f"V{dtype.itemsize}")
    view = np.asarray(_Interface(shape, strides, known.str))
    return view if known is dtype else view.view(dtype)


def byte_offset(view: np.ndarray[Any, Any]) -> int:
    """Return how far a view of a phantom begins after the start of the phantom."""
    address: int = view.__array_interface__["data"][0]
    return address - _ADDRESS


class _Interface:
    """Owner of all phantoms, which gives NumPy one address for them."""

    __slots__ = ("__array_interface__",)

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], code: str) -> None:
        place = {"shape": shape, "strides": strides, "typestr": code, "data": (_ADDRESS, True)}
        self.__array_interface__ = {**place, "version": 3}


#: Memory at the address of phantoms; it is never read.
_MEMORY = np.empty(1, np.complex128)
_ADDRESS: int = _MEMORY.ctypes.data
