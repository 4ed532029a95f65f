"""A target whose memory has no addresses: buffers are handles, and kernels get them in slots.

Its kernels are Python callables over NumPy views of the buffers. A handle refuses to be a number,
so that an address that anybody asks for, packs or computes with is an error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from kerneldsl.contract import Device, LaunchConfig, PoolBackend
from kerneldsl.contract.abi import ParameterLayout, SlotParameters
from kerneldsl.contract.locations import BufferOffset
from kerneldsl.errors import OutOfMemoryError
from tests.support.fake_target import FakeDevice, FakeTarget, _Executable

__all__ = ["Handle", "SlotTarget"]

#: Bytes of a buffer of a pool, of which arrays get parts.
HEAP_BYTES = 1 << 16


class Handle:
    """A buffer. Only its target looks into it."""

    def __init__(self, nbytes: int) -> None:
        self.data = np.full(nbytes, 0xCD, np.uint8)
        #: What is in use: offset to bytes.
        self.used: dict[int, int] = {}

    def bytes_at(self, offset: int, nbytes: int) -> np.ndarray[Any, Any]:
        """Return bytes of memory in use; beyond what one array was given is an error."""
        assert any(
            start <= offset and offset + nbytes <= start + n for start, n in self.used.items()
        ), f"{nbytes} bytes at {offset} are not in use"
        return self.data[offset : offset + nbytes]


class SlotPool(PoolBackend):
    """Parts of heaps of one size, first fit; larger pieces get a buffer of their own."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.heaps: list[Handle] = []

    def acquire(self, nbytes: int, stream: Any) -> tuple[BufferOffset, bool]:
        for heap in self.heaps:
            start = 0
            for offset, used in sorted(heap.used.items()):
                if start + nbytes <= offset:
                    break
                start = -(-(offset + used) // 256) * 256
            if start + nbytes <= heap.data.nbytes:
                heap.used[start] = nbytes
                return BufferOffset(heap, start), False
        if nbytes > 64 * HEAP_BYTES:
            raise OutOfMemoryError("no room", code=2, name="OUT_OF_MEMORY")
        heap = Handle(max(nbytes, HEAP_BYTES))
        heap.used[0] = nbytes
        self.heaps.append(heap)
        return BufferOffset(heap, 0), True

    def release(self, pointer: Any, nbytes: int, stream: Any, used_on: Sequence[Any]) -> None:
        assert pointer.buffer.used.pop(pointer.offset) == nbytes

    def reserved_bytes(self) -> int:
        return sum(heap.data.nbytes for heap in self.heaps)

    def trim(self, keep_bytes: int) -> None:
        self.heaps = [heap for heap in self.heaps if heap.used]

    def close(self) -> None:
        self.trim(0)


def _on_host(address: int, nbytes: int) -> np.ndarray[Any, Any]:
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)


class SlotDevice(FakeDevice):
    """Copies between handles and host memory, which are done when they return."""

    is_synchronous = True  # type: ignore[assignment]

    def create_pool(self) -> PoolBackend:
        return SlotPool(self)

    def copy_from_host(
        self,
        destination: BufferOffset,
        source: int,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        destination.buffer.bytes_at(destination.offset, nbytes)[:] = _on_host(source, nbytes)

    def copy_to_host(
        self,
        destination: int,
        source: BufferOffset,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        _on_host(destination, nbytes)[:] = source.buffer.bytes_at(source.offset, nbytes)

    def copy_on_device(
        self, destination: BufferOffset, source: BufferOffset, nbytes: int, stream: Any = None
    ) -> None:
        if destination.buffer is source.buffer:  # WebGPU and Vulkan refuse ranges that overlap
            assert abs(destination.offset - source.offset) >= nbytes
        to = destination.buffer.bytes_at(destination.offset, nbytes)
        to[:] = source.buffer.bytes_at(source.offset, nbytes)


class SlotExecutable(_Executable):
    """Calls the target's body with NumPy arrays over the bound buffers, and with the scalars."""

    def launch(self, config: LaunchConfig, parameters: Any) -> None:
        assert type(parameters) is SlotParameters
        made = self.artifact.specialization
        layout = ParameterLayout(
            made.unit.parameters, made.kinds, made.mode, has_slots=self.device.compiler.has_slots
        )
        values = layout.packer.unpack(parameters.flat)
        assert len(parameters.buffers) == len(layout.arrays)
        named = {p.name: v for p, v in zip(layout.parameters, values, strict=True)}
        for array in layout.arrays:
            name = layout.parameters[array.pointer].name
            assert layout.parameters[array.pointer].dtype == "offset"
            shape = tuple(values[array.extents.start : array.extents.stop])
            handle = parameters.buffers[layout.slots[array.pointer]]
            dtype = np.dtype(array.kind.dtype)
            if handle is None:
                named[name] = np.empty(shape, dtype)
                continue
            strides = tuple(values[array.strides.start : array.strides.stop]) or None
            named[name] = np.ndarray(
                shape,
                dtype,
                handle.data,
                values[array.pointer],
                strides,
                order="F" if array.kind.layout == "F" else "C",
            )
        self.target.launches.append((self.device, config, named))
        assert self.target.body is not None
        self.target.body(config, named)


class SlotTarget(FakeTarget):
    """Two devices with buffers that are handles; kernels are the target's `body`."""

    device = SlotDevice
    executable = SlotExecutable
    has_slots = True

    def heaps(self, device: int = 0) -> list[Handle]:
        """Return the buffers of a device's default pool."""
        from kerneldsl.memory.pools import device_memory

        backend = device_memory(self.found[device]).default._backend
        assert isinstance(backend, SlotPool)
        return backend.heaps
