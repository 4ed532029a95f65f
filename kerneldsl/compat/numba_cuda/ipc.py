"""Memory of a GPU that other processes open by a handle."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from kerneldsl.compat.numba_cuda.arrays import DeviceNDArray, integers
from kerneldsl.compat.numba_cuda.errors import translating
from kerneldsl.compat.numba_cuda.memory import IpcArrayHandle, MemoryPointer
from kerneldsl.contract import MemoryType
from kerneldsl.errors import TargetUnavailableError
from kerneldsl.memory.arrays import make_array
from kerneldsl.memory.copies import can_access_peer, copy_between
from kerneldsl.memory.strided import contiguous_strides
from kerneldsl.placement.registry import get_target

__all__ = ["IpcHandle", "open_ipc_array", "share"]

_BYTE = np.dtype(np.uint8)


class _Handle(bytes):
    """The driver's handle: its bytes, also as `reserved`."""

    @property
    def reserved(self) -> bytes:
        """The bytes."""
        return bytes(self)


class IpcHandle:
    """A handle of memory, which another process opens.

    Parameters
    ----------
    base : MemoryPointer or None
        The memory, kept alive; ``None`` in other processes.
    handle : bytes
        The driver's handle.
    size : int
        The bytes of the memory.
    source_info : str, optional
        The UUID of its device.
    offset : int, optional
        The bytes before it in what the driver's handle opens.
    """

    def __init__(
        self, base: Any, handle: bytes, size: int, source_info: str | None = None, offset: int = 0
    ) -> None:
        self.base, self.handle, self.size = base, _Handle(handle), size
        self.source_info, self.offset = source_info, offset
        #: Closes the opened memory.
        self._opened: contextlib.ExitStack | None = None

    def _source(self, device: Any) -> Any:
        """Return the device of the memory; `device` if it is not known."""
        if self.source_info is None:
            return device
        known = get_target(device.compiler.name).devices()
        return next((each for each in known if each.describe().uuid == self.source_info), device)

    def open(self, context: Any) -> MemoryPointer:
        """Return the memory, or a copy of it on a device that cannot reach it."""
        device = context.device._device
        source = self._source(device)
        can_reach = source is device or can_access_peer(device, source)
        return self.open_direct(context) if can_reach else self.open_staged(context)

    def open_direct(self, context: Any) -> MemoryPointer:
        """Return the memory."""
        return MemoryPointer(context, self._open(context.device._device), self.size)

    def open_staged(self, context: Any) -> MemoryPointer:
        """Return a copy of the memory."""
        source = self._source(context.device._device)
        made: MemoryPointer = context.memalloc(self.size)
        there = make_array(source, self._open(source), (self.size,), (1,), _BYTE, None)
        here = make_array(
            context.device._device, made.location, (self.size,), (1,), _BYTE, made.keeper
        )
        copy_between(here, there)
        return made

    def _open(self, device: Any) -> Any:
        if self._opened is not None:
            raise ValueError("IpcHandle is already opened")
        if self.base is not None:
            raise ValueError("opening IpcHandle from original process")
        with translating():
            start = device.open_memory(self.handle)
        self._opened = contextlib.ExitStack()
        self._opened.callback(device.close_memory, start)
        self._opened.callback(device.synchronize)
        return start + self.offset

    def open_array(self, context: Any, shape: Any, dtype: Any, strides: Any = None) -> Any:
        """Return an array over the memory."""
        extents, element = integers(shape, "shape"), np.dtype(dtype)
        steps = strides or contiguous_strides(extents, element.itemsize)
        return DeviceNDArray(extents, steps, element, gpu_data=self.open(context))

    def close(self) -> None:
        """Close the memory; arrays over it must not be used any more."""
        if self._opened is None:
            raise ValueError("IpcHandle not opened")
        opened, self._opened = self._opened, None
        opened.close()

    def __reduce__(self) -> Any:
        return IpcHandle, (None, bytes(self.handle), self.size, self.source_info, self.offset)


def share(memory: MemoryPointer, device: Any) -> IpcHandle:
    """Return the handle of memory of a device."""
    if device.memory_type is not MemoryType.CUDA:
        raise TargetUnavailableError(
            f"{device} has no memory that CUDA shares with other processes",
            remedy="Pass copies, as multiprocessing.shared_memory does, or use a GPU",
        )
    with translating():
        handle, offset = device.export_memory(memory.location)
    return IpcHandle(memory, handle, memory.size, device.describe().uuid, offset)


def open_ipc_array(
    handle: bytes, shape: Any, dtype: Any, strides: Any = None, offset: int = 0
) -> IpcArrayHandle:
    """Return a block with an array over memory of another process; `handle` is the driver's."""
    element = np.dtype(dtype)
    size = math.prod(integers(shape, "shape")) * element.itemsize
    desc = {"shape": shape, "dtype": dtype, "strides": strides}
    return IpcArrayHandle(IpcHandle(None, handle, size, offset=offset), desc)
