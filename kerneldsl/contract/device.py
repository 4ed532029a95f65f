"""A device: its attributes and its operations.

Together with :class:`~kerneldsl.contract.contract.Target` and its compiler this is the contract of
a target. Each method's docstring has what an implementation **must**, **should** or **may** do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from kerneldsl.contract.entry import MemoryType
from kerneldsl.contract.error_history import error_log
from kerneldsl.contract.limits import DeviceKind, DeviceLimits
from kerneldsl.contract.locations import Location
from kerneldsl.errors import ArgumentTypeError
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.observed import Observable, observed
from kerneldsl.utilities.shown import Shown

if TYPE_CHECKING:
    from kerneldsl.contract.code import Artifact, Executable
    from kerneldsl.contract.contract import Compiler
    from kerneldsl.contract.info import DeviceInfo
    from kerneldsl.contract.memory import PoolBackend, SharedBuffer
    from kerneldsl.contract.streams import DeviceEvent, DeviceStream, LaunchTimer, Tracer
    from kerneldsl.errors import DriverError

__all__ = ["Device"]

#: Bytes of a pattern that the default of `Device.fill` copies from the host.
_SEED_BYTES = 1 << 16


@dataclass(frozen=True)
class Device(Observable, Shown):
    """A device of a target, on which kernels run.

    An object of this class itself describes a device, and is compared by value. Targets make one
    object of a subclass for each of their devices; these are compared by identity.

    Parameters
    ----------
    target : str
        Name of the target.
    index : int
        Index of the device in the target.
    name : str
        Name of the device.
    arch : str
        Architecture for :meth:`Compiler.compile`, such as ``"sm_90"`` or ``"native"``.
    limits : DeviceLimits
        Limits of launches.
    extra : mapping
        Further attributes of the target's choice. ``compute_capability`` (a pair) and
        ``total_memory_bytes`` are used in the choice of the best device.
    kind : str
        ``"discrete"``, ``"integrated"``, ``"virtual"``, ``"cpu"`` or ``"other"``.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> device = kd.zeros(3).device
    >>> isinstance(device, kd.Device), device.limits.max_threads_per_block
    (True, 1024)
    """

    target: str
    index: int
    name: str
    arch: str
    limits: DeviceLimits
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    kind: DeviceKind = "other"

    #: Whether the device is the host's own processors, to which launches fall back.
    is_host: ClassVar[bool] = False
    #: Whether a plan divides a launch among threads of the host (`HostShare`).
    is_shared_out: ClassVar[bool] = False
    #: Whether kernels access NumPy arrays directly, and the host accesses the device's memory.
    shares_host_memory: ClassVar[bool] = False
    #: Whether launches and copies have finished when they return.
    is_synchronous: ClassVar[bool] = False
    #: Whether the device is only described: plans can be made for it, and nothing else.
    is_described: ClassVar[bool] = False
    #: Whether the device checks and records launches, and runs no kernel.
    is_simulated: ClassVar[bool] = False
    #: DLPack's type of its memory; ``None`` if other libraries cannot access it.
    memory_type: ClassVar[MemoryType | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__eq__ = object.__eq__  # type: ignore[method-assign]
        cls.__hash__ = object.__hash__  # type: ignore[method-assign]

    @classmethod
    def from_description(cls, description: Device) -> Self:
        """Make the device of a description."""
        return cls(**vars(description.description))

    @property
    def description(self) -> Device:
        """The description of the device, as a value."""
        return Device(
            self.target, self.index, self.name, self.arch, self.limits, self.extra, self.kind
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, tuple(vars(self.description).values())

    def __str__(self) -> str:
        return self.target if self.kind == "cpu" else f"{self.target}:{self.index}"

    @property
    def software(self) -> str:
        """The version of the software that runs its code and is not part of the cache key.

        **Must** be overridden if a driver compiles for the device.
        """
        return ""

    @property
    def compiler(self) -> Compiler:
        """The compiler of code for the device."""
        raise NotImplementedError

    def unusable_reason(self) -> str | None:
        """Return why the device cannot be used, though others of its target can, or ``None``.

        **Must not** raise. Such a device is never chosen, and naming it is an error.
        """
        return None

    def describe(self) -> DeviceInfo:
        """Return the attributes of the device.

        **Should** be overridden. Unavailable attributes **must** be left out with the reason, so
        that reading them raises. None of them may read as 0.
        """
        from kerneldsl.contract.info import DeviceInfo

        return DeviceInfo(self)

    def driver_attribute(self, name: str) -> int | None:
        """Return an attribute by the driver's name, such as ``"PCI_BUS_ID"``, if it is known.

        **Should** be overridden if there are more than those in `extra` and `limits`.
        """
        found: int | None = self.extra.get(name.lower())
        return getattr(self.limits, name.lower(), None) if found is None else found

    def suppress(self, error: DriverError) -> None:
        """Record an error that cannot be raised, for example in a finalizer.

        **May** be overridden. If the error makes the device unusable, the next call there **must**
        raise a `DeviceLostError` with `is_news`. Then no launch falls back before the loss was
        reported.
        """
        error_log.record(error, was_swallowed=True)
        logger.debug("%s", error)

    # ----------------------------------------------------------------- kernels

    @observed("load")
    def load(self, artifact: Artifact) -> Executable:
        """Load compiled code on the device."""
        raise NotImplementedError

    def thread_count(self) -> int | None:
        """Return the threads that share a launch on the host.

        **Must** agree with :meth:`thread_pool`. **Should** be overridden where counting them is
        cheaper than making them; the default makes them.
        """
        pool = self.thread_pool()
        return None if pool is None else pool[0]

    def thread_pool(self) -> tuple[int, float] | None:
        """Return the threads that share a launch on the host, and the cost of sharing in ns.

        **May** return ``None``, as the default does: the core then does not decide how launches are
        shared. **Should** measure the cost once, and cache it.
        """
        return None

    @observed("wait")
    def synchronize(self) -> None:
        """Wait until all work on the device has finished."""
        raise NotImplementedError

    def start_timer(self, stream: Any) -> LaunchTimer | None:
        """Begin to time the next launch in the stream, by the clock of the device.

        **May** return ``None``, as the default does: launches are not timed then. **Must** return
        ``None`` while the stream is recorded, and **must not** wait or raise.
        """
        return None

    def trace(self) -> Tracer | None:
        """Begin to record the times of work on the device by a tool such as CUPTI.

        **May** return ``None``, as the default does: there is no tool then.
        """
        return None

    # ------------------------------------------------------------------ memory

    def create_pool(self) -> PoolBackend:
        """Make the source of memory of one pool; every device array gets its memory from one."""
        raise NotImplementedError

    def create_shareable_pool(self) -> PoolBackend | None:
        """Make the source of memory of a pool that :meth:`export_memory` takes.

        **May** return ``None``, as the default does: other processes cannot open memory then, and
        :meth:`export_memory` and the methods after it are not called.
        """
        return None

    def export_memory(self, pointer: Location) -> tuple[bytes, int]:
        """Return a handle by which other processes open memory, and the offset in what they open.

        **Must** raise for memory that cannot be shared.
        """
        raise NotImplementedError

    def open_memory(self, handle: bytes) -> Location:
        """Return where this process has memory of another one."""
        raise NotImplementedError

    def close_memory(self, pointer: Location) -> None:
        """Release memory of another process, which no work uses any more."""
        raise NotImplementedError

    def memory_info(self) -> tuple[int, int] | None:
        """Return the free and the total memory of the device, in bytes.

        **May** be overridden; the default returns ``None``: the sizes are not known.
        """
        return None

    def foreign_caches(self) -> Iterable[tuple[str, str]]:
        """Return device memory that other libraries cache, each with a way to free it.

        **May** be overridden; it is called when the device is out of memory. **Must not** raise.
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
        """Copy memory at a host address to the device, in the order of the stream.

        **Must** return only when the source may be changed, unless `blocking` is false. Otherwise
        the core keeps the source alive until the copy is done. Page-locked memory keeps itself
        alive; see `SharedBuffer.close`.
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
        """Copy memory of the device to a host address, in the order of the stream.

        **Must** be complete on return unless `blocking` is false.
        """
        raise NotImplementedError

    @observed("device to device")
    def copy_on_device(
        self, destination: Location, source: Location, nbytes: int, stream: Any = None
    ) -> None:
        """Copy within the device, in the order of the stream."""
        raise NotImplementedError

    @observed("fill")
    def fill(self, destination: Location, pattern: bytes, count: int, stream: Any = None) -> None:
        """Set memory to `count` repetitions of a pattern of 1, 2, 4, 8 or 16 bytes.

        **Must** be in the order of the stream, and **should** be overridden. The default copies a
        few repetitions from the host, and doubles them on the device.
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
            Whether kernels can access it. `SharedBuffer.pointer` **must** then be the address for
            kernels, and otherwise 0.
        is_write_combined : bool
            Whether to bypass the processor's caches. A target without such memory **may** ignore
            it.

        **Must** raise `OutOfMemoryError` if there is no memory left.
        """
        raise NotImplementedError

    @observed("pinned memory")
    def lock_pages(self, pointer: int, nbytes: int, owner: Any) -> SharedBuffer:
        """Lock the pages of host memory that exists, and map them for kernels; `nbytes` is not 0.

        `SharedBuffer.close` unlocks them. The buffer **must** keep `owner` until then: the memory
        is its. It is not called for devices that share the host's memory.
        """
        raise NotImplementedError

    @observed("managed memory")
    def allocate_managed(self, nbytes: int) -> SharedBuffer:
        """Allocate memory that host and device both access, and that migrates between them.

        As `allocate_pinned`. **Must** raise `DeviceMemoryError` if the device has none.
        """
        raise NotImplementedError

    def can_access_peer(self, peer: Device) -> bool:
        """Return whether kernels can access memory of `peer`, another device of this target."""
        return False

    def enable_peer_access(self, peer: Device) -> None:
        """Let kernels access the pooled memory of `peer` from now on.

        It is called only if `can_access_peer` returns True. A second call is harmless.
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
            Location of the bytes.
        peer, destination
            The other device, and the location there.
        nbytes : int
            Number of bytes.
        stream : object
            A stream of either device that orders the copy. ``None`` is the default streams of both.
            The copy **must** wait for the work in both. Later work in both **must** wait for the
            copy.

        The default copies through host memory.
        """
        held = (ctypes.c_char * nbytes)()
        peer.synchronize()
        self.copy_to_host(ctypes.addressof(held), source, nbytes)
        peer.copy_from_host(destination, ctypes.addressof(held), nbytes)

    # ----------------------------------------------------------------- streams

    def wait_stream(self, stream: Any, earlier: Any) -> None:
        """Make later work in ``stream`` wait for the work in ``earlier`` now.

        An implementation **should** order the two without waiting on the host. The default waits
        for the whole device.
        """
        self.synchronize()

    def create_stream(self, *, priority: int, is_blocking: bool) -> DeviceStream:
        """Make a stream; a blocking one and the default stream wait for each other.

        A lower number is a higher priority; numbers beyond the range of the device **should** be
        clamped. The default is correct for synchronous launches.
        """
        from kerneldsl.contract.host_streams import HostStream

        return HostStream(self)

    def wrap_stream(self, stream: Any) -> DeviceStream:
        """Return a stream of the device for ``None`` (its default) or another library's stream.

        Closing it **must not** close the other library's stream. **Must** raise
        `DeviceMismatchError` for a stream of another device, and `ArgumentTypeError` for an object
        that is not a stream.
        """
        from kerneldsl.contract.host_streams import HostStream

        handle = stream if isinstance(stream, int) else None if stream is not None else 0
        return HostStream(self, handle, foreign=stream)

    def wrap_event(self, event: Any) -> DeviceEvent:
        """Return an event to wait for, from an event of another library.

        **Must** raise `ArgumentTypeError` for an object that is not an event.
        """
        raise ArgumentTypeError(
            f"{type(event).__name__} is not an event of {self}",
            value=event,
            limit=f"The target {self.target!r} takes no events of other libraries",
            remedy="Record one with kd.Event().record(stream)",
        )

    def create_event(self, *, is_timed: bool, is_blocking: bool = False) -> DeviceEvent:
        """Make an event. The default is correct for synchronous launches.

        If `is_blocking`, a thread that waits for it **should** sleep instead of spinning.
        """
        from kerneldsl.contract.host_streams import HostEvent

        return HostEvent(self, is_timed)
