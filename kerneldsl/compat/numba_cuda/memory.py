"""Memory as numba.cuda's driver names it: pointers, and copies of bytes."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from kerneldsl.compat.numba_cuda.errors import translating
from kerneldsl.compat.numba_cuda.streams import stream_of
from kerneldsl.contract.locations import address
from kerneldsl.memory.arrays import DeviceArray, make_array
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.pools import PooledBuffer, active_pools, device_memory, shareable_pool
from kerneldsl.memory.pools import allocate as allocate_of_pool
from kerneldsl.memory.strided import byte_bounds, host_view
from kerneldsl.placement.devices import current_device

__all__ = [
    "AutoFreePointer",
    "IpcArrayHandle",
    "MemoryPointer",
    "allocate",
    "context_now",
    "device_memory_size",
    "device_memset",
    "device_pointer",
    "device_to_device",
    "device_to_host",
    "host_memory_extents",
    "host_memory_size",
    "host_pointer",
    "host_to_device",
    "is_device_memory",
    "kept",
    "on_host",
    "require_device_memory",
]

_BYTE = np.dtype(np.uint8)


class MemoryPointer:
    """An address on the device, and the object that keeps its memory alive.

    Parameters
    ----------
    context : Context
        The context of the memory.
    pointer : int or ctypes.c_void_p
        The address.
    size : int
        The bytes.
    owner : object, optional
        The object that keeps the memory alive, by default the pointer itself.
    finalizer : function, optional
        Called when the pointer is deleted.
    """

    __cuda_memory__ = True
    #: The array that the memory is of, if it is kerneldsl's.
    array: ArrayGeometry | None = None

    def __init__(
        self,
        context: Any,
        pointer: Any,
        size: int,
        owner: Any = None,
        finalizer: Callable[[], Any] | None = None,
    ) -> None:
        self.context = context
        self.location = (
            (pointer.value or 0) if isinstance(pointer, ctypes.c_void_p) else int(pointer or 0)
        )
        self.size = size
        self._owner = owner
        self._views: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._finalizer = None if finalizer is None else weakref.finalize(self, finalizer)

    @classmethod
    def of(cls, array: ArrayGeometry, context: Any = None) -> MemoryPointer:
        """Return a pointer to the memory of an array."""
        low, high = byte_bounds(array.location, array.shape, array.strides, array.itemsize)
        made = cls(context, 0, int(high - low) if array.size else 0)
        made.location, made.array = low, array
        return made

    @property
    def owner(self) -> Any:
        """The object that keeps the memory alive."""
        return self if self._owner is None else self._owner

    @property
    def keeper(self) -> Any:
        """The owner as arrays over the memory have it: kerneldsl's buffer, if it is of one."""
        array = getattr(self.owner, "array", None)
        return self.owner if array is None else array._owner

    @property
    def refct(self) -> int:
        """The number of pointers to the memory: this one, and views of it."""
        return 1 + len(self._views)

    @property
    def device_pointer(self) -> int:
        """The address."""
        return address(self.location)

    handle = device_pointer

    @property
    def device_pointer_value(self) -> int | None:
        """The address; ``None`` for no memory."""
        return self.device_pointer or None

    @property
    def device_ctypes_pointer(self) -> Any:
        """The address, as a ``ctypes.c_size_t``."""
        return ctypes.c_size_t(self.device_pointer if self.size else 0)

    def own(self) -> MemoryPointer:
        """Return a pointer to the same memory."""
        return self.view(0)

    def view(self, start: int, stop: int | None = None) -> MemoryPointer:
        """Return a pointer to a part of the bytes."""
        size = (self.size if stop is None else stop) - start
        if size < 0:
            raise RuntimeError("size cannot be negative")
        made = MemoryPointer(self.context, 0, size, self.owner)
        made.location = self.location + start
        root = self.owner if isinstance(self.owner, MemoryPointer) else self
        root._views[id(made)] = made
        return made

    def memset(self, byte: int, count: int | None = None, stream: Any = 0) -> None:
        """Set bytes to a value."""
        device_memset(self, byte, self.size if count is None else count, stream)

    def free(self) -> None:
        """Call the finalizer now."""
        if self._finalizer is not None:
            if not self._finalizer.alive:
                raise RuntimeError("Freeing dead memory")
            self._finalizer()

    def __int__(self) -> int:
        return self.device_pointer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryPointer) and other.location == self.location

    def __hash__(self) -> int:
        return hash(self.location)


class AutoFreePointer(MemoryPointer):
    """A pointer with memory that is freed when the last array over it is deleted."""


# --------------------------------------------------------------------------- copies of bytes


def is_device_memory(obj: Any) -> bool:
    """Return whether an object is memory of the device."""
    return bool(getattr(obj, "__cuda_memory__", False))


def require_device_memory(obj: Any) -> None:
    """Raise if an object is not memory of the device."""
    if not is_device_memory(obj):
        raise Exception("Not a CUDA memory object.")


def _pointer_to(memory: Any) -> MemoryPointer:
    require_device_memory(memory)
    found: MemoryPointer = getattr(memory, "gpu_data", memory)
    return found


