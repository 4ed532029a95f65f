"""The contract that a target fulfils.

A *target* turns kernels into code for one family of devices and runs them there. The core knows
targets by this contract alone; `targets/null` fulfils it without hardware. Each method's docstring
says what an implementation **must**, **should** or **may** do.

Compiling and running are apart: :meth:`Target.compile` needs no device and gives an
:class:`Artifact` that can be looked at; :meth:`Target.load` puts it on a device as an
:class:`Executable` that can be launched.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kerneldsl.error_history import error_log
from kerneldsl.errors import ArgumentTypeError
from kerneldsl.target.info import DeviceInfo

if TYPE_CHECKING:
    from kerneldsl.analysis.traits import KernelTraits
    from kerneldsl.errors import DriverError
    from kerneldsl.target.checks import Check
    from kerneldsl.target.code import Artifact, Executable, LaunchConfig, Specialization
    from kerneldsl.target.device import Device, Dim3
    from kerneldsl.target.memory import PoolBackend, SharedBuffer
    from kerneldsl.target.streams import DeviceEvent, DeviceStream
    from kerneldsl.target.timer import LaunchTimer

__all__ = ["Target"]

#: Bytes of a pattern that the default of `Target.fill` copies from the host.
_SEED_BYTES = 1 << 16


class Target(ABC):
    """A family of devices and the compiler for them."""

    #: The name that ``kd.use`` and ``KERNELDSL_TARGET`` take.
    name: str
    #: Whether kernels read and write NumPy arrays where they are.
    is_host: bool = False
    #: Whether compiled code deals out the indices of ``forall`` as `Specialization.mapping` says;
    #: then the core plans block and mapping, else :meth:`forall_config` decides.
    maps_elements: bool = False

    @abstractmethod
    def unavailable_reason(self) -> str | None:
        """Say why no device can be used, or ``None``.

        **Must not** raise, and **should** say what to do about it.
        """

    @abstractmethod
    def devices(self) -> tuple[Device, ...]:
        """Return the devices, in the driver's order; empty where none of them can be used.

        **Must not** raise, and **should** be cheap: starting and launching need it.
        """

    def unusable_reason(self, device: Device) -> str | None:
        """Say why one of :meth:`devices` can run nothing, though others can, or ``None``.

        **Must not** raise. Such a device is never chosen, and naming it is an error.
        """
        return None

    def compiles_for_block(self, traits: KernelTraits) -> bool:
        """Whether the code depends on the shape of the block. **May** be overridden."""
        return False

    def thread_pool(self) -> tuple[int, float] | None:
        """Threads that share a launch on the host, and nanoseconds that sharing costs.

        **May** return ``None``, which the default does: then the core does not say how launches are
        shared. **Should** measure the cost once, and remember it.
        """
        return None

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

    # What follows lets the core keep compiled code on disk; without it nothing is kept.

    @property
    def code_family(self) -> str:
        """The name under which code is kept; targets that make the same code **may** share one."""
        return self.name

    def code_identity(self, specialization: Specialization) -> Mapping[str, str] | None:
        """Say what the code depends on beside the specialization and the common toolchain.

        Returns
        -------
        mapping or None
            Name to value, such as the processor's features or a library's digest; part of the key,
            so **must** be the same on every machine where the code is. ``None``, the default, where
            this code is not to be kept. **Must not** import a compiler.
        """
        return None

    def dump(self, artifact: Artifact) -> Mapping[str, bytes] | None:
        """Write an artifact of :meth:`compile` as bytes, in named sections.

        **Must** hold everything that :meth:`restore` needs beside the specialization. **May**
        return ``None`` for code that works in this process alone, and **must** where an address of
        this process is part of it.
        """
        return None

    def restore(self, specialization: Specialization, sections: Mapping[str, bytes]) -> Artifact:
        """Make an artifact of what :meth:`dump` wrote, in another process or on another machine.

        The sections are as they were written, and of this specialization and :meth:`code_identity`.
        **Must** raise and warn as :meth:`compile` does where that takes no compiler, **must** raise
        `UnusableCodeError` where the sections cannot be used here, and **must not** end the process
        for any sections. **Should not** import a compiler.
        """
        raise NotImplementedError

    @abstractmethod
    def load(self, artifact: Artifact, device: Device) -> Executable:
        """Put compiled code on a device."""

    @abstractmethod
    def create_pool(self, device: Device) -> PoolBackend:
        """Make the source of memory for one pool; every device array's memory comes from one."""

    @abstractmethod
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
        """Copy host memory to a device address, in the stream's order.

        **Must**, unless `blocking` is false, return only when the source may be changed. Otherwise
        the core keeps the source alive until the copy is done; page-locked memory does so by
        itself, see `SharedBuffer.close`.
        """

    @abstractmethod
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
        """Copy device memory to a host address, in the stream's order.

        **Must** be complete on return unless `blocking` is false.
        """

    @abstractmethod
    def copy_on_device(
        self, device: Device, destination: int, source: int, nbytes: int, stream: Any = None
    ) -> None:
        """Copy within a device, in the stream's order."""

    def fill(
        self, device: Device, destination: int, pattern: bytes, count: int, stream: Any = None
    ) -> None:
        """Set memory to `count` repetitions of a pattern of 1, 2, 4, 8 or 16 bytes.

        **Must** be in the stream's order, and **should** be overridden: the default copies a little
        from the host, and then copies what is there already until all is full.
        """
        seed = pattern * min(count, _SEED_BYTES // len(pattern))
        held = (ctypes.c_char * len(seed)).from_buffer_copy(seed)
        self.copy_from_host(device, destination, ctypes.addressof(held), len(seed), stream)
        done, total = len(seed), count * len(pattern)
        while done < total:
            step = min(done, total - done)
            self.copy_on_device(device, destination + done, destination, step, stream)
            done += step

    @abstractmethod
    def synchronize(self, device: Device) -> None:
        """Wait until everything started on the device has finished."""

    def wait_stream(self, device: Device, stream: Any, earlier: Any) -> None:
        """Let what is put into ``stream`` from now on wait for what is in ``earlier`` now.

        An implementation **should** order the two without holding up the host; the default waits
        for the whole device.
        """
        self.synchronize(device)

    def start_timer(self, device: Device, stream: Any) -> LaunchTimer | None:
        """Begin to time the launch that is put into the stream next, by the device's own clock.

        **May** return ``None``, which the default does: then launches there are not timed. **Must**
        return ``None`` while the stream is recorded, and **must not** wait or raise.
        """
        return None

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

    def swallow(self, device: Device, error: DriverError) -> None:
        """Take note of an error of a device that nobody can be told of, as in a finalizer.

        **May** be overridden. Where the error takes the device out of use, the next call there
        **must** then raise a `DeviceLostError` that says `is_news`, so that no launch goes round
        the loss before anybody has seen it.
        """
        error_log.record(error, was_swallowed=True)

    # ------------------------------------------------------------------ memory

    def memory_info(self, device: Device) -> tuple[int, int]:
        """Bytes of the device's memory that are free now, and in all."""
        raise NotImplementedError

    def allocate_pinned(
        self, device: Device, nbytes: int, *, is_mapped: bool, is_write_combined: bool
    ) -> SharedBuffer:
        """Allocate page-locked host memory, at least 256-byte aligned; `nbytes` is not 0.

        Parameters
        ----------
        is_mapped : bool
            Whether kernels can reach it too; then `SharedBuffer.pointer` **must** be the address
            for them, and else 0.
        is_write_combined : bool
            Whether the processor's caches are to be bypassed; a target without such memory **may**
            ignore it.

        **Must** raise `OutOfMemoryError` where there is no room.
        """
        raise NotImplementedError

    def allocate_managed(self, device: Device, nbytes: int) -> SharedBuffer:
        """Allocate memory that host and device both reach, and that moves to where it is used.

        As `allocate_pinned`. **Must** raise `DeviceMemoryError` where the device has none.
        """
        raise NotImplementedError

    def can_access_peer(self, device: Device, peer: Device) -> bool:
        """Whether kernels on `device` can reach memory of `peer`."""
        return False

    def enable_peer_access(self, device: Device, peer: Device) -> None:
        """Let kernels on `device` reach the pooled memory of `peer` from now on.

        Only called where `can_access_peer` says yes; a second time is harmless.
        """
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
        """Copy memory of `device` to `peer`, another device of this target.

        Parameters
        ----------
        device, source
            Where the bytes are.
        peer, destination
            Where they go.
        nbytes : int
            How many.
        stream : object
            A stream of either device in whose order it is done. ``None`` is the default streams of
            both: the copy **must** wait for what is in both, and what is put into either from now
            on **must** wait for the copy.

        The default goes over host memory.
        """
        held = (ctypes.c_char * nbytes)()
        self.synchronize(peer)
        self.copy_to_host(device, ctypes.addressof(held), source, nbytes)
        self.copy_from_host(peer, destination, ctypes.addressof(held), nbytes)

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

        handle = stream if isinstance(stream, int) else None if stream is not None else 0
        return HostStream(device, lambda: self.synchronize(device), handle, foreign=stream)

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

    def create_event(
        self, device: Device, *, is_timed: bool, is_blocking: bool = False
    ) -> DeviceEvent:
        """Make an event. The default is right where launches finish before they return.

        Where `is_blocking`, a thread that waits for it **should** sleep instead of spinning.
        """
        from kerneldsl.target.host_streams import HostEvent

        return HostEvent(device, is_timed)
