"""The null target: the contract of :mod:`kerneldsl.contract`, fulfilled without hardware."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from kerneldsl.contract import Artifact, Device, Specialization, Target
from kerneldsl.errors import DeviceMismatchError, DriverError
from targets.cuda.compile.ptx_compiler import PtxCompiler
from targets.cuda.device.streams import stream_handle
from targets.null.device import NullDevice
from targets.null.faults import FaultPlan, fault
from targets.null.memory import AddressSpace
from targets.null.native import NativeDriver

if TYPE_CHECKING:
    from targets.null.executable import LaunchRecord

__all__ = ["NullTarget"]


class _NullCompiler(PtxCompiler):
    """Makes PTX, unless a test lets it fail."""

    def __init__(self, faults: FaultPlan) -> None:
        super().__init__("null")
        self._faults = faults

    def compile(self, specialization: Specialization) -> Artifact:
        self._faults.begin("compile", None)
        return super().compile(specialization)


class NullTarget(Target):
    """Described devices, on which kernels are loaded and launched and do not run.

    - `*devices`: the devices at the start.
    - `launches`: every launch that a driver would have taken, oldest first.
    - `driver`: takes the launches of native code.
    - `peer_access`: each device and peer with enabled access.
    - `faults`: operations that fail next, and lost devices.
    """

    name = "null"

    def __init__(self, *devices: Device) -> None:
        self._lock = threading.Lock()
        self._devices: tuple[NullDevice, ...] = ()
        #: Every device so far, by its description: one that is described again is the same.
        self._known: dict[Device, NullDevice] = {}
        self.faults = FaultPlan()
        self.compiler = _NullCompiler(self.faults)
        self.launches: list[LaunchRecord] = []
        self.driver = NativeDriver(self.faults, self._write_down)
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
            self._device(replace(device.description, target=self.name, index=index))
            for index, device in enumerate(devices)
        )

    def _device(self, description: Device) -> NullDevice:
        with self._lock:
            known = self._known.get(description)
            if known is None or known.extra != description.extra:
                known = self._known[description] = NullDevice(description, self)
            return known

    def fail_next(self, operation: str, error: BaseException) -> None:
        """Let the next call of an operation raise an error, once.

        - `operation`: one of :data:`targets.null.faults.OPERATIONS`, such as ``"launch"``.
        - `error`: what it raises, such as :func:`targets.null.fault` makes it. Several errors are
          raised by the calls that follow, in their order. A fatal one takes the device out of use,
          or all of them, as `DriverError.loses_process` says.
        """
        self.faults.add(operation, error)

    def lose(self, device: Device, error: DriverError | None = None) -> None:
        """Take a device out of use, or all of them, as a fatal error does.

        - `device`: device of the error.
        - `error`: the error that did it; without it an illegal address, which takes all of them.
        """
        first = error or fault(
            "CUDA_ERROR_ILLEGAL_ADDRESS", f"wait for {device}", device=str(device)
        )
        self.faults.watch.report(device.index, first)

    def reset(self) -> None:
        """Forget recorded launches, planned failures and lost devices."""
        with self._lock:
            self.launches.clear()
        self.faults.clear()

    def memory_of(self, device: Device) -> AddressSpace:
        """Return the memory of a device, to look at."""
        assert isinstance(device, NullDevice)
        return device.memory

    def record_launch(self, record: LaunchRecord) -> None:
        """Write down a launch, unless it is to fail."""
        self.faults.begin("launch", record.device)
        config = record.config
        self.faults.note_launch(
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

    # ---------------------------------------------------------------- contract

    def unavailable_reason(self) -> str | None:
        """Return ``None``: what does not exist cannot be missing."""
        return None

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def device_of_pointer(self, pointer: int) -> Device:
        """Return the device that an address belongs to.

        - raises `DeviceMismatchError`: the address belongs to none of the devices described now.
        """
        for device in self._devices:
            if pointer in device.memory:
                return device
        raise DeviceMismatchError(
            f"address {pointer:#x} belongs to no device of the null target",
            value=pointer,
            limit=f"The devices are {', '.join(str(device) for device in self._devices)}",
            remedy="Pass an array of one of them",
        )
