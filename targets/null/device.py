"""A described device: memory is host bytes with made-up addresses, and launches are recorded.

Nothing runs on it, so all work of its streams, events and graphs is done at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import (
    Artifact,
    Compiler,
    Device,
    DeviceEvent,
    DeviceGraph,
    DeviceInfo,
    DeviceStream,
    Executable,
    PoolBackend,
    Recording,
    SharedBuffer,
)
from kerneldsl.contract.host_streams import HostEvent, HostGraph, HostStream
from kerneldsl.errors import DriverError
from targets.cuda.compile.ptx_compiler import require_ptx
from targets.cuda.device.streams import stream_handle
from targets.null.memory import AddressSpace, NullLockedBuffer, NullPool, NullSharedBuffer

if TYPE_CHECKING:
    from targets.null.target import NullTarget

__all__ = ["NullDevice", "NullEvent", "NullGraph", "NullStream"]


class NullDevice(Device):
    """A device that a test has described.

    The target plans its failures and records its launches.

    - `memory`: its memory, to look at.
    """

    is_simulated = True

    def __init__(self, description: Device, target: NullTarget) -> None:
        super().__init__(**vars(description))
        fields: dict[str, Any] = {"_owner": target, "memory": AddressSpace(self)}
        vars(self).update(fields)

    if TYPE_CHECKING:
        _owner: NullTarget
        memory: AddressSpace

    @property
    def compiler(self) -> Compiler:
        return self._owner.compiler

    def _begin(self, operation: str) -> None:
        self._owner.faults.begin(operation, self)

    def describe(self) -> DeviceInfo:
        """Return what the description says; nothing that would need hardware."""
        from targets.null.devices import describe

        return describe(self)

    def suppress(self, error: DriverError) -> None:
        """Write it down; if it takes the device away, the next call there reports it first."""
        self._owner.faults.watch.suppress(self.index, error)
        super().suppress(error)

    # ----------------------------------------------------------------- kernels

    def load(self, artifact: Artifact) -> Executable:
        from targets.null.executable import NullExecutable

        self._begin("load")
        owner = self._owner
        return NullExecutable(
            require_ptx(artifact, self), self.memory, owner.record_launch, owner.driver
        )

    def synchronize(self) -> None:
        watch = self._owner.faults.watch
        launched = watch.in_flight(self.index)
        self._begin("synchronize")
        watch.mark_finished(self.index, launched)

    # ------------------------------------------------------------------ memory

    def create_pool(self) -> PoolBackend:
        return NullPool(self.memory, self._begin)

    def memory_info(self) -> tuple[int, int] | None:
        """Return the free bytes, and all there are, if the description says how many."""
        self._begin("memory_info")
        free = self.memory.free_bytes()
        return None if free is None else (free, int(self.extra["total_memory_bytes"]))

    def allocate_pinned(
        self, nbytes: int, *, is_mapped: bool, is_write_combined: bool
    ) -> SharedBuffer:
        self._begin("allocate")
        return NullSharedBuffer(self.memory, nbytes, has_pointer=is_mapped)

    def lock_pages(self, pointer: int, nbytes: int, owner: Any) -> SharedBuffer:
        self._begin("allocate")
        return NullLockedBuffer(self.memory, pointer, nbytes, owner)

    def allocate_managed(self, nbytes: int) -> SharedBuffer:
        self._begin("allocate")
        return NullSharedBuffer(self.memory, nbytes, has_pointer=True)

    def _access(self, operation: str, stream: Any, nbytes: int, do: Callable[[], None]) -> None:
        """Do something with memory, unless it is to fail, or there is nothing to do."""
        self._begin(operation)
        stream_handle(stream)
        if nbytes:
            do()

    def copy_from_host(
        self,
        destination: int,
        source: int,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        write = partial(self.memory.write, destination, source, nbytes)
        self._access("copy_from_host", stream, nbytes, write)

    def copy_to_host(
        self,
        destination: int,
        source: int,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        read = partial(self.memory.read, source, destination, nbytes)
        self._access("copy_to_host", stream, nbytes, read)

    def copy_on_device(
        self, destination: int, source: int, nbytes: int, stream: Any = None
    ) -> None:
        move = partial(self.memory.move, destination, source, nbytes)
        self._access("copy_on_device", stream, nbytes, move)

    def fill(self, destination: int, pattern: bytes, count: int, stream: Any = None) -> None:
        def write() -> None:
            data = ctypes.create_string_buffer(pattern * count, len(pattern) * count)
            self.memory.write(destination, ctypes.addressof(data), len(data))

        self._access("fill", stream, count, write)

    def can_access_peer(self, peer: Device) -> bool:
        """Return True for any other device: described devices are all linked."""
        return self != peer

    def enable_peer_access(self, peer: Device) -> None:
        self._owner.peer_access.add((self, peer))

    def copy_to_peer(
        self, source: int, peer: Device, destination: int, nbytes: int, stream: Any = None
    ) -> None:
        assert isinstance(peer, NullDevice)
        there = peer.memory

        def move() -> None:
            held = ctypes.create_string_buffer(nbytes)
            self.memory.read(source, ctypes.addressof(held), nbytes)
            there.write(destination, ctypes.addressof(held), nbytes)

        self._access("copy_to_peer", stream, nbytes, move)

    # ----------------------------------------------------------------- streams

    def wait_stream(self, stream: Any, earlier: Any) -> None:
        """Check both streams; nothing runs, so nothing waits."""
        stream_handle(stream)
        stream_handle(earlier)

    def create_stream(self, *, priority: int, is_blocking: bool) -> DeviceStream:
        self._begin("create_stream")
        return NullStream(self, self._begin)

    def wrap_stream(self, stream: Any) -> DeviceStream:
        """Return a stream over whatever CUDA takes for one."""
        return NullStream(self, self._begin, stream_handle(stream), stream)

    def create_event(self, *, is_timed: bool, is_blocking: bool = False) -> DeviceEvent:
        self._begin("create_event")
        return NullEvent(self, is_timed, self._begin)


# -- streams, events and graphs: all work is done at once -----------------------------------------


class _Mark:
    """Contents of a stream at one time.

    An event that is recorded again gets another mark; threads that wait for it keep the one before.
    """

    __slots__ = ("_before", "_is_held", "_releases", "_stream")

    def __init__(self, stream: NullStream) -> None:
        self._stream = stream
        self._releases = stream.releases
        self._is_held = stream.is_held
        self._before = stream.pending_marks()

    def is_reached(self) -> bool:
        """Return whether all of it is done."""
        is_released = not self._is_held or self._stream.releases > self._releases
        return is_released and all(mark.is_reached() for mark in self._before)


class NullStream(HostStream):
    """A stream of a described device.

    `begin` takes the name of an operation, and raises the error that a test has planned for it.
    `handle` is a number given by somebody else, `foreign` another library's stream.
    """

    def __init__(
        self,
        device: Device,
        begin: Callable[[str], None],
        handle: int | None = None,
        foreign: object = None,
    ) -> None:
        super().__init__(device, handle, foreign)
        self._begin = begin
        #: Number of releases, and whether they are delayed now.
        self.releases = 0
        self.is_held = False
        self._pending_marks: tuple[_Mark, ...] = ()

    def held(self) -> AbstractContextManager[object]:
        """Return a context manager in which the work in the stream does not get done."""
        stack = ExitStack()
        self.is_held = True
        stack.callback(self._release)
        return stack

    def _release(self) -> None:
        self.is_held = False
        self.releases += 1

    def pending_marks(self) -> tuple[_Mark, ...]:
        """Return the marks that this stream still waits for."""
        self._pending_marks = tuple(mark for mark in self._pending_marks if not mark.is_reached())
        return self._pending_marks

    def synchronize(self) -> None:
        """Wait, which a test must not do for work that it holds up itself."""
        self._begin("synchronize")
        if not self.is_done():
            raise RuntimeError(f"this would wait for ever: {self!r} is held up")

    def is_done(self) -> bool:
        return not self.is_held and not self.pending_marks()

    def wait(self, event: DeviceEvent) -> None:
        self._begin("wait_event")
        if self.recording is not None:
            super().wait(event)
        elif isinstance(event, NullEvent) and event.mark is not None:
            self._pending_marks = (*self.pending_marks(), event.mark)

    def begin_capture(self) -> None:
        self._begin("begin_capture")

    def make_graph(self, recording: Recording) -> DeviceGraph:
        return NullGraph(self.device, recording, self._begin)

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the stream as other libraries take it."""
        return 0, self.handle


class NullEvent(HostEvent):
    """A mark in a stream of a described device."""

    def __init__(self, device: Device, is_timed: bool, begin: Callable[[str], None]) -> None:
        super().__init__(device, is_timed)
        self._begin = begin
        self.mark: _Mark | None = None

    def record(self, stream: DeviceStream) -> None:
        self._begin("record_event")
        assert isinstance(stream, NullStream)
        if stream.recording is not None:
            super().record(stream)
        else:
            self.note_time()
            self.mark = _Mark(stream)

    def is_done(self) -> bool:
        self._begin("query_event")
        return self._is_reached()

    def _is_reached(self) -> bool:
        return self.mark is None or self.mark.is_reached()

    def synchronize(self) -> None:
        """Wait, which a test must not do for work that it holds up itself."""
        self._begin("synchronize")
        if not self._is_reached():
            raise RuntimeError("this would wait for ever: what is before the event is held up")


class NullGraph(HostGraph):
    """Launches and copies that are recorded again each time."""

    def __init__(self, device: Device, recording: Recording, begin: Callable[[str], None]) -> None:
        super().__init__(device, recording)
        self._begin = begin

    def launch(self, stream: DeviceStream) -> None:
        self._begin("launch_graph")
        super().launch(stream)
