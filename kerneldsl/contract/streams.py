"""Queues of work on a device, marks in them, and work that was recorded once to be replayed.

Implementations perform the operations of :class:`kerneldsl.Stream`, :class:`kerneldsl.Event` and
:class:`kerneldsl.Graph`. These check their arguments: a stream may be closed, of another device, or
being recorded. So an implementation does not check. A target with launches that finish before they
return needs no implementation: the defaults of the contract are
:mod:`kerneldsl.contract.host_streams`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from kerneldsl.utilities.observed import Observable, observed

if TYPE_CHECKING:
    from kerneldsl.contract.device import Device

__all__ = [
    "DeviceEvent",
    "DeviceGraph",
    "DeviceStream",
    "LaunchTimer",
    "Recording",
    "Step",
    "Tracer",
    "is_recorded",
    "names_default_stream",
]


def names_default_stream(stream: Any) -> bool:
    """Return whether something is a number that names CUDA's legacy default stream."""
    return isinstance(stream, int) and stream in (0, 1) and not isinstance(stream, bool)


class Step:
    """One launch, copy or other piece of work, for targets that run things at once.

    Parameters
    ----------
    what : str
        Such as ``"launch axpy"``; its first word is the kind of the step.
    run : callable
        Does it.
    """

    __slots__ = ("run", "what")

    def __init__(self, what: str, run: Callable[[], None]) -> None:
        self.what = what
        self.run = run

    @property
    def kind(self) -> str:
        """``"launch"``, ``"copy"``…: what an update of a graph must not change."""
        return self.what.partition(" ")[0]


class Recording:
    """A capture that is being made: which streams take part, and what it needs later.

    Attributes
    ----------
    streams : list of DeviceStream
        The stream that began the capture, then those that joined it by waiting for one of
        its events.
    kept : list
        What must live as long as the graph: arrays, host memory, kernels.
    kernels : list of str
        Names of the kernels that are launched, in order.
    steps : list of Step
        What was put in, in order, on a target that runs things at once; else empty.
    is_open : bool
        Whether it is still being made.
    """

    def __init__(self, stream: DeviceStream) -> None:
        self.streams = [stream]
        self.kept: list[Any] = []
        self.kernels: list[str] = []
        self.steps: list[Step] = []
        self.is_open = True


def is_recorded(stream: Any) -> bool:
    """Return whether what is put into a stream is recorded instead of run."""
    # Only a DeviceStream has a recording, and testing for that class takes far longer.
    return stream is not None and getattr(stream, "recording", None) is not None


