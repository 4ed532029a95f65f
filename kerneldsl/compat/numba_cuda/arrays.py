"""numba.cuda's arrays: device arrays with its methods, and arrays that host and device share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kerneldsl.compat.numba_cuda.memory import IpcArrayHandle, MemoryPointer, allocate, context_now
from kerneldsl.compat.numba_cuda.streams import default_stream, stream_of
from kerneldsl.contract.locations import alignment_number
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.copies import copy_between
from kerneldsl.memory.creation import to_device
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.strided import byte_bounds
from kerneldsl.memory.views import byte_offset, phantom
from kerneldsl.placement.devices import current_device

__all__ = [
    "DeviceNDArray",
    "DeviceRecord",
    "array_core",
    "errmsg_contiguous_buffer",
    "from_array_like",
    "from_record_like",
    "is_contiguous",
    "is_cuda_ndarray",
    "require_cuda_ndarray",
    "verify_cuda_ndarray_interface",
]


class _Absent:
    """A name that numba.cuda's arrays lack, and kerneldsl's have."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        raise AttributeError("numba.cuda's arrays have no such attribute")


class DeviceNDArray(DeviceArray):
    """A device array with numba.cuda's methods; kernels of both vocabularies take it.

    Parameters
    ----------
    shape, strides : tuple of int
        Extents, and steps in bytes.
    dtype : dtype
        The dtype of the elements.
    stream : optional
        The stream of its copies, unless one is given.
    gpu_data : optional
        Memory of another array, as its ``gpu_data``; by default new memory.
    """

    __slots__ = ("_stream",)
    __cuda_ndarray__ = True
    __cuda_memory__ = True

    def __init__(
        self, shape: Any, strides: Any, dtype: Any, stream: Any = 0, gpu_data: Any = None
    ) -> None:
        extents, steps = integers(shape, "shape"), integers(strides, "strides")
        if len(steps) != len(extents):
            raise ValueError("strides not match ndim")
        element = np.dtype(dtype)
        if gpu_data is None:
            low, high = byte_bounds(0, extents, steps, element.itemsize)
            location, owner = allocate(int(high - low), stream)
            location -= low
        else:
            location, owner = gpu_data.location, gpu_data.keeper
        device = current_device()
        ArrayGeometry.__init__(self, device, location, extents, steps, element, owner, False)
        self._stream = stream

    @property
    def stream(self) -> Any:
        """The stream of its copies, unless one is given; 0 is the default stream."""
        return getattr(self, "_stream", 0)

    @stream.setter
    def stream(self, value: Any) -> None:
        self._stream = value

    @property
    def flags(self) -> dict[str, bool]:
        """Contiguity, as NumPy's flags name it."""
        found = phantom(self.shape, self.strides, self.dtype).flags
        return {"C_CONTIGUOUS": found.c_contiguous, "F_CONTIGUOUS": found.f_contiguous}

    @property
    def alloc_size(self) -> int:
        """The bytes from the first element to the last."""
        low, high = byte_bounds(0, self.shape, self.strides, self.dtype.itemsize)
        return int(high - low) if self.size else 0

    @property
    def gpu_data(self) -> MemoryPointer:
        """The memory."""
        return MemoryPointer.of(self)

    @property
    def device_ctypes_pointer(self) -> Any:
        """The address, as a ``ctypes.c_size_t``."""
        return self.gpu_data.device_ctypes_pointer

    @property
    def _numba_type_(self) -> Any:
        from kerneldsl.compat.numba_cuda.typing import type_of_array

        return type_of_array(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self.mark_foreign_use()
        stream = self.stream
        return {
            "shape": self.shape,
            "strides": None if is_contiguous(self) else self.strides,
            "data": (self.pointer if self.size else 0, False),
            "typestr": self.dtype.str,
            "stream": None if _is_default(stream) else int(stream),
            "version": 3,
        }

    @property
    def __array_interface__(self) -> dict[str, Any]:
        # NumPy then copies, with __array__, as it does of numba.cuda's arrays.
        raise AttributeError("a device array has no __array_interface__")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("`copy=False` is not supported. A copy is always created.")
        host: np.ndarray[Any, Any] = self.copy_to_host()
        return host if dtype is None else host.astype(dtype, copy=False)

    #: NumPy's functions then take copies on the host, as of numba.cuda's arrays.
    __array_function__ = __array_ufunc__ = _Absent()

    def _reduce(self, name: str, others: dict[str, Any], given: dict[str, Any]) -> Any:
        named = {key: each for key, each in {**given, **others}.items() if each is not None}
        return getattr(self.copy_to_host(), name)(**named)

    def get_ipc_handle(self) -> IpcArrayHandle:
        """Return a handle for other processes, if the memory manager makes one."""
        desc = {"shape": self.shape, "strides": self.strides, "dtype": self.dtype}
        return IpcArrayHandle(context_now().get_ipc_handle(self.gpu_data), desc)

    def is_c_contiguous(self) -> bool:
        """Return whether the last axis is contiguous, and the others follow."""
        return self.flags["C_CONTIGUOUS"]

    def is_f_contiguous(self) -> bool:
        """Return whether the first axis is contiguous, and the others follow."""
        return self.flags["F_CONTIGUOUS"]

    def bind(self, stream: Any = 0) -> DeviceNDArray:
        """Return a view with another default stream."""
        view = self._over(self.location, self.shape, self.strides, self.is_read_only)
        view._stream = stream
        return view

    # ------------------------------------------------------------------ elements

    def __getitem__(self, index: Any) -> Any:
        return self.getitem(index)

    def getitem(self, index: Any, stream: Any = 0) -> Any:
        """Return a view, or the value of one element."""
        view: Any = DeviceArray.__getitem__(self, index)
        if not isinstance(view, DeviceNDArray):  # a copy of the elements that an array chooses
            view = DeviceNDArray.over(view)
        view._stream = stream or self.stream
        if view.ndim or index is Ellipsis:
            return view
        if self.dtype.names is not None:
            return DeviceRecord.over(view)
        return view.copy_to_host()[()]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.setitem(index, value)

    def setitem(self, index: Any, value: Any, stream: Any = 0) -> None:
        """Assign a value, a host array or a device array to a view."""
        view = DeviceArray.__getitem__(self, index)
        source = value if isinstance(value, DeviceArray) else np.asarray(value)
        if source.ndim > view.ndim:
            raise ValueError(f"Can't assign {source.ndim}-D array to {view.ndim}-D self")
        padded = (1,) * (view.ndim - source.ndim) + tuple(source.shape)
        for axis, (wanted, given) in enumerate(zip(view.shape, padded, strict=True)):
            if given not in (1, wanted):
                raise ValueError(
                    f"Can't copy sequence with size {given} to array axis {axis} with dimension "
                    f"{wanted}"
                )
        where = stream_of(stream or self.stream)
        if isinstance(source, DeviceArray):
            if source.shape == view.shape and source.dtype == view.dtype:
                copy_between(view, source, where)
            else:
                view[...] = DeviceArray.copy_to_host(source)
        else:
            full = np.broadcast_to(source, view.shape).astype(view.dtype, copy=False)
            view.copy_from_host(full, where)
        if where is None:
            default_stream().synchronize()

    # ------------------------------------------------------------------ copies

    def copy_to_host(  # type: ignore[override]  # numba.cuda's parameters
        self, ary: Any = None, stream: Any = 0
    ) -> Any:
        """Copy the elements into a NumPy array, a new one by default."""
        if any(step < 0 for step in self.strides):
            raise NotImplementedError("D->H copy not implemented for negative strides")
        where = stream_of(stream or self.stream)
        if ary is None:
            return DeviceArray.copy_to_host(self, None, where)
        _check_compatible(self, ary)
        shaped = ary.reshape(self.shape) if ary.shape != self.shape else ary
        if not ary.size:
            return ary
        DeviceArray.copy_to_host(self, shaped, where, blocking=where is None)
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Overwrite the elements with those of a host or device array of this shape and dtype."""
        if ary.size == 0:
            return
        sentry_contiguous(self)
        where = stream_of(stream or self.stream)
        if isinstance(ary, DeviceArray):
            sentry_contiguous(ary)
            _check_compatible(self, ary)
            source = ary if ary.shape == self.shape else ary.reshape(self.shape)
            copy_between(self, source, where)
            return
        target, host = array_core(self), array_core(np.asarray(ary))
        _check_compatible(target, host)
        target.copy_from_host(host.reshape(target.shape), where)

    # ------------------------------------------------------------------ views

    def transpose(self, axes: Any = None) -> DeviceNDArray:
        """Return a transposed copy of a matrix."""
        if axes and tuple(axes) == tuple(range(self.ndim)):
            return self
        if self.ndim != 2:
            raise NotImplementedError("transposing a non-2D DeviceNDArray isn't supported")
        if axes is not None and set(axes) != set(range(self.ndim)):
            raise ValueError(f"invalid axes list {axes!r}")
        return transpose(self)

    @property
    def T(self) -> DeviceNDArray:
        """A transposed copy of a matrix."""
        return self.transpose()

    def reshape(self, *newshape: Any, **kws: Any) -> DeviceNDArray:
        """Return a view of another shape."""
        shape = newshape[0] if len(newshape) == 1 and not isinstance(newshape[0], int) else newshape
        return self._as(_reshaped(self, tuple(shape), **kws), kws.get("stream", 0))

    def ravel(self, order: str = "C", stream: Any = 0) -> DeviceNDArray:
        """Return a view of rank 1."""
        return self._as(_reshaped(self, (-1,), order=order), stream)

    def squeeze(self, axis: Any = None, stream: Any = 0) -> DeviceNDArray:
        """Return a view without axes of extent 1."""
        return self._as(self._phantom().squeeze(axis), stream)

    def view(self, dtype: Any = None) -> DeviceNDArray:
        """Return a view of the bytes with another dtype."""
        element = np.dtype(dtype)
        if element.itemsize != self.dtype.itemsize and not self.is_c_contiguous():
            raise ValueError(
                "To change to a dtype of a different size, the array must be C-contiguous"
            )
        return self._as(self._phantom().view(element), 0)

    def split(self, section: int, stream: Any = 0) -> Iterator[DeviceNDArray]:
        """Yield consecutive parts of `section` elements; the last may be shorter."""
        if self.ndim != 1:
            raise ValueError("only support 1d array")
        if self.strides[0] != self.dtype.itemsize:
            raise ValueError("only support unit stride")
        for begin in range(0, self.size, section):
            yield self.getitem(slice(begin, begin + section), stream)

    def _as(self, view: np.ndarray[Any, Any], stream: Any) -> DeviceNDArray:
        """Return the view of this memory that is like a view of its phantom."""
        location = self.location + byte_offset(view)
        if alignment_number(location) % max(view.dtype.alignment, 1):
            raise ValueError(f"elements of {view.dtype} are not aligned there")
        made = self._over(location, view.shape, view.strides, self.is_read_only, view.dtype)
        made._stream = stream or self.stream
        return made

    # ------------------------------------------------------------------ as an object

    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (DeviceArray.copy_to_host(self),)


def _arrived(elements: np.ndarray[Any, Any]) -> DeviceNDArray:
    return DeviceNDArray.over(to_device(elements))


def transpose(a: DeviceArray, b: DeviceArray | None = None) -> DeviceNDArray:
    """Return the transposed copy of a matrix, in `b` if that is given."""
    view = DeviceArray.transpose(a)
    if b is None:
        return DeviceNDArray.over(DeviceArray.copy(view))
    copy_between(b, DeviceArray.copy(view))
    return DeviceNDArray.over(b)


class DeviceRecord(DeviceNDArray):
    """A record on the device; its fields are its items.

    Parameters
    ----------
    dtype : dtype
        The dtype of the record.
    stream, gpu_data : optional
        As of :class:`DeviceNDArray`.
    """

    __slots__ = ()

    def __init__(self, dtype: Any, stream: Any = 0, gpu_data: Any = None) -> None:
        super().__init__((), (), dtype, stream, gpu_data)

    @property
    def _numba_type_(self) -> Any:
        return super()._numba_type_.dtype

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:  # type: ignore[override]
        """Copy the record into one of NumPy's, a new one by default."""
        if not isinstance(ary, np.void):
            return super().copy_to_host(ary, stream)
        _check_compatible(self, ary)
        record = super().copy_to_host(stream=stream)
        for name in self.dtype.names or ():
            ary[name] = record[name]
        return ary

    def _item(self, name: str) -> DeviceNDArray:
        host = self._phantom()[name]
        location = self.location + byte_offset(host)
        view = self._over(location, host.shape, host.strides, False, host.dtype)
        return DeviceNDArray.over(view)

    def getitem(self, index: Any, stream: Any = 0) -> Any:
        """Return the value of a field, or a view if the field is an array or a record."""
        if not isinstance(index, str):
            return super().getitem(index, stream)
        field = self._item(index)
        if field.ndim:
            return field
        return DeviceRecord.over(field) if field.dtype.names else field.copy_to_host()[()]

    def setitem(self, index: Any, value: Any, stream: Any = 0) -> None:
        """Assign to a field."""
        if isinstance(index, str):
            self._item(index).setitem(..., value, stream)
        else:
            super().setitem(index, value, stream)


def from_array_like(ary: Any, stream: Any = 0, gpu_data: Any = None) -> DeviceNDArray:
    """Make an array with undefined elements, of the strides of another."""
    return DeviceNDArray(ary.shape, ary.strides, ary.dtype, stream, gpu_data)


def from_record_like(rec: Any, stream: Any = 0, gpu_data: Any = None) -> DeviceRecord:
    """Make a record with undefined fields, like another."""
    return DeviceRecord(rec.dtype, stream, gpu_data)


def is_cuda_ndarray(obj: Any) -> bool:
    """Return whether an object is one of numba.cuda's arrays."""
    return bool(getattr(obj, "__cuda_ndarray__", False))


def _is_default(stream: Any) -> bool:
    return isinstance(stream, int) and stream == 0


def integers(values: Any, what: str) -> tuple[int, ...]:
    """Return a shape or strides as ints."""
    if isinstance(values, int):
        return (values,)
    for each in values:
        if not isinstance(each, (int, np.integer)):
            raise TypeError(f"{what} elements must be integers, got {type(each).__name__}")
    return tuple(int(each) for each in values)


def array_core(ary: Any) -> Any:
    """Return the part of an array that is not repeated: one element of each axis of stride 0."""
    if 0 not in ary.strides or not ary.size:
        return ary
    index = (*(0 if step == 0 else slice(None) for step in ary.strides), ...)
    return DeviceArray.__getitem__(ary, index) if isinstance(ary, DeviceArray) else ary[index]


def is_contiguous(ary: Any) -> bool:
    """Return whether an array is in C order, except along axes of extent 1 and of stride 0."""
    return bool(array_core(phantom(ary.shape, ary.strides, ary.dtype)).flags.c_contiguous)


def require_cuda_ndarray(obj: Any) -> None:
    """Raise ``ValueError`` if an object is not one of numba.cuda's arrays."""
    if not is_cuda_ndarray(obj):
        raise ValueError("require an cuda ndarray object")


def verify_cuda_ndarray_interface(obj: Any) -> None:
    """Raise if an object lacks what numba.cuda's arrays have."""
    require_cuda_ndarray(obj)
    for name, kind in (("shape", tuple), ("strides", tuple), ("dtype", np.dtype), ("size", int)):
        if not hasattr(obj, name):
            raise AttributeError(name)
        if not isinstance(getattr(obj, name), kind):
            raise AttributeError(f"{name} must be of type {kind}")


def sentry_contiguous(ary: Any) -> None:
    """Raise ``ValueError`` if an array has gaps; axes that are repeated count once."""
    core = array_core(phantom(ary.shape, ary.strides, ary.dtype))
    if ary.size and not (core.flags.c_contiguous or core.flags.f_contiguous):
        raise ValueError(errmsg_contiguous_buffer)


#: numba.cuda's message about an array with gaps.
errmsg_contiguous_buffer = (
    "Array contains non-contiguous buffer and cannot be transferred as a single memory region. "
    "Please ensure contiguous buffer with numpy .ascontiguousarray()"
)


def _check_compatible(device: DeviceArray, other: Any) -> None:
    """Raise if elements cannot be copied one to one; axes of extent 1 do not count."""
    if other.dtype != device.dtype:
        raise TypeError(f"incompatible dtype: {device.dtype} vs. {other.dtype}")
    ours, theirs = (tuple(n for n in each.shape if n != 1) for each in (device, other))
    if ours != theirs:
        raise ValueError(f"incompatible shape: {tuple(device.shape)} vs. {tuple(other.shape)}")
    steps = [
        [s for s, n in zip(each.strides, each.shape, strict=True) if n != 1]
        for each in (device, other)
    ]
    if device.size and steps[0] != steps[1] and isinstance(other, DeviceArray):
        raise ValueError(f"incompatible strides: {device.strides} vs. {other.strides}")


def _reshaped(
    array: DeviceNDArray, shape: tuple[int, ...], order: str = "C", **unknown: Any
) -> np.ndarray[Any, Any]:
    """Return the phantom in another shape; raise if that needs a copy."""
    if unknown:
        raise TypeError(f"unknown keyword arguments {list(unknown)}")
    if order not in ("C", "F", "A"):
        raise ValueError(f"order not C|F|A, found {order!r}")
    if order == "A":
        order = "F" if array.is_f_contiguous() and not array.is_c_contiguous() else "C"
    if not (array.is_c_contiguous() if order == "C" else array.is_f_contiguous()):
        raise NotImplementedError("operation requires copying")
    return array._phantom().reshape(shape, order="C" if order == "C" else "F")
