"""Streams: queues of work on a device, and which of them a launch or copy goes into.

The order is: the stream that was named; the innermost active ``with stream:`` of the device; the
streams in which other libraries' arguments were made; the device's default stream.

Inside of the core a stream is a :class:`~kerneldsl.target.DeviceStream`, or ``None`` for the
device's default stream; :func:`resolve_stream` makes it of whatever stands for a stream.
"""

from __future__ import annotations

import contextvars
import ctypes
import operator
import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from kerneldsl.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    ClosedResourceError,
    DeviceMismatchError,
)
from kerneldsl.runtime.own import ProcessOwned
from kerneldsl.runtime.placement import Place, context_place, current_place, place_of
from kerneldsl.runtime.streams import order
from kerneldsl.runtime.streams.recordings import refuse_recording
from kerneldsl.runtime.streams.stream_handles import adopt, forget, place_of_foreign, register
from kerneldsl.target import Device, DeviceLike, DeviceStream, names_default_stream

if TYPE_CHECKING:
    from kerneldsl.runtime.streams.events import Event
    from kerneldsl.runtime.streams.graphs import capture

__all__ = [
    "Stream",
    "active_stream",
    "ambient_stream",
    "are_in_use",
    "are_some_nonblocking",
    "current_stream",
    "default_stream",
    "in_use_word",
    "refuse_waiting",
    "resolve_stream",
]

#: Whether a stream was ever made, so that launches need not look for one before.
are_in_use = False
#: The same for native code.
in_use_word = (ctypes.c_int64 * 1)(0)
#: Whether a stream was ever made that does not wait for the default stream.
are_some_nonblocking = False

#: The active ``with stream:`` blocks of this context, outermost first, each with the device that
#: was chosen before it.
_active: contextvars.ContextVar[tuple[tuple[Stream, Place | None], ...]] = contextvars.ContextVar(
    "kerneldsl_streams", default=()
)
_defaults: dict[Place, Stream] = {}


