"""The contract that a target fulfils.

A *target* turns kernels into code for one family of devices and runs them there. The core knows
targets by this contract alone; `targets/null` fulfils it without hardware. Each method's docstring
says what an implementation **must**, **should** or **may** do.

Compiling and running are apart: :meth:`Target.compile` needs no device and gives an
:class:`Artifact` that can be looked at; :meth:`Target.load` puts it on a device as an
:class:`Executable` that can be launched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.errors import ArgumentTypeError
from kerneldsl.target.checks import Check
from kerneldsl.target.code import Artifact, Executable, LaunchConfig, Specialization
from kerneldsl.target.device import Device, Dim3
from kerneldsl.target.info import DeviceInfo
from kerneldsl.target.memory import Buffer, PoolBackend
from kerneldsl.target.streams import DeviceEvent, DeviceStream

__all__ = ["Target"]


class Target(ABC):
    """A family of devices and the compiler for them."""

    #: The name that ``kd.use`` and ``KERNELDSL_TARGET`` take.
    name: str
    #: Whether kernels read and write NumPy arrays where they are.
    is_host: bool = False

    @abstractmethod
    def unavailable_reason(self) -> str | None:
        """Say why no device can be used, or ``None``.

        **Must not** raise, and **should** say what to do about it.
        """

    @abstractmethod
    def devices(self) -> tuple[Device, ...]:
        """Return the usable devices, in the driver's order; empty where there are none."""

    def compiles_for_block(self, traits: KernelTraits) -> bool:
        """Whether the code depends on the shape of the block. **May** be overridden."""
        return False

    @abstractmethod
    def forall_config(
        self, executable: Executable, extent: tuple[int, ...], block_dim: Dim3 | None
    ) -> LaunchConfig:
        """Choose grid and block so that every index of the extent is covered.

        Under ``forall`` of an element kernel that uses ``grid`` alone, an implementation **may**
        map any axis of the extent to x; its own compiled prologue undoes the mapping. Otherwise
        the first axis of the extent **must** be x.
        """

    @abstractmethod
    def compile(self, specialization: Specialization) -> Artifact:
        """Compile without a device.

        **Must** raise `KernelTypingError` with the kernel's line for a typing error,
        `BarrierDivergenceError` for a barrier it cannot accept, and **must not** end the process
        for any input.
        """

    @abstractmethod
    def load(self, artifact: Artifact, device: Device) -> Executable:
        """Put compiled code on a device."""

    @abstractmethod
    def create_pool(self, device: Device) -> PoolBackend:
        """Make the source of memory for one pool; every device array's memory comes from one."""

    @abstractmethod
    def copy_from_host(
        self, device: Device, destination: int, source: int, nbytes: int, stream: Any = None
    ) -> None:
        """Copy host memory to a device address; **must** be complete in the stream's order."""

    @abstractmethod
    def copy_to_host(
        self, device: Device, destination: int, source: int, nbytes: int, stream: Any = None
    ) -> None:
        """Copy device memory to a host address; **must** be complete on return."""

    @abstractmethod
    def copy_on_device(
        self, device: Device, destination: int, source: int, nbytes: int, stream: Any = None
    ) -> None:
        """Copy within a device, in the stream's order."""

    @abstractmethod
    def synchronize(self, device: Device) -> None:
        """Wait until everything started on the device has finished."""

    def wait_stream(self, device: Device, stream: Any, earlier: Any) -> None:
        """Let what is put into ``stream`` from now on wait for what is in ``earlier`` now.

        An implementation **should** order the two without holding up the host; the default waits
        for the whole device.
        """
        self.synchronize(device)

    def device_of_pointer(self, pointer: int) -> Device:
        """Return the device that an address belongs to.

        **Should** be overridden where there can be more than one device; the default is the first.
        """
        return self.devices()[0]

    # What follows has defaults, so that a target without such things need not speak of them.

    def describe(self, device: Device) -> DeviceInfo:
        """Return everything that can be known of a device now.

        **Should** be overridden. What cannot be had **must** be left out with the reason, so that
        reading it raises; nothing may read 0 in its place.
        """
        return DeviceInfo(device)

    def checks(self) -> Iterable[Check]:
        """Look at what the target needs on this machine, for ``kd.preflight()``.

        **May** be overridden. **Must not** raise where something is missing: that is a finding,
        with a remedy. Names **must** begin with the target's name and a dot.
        """
        return ()

    # ------------------------------------------------------------------ memory

    def memory_info(self, device: Device) -> tuple[int, int]:
        """Bytes of the device's memory that are free now, and in all."""
        raise NotImplementedError

    def allocate_pinned(
        self, device: Device, nbytes: int, *, is_mapped: bool, is_write_combined: bool
    ) -> Buffer:
        """Allocate page-locked host memory; its `Buffer.pointer` is a host address."""
        raise NotImplementedError

    def allocate_managed(self, device: Device, nbytes: int) -> Buffer:
        """Allocate memory that host and device both reach by one address."""
        raise NotImplementedError

    def can_access_peer(self, device: Device, peer: Device) -> bool:
        """Whether kernels on `device` can reach memory of `peer`."""
        return False

    def enable_peer_access(self, device: Device, peer: Device) -> None:
        """Let kernels on `device` reach the pooled memory of `peer` from now on."""
        raise NotImplementedError

    def copy_to_peer(
        self,
        device: Device,
        source: int,
        peer: Device,
        destination: int,
        nbytes: int,
        stream: Any = None,
    ) -> None:
        """Copy memory of `device` to `peer`, in the order of a stream of `device`."""
        raise NotImplementedError

    # ----------------------------------------------------------------- streams

    def create_stream(self, device: Device, *, priority: int, is_blocking: bool) -> DeviceStream:
        """Make a stream; a blocking one and the default stream wait for each other.

        A lower number is a higher priority; what lies outside the device's range **should** be
        clamped to it. The default is right where launches finish before they return.
        """
        from kerneldsl.target.host_streams import HostStream

        return HostStream(device, lambda: self.synchronize(device))

    def wrap_stream(self, device: Device, stream: Any) -> DeviceStream:
        """Return a stream of the device for ``None`` (its default) or another library's stream.

        Closing it **must not** end the other library's stream. **Must** raise `DeviceMismatchError`
        for a stream of another device, and `ArgumentTypeError` for what is no stream.
        """
        from kerneldsl.target.host_streams import HostStream

        if stream is not None and not isinstance(stream, int):
            raise ArgumentTypeError(
                f"{type(stream).__name__} is no stream of {device}",
                value=stream,
                limit=f"The target {self.name!r} takes no streams of other libraries",
                remedy="Make one with kd.Stream(), or leave it out",
            )
        return HostStream(device, lambda: self.synchronize(device), stream or 0)

    def wrap_event(self, device: Device, event: Any) -> DeviceEvent:
        """Return an event for another library's, to be waited for alone.

        **Must** raise `ArgumentTypeError` for what is no event.
        """
        raise ArgumentTypeError(
            f"{type(event).__name__} is no event of {device}",
            value=event,
            limit=f"The target {self.name!r} takes no events of other libraries",
            remedy="Record one with kd.Event().record(stream)",
        )

    def create_event(self, device: Device, *, is_timed: bool) -> DeviceEvent:
        """Make an event. The default is right where launches finish before they return."""
        from kerneldsl.target.host_streams import HostEvent

        return HostEvent(device, is_timed)

    def stream_device_index(self, stream: Any) -> int | None:
        """The index of the device that another library's stream says it is on, if it says so."""
        return None
