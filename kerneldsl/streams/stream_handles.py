"""Find streams by their handles, those of kerneldsl and those of other libraries."""

from __future__ import annotations

import weakref
from typing import Any

from kerneldsl.contract import Device, DeviceStream, MemoryType
from kerneldsl.placement.devices import device_of, device_of_memory

__all__ = ["adopt", "device_of_foreign", "find", "forget", "forget_recorded", "register"]

#: Streams of kerneldsl by device and handle, so that they are known again when another library has
#: wrapped them.
_by_handle: weakref.WeakValueDictionary[tuple[Device, int], DeviceStream] = (
    weakref.WeakValueDictionary()
)
_devices_with_streams: set[Device] = set()


def register(device: Device, handle: int, stream: DeviceStream) -> None:
    """Let a stream of kerneldsl be known again by its handle."""
    _by_handle[device, handle] = stream
    _devices_with_streams.add(device)


def find(device: Device, handle: int) -> DeviceStream | None:
    """Return the stream of kerneldsl that has a handle."""
    return _by_handle.get((device, handle))


def forget(device: Device, handle: int) -> None:
    """Forget a handle that the device may give to another stream."""
    _by_handle.pop((device, handle), None)


def forget_recorded(device: Device, stream: DeviceStream) -> None:
    """Forget the handle that a stream has in a recording, which ends now."""
    if stream.handle != stream.own_handle:
        forget(device, stream.handle)


def adopt(device: Device, stream: Any) -> DeviceStream:
    """Return the device's stream for another library's; if kerneldsl made it, that very object."""
    wrapped = device.wrap_stream(stream)
    if device in _devices_with_streams:
        return _by_handle.get((device, wrapped.handle), wrapped)
    return wrapped


def device_of_foreign(stream: Any, otherwise: Device) -> Device:
    """Return where another library's stream says it is."""
    if isinstance(stream, DeviceStream):
        return device_of(stream.device)
    index = getattr(getattr(stream, "device", None), "index", None)  # torch
    if not isinstance(index, int):
        index = getattr(getattr(stream, "device", None), "device_id", None)  # cuda.core
    if not isinstance(index, int):
        index = getattr(stream, "device_id", None)  # CuPy, where -1 says that it is not known
    if not isinstance(index, int) or index < 0:
        return otherwise
    return device_of_memory(MemoryType.CUDA, index)
