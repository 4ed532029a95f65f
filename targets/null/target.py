"""The null target: the contract of :mod:`kerneldsl.target`, fulfilled without hardware."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import DeviceMismatchError, DriverError
from kerneldsl.target import (
    Artifact,
    Device,
    DeviceEvent,
    DeviceInfo,
    DeviceStream,
    Executable,
    PoolBackend,
    SharedBuffer,
    Specialization,
)
from targets.cuda.ptx_target import PtxTarget
from targets.cuda.streams import stream_handle
from targets.null.faults import FaultPlan, fault
from targets.null.memory import AddressSpace
from targets.null.native import NativeDriver
from targets.null.pools import NullPool, NullSharedBuffer
from targets.null.streams import NullEvent, NullStream

if TYPE_CHECKING:
    from targets.null.executable import LaunchRecord

__all__ = ["NullTarget"]


class NullTarget(PtxTarget):
    """Described devices, on which kernels are loaded and launched and do not run.

    Parameters
    ----------
    *devices : Device
        What there is at the start.

    Attributes
    ----------
    launches : list of LaunchRecord
        Every launch that a driver would have taken, oldest first.
    driver : NativeDriver
        Takes the launches of native code.
    peer_access : set of (Device, Device)
        Each device and peer whose access was enabled.
    """

    name = "null"

    def __init__(self, *devices: Device) -> None:
        self._lock = threading.Lock()
        self._devices: tuple[Device, ...] = ()
        self._spaces: dict[Device, AddressSpace] = {}
        self._faults = FaultPlan()
        self.launches: list[LaunchRecord] = []
        self.driver = NativeDriver(self._faults, self._write_down)
        self.peer_access: set[tuple[Device, Device]] = set()
        self.set_devices(*devices)

    # ------------------------------------------------- describing and observing

    def set_devices(self, *devices: Device) -> None:
        """Have these devices from now on, numbered in their order.

        Memory and kernels of the devices before stay usable by those who hold them.
        """
        if not devices:
            raise ValueError("the null target needs at least one device")
        self._devices = tuple(
            replace(device, target=self.name, index=index) for index, device in enumerate(devices)
        )

    def fail_next(self, operation: str, error: BaseException) -> None:
        """Let the next call of an operation raise an error, once.

        Parameters
        ----------
        operation : str
            One of :data:`targets.null.faults.OPERATIONS`, such as ``"launch"``.
        error : BaseException
            What it raises, such as :func:`targets.null.fault` makes it. Several errors are raised
            by the calls that follow, in their order. A fatal one takes the device out of use, or
            all of them, as `DriverError.loses_process` says.
        """
        self._faults.add(operation, error)

    def lose(self, device: Device, error: DriverError | None = None) -> None:
        """Take a device out of use, or all of them, as a fatal error does.

        Parameters
        ----------
        device : Device
            Where the error came from.
        error : DriverError, optional
            The error that did it; without it an illegal address, which takes all of them.
        """
        first = error or fault(
            "CUDA_ERROR_ILLEGAL_ADDRESS", f"wait for {device}", device=str(device)
        )
        self._faults.watch.report(device.index, first)

    def reset(self) -> None:
        """Forget recorded launches, planned failures and lost devices."""
        with self._lock:
            self.launches.clear()
        self._faults.clear()

    def memory_of(self, device: Device) -> AddressSpace:
        """The memory of a device, to look at."""
        with self._lock:
            space = self._spaces.get(device)
            if space is None:
                space = self._spaces[device] = AddressSpace(device)
            return space

    def _begin(self, operation: str, device: Device | None = None) -> None:
        self._faults.begin(operation, device)

    # ---------------------------------------------------------------- contract

    def unavailable_reason(self) -> str | None:
        """Always ``None``: what does not exist cannot be missing."""
        return None

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def describe(self, device: Device) -> DeviceInfo:
        """What the description of the device says; nothing that would need hardware."""
        from targets.null.devices import describe

        return describe(device, lambda: self.memory_info(device)[0])

    def swallow(self, device: Device, error: DriverError) -> None:
        """Write it down; if it takes the device away, the next call there is told first."""
        self._faults.watch.swallow(device.index, error)
        super().swallow(device, error)

    def device_of_pointer(self, pointer: int) -> Device:
        """Return the device that an address belongs to.

        Raises
        ------
        DeviceMismatchError
            The address belongs to none of the devices described now.
        """
        for device in self._devices:
            if pointer in self.memory_of(device):
                return device
        raise DeviceMismatchError(
            f"address {pointer:#x} belongs to no device of the null target",
            value=pointer,
            limit=", ".join(str(device) for device in self._devices),
        )

    def compile(self, specialization: Specialization) -> Artifact:
        self._begin("compile")
        return super().compile(specialization)

    def load(self, artifact: Artifact, device: Device) -> Executable:
        from targets.null.executable import NullExecutable

        self._begin("load", device)
        space = self.memory_of(device)
        return NullExecutable(self._loadable(artifact), space, self.record_launch, self.driver)

    def record_launch(self, record: LaunchRecord) -> None:
        """Write down a launch, unless it is to fail."""
        self._begin("launch", record.device)
        config = record.config
        self._faults.note_launch(
            record.device,
            record.kernel,
            config.grid_dim,
            config.block_dim,
            stream_handle(config.stream),
        )
        self._write_down(record)

    def _write_down(self, record: LaunchRecord) -> None:
        with self._lock:
            self.launches.append(record)

    def create_pool(self, device: Device) -> PoolBackend:
        return NullPool(self.memory_of(device), lambda operation: self._begin(operation, device))

    def memory_info(self, device: Device) -> tuple[int, int]:
        """Bytes that nobody holds, and all there are.

        Raises
        ------
        NotImplementedError
            The described device has no limit.
        """
        self._begin("memory_info", device)
        free = self.memory_of(device).free_bytes()
        if free is None:
            raise NotImplementedError("the described device has no limit of memory")
        return free, int(device.extra["total_memory_bytes"])

    def allocate_pinned(
        self, device: Device, nbytes: int, *, is_mapped: bool, is_write_combined: bool
    ) -> SharedBuffer:
        self._begin("allocate", device)
        return NullSharedBuffer(self.memory_of(device), nbytes, has_pointer=is_mapped)

    def allocate_managed(self, device: Device, nbytes: int) -> SharedBuffer:
        self._begin("allocate", device)
        return NullSharedBuffer(self.memory_of(device), nbytes, has_pointer=True)

    def copy_from_host(
        self,
        device: Device,
        destination: int,
        source: int,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        self._begin("copy_from_host", device)
        stream_handle(stream)
        if nbytes:
            self.memory_of(device).write(destination, source, nbytes)

    def copy_to_host(
        self,
        device: Device,
        destination: int,
        source: int,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        self._begin("copy_to_host", device)
        stream_handle(stream)
        if nbytes:
            self.memory_of(device).read(source, destination, nbytes)

    def fill(
        self, device: Device, destination: int, pattern: bytes, count: int, stream: Any = None
    ) -> None:
        self._begin("fill", device)
        stream_handle(stream)
        if count:
            data = ctypes.create_string_buffer(pattern * count, len(pattern) * count)
            self.memory_of(device).write(destination, ctypes.addressof(data), len(data))

    def can_access_peer(self, device: Device, peer: Device) -> bool:
        """Described devices are all linked with each other."""
        return device != peer

    def enable_peer_access(self, device: Device, peer: Device) -> None:
        self.peer_access.add((device, peer))

    def copy_to_peer(
        self,
        device: Device,
        source: int,
        peer: Device,
        destination: int,
        nbytes: int,
        stream: Any = None,
    ) -> None:
        self._begin("copy_to_peer", device)
        stream_handle(stream)
        if nbytes:
            held = ctypes.create_string_buffer(nbytes)
            self.memory_of(device).read(source, ctypes.addressof(held), nbytes)
            self.memory_of(peer).write(destination, ctypes.addressof(held), nbytes)

    def copy_on_device(
        self, device: Device, destination: int, source: int, nbytes: int, stream: Any = None
    ) -> None:
        self._begin("copy_on_device", device)
        stream_handle(stream)
        if nbytes:
            self.memory_of(device).move(destination, source, nbytes)

    def synchronize(self, device: Device) -> None:
        launched = self._faults.watch.in_flight(device.index)
        self._begin("synchronize", device)
        self._faults.watch.settle(device.index, launched)

    def wait_stream(self, device: Device, stream: Any, earlier: Any) -> None:
        """Check both streams; nothing runs, so nothing waits."""
        stream_handle(stream)
        stream_handle(earlier)

    def create_stream(self, device: Device, *, priority: int, is_blocking: bool) -> DeviceStream:
        self._begin("create_stream", device)
        return NullStream(device, partial(self._begin, device=device))

    def wrap_stream(self, device: Device, stream: Any) -> DeviceStream:
        """A stream over whatever CUDA takes for one."""
        handle = stream_handle(stream)
        return NullStream(device, partial(self._begin, device=device), handle, stream)

    def create_event(
        self, device: Device, *, is_timed: bool, is_blocking: bool = False
    ) -> DeviceEvent:
        self._begin("create_event", device)
        return NullEvent(device, is_timed, partial(self._begin, device=device))
