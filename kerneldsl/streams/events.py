"""Events: points in a stream to wait for and to time."""

from __future__ import annotations

from typing import Any, Self

from kerneldsl.contract import Device, DeviceEvent, DeviceStream, Recording
from kerneldsl.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    ClosedResourceError,
    DeviceMismatchError,
    GraphError,
    KernelError,
)
from kerneldsl.errors.values import a_type
from kerneldsl.placement.devices import current_device
from kerneldsl.streams.current import BaseStream, as_stream
from kerneldsl.streams.order import refuse_recording
from kerneldsl.streams.stream_handles import register
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.process_owned import ProcessOwned
from kerneldsl.utilities.tracebacks import shorten, shorten_errors_of

__all__ = ["Event", "as_event", "wait_for"]


@shorten_errors_of("record")
class Event(ProcessOwned):
    """A point in a stream; it is reached when all earlier work in the stream has finished.

    An event belongs to the device of the stream in which it is first recorded. It can be recorded
    again; streams that wait for it keep waiting for the earlier point.

    Parameters
    ----------
    timed : bool, optional
        Whether :meth:`elapsed_ms` can be called. Events without timing cost the device less.
    blocking : bool, optional
        Whether a thread in :meth:`synchronize` sleeps until the event is reached. By default it
        spins, and continues slightly earlier. (`blocking` of a `Stream` has another meaning: its
        order with the default stream.)

    Attributes
    ----------
    is_timed, is_blocking : bool
        The arguments.
    device : Device or None
        The device of the event; ``None`` before it is first recorded.

    References
    ----------
    CUDA Driver API, section "Event Management" (``CU_EVENT_BLOCKING_SYNC``).

    Examples
    --------
    >>> import kerneldsl as kd
    >>> event = kd.Event()
    >>> event = event.record()
    >>> event.synchronize()
    >>> event.query()
    True
    """

    __slots__ = (
        "__weakref__",
        "_event",
        "_is_closed",
        "_recording",
        "device",
        "is_blocking",
        "is_timed",
    )

    def __init__(self, timed: bool = True, *, blocking: bool = False) -> None:
        self.is_timed = read_flag("timed", timed)
        self.is_blocking = read_flag("blocking", blocking)
        self._event: DeviceEvent | None = None
        self.device: Device | None = None
        self._is_closed = False
        #: The recording in which it was recorded last, if any.
        self._recording: Recording | None = None

    @property
    def handle(self) -> int:
        """The driver's handle of the event.

        Raises
        ------
        ArgumentValueError
            If it was never recorded, so that it has no handle yet.
        """
        self._check_open()
        return self._recorded("read the handle of").handle

    @property
    def is_closed(self) -> bool:
        """True if :meth:`close` was called."""
        return self._is_closed

    def record(self, stream: BaseStream | None = None) -> Self:
        """Record the event after the work that is in a stream now.

        Parameters
        ----------
        stream : Stream, optional
            The stream; by default the current one.

        Returns
        -------
        Event
            The event itself.

        Raises
        ------
        DeviceMismatchError
            If the event belongs to another device.
        ClosedResourceError
            If the event or the stream was closed.
        """
        try:
            self._check_open()
            stream = as_stream(stream, current_device())
            into, device = stream._open(), stream.device
            if self._event is None:
                self._event = device.create_event(
                    is_timed=self.is_timed, is_blocking=self.is_blocking
                )
                self.device = device
            elif self.device is not device:
                raise DeviceMismatchError(
                    f"the stream is on {device}, and the event on {self.device}",
                    value=str(device),
                    limit="An event belongs to the device on which it was first recorded",
                    remedy="Take another event: kd.Event()",
                )
            self._event.record(into)
            self._recording = into.recording
            return self
        except KernelError as error:
            shorten(error)
            raise

    def wait(self, stream: BaseStream | None = None) -> None:
        """Make later work in a stream wait until the event is reached; the host does not wait.

        An event that was never recorded is not waited for. A stream that waits for an event of a
        recording takes part in the recording from then on.

        Parameters
        ----------
        stream : Stream, optional
            The stream that waits; by default the current one. It may be on another device.

        Raises
        ------
        GraphError
            If the stream is being recorded and the event was recorded before, in another recording,
            or in one that has ended.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> copies, launches = kd.Stream(), kd.Stream()
        >>> event = copies.record()
        >>> event.wait(launches)
        """
        self._check_open()
        stream = as_stream(stream, current_device())
        waiting = stream._open()
        if self._event is None:
            return
        _check_recordings(self._recording, waiting)
        if self._recording is None or waiting.recording is not None:
            waiting.wait(self._event)
        else:
            _join(waiting, self._event, self._recording, stream)

    def synchronize(self) -> None:
        """Wait until the event is reached; return at once if it was never recorded.

        Raises
        ------
        DriverError
            If earlier work in the stream has failed.
        """
        self._check_open()
        if self._event is not None:
            self._refuse_recorded("wait for")
            self._event.synchronize()

    def query(self) -> bool:
        """Return whether the event is reached, without waiting; True if it was never recorded."""
        self._check_open()
        if self._event is None:
            return True
        self._refuse_recorded("query")
        return self._event.is_done()

    def elapsed_ms(self, later: Event) -> float:
        """Return the milliseconds on the device between this event and a later one; waits for both.

        Parameters
        ----------
        later : Event
            An event on the same device.

        Returns
        -------
        float
            Negative if `later` was reached before this event.

        Raises
        ------
        ArgumentValueError
            If one of the two has no timing or was never recorded.
        DeviceMismatchError
            If they are on different devices, since these have different clocks.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> stream = kd.Stream()
        >>> start, end = stream.record(), stream.record()
        >>> start.elapsed_ms(end) >= 0
        True
        """
        if not isinstance(later, Event):
            raise ArgumentTypeError(
                f"elapsed_ms was given {a_type(later)}",
                value=later,
                limit="It takes the event up to which to measure",
                remedy="Record one: later = stream.record()",
            )
        marks = []
        for event in (self, later):
            event._check_open()
            mark = event._recorded("time")
            event._refuse_recorded("time")
            if not event.is_timed:
                raise ArgumentValueError(
                    "the event has no time",
                    value=event,
                    limit="It was made with timed=False",
                    remedy="Make it with kd.Event()",
                )
            marks.append(mark)
        if self.device is not later.device:
            raise DeviceMismatchError(
                f"the events are on {self.device} and {later.device}",
                value=later,
                limit="Each device has its own clock",
                remedy="Measure on one device, or on the host with time.perf_counter()",
            )
        for mark in marks:
            mark.synchronize()
        return marks[1].elapsed_ms_since(marks[0])

    def close(self) -> None:
        """Release the event; streams that wait for it keep waiting. Twice is harmless."""
        if not self._is_closed:
            self._is_closed = True
            if self._event is not None:
                self._event.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedResourceError.after_close(
                "an event",
                self,
                given_back="the event",
                instead="Make another one with kd.Event()",
            )

    def _recorded(self, doing: str) -> DeviceEvent:
        if self._event is None:
            raise ArgumentValueError(
                f"kerneldsl cannot {doing} an event that was never recorded",
                value=self,
                limit="An event gets its place and time when it is recorded",
                remedy="Record it first: event.record(stream)",
            )
        return self._event

    def _refuse_recorded(self, doing: str) -> None:
        if self._recording is not None:
            raise GraphError(
                f"kerneldsl cannot {doing} an event that was last recorded in a "
                "`with stream.capture()`",
                value=self,
                limit="It belongs to a capture, and not to a stream",
                remedy="Record it again outside of the block, or after graph.launch()",
            )

    def __repr__(self) -> str:
        if self._is_closed:
            return "<Event, closed>"
        if self.device is None:
            return "<Event, never recorded>"
        notes = "" if self.is_timed else ", not timed"
        notes += ", blocking" if self.is_blocking else ""
        return f"<Event on {self.device}{notes}>"


