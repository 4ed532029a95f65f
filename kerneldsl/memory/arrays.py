"""Arrays in the memory of a device."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from kerneldsl.contract import Device, MemoryType
from kerneldsl.contract.locations import Location, alignment_number
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, KernelError
from kerneldsl.errors.values import safe_repr
from kerneldsl.language.kinds import Layout
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.indexing import BasicIndex, byte_offset, checked_index, phantom
from kerneldsl.memory.operators import ArrayOperators
from kerneldsl.memory.pools import allocate
from kerneldsl.memory.strided import (
    Order,
    checked_dtype,
    contiguous_strides,
    read_dtype,
    read_host_array,
)
from kerneldsl.memory.transfer import fill_array, read_array, write_array
from kerneldsl.placement.devices import device_of
from kerneldsl.streams.current import stream_of
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.public_names import public_names
from kerneldsl.utilities.tracebacks import shorten, shorten_errors_of

__all__ = ["DeviceArray", "make_array", "new_array"]

#: The number by which the CUDA Array Interface names the legacy default stream.
_LEGACY_DEFAULT_STREAM = 1


#: What the rest of kerneldsl uses of an array; interpreters complete other names alone.
_INTERNAL = frozenset(
    {
        "as_numpy",
        "check_open",
        "check_writable",
        "code",
        "lend",
        "location",
        "note_use",
        "over",
        "packed",
        "seal",
    }
)


@shorten_errors_of("fill", *_INTERNAL)
class DeviceArray(ArrayOperators):
    """An array in the memory of one device.

    Made by :func:`kerneldsl.to_device`, :func:`kerneldsl.empty` and their like. Kernels take it as
    it is; plain Python sees its shape, takes views of it and copies it.

    Attributes
    ----------
    shape : tuple of int
        Extents.
    size : int
        Number of elements.
    strides : tuple of int
        Steps in bytes along each axis.
    dtype : numpy.dtype
        Of an element.
    pointer : int
        Address of the first element, on devices whose memory has addresses.
    device : Device
        Where it is.
    is_read_only : bool
        Whether kernels and copies may not write it.
    is_closed : bool
        Whether its memory was given back by :meth:`close`.

    Notes
    -----
    Indexing gives views (ints, slices, ``...``, ``None``, the name of a field of records), never
    elements: read with :meth:`copy_to_host` or :meth:`item`.

    References
    ----------
    NumPy, "The array interface protocol", version 3; Numba, "CUDA Array Interface", version 3.
    """

    __slots__ = ()

    def __init__(self, *args: Any, **named: Any) -> None:
        """Refuse: what is made of any address would end the process when it is used."""
        raise ArgumentTypeError(
            "DeviceArray was called",
            value=args,
            limit="Device arrays are made where their memory comes from",
            remedy="Write kd.empty(shape, dtype), kd.to_device(array) or kd.as_array(object)",
        )

    @property
    def T(self) -> Self:
        """View with the axes reversed."""
        return self._view(self._phantom().T)

    # ------------------------------------------------------------------ views

    def __getitem__(self, index: BasicIndex | str) -> Self:
        if isinstance(index, str):
            return self._field(index)
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

    def __setitem__(self, index: BasicIndex | str, value: Any) -> None:
        view = self[index]
        if isinstance(value, DeviceArray):
            if value.shape == view.shape and value.dtype == view.dtype:
                from kerneldsl.memory.copies import copy_between

                copy_between(view, value)
                return
            value = value.copy_to_host()
        source = read_host_array(value)
        if source.ndim == 0:
            view.fill(value)
            return
        try:
            source = np.broadcast_to(source, view.shape)
        except ValueError as error:
            raise ArgumentValueError(
                f"a value of shape {source.shape} was assigned to a view of shape {view.shape}",
                value=value,
                limit="Shapes are equal, or NumPy broadcasts the value's to the view's",
                remedy="Assign to a slice of the value's shape, as in array[:n] = value",
            ) from error
        view.copy_from_host(source)

    def reshape(self, *shape: int | tuple[int, ...]) -> Self:
        """Return a view of another shape; one extent may be -1.

        Raises
        ------
        ArgumentValueError
            If the array is not contiguous in C order, or the sizes differ.
        """
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        if self.layout != "C":
            raise ArgumentValueError(
                f"an array of shape {self.shape} and strides {self.strides} cannot be reshaped "
                "without a copy",
                value=wanted,
                limit="reshape gives views of arrays that are contiguous in C order",
            )
        try:
            return self._view(self._phantom().reshape(wanted))
        except Exception as error:
            raise ArgumentValueError(
                f"an array of shape {self.shape} cannot be reshaped to {safe_repr(wanted)}",
                value=wanted,
                limit=f"NumPy says: {error}",
            ) from error

    def transpose(self, *axes: Any) -> Self:
        """Return a view with the axes in another order: reversed, or as they are given.

        Raises
        ------
        ArgumentValueError
            If `axes`, ints or one tuple of them, is no permutation of the axes.
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

    def view(self, dtype: Any = None) -> Self:
        """Return a view of the same bytes, of another dtype if one is given.

        Parameters
        ----------
        dtype : dtype, optional
            Where its elements have another size, the last axis is contiguous and becomes longer or
            shorter, as in `numpy.ndarray.view`.

        Raises
        ------
        ArgumentTypeError
            If there are no device arrays of the dtype, or its elements would not be aligned.
        ArgumentValueError
            If the last axis is not contiguous, or its bytes make no whole number of elements.
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
                remedy="Take the view of a copy: copy.copy(array).view(dtype)",
            )
        return self._over(self.location, view.shape, view.strides, self.is_read_only, element)

    def _phantom(self) -> np.ndarray[Any, Any]:
        return phantom(self.shape, self.strides, self.dtype)

    def _view(self, view: np.ndarray[Any, Any]) -> Self:
        """Return the view of this array that is like a view of its phantom."""
        location = self.location + byte_offset(view)
        return self._over(location, view.shape, view.strides, self.is_read_only)

    def as_read_only(self) -> Self:
        """Return a view that neither kernels nor copies write."""
        return self._over(self.location, self.shape, self.strides, is_read_only=True)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a device array of rank 0")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        raise ArgumentTypeError(
            "a device array cannot be iterated over element by element",
            limit="Each element would be a transfer of its own",
            remedy="Iterate over array.copy_to_host(), or take views array[i] for i in "
            "range(len(array))",
        )

    # ------------------------------------------------------------------ copies

    def copy_to_host(
        self,
        out: np.ndarray[Any, Any] | None = None,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> np.ndarray[Any, Any]:
        """Copy the elements into a NumPy array, after what was started before has finished.

        Parameters
        ----------
        out : ndarray, optional
            Array of the same shape and dtype to copy into; a new one by default.
        stream : optional
            Stream whose work to wait for; the current stream.
        blocking : bool, optional
            Whether to wait for the copy. With ``False`` the elements are there when the stream has
            come so far; a new array is then in page-locked memory, because only from there the host
            can go on. A copy between arrays whose elements follow each other differently waits all
            the same.

        Returns
        -------
        ndarray
            `out`, or a new array: in Fortran order if this array is, else in C order.
        """
        self.check_open()
        blocking = read_flag("blocking", blocking)
        if out is None:
            order: Order = "F" if self.layout == "F" else "C"
            if blocking or self.device.is_synchronous:
                out = np.empty(self.shape, self.dtype, order=order)
            else:
                from kerneldsl.memory.host_memory import pinned_empty

                out = pinned_empty(self.shape, self.dtype, order=order, device=self.device)
        read_array(self, out, stream_of(self.device, stream), blocking=blocking)
        return out

    def copy_from_host(
        self, array: np.ndarray[Any, Any], stream: Any = None, *, blocking: bool = True
    ) -> None:
        """Overwrite the elements with those of a NumPy array of the same shape and dtype.

        Parameters
        ----------
        array : ndarray
            What to copy.
        stream : optional
            Stream in whose order the copy is made; the current stream.
        blocking : bool, optional
            Whether to return only when `array` may be changed. With ``False`` it must be left alone
            until the stream has come so far; it is kept alive until then. Only from page-locked
            memory (`kerneldsl.pinned_empty`) the host can go on meanwhile.
        """
        blocking = read_flag("blocking", blocking)
        write_array(self, array, stream_of(self.device, stream), blocking=blocking)

    def fill(self, value: Any, stream: Any = None) -> None:
        """Set every element to a value, converted to the dtype, in the stream's order.

        Raises
        ------
        ArgumentValueError
            If the dtype holds no such value; as in NumPy, a Python int does not wrap around.
        """
        try:
            self.check_writable()
            element = np.empty((), self.dtype)
            try:
                element[...] = value
            except KernelError:  # of a device array that is not converted by itself
                raise
            except Exception as error:
                raise ArgumentValueError(
                    f"an array of dtype {self.dtype} cannot be filled with {safe_repr(value)}",
                    value=value,
                    limit=f"NumPy says: {error}",
                    remedy="Pass one number that the dtype holds",
                ) from error
            fill_array(self, element, stream_of(self.device, stream))
        except KernelError as error:
            shorten(error)
            raise

    def item(self) -> Any:
        """Return the only element as a Python number; a transfer from the device."""
        if self.size != 1:
            raise ArgumentValueError(
                f"item() reads arrays of one element; this one has {self.size}",
                value=self.shape,
                remedy="Take a view of one element, or copy_to_host()",
            )
        return self.copy_to_host().item()

    def __copy__(self) -> DeviceArray:
        """Return an array of its own with the same elements on the same device, as NumPy does."""
        self.check_open()
        from kerneldsl.memory.copies import copy_between

        made = new_array(self.device, self.shape, self.dtype, "F" if self.layout == "F" else "C")
        copy_between(made, self)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the elements, copied to the host, and the device that they are restored on."""
        return _arrived, (self.copy_to_host(), str(self.device))

    # ------------------------------------------------------------------ memory

    def host_view(self) -> np.ndarray[Any, Any]:
        """Return a NumPy array over the same memory, after the device has come to rest.

        What kernels write later is there once they have finished: `kerneldsl.synchronize`.

        Raises
        ------
        ArgumentTypeError
            If the host cannot reach the memory.
        """
        self.check_open()
        pointer = None
        if self.is_managed:
            self.device.synchronize()
            pointer = self.pointer + self._owner.buffer.host_pointer - self._owner.buffer.pointer
        elif not self.device.shares_host_memory:
            raise ArgumentTypeError(
                f"the host cannot reach an array on {self.device}",
                value=self,
                limit="host_view() is there for managed arrays and arrays on the CPU",
                remedy="Use array.copy_to_host(), or make the array with kd.managed_empty",
            )
        self.lend()
        return self.as_numpy(self._owner, pointer)

    # ------------------------------------------------------------------ protocols

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA Array Interface, version 3; arrays on other targets have no such attribute."""
        if self.device.memory_type is not MemoryType.CUDA:
            raise AttributeError(f"an array on {self.device} has no __cuda_array_interface__")
        self.lend()
        current = stream_of(self.device, None)
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer if self.size else 0, self.is_read_only),
            "version": 3,
            "strides": None if self.layout == "C" else self.strides,
            # The stream that the consumer has to wait for.
            "stream": _LEGACY_DEFAULT_STREAM if current is None else current.handle,
        }

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface; only where the memory is the host's."""
        if not self.device.shares_host_memory:
            raise AttributeError(f"an array on {self.device} has no __array_interface__")
        if self.dtype.isbuiltin != 1:
            # NumPy then asks __array__, which has the dtype.
            raise AttributeError(f"the array interface has no name for {self.dtype}")
        self.lend()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, self.is_read_only),
            "version": 3,
            "strides": self.strides,
        }

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return a NumPy array over the same memory, or a copy; only for memory of the host."""
        self.check_open()
        if not self.device.shares_host_memory:
            raise ArgumentTypeError(
                f"an array on {self.device} is not converted to a NumPy array implicitly",
                value=self,
                limit="The copy to the host must be explicit",
                remedy="Use array.copy_to_host()",
            )
        self.lend()
        view = self.as_numpy(self)
        wanted = view.dtype if dtype is None else read_dtype(dtype)
        if view.dtype != wanted:
            if copy is False:
                raise ArgumentValueError(
                    "a conversion to another dtype needs a copy",
                    value=dtype,
                    limit="copy=False was given",
                    remedy="Leave copy away",
                )
            return view.astype(wanted)
        return view.copy() if copy is not None and read_flag("copy", copy) else view

    def __dlpack_device__(self) -> tuple[int, int]:
        from kerneldsl.memory import dlpack

        return dlpack.dlpack_device(self)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        from kerneldsl.memory import dlpack

        return dlpack.export(self, stream, max_version, dl_device, copy)

    def __dir__(self) -> list[str]:
        return public_names(super().__dir__(), _INTERNAL)

    def __repr__(self) -> str:
        from kerneldsl.memory.display import format_array

        return format_array(self)

    def _repr_html_(self) -> str:
        rows = {
            "shape": " × ".join(map(str, self.shape)) or "scalar",
            "dtype": str(self.dtype),
            "layout": {"C": "C contiguous", "F": "Fortran contiguous", "A": "strided"}[self.layout],
            "bytes": f"{self.nbytes:,}",
            "device": f"{self.device} ({self.device.name})",
        }
        cells = "".join(f"<tr><th>{k}</th><td>{v}</td></tr>" for k, v in rows.items())
        return f"<table><caption>DeviceArray</caption>{cells}</table>"


def make_array(
    device: Device,
    location: Location,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    owner: Any,
    is_read_only: bool = False,
    *,
    layout: Layout | None = None,
) -> DeviceArray:
    """Return an array over memory; the parameters are those of `ArrayGeometry`."""
    made = DeviceArray.__new__(DeviceArray)
    ArrayGeometry.__init__(
        made, device, location, shape, strides, dtype, owner, is_read_only, layout=layout
    )
    return made


def new_array(
    device: Device,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    order: Order = "C",
    stream: Any = None,
) -> DeviceArray:
    """Allocate a contiguous array from the active pool; see :func:`kerneldsl.empty`."""
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    buffer = allocate(device, size, stream)
    strides = contiguous_strides(shape, dtype.itemsize, order)
    layout: Layout | None = "C" if order == "C" else None
    return make_array(device, buffer.pointer, shape, strides, dtype, buffer, layout=layout)


def _arrived(elements: np.ndarray[Any, Any], device: str) -> DeviceArray:
    """Return the array that has been pickled, on the device of that name."""
    order: Order = "F" if elements.flags.fnc else "C"
    made = new_array(device_of(device), elements.shape, elements.dtype, order)
    made.copy_from_host(elements)
    return made