class DeviceStream(Observable, ABC):
    """A queue of work: what is put into it runs in its order."""

    device: Device
    #: The driver's number for it; what other libraries take. While the stream is recorded, this
    #: **may** be another one, through which their work is recorded too.
    handle: int
    #: The core's recording of this stream; set and cleared by the core alone.
    recording: Recording | None = None
    #: Whether the stream belongs to another library, so that its handle may become invalid at any
    #: time.
    is_foreign: bool = False
    #: Settings with which the core made the stream; those of another library's stream are unknown.
    priority: int = 0
    is_blocking: bool = False

    @property
    def own_handle(self) -> int:
        """The handle of the stream itself, also while it is recorded.

        Memory is allocated and released in its order, and never as part of a recording.
        """
        return self.handle

    @observed("wait")
    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything in the stream has finished; **must** raise what failed there."""

    @abstractmethod
    def is_done(self) -> bool:
        """Return whether everything in the stream has finished, without waiting."""

    @abstractmethod
    def wait(self, event: DeviceEvent) -> None:
        """Let what is put in from now on wait for an event, also one of another device."""

    def put(self, what: str, run: Callable[[], None]) -> None:
        """Put a step into the stream, by calling what starts it.

        The default calls it at once, and is right where the driver does the recording. A target
        that runs things at once **must** keep the step instead while the stream is recorded.

        Parameters
        ----------
        what : str
            Such as ``"launch axpy"``.
        run : callable
            Starts it, in this stream.
        """
        run()

    def keeping_capture(self) -> AbstractContextManager[None]:
        """Let the code that is loaded in the block not spoil what another library records here."""
        return nullcontext()

    @abstractmethod
    def begin_capture(self) -> None:
        """Record what is put in from now on instead of running it.

        **Must not** disturb other streams, the default stream among them, whichever thread uses
        them; what this thread loads or allocates meanwhile takes effect at once.
        """

    @abstractmethod
    def join_capture(self, event: DeviceEvent) -> None:
        """Take part in the recording in which an event was recorded, after that event."""

    @abstractmethod
    def leave_capture(self) -> None:
        """End taking part, once the recording has ended; **must not** raise."""

    @abstractmethod
    def end_capture(self) -> DeviceGraph:
        """End the recording and return it, ready to be launched.

        **Must** raise `GraphError` where the driver takes it for no graph, and then leave the
        stream usable.
        """

    @abstractmethod
    def abort_capture(self) -> None:
        """End the recording and drop it; **must not** raise."""

    @abstractmethod
    def close(self) -> None:
        """Give the stream back once its work is done, without waiting; twice is harmless."""


class DeviceEvent(Observable, ABC):
    """A mark in a stream that can be waited for, and timed."""

    device: Device
    #: The driver's number for it.
    handle: int
    is_timed: bool

    @abstractmethod
    def record(self, stream: DeviceStream) -> None:
        """Put the mark into a stream; the one before, if any, is forgotten."""

    @observed("wait")
    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the mark has been reached."""

    @abstractmethod
    def is_done(self) -> bool:
        """Return whether the mark has been reached; an event never recorded is done."""

    @abstractmethod
    def elapsed_ms_since(self, earlier: DeviceEvent) -> float:
        """Return the milliseconds on the device between two timed marks that have been reached."""

    @abstractmethod
    def close(self) -> None:
        """Give the event back; twice is harmless."""


class DeviceGraph(Observable, ABC):
    """Work that was recorded, and runs as often as it is launched."""

    device: Device
    #: Number of launches, copies and other steps in the graph.
    node_count: int

    @observed("graph")
    @abstractmethod
    def launch(self, stream: DeviceStream) -> None:
        """Put the whole recording into a stream."""

    @abstractmethod
    def update(self, newer: DeviceGraph) -> None:
        """Take over the parameters of a recording of the same shape.

        **Must** raise `GraphError` where the shapes differ, and then leave this one as it was.
        """

    @abstractmethod
    def write_dot(self, path: str) -> None:
        """Write the steps and their order to a file, in the language DOT."""

    @abstractmethod
    def close(self) -> None:
        """Give the recording back; work that is under way **must** go on. Twice is harmless."""


# The time that a device itself takes for a launch.


class LaunchTimer(ABC):
    """Two marks around one launch; made by :meth:`Device.start_timer`, which sets the first."""

    @abstractmethod
    def stop(self) -> None:
        """Set the second mark, after the launch; **must not** wait or raise."""

    @abstractmethod
    def elapsed_ns(self) -> int | None:
        """Return the nanoseconds between the marks, or ``None`` while they are not reached.

        **Must not** wait. If the time is not available any more (the device is lost), an
        implementation **must** return -1. Then it is not called again.
        """

    def begin_ns_since(self, earlier: LaunchTimer) -> int | None:
        """Return the nanoseconds from the first mark of another timer of the device to this one's.

        Both have been stopped, and `elapsed_ns` has answered. **May** return ``None``, which the
        default does, where the device does not report; **must not** wait or raise.
        """
        return None


class Tracer(ABC):
    """A tool that writes down when work on a device ran; made by :meth:`Device.trace`."""

    @abstractmethod
    def start_timer(self, stream: Any) -> LaunchTimer | None:
        """Begin to time what this thread puts into the stream next; as `Device.start_timer`."""

    @abstractmethod
    def flush(self) -> None:
        """Fetch what has been written down of work that has finished; **must not** wait for it."""

    @abstractmethod
    def close(self) -> None:
        """Write no more down; what was fetched **must** stay."""