def _on_device(memory: Any, size: int) -> DeviceArray:
    """Return an array over the first bytes of device memory."""
    found = _pointer_to(memory)
    return make_array(current_device(), found.location, (size,), (1,), _BYTE, found.keeper)


def on_host(obj: Any, size: int) -> np.ndarray[Any, Any]:
    """Return an array over the first bytes of host memory: an array's, a buffer's, an address."""
    if not isinstance(obj, (int, np.ndarray)):
        return np.frombuffer(obj, np.uint8, size)
    is_read_only = isinstance(obj, np.ndarray) and not obj.flags.writeable
    return host_view(host_pointer(obj), (size,), (1,), _BYTE, obj, is_read_only)


def host_memory_extents(obj: Any) -> tuple[int, int]:
    """Return the first address of an array or a buffer of the host, and that after its last."""
    if not isinstance(obj, np.ndarray):
        obj = np.frombuffer(obj, np.uint8)
    low, high = byte_bounds(obj.ctypes.data, obj.shape, obj.strides, obj.itemsize)
    return int(low), int(high)


def host_memory_size(obj: Any) -> int:
    """Return the bytes of an array or a buffer of the host."""
    low, high = host_memory_extents(obj)
    return high - low


def host_pointer(obj: Any, readonly: bool = False) -> int:
    """Return the address of an array or a buffer of the host."""
    return obj if isinstance(obj, int) else host_memory_extents(obj)[0]


def device_pointer(obj: Any) -> int:
    """Return the address of device memory."""
    return 0 if obj is None else _pointer_to(obj).device_pointer


def device_memory_size(devmem: Any) -> int:
    """Return the bytes of device memory."""
    return _pointer_to(devmem).size


def host_to_device(dst: Any, src: Any, size: int, stream: Any = 0) -> None:
    """Copy bytes from the host."""
    _on_device(dst, size).copy_from_host(on_host(src, size), stream_of(stream))


def device_to_host(dst: Any, src: Any, size: int, stream: Any = 0) -> None:
    """Copy bytes to the host."""
    _on_device(src, size).copy_to_host(on_host(dst, size), stream_of(stream))


def device_to_device(dst: Any, src: Any, size: int, stream: Any = 0) -> None:
    """Copy bytes on the device."""
    from kerneldsl.memory.copies import copy_between

    copy_between(_on_device(dst, size), _on_device(src, size), stream_of(stream))


def device_memset(dst: Any, val: int, size: int, stream: Any = 0) -> None:
    """Set bytes to a value; without a stream they are set when this returns."""
    _on_device(dst, size).fill(val & 0xFF, stream_of(stream))
    if stream_of(stream) is None:
        current_device().synchronize()


# --------------------------------------------------------------------------- memory of arrays


def context_now() -> Any:
    """Return the current context; its module imports this one."""
    return import_module("kerneldsl.compat.numba_cuda.devices").current_context()


class IpcArrayHandle:
    """The handle of an array, which another process opens as ``with handle as array:``."""

    def __init__(self, ipc_handle: Any, array_desc: dict[str, Any]) -> None:
        self._ipc_handle, self._array_desc = ipc_handle, array_desc

    def open(self) -> Any:
        """Return an array over the memory of the other process."""
        return self._ipc_handle.open_array(context_now(), **self._array_desc)

    def close(self) -> None:
        """Close the memory."""
        self._ipc_handle.close()

    def __enter__(self) -> Any:
        return self.open()

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Kept(PooledBuffer):
    """Memory of a pool that waits, when the last array over it goes, to be freed with others."""

    __slots__ = ()

    def __del__(self, _is_finalizing: Any = sys.is_finalizing) -> None:
        if self.pointer and not _is_finalizing():
            _waiting[self.device].add_item(PooledBuffer.close, self, self.nbytes)


#: The memory of each device that waits to be freed.
_waiting: dict[Any, Any] = {}


def kept(size: int, stream: Any, pending: Any) -> PooledBuffer:
    """Allocate from the active pool; the memory will wait in `pending` before it is freed."""
    device = current_device()
    if active_pools.get():
        buffer = allocate_of_pool(device, size, stream_of(stream), ((size,), (1,), _BYTE))
    else:
        buffer = shareable_pool(device).allocate(size, stream_of(stream))
    if type(buffer) is not PooledBuffer or not buffer.nbytes or buffer._home is not None:
        return buffer
    if _waiting.get(device) is not pending:
        _waiting[device] = pending
        device_memory(device).kept_back.append(pending.clear)
    made = _Kept(buffer._pool, buffer.pointer, buffer.nbytes, None)
    buffer.pointer = 0  # the memory is the other one's
    return made


def allocate(size: int, stream: Any) -> tuple[Any, Any]:
    """Return the location of new memory, and the owner of it for arrays."""
    with translating():
        manager = context_now().memory_manager
        if getattr(manager, "is_of_pools", False):
            buffer = kept(size, stream, manager.deallocations)
            return buffer.pointer, buffer
        pointer = manager.memalloc(size)
        return pointer.location, pointer.keeper
