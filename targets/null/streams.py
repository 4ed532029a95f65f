"""Streams, events and graphs of devices on which nothing runs, so that all work is done at once.

A test may hold up a stream to see what waits for it: until it is released, the stream is not done,
and neither are events that are recorded in it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from kerneldsl.target import Device, DeviceEvent, DeviceGraph, DeviceStream, Recording
from kerneldsl.target.host_streams import HostEvent, HostGraph, HostStream

__all__ = ["NullEvent", "NullGraph", "NullStream"]


class NullStream(HostStream):
    """A stream of a described device.

    Parameters
    ----------
    device : Device
        Where it is.
    begin : callable
        Takes the name of an operation, and raises the error that a test has planned for it.
    handle : int, optional
        A number given by somebody else.
    foreign : object, optional
        What it stands for, if that is another library's.
    """

    def __init__(
        self,
        device: Device,
        begin: Callable[[str], None],
        handle: int | None = None,
        foreign: object = None,
    ) -> None:
        super().__init__(device, lambda: begin("synchronize"), handle, foreign)
        self._begin = begin
        #: How often it was released, and whether it is held up now.
        self._releases = 0
        self._is_held = False
        #: What this stream waits for.
        self._awaited: list[NullEvent] = []

    def held(self) -> AbstractContextManager[object]:
        """A ``with`` block in which the work in the stream does not get done."""
        stack = ExitStack()
        self._is_held = True
        stack.callback(self._release)
        return stack

    def _release(self) -> None:
        self._is_held = False
        self._releases += 1

    def position(self) -> tuple[int, bool]:
        """Where the work ends that is in the stream now, and whether it is held up."""
        return self._releases, self._is_held

    def has_passed(self, position: tuple[int, bool]) -> bool:
        """Whether the work before a position is done."""
        releases, is_held = position
        return not is_held or self._releases > releases

    def synchronize(self) -> None:
        """Wait, which a test must not do for work that it holds up itself."""
        self._begin("synchronize")
        if not self.is_done():
            raise RuntimeError(f"this would wait for ever: {self!r} is held up")

    def is_done(self) -> bool:
        self._awaited = [event for event in self._awaited if not event.is_done()]
        return not self._is_held and not self._awaited

    def wait(self, event: DeviceEvent) -> None:
        self._begin("wait_event")
        if isinstance(event, NullEvent) and not event.is_done():
            self._awaited.append(event)

    def begin_capture(self) -> None:
        self._begin("begin_capture")

    def end_capture(self) -> DeviceGraph:
        assert self.recording is not None
        return NullGraph(self.device, self.recording, self._begin)

    def __cuda_stream__(self) -> tuple[int, int]:
        """As other libraries take a stream."""
        return 0, self.handle


class NullEvent(HostEvent):
    """A mark in a stream of a described device.

    Parameters
    ----------
    device : Device
        Where it is.
    is_timed : bool
        Whether it may be asked for its time.
    begin : callable
        As for `NullStream`.
    """

    def __init__(self, device: Device, is_timed: bool, begin: Callable[[str], None]) -> None:
        super().__init__(device, is_timed)
        self._begin = begin
        self._mark: tuple[NullStream, tuple[int, bool]] | None = None
        self._before: tuple[NullEvent, ...] = ()

    def record(self, stream: DeviceStream) -> None:
        self._begin("record_event")
        assert isinstance(stream, NullStream)
        if stream.recording is None:
            self.note_time()
            self._mark = stream, stream.position()
            self._before = tuple(stream._awaited)

    def is_done(self) -> bool:
        if self._mark is None:
            return True
        stream, position = self._mark
        return stream.has_passed(position) and all(event.is_done() for event in self._before)

    def synchronize(self) -> None:
        """Wait, which a test must not do for work that it holds up itself."""
        self._begin("synchronize")
        if not self.is_done():
            raise RuntimeError(f"this would wait for ever: {self._mark} is held up")


class NullGraph(HostGraph):
    """Launches and copies that are recorded anew each time.

    Parameters
    ----------
    device : Device
        Where it is.
    recording : Recording
        What was recorded.
    begin : callable
        As for `NullStream`.
    """

    def __init__(self, device: Device, recording: Recording, begin: Callable[[str], None]) -> None:
        super().__init__(device, recording)
        self._begin = begin

    def launch(self, stream: DeviceStream) -> None:
        self._begin("launch_graph")
        super().launch(stream)
