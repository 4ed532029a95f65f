"""Streams, events and graphs of devices on which nothing runs, so that all work is done at once.

A test may hold up a stream to see what waits for it: until it is released, the stream is not done,
and neither are events that are recorded in it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from kerneldsl.contract import Device, DeviceEvent, DeviceGraph, DeviceStream, Recording
from kerneldsl.contract.host_streams import HostEvent, HostGraph, HostStream

__all__ = ["NullEvent", "NullGraph", "NullStream"]


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
        #: How often it was released, and whether it is held up now.
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
