"""A device: what it is, and what it can do.

With :class:`~kerneldsl.contract.contract.Target` and its compiler this is the contract of a target:
each method's docstring says what an implementation **must**, **should** or **may** do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from kerneldsl.contract.entry import MemoryType
from kerneldsl.contract.error_history import error_log
from kerneldsl.contract.limits import DeviceKind, DeviceLimits
from kerneldsl.contract.locations import Location
from kerneldsl.errors import ArgumentTypeError
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.observed import Observable, observed
from kerneldsl.utilities.shown import Shown

if TYPE_CHECKING:
    from kerneldsl.contract.code import Artifact, Executable
    from kerneldsl.contract.contract import Compiler
    from kerneldsl.contract.info import DeviceInfo
    from kerneldsl.contract.memory import PoolBackend, SharedBuffer
    from kerneldsl.contract.streams import DeviceEvent, DeviceStream
    from kerneldsl.contract.timer import LaunchTimer, Tracer
    from kerneldsl.errors import DriverError

__all__ = ["Device"]

#: Bytes of a pattern that the default of `Device.fill` copies from the host.
_SEED_BYTES = 1 << 16


@dataclass(frozen=True)
class Device(Observable, Shown):
    """One device of a target, on which kernels run.

    An object of this very class says what a device is, and is compared by value. Targets make one
    object of a class of their own for each device that they have; these are compared by identity.

    Parameters
    ----------
    target : str
        Name of the target.
    index : int
        Its number there.
    name : str
        What it is called.
    arch : str
        Architecture that :meth:`Compiler.compile` takes, such as ``"sm_90"`` or ``"native"``.
    limits : DeviceLimits
        What a launch is checked against.
    extra : mapping
        What else the target knows at once, by names of its own. Where it has them,
        ``compute_capability`` (a pair) and ``total_memory_bytes`` count in the choice of the best
        device.
    kind : str
        ``"discrete"``, ``"integrated"``, ``"virtual"``, ``"cpu"`` or ``"other"``.
    """

    target: str
    index: int
    name: str
    arch: str
    limits: DeviceLimits
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    kind: DeviceKind = "other"

    #: Whether it is the host's own processors: what fallback turns to, and never away from.
    is_host: ClassVar[bool] = False
    #: Whether a plan divides a launch among threads of the host (`HostShare`), whatever its blocks.
    is_shared_out: ClassVar[bool] = False
    #: Whether kernels read and write NumPy arrays where they are, and the host reads its memory.
    shares_host_memory: ClassVar[bool] = False
    #: Whether launches and copies have finished when they return, so that no stream orders them.
    is_synchronous: ClassVar[bool] = False
    #: Whether the device is not there, so that plans can be made for it, and nothing else.
    is_described: ClassVar[bool] = False
    #: Whether it checks and records launches, and runs no kernel.
    is_simulated: ClassVar[bool] = False
    #: What DLPack calls its memory; ``None`` where other libraries have no name for it.
    memory_type: ClassVar[MemoryType | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__eq__ = object.__eq__  # type: ignore[method-assign]
        cls.__hash__ = object.__hash__  # type: ignore[method-assign]

    @classmethod
    def from_description(cls, description: Device) -> Self:
        """Make the device that a description describes."""
        return cls(**vars(description.description))

    @property
    def description(self) -> Device:
        """Return what the device is, as a value."""
        return Device(
            self.target, self.index, self.name, self.arch, self.limits, self.extra, self.kind
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, tuple(vars(self.description).values())

    def __str__(self) -> str:
        return self.target if self.kind == "cpu" else f"{self.target}:{self.index}"

    @property
    def software(self) -> str:
        """Return the version of what runs its code and is not in the key of the code.

        **Must** be overridden where a driver compiles for the device.
        """
        return ""

    @property
    def compiler(self) -> Compiler:
        """Return what makes code for the device."""
        raise NotImplementedError

    def unusable_reason(self) -> str | None:
        """Say why the device can run nothing, though others of its target can, or ``None``.

        **Must not** raise. Such a device is never chosen, and naming it is an error.
        """
        return None

    def describe(self) -> DeviceInfo:
        """Return everything that can be known of the device now.

        **Should** be overridden. What cannot be had **must** be left out with the reason, so that
        reading it raises; nothing may read 0 in its place.
        """
        from kerneldsl.contract.info import DeviceInfo

        return DeviceInfo(self)

    def suppress(self, error: DriverError) -> None:
        """Take note of an error that nobody can be told of, as in a finalizer.

        **May** be overridden. Where the error takes the device out of use, the next call there
        **must** then raise a `DeviceLostError` that says `is_news`, so that no launch goes round
        the loss before anybody has seen it.
        """
        error_log.record(error, was_swallowed=True)
        logger.debug("%s", error)

    # ----------------------------------------------------------------- kernels

    @observed("load")
    def load(self, artifact: Artifact) -> Executable:
        """Put compiled code on the device."""
        raise NotImplementedError

    def thread_pool(self) -> tuple[int, float] | None:
        """Return the threads that share a launch on the host, and nanoseconds that sharing costs.

        **May** return ``None``, which the default does: then the core does not say how launches are
        shared. **Should** measure the cost once, and remember it.
        """
        return None

    @observed("wait")
    def synchronize(self) -> None:
        """Wait until everything started on the device has finished."""
        raise NotImplementedError

    def start_timer(self, stream: Any) -> LaunchTimer | None:
        """Begin to time the launch that is put into the stream next, by the device's own clock.

        **May** return ``None``, which the default does: then launches there are not timed. **Must**
        return ``None`` while the stream is recorded, and **must not** wait or raise.
        """
        return None

    def trace(self) -> Tracer | None:
        """Begin to have a tool write down when work on the device runs, as CUPTI does.

        **May** return ``None``, which the default does: then there is none.
        """
        return None

    # ------------------------------------------------------------------ memory

    def create_pool(self) -> PoolBackend:
        """Make the source of memory for one pool; every device array's memory comes from one."""
        raise NotImplementedError

    def memory_info(self) -> tuple[int, int] | None:
        """Return the free and the total memory of the device, in bytes.

        **May** be overridden; the default returns ``None``: the sizes are not known.
        """
        return None

    def foreign_caches(self) -> Iterable[tuple[str, str]]:
        """Say what other libraries keep of the device's memory, each with how to free it.

        **May** be overridden; it is asked for when memory has run out. **Must not** raise.
        """
        return ()

    @observed("host to device")
    def copy_from_host(
        self,
        destination: Location,
        source: int,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        """Copy memory at a host address to the device, in the stream's order.

        **Must**, unless `blocking` is false, return only when the source may be changed. Otherwise
        the core keeps the source alive until the copy is done; page-locked memory does so by
        itself, see `SharedBuffer.close`.
        """
        raise NotImplementedError

    @observed("device to host")
    def copy_to_host(
        self,
        destination: int,
        source: Location,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        """Copy memory of the device to a host address, in the stream's order.

        **Must** be complete on return unless `blocking` is false.
        """
        raise NotImplementedError

    @observed("device to device")
    def copy_on_device(
        self, destination: Location, source: Location, nbytes: int, stream: Any = None
    ) -> None:
        """Copy within the device, in the stream's order."""
        raise NotImplementedError

    @observed("fill")
    def fill(self, destination: Location, pattern: bytes, count: int, stream: Any = None) -> None:
        """Set memory to `count` repetitions of a pattern of 1, 2, 4, 8 or 16 bytes.

        **Must** be in the stream's order, and **should** be overridden: the default copies a little
        from the host, and then copies what is there already until all is full.
        """
        seed = pattern * min(count, _SEED_BYTES // len(pattern))
        held = (ctypes.c_char * len(seed)).from_buffer_copy(seed)
        self.copy_from_host(destination, ctypes.addressof(held), len(seed), stream)
        done, total = len(seed), count * len(pattern)
        while done < total:
            step = min(done, total - done)
            self.copy_on_device(destination + done, destination, step, stream)
            done += step

    @observed("pinned memory")
    def allocate_pinned(
        self, nbytes: int, *, is_mapped: bool, is_write_combined: bool
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

    @observed("managed memory")
    def allocate_managed(self, nbytes: int) -> SharedBuffer:
        """Allocate memory that host and device both reach, and that moves to where it is used.

        As `allocate_pinned`. **Must** raise `DeviceMemoryError` where the device has none.
        """
        raise NotImplementedError

    def can_access_peer(self, peer: Device) -> bool:
        """Return whether kernels here can reach memory of `peer`, another device of this target."""
        return False

    def enable_peer_access(self, peer: Device) -> None:
        """Let kernels here reach the pooled memory of `peer` from now on.

        Only called where `can_access_peer` says yes; a second time is harmless.
        """
        raise NotImplementedError

    @observed("device to peer")
    def copy_to_peer(
        self, source: Location, peer: Device, destination: Location, nbytes: int, stream: Any = None
    ) -> None:
        """Copy memory of this device to `peer`, another device of this target.

        Parameters
        ----------
        source : Location
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
        peer.synchronize()
        self.copy_to_host(ctypes.addressof(held), source, nbytes)
        peer.copy_from_host(destination, ctypes.addressof(held), nbytes)

    # ----------------------------------------------------------------- streams

    def wait_stream(self, stream: Any, earlier: Any) -> None:
        """Let what is put into ``stream`` from now on wait for what is in ``earlier`` now.

        An implementation **should** order the two without holding up the host; the default waits
        for the whole device.
        """
        self.synchronize()

    def create_stream(self, *, priority: int, is_blocking: bool) -> DeviceStream:
        """Make a stream; a blocking one and the default stream wait for each other.

        A lower number is a higher priority; what lies outside the device's range **should** be
        clamped to it. The default is right where launches finish before they return.
        """
        from kerneldsl.contract.host_streams import HostStream

        return HostStream(self)

    def wrap_stream(self, stream: Any) -> DeviceStream:
        """Return a stream of the device for ``None`` (its default) or another library's stream.

        Closing it **must not** end the other library's stream. **Must** raise `DeviceMismatchError`
        for a stream of another device, and `ArgumentTypeError` for what is no stream.
        """
        from kerneldsl.contract.host_streams import HostStream

        handle = stream if isinstance(stream, int) else None if stream is not None else 0
        return HostStream(self, handle, foreign=stream)

    def wrap_event(self, event: Any) -> DeviceEvent:
        """Return an event for another library's, to be waited for alone.

        **Must** raise `ArgumentTypeError` for what is no event.
        """
        raise ArgumentTypeError(
            f"{type(event).__name__} is not an event of {self}",
            value=event,
            limit=f"The target {self.target!r} takes no events of other libraries",
            remedy="Record one with kd.Event().record(stream)",
        )

    def create_event(self, *, is_timed: bool, is_blocking: bool = False) -> DeviceEvent:
        """Make an event. The default is right where launches finish before they return.

        Where `is_blocking`, a thread that waits for it **should** sleep instead of spinning.
        """
        from kerneldsl.contract.host_streams import HostEvent

        return HostEvent(self, is_timed)