class Stream(ProcessOwned):
    """A queue of work on a device: what is put into it runs in its order.

    Launches and copies that name it (``kernel[grid, block, stream]``, ``stream=``) go into it, and
    inside of ``with stream:`` those that name none, in this context (thread or asyncio task) alone;
    its device is then also where kernels run.

    Parameters
    ----------
    device : str or Device, optional
        Where; by default where kernels run now.
    priority : int, optional
        A lower number is a higher priority; 0 is the lowest. What the device does not have is
        clamped to what it has.
    blocking : bool, optional
        Whether work in this stream and work in the default stream wait for each other, which is
        right where both use the same arrays.

    Attributes
    ----------
    is_blocking : bool
        As given; False for another library's stream, of which it is not known.
    priority : int
        As given; 0 for another library's stream.

    Raises
    ------
    ArgumentTypeError
        If the priority is no int.

    Notes
    -----
    On a target whose launches finish before they return, as the CPU's do, a stream is always empty.

    References
    ----------
    CUDA Programming Guide, section "Streams"; CUDA Driver API, section "Stream synchronization
    behavior"; cuda.core, "The ``__cuda_stream__`` protocol".
    """

    __slots__ = (
        "__weakref__",
        "_is_closed",
        "_is_default",
        "_place",
        "_stream",
        "is_blocking",
        "priority",
    )

    def __init__(
        self, device: DeviceLike | None = None, *, priority: int = 0, blocking: bool = True
    ) -> None:
        try:
            level = operator.index(priority)
        except TypeError:
            raise ArgumentTypeError(
                f"priority is {priority!r}",
                value=priority,
                limit="A priority is an int; a lower one comes first",
            ) from None
        place = current_place() if device is None else place_of(device)
        made = place.target.create_stream(place.device, priority=level, is_blocking=bool(blocking))
        made.priority, made.is_blocking = level, bool(blocking)
        self._begin(place, made)
        register(place, made.handle, made)

    def _begin(self, place: Place, stream: DeviceStream) -> None:
        global are_in_use, are_some_nonblocking  # noqa: PLW0603 -- facts about the process
        self._place = place
        self._stream = stream
        self._is_default = False
        self._is_closed = False
        self.priority = stream.priority
        self.is_blocking = stream.is_blocking
        are_in_use = True
        in_use_word[0] = 1
        if not stream.is_blocking:
            are_some_nonblocking = True

    @classmethod
    def from_foreign(cls, stream: Any, device: DeviceLike | None = None) -> Stream:
        """Take over a stream of another library.

        Parameters
        ----------
        stream : object
            A stream of torch, CuPy, numba or cuda.core, or another object with
            ``__cuda_stream__``, or a handle as ``int``. It is kept alive.
        device : str or Device, optional
            Where it is; by default what the object says, else where kernels run now.

        Returns
        -------
        Stream
            A stream over the same queue; closing it leaves the other library's open. A stream of
            ours that another library has wrapped comes back as itself in all but identity, and
            the legacy default stream as :func:`default_stream`.

        Raises
        ------
        ArgumentTypeError
            If the object is no stream.
        DeviceMismatchError
            If it is on another device.
        """
        if isinstance(stream, Stream):
            return stream
        if stream is None:
            raise ArgumentTypeError(
                "None is no stream",
                value=None,
                limit="A stream is one of torch, CuPy, numba or cuda.core, or a handle",
                remedy="Take the default stream with kd.default_stream()",
            )
        place = current_place() if device is None else place_of(device)
        if device is None:
            place = place_of_foreign(stream, place)
        if place.is_host:
            raise ArgumentTypeError(
                f"a {type(stream).__qualname__} is no stream of {place.name}",
                value=stream,
                limit="Launches there finish before they return, in no other library's stream",
                remedy="Name the device: kd.Stream.from_foreign(stream, device='cuda')",
            )
        found = adopt(place, stream)
        if names_default_stream(found.handle):
            return default_stream(place.device)
        self = cls.__new__(cls)
        self._begin(place, found)
        return self

    # ------------------------------------------------------------------ what it is

    @property
    def device(self) -> Device:
        """Where the stream is."""
        return self._place.device

    @property
    def handle(self) -> int:
        """The driver's number for the stream, as other libraries take it.

        While the stream is recorded it is the number of the recording: what another library puts
        into *that* stream is recorded, too. The default stream is 0, as torch and CuPy count.
        """
        handle = self._open().handle
        return 0 if self._is_default else handle

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._is_closed

    @property
    def is_capturing(self) -> bool:
        """Whether what is put into the stream is recorded instead of run."""
        return self._stream.recording is not None

    @property
    def __cuda_stream__(self) -> Callable[[], tuple[int, int]]:
        """The protocol by which cuda.core, torch and CuPy take a stream; on a GPU alone."""
        if self._place.is_host:
            raise AttributeError(f"a stream on {self._place.name} has no __cuda_stream__")
        return lambda: (0, self._open().handle)

    # ------------------------------------------------------------------ order

    def record(self, event: Event | None = None) -> Event:
        """Put a mark behind what is in the stream now.

        Parameters
        ----------
        event : Event, optional
            The mark; a new one that can be timed by default.

        Returns
        -------
        Event
            The mark.

        Raises
        ------
        ArgumentTypeError
            If `event` is none of ours.
        """
        from kerneldsl.runtime.streams.events import Event, as_event

        return (Event() if event is None else as_event(event)).record(self)

    def wait(self, other: Event | Stream | Any) -> None:
        """Let what is put in from now on wait for an event, or for what is in another stream now.

        The host is not held up. Both may be of another device, and of another library.

        Parameters
        ----------
        other : Event or Stream or object
            What to wait for.

        Raises
        ------
        GraphError
            If one of the two is recorded, and the other not in the same recording.
        """
        from kerneldsl.runtime.streams.events import Event, wait_for

        if not isinstance(other, Event | Stream):
            wait_for(self, other)
        elif isinstance(other, Event):
            other.wait(self)
        else:
            # A mark that nobody times costs the device least.
            Event(timed=False).record(other).wait(self)

    def synchronize(self) -> None:
        """Wait until everything in the stream has finished.

        Raises
        ------
        DriverError
            If something in it has failed.
        GraphError
            If the stream is being recorded.
        """
        stream = self._open()
        refuse_recording(stream, "wait for a stream")
        stream.synchronize()
        order.let_go()

    def query(self) -> bool:
        """Whether everything in the stream has finished, without waiting."""
        stream = self._open()
        refuse_recording(stream, "ask whether a stream is done")
        return stream.is_done()

    def capture(self) -> capture:
        """Record launches and copies instead of running them.

        Use it as ``with stream.capture() as graph:``. Inside of the block the stream is the current
        one; afterwards `graph` can be launched. See :class:`kerneldsl.Graph` for what can be
        recorded.

        Returns
        -------
        capture
            A context manager that gives the graph.

        Raises
        ------
        GraphError
            When the block begins, if the stream is recorded already, is the default stream or
            another library's; when it ends, if what was recorded makes no graph.
        """
        from kerneldsl.runtime.streams.graphs import capture

        return capture(self)

    # ------------------------------------------------------------------ life

    def close(self) -> None:
        """Give the stream back once its work is done, without waiting; twice is harmless.

        Raises
        ------
        GraphError
            If the stream is being recorded.
        """
        if self._is_closed:
            return
        refuse_recording(self._stream, "close a stream")
        if self._is_default:
            raise ArgumentValueError(
                f"the default stream of {self._place.name} cannot be closed",
                value=self,
                limit="It belongs to the device",
            )
        self._is_closed = True
        if not self._stream.is_foreign:
            forget(self._place, self._stream.handle)
        self._stream.close()

    def _open(self) -> DeviceStream:
        """The device's stream; raises `ClosedResourceError` after :meth:`close`."""
        if self._is_closed:
            raise ClosedResourceError.after_close(
                f"a stream on {self._place.name}",
                self,
                given_back="the stream",
                instead="Make another one with kd.Stream()",
            )
        return self._stream

    def __enter__(self) -> Self:
        self._open()
        _active.set((*_active.get(), (self, context_place.get())))
        context_place.set(self._place)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # No tokens: one stream may be active in several threads, which end in any order. So may
        # blocks of generators, which can even end in another context, where there is nothing to do.
        active = _active.get()
        depth = next((i for i in reversed(range(len(active))) if active[i][0] is self), None)
        if depth is None:
            return
        place_before = active[depth][1]
        inner = active[depth + 1 :]
        if inner:
            inner = ((inner[0][0], place_before), *inner[1:])
        else:
            context_place.set(place_before)
        _active.set((*active[:depth], *inner))

    def __repr__(self) -> str:
        if self._is_closed:
            return f"<Stream on {self._place.name}, closed>"
        if self._is_default:
            return f"<Stream on {self._place.name}, the default>"
        notes = [f"{self._stream.handle:#x}"]
        if self._stream.is_foreign:
            notes.append("of another library")
        else:
            notes += [] if self.is_blocking else ["not blocking"]
            notes += [f"priority {self.priority}"] if self.priority else []
        notes += ["recording"] if self.is_capturing else []
        return f"<Stream on {self._place.name}, {', '.join(notes)}>"


