"""numba.cuda's streams and events."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from kerneldsl.placement.devices import current_device
from kerneldsl.streams.events import Event as _Event
from kerneldsl.streams.streams import Stream as _Stream

__all__ = [
    "Event",
    "Stream",
    "default_stream",
    "event",
    "event_elapsed_time",
    "external_stream",
    "legacy_default_stream",
    "per_thread_default_stream",
    "stream",
    "stream_of",
]


class Handle(int):
    """A handle of the driver: a number, and its own ``value``."""

    @property
    def value(self) -> int | None:
        """The number; ``None`` of the default stream, as ctypes has it."""
        return int(self) or None


class Stream(_Stream):
    """A queue of work, with numba.cuda's methods."""

    __slots__ = ()
    external = False

    @property
    def handle(self) -> Handle:
        """The driver's handle."""
        return Handle(_Stream.handle.fget(self))  # type: ignore[attr-defined]

    def __int__(self) -> int:
        return int(self.handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the version of this protocol, and the handle."""
        return 0, int(self.handle)

    def __repr__(self) -> str:
        if self._is_default:
            return "<Default CUDA stream>"
        return f"<CUDA stream {int(self.handle):d}>"

    @contextlib.contextmanager
    def auto_synchronize(self) -> Iterator[Stream]:
        """Wait for the work in the stream when the block ends."""
        yield self
        self.synchronize()

    def add_callback(self, callback: Callable[[Any, int, Any], Any], arg: Any = None) -> None:
        """Wait for the work in the stream, and call ``callback(stream, 0, arg)``.

        numba.cuda does not wait here, and calls it from another thread.
        """
        self.synchronize()
        callback(self, 0, arg)

    def async_done(self) -> Any:
        """Return an awaitable that is done with the work in the stream."""
        import asyncio

        return asyncio.get_running_loop().run_in_executor(None, self._wait)

    def _wait(self) -> Stream:
        self.synchronize()
        return self


class ExternalStream(Stream):
    """A stream of another library."""

    __slots__ = ("pointer",)
    external = True
    pointer: int

    @property
    def handle(self) -> Handle:
        """The driver's handle, also on a CPU, which has no such streams."""
        return Handle(getattr(self, "pointer", 0) or _Stream.handle.fget(self))  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"<External CUDA stream {int(self.handle):d}>"


class _NamedStream(ExternalStream):
    """A stream that every driver has, by its handle."""

    __slots__ = ()
    external = False

    def __repr__(self) -> str:
        name = "Legacy" if int(self.handle) == _LEGACY else "Per-thread"
        return f"<{name} default CUDA stream>"


#: Handles that every driver knows.
_LEGACY, _PER_THREAD = 1, 2


class Event(_Event):
    """A mark in a stream, with numba.cuda's methods.

    Parameters
    ----------
    timing : bool, optional
        Whether elapsed times are measured.
    """

    __slots__ = ()

    def __init__(self, timing: bool = True) -> None:
        super().__init__(timing)

    def record(self, stream: Any = 0) -> Event:
        """Mark what is in a stream now."""
        return super().record(_queue(stream))

    def wait(self, stream: Any = 0) -> None:
        """Let later work in a stream wait for the event."""
        super().wait(_queue(stream))

    elapsed_time = _Event.elapsed_ms


def stream_of(stream: Any) -> Any:
    """Return what the rest of kerneldsl takes for a stream of numba.cuda's; 0 is the default."""
    return None if stream is None or (isinstance(stream, int) and not stream) else stream


def _queue(stream: Any) -> Any:
    found = stream_of(stream)
    return default_stream() if found is None else found


def stream() -> Stream:
    """Make a stream."""
    return Stream()


def default_stream() -> Stream:
    """Return the default stream."""
    return Stream._default(current_device())


def legacy_default_stream() -> Stream:
    """Return the default stream, by the handle that every driver knows it by."""
    return _by_handle(_NamedStream, _LEGACY)


def per_thread_default_stream() -> Stream:
    """Return the default stream of this thread."""
    return _by_handle(_NamedStream, _PER_THREAD)


def external_stream(ptr: int) -> Stream:
    """Return a stream that another library made, by its handle."""
    return _by_handle(ExternalStream, ptr)


def _by_handle(kind: type[ExternalStream], handle: int) -> ExternalStream:
    made = kind() if current_device().is_synchronous else kind.from_foreign(handle)
    made.pointer = handle
    return made


event = Event


def event_elapsed_time(evtstart: Event, evtend: Event) -> float:
    """Return the milliseconds between two events."""
    return evtstart.elapsed_time(evtend)