def as_event(event: Any) -> Event:
    """Return the event itself.

    Raises `ArgumentTypeError` if it is not a `kerneldsl.Event`: another library records its events.
    """
    if not isinstance(event, Event):
        raise ArgumentTypeError(
            f"record was given {a_type(event)}",
            value=event,
            limit="A stream records events of kerneldsl: stream.record(event), or "
            "event.record(stream)",
            remedy="Make one with kd.Event(), or leave it out: mark = stream.record()",
        )
    return event


def _check_recordings(recording: Recording | None, waiting: DeviceStream) -> None:
    """Refuse an order between what is recorded and what is not."""
    if recording is not None and not recording.is_open:
        raise GraphError(
            "the event was last recorded in a `with stream.capture()` that has ended",
            limit="It belongs to the capture, and not to a stream",
            remedy="Record it again: after graph.launch(stream), stream.record(event)",
        )
    if waiting.recording is not None and waiting.recording is not recording:
        raise GraphError(
            "a stream that is being captured cannot wait for an event recorded outside of the "
            "capture",
            limit="Captured work must not depend on work outside of the capture",
            remedy="Wait before the `with stream.capture()`, or let the stream wait in which the "
            "graph is launched",
        )


def _join(
    waiting: DeviceStream, event: DeviceEvent, recording: Recording, stream: BaseStream
) -> None:
    """Make a stream take part in a recording."""
    if stream._is_default or waiting.is_foreign:
        raise GraphError(
            f"{stream!r} cannot take part in a capture",
            value=stream,
            limit="Streams that kerneldsl made can, other libraries' and the default stream cannot",
            remedy="Use a kd.Stream()",
        )
    if stream.device != recording.streams[0].device:
        raise DeviceMismatchError(
            f"the stream is on {stream.device}, and the capture on {recording.streams[0].device}",
            value=stream,
            limit="A graph belongs to one device",
            remedy="Record one graph for each device, and order them with events",
        )
    waiting.join_capture(event)
    waiting.recording = recording
    recording.streams.append(waiting)
    register(stream.device, waiting.handle, waiting)


def wait_for(stream: BaseStream, other: Any) -> None:
    """Make a stream wait for another library's event, or for the work in its stream now."""
    waiting = stream._open()
    refuse_recording(
        waiting,
        "wait for another library",
        "Wait before the `with stream.capture()`, or in the stream in which the graph is launched",
    )
    device = stream.device
    try:
        is_event = _is_event(other)
    except Exception:  # noqa: BLE001 -- a foreign object may raise anything
        is_event = False
    if is_event:
        waiting.wait(device.wrap_event(other))
        return
    Event(timed=False).record(BaseStream.from_foreign(other)).wait(stream)


def _is_event(other: Any) -> bool:
    """Return whether another library's object is an event: they look much like streams."""
    return hasattr(other, "cuda_event") or type(other).__name__ == "Event"