# --------------------------------------------------------------------------- which one


def current_stream(device: DeviceLike | None = None) -> Stream:
    """The stream that launches and copies go into which name none.

    Parameters
    ----------
    device : str or Device, optional
        Of which device; by default where kernels run now.

    Returns
    -------
    Stream
        That of the innermost active ``with stream:`` of the device, else its default stream.
    """
    place = current_place() if device is None else place_of(device)
    return active_stream(place) or default_stream(place.device)


def active_stream(place: Place) -> Stream | None:
    """The stream of the innermost active ``with stream:`` of a device."""
    for stream, _ in reversed(_active.get()):
        if stream._place is place.actual:
            return stream
    return None


def default_stream(device: DeviceLike | None = None) -> Stream:
    """The stream that launches go into when no stream was ever made.

    Parameters
    ----------
    device : str or Device, optional
        Of which device; by default where kernels run now.

    Returns
    -------
    Stream
        On CUDA the legacy default stream, which waits for every blocking stream and is waited for.
    """
    place = current_place() if device is None else place_of(device)
    found = _defaults.get(place)
    if found is None:
        found, stream = Stream.__new__(Stream), place.target.wrap_stream(place.device, None)
        stream.is_blocking = True
        found._begin(place, stream)
        found._is_default = True
        found = _defaults.setdefault(place, found)
    return found


def ambient_stream(place: Place) -> DeviceStream | None:
    """The stream of the innermost active ``with stream:`` of a device, or ``None``.

    Raises
    ------
    ClosedResourceError
        If it was closed inside of its own block.
    """
    if not are_in_use:
        return None
    stream = active_stream(place)
    return None if stream is None or stream._is_default else stream._open()


def resolve_stream(place: Place, stream: Any) -> DeviceStream | None:
    """The stream of a device that something stands for, or ``None`` for its default stream.

    Parameters
    ----------
    place : Place
        The device.
    stream : object
        ``None`` for the current stream; a `Stream`; another library's stream or handle, which a
        device whose launches finish before they return does not look at.

    Raises
    ------
    ClosedResourceError
        If the stream was closed.
    DeviceMismatchError
        If it is on another device.
    ArgumentTypeError
        If the object is no stream.
    """
    if stream is None:
        return ambient_stream(place)
    if isinstance(stream, Stream):
        found = stream._open()
        if stream._place is not place.actual:
            _refuse_place(stream._place.name, place)
        return None if stream._is_default else found
    if isinstance(stream, DeviceStream):
        if stream.device != place.device:
            _refuse_place(str(stream.device), place)
        return stream
    if place.is_host or names_default_stream(stream):
        return None
    return adopt(place, stream)


def _refuse_place(found: str, place: Place) -> NoReturn:
    raise DeviceMismatchError(
        f"the stream is on {found}, and the work on {place.name}",
        value=found,
        limit="Work goes into a stream of its own device",
        remedy=f"Make the stream with kd.Stream({place.name!r}), or leave it out",
    )


def refuse_waiting() -> None:
    """Raise `GraphError` in a context in which a stream is recorded, where devices are waited for.

    The driver would refuse, and drop the recording.
    """
    for stream, _ in _active.get():
        refuse_recording(stream._stream, "wait for a device")


order.use_streams(sys.modules[__name__])
