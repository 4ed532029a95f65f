"""Which stream work on memory goes into, and what must live until it is done.

This stands below :mod:`~kerneldsl.runtime.streams.streams`, which a program that names no stream
never imports; so streams are looked for here only once that module has said that it is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from kerneldsl.errors import ArgumentTypeError, DriverError
from kerneldsl.locks import ForkSafeLock
from kerneldsl.runtime.placement import Place
from kerneldsl.target import DeviceEvent, DeviceStream, names_default_stream

__all__ = ["is_foreign", "keep_until_done", "note_recorded", "put", "stream_of", "use_streams"]

#: What is handed over by mistake, and would mean nothing where work is done at once.
_NEVER_STREAMS = (bool, float, str, tuple, list)

#: The module of streams, once it has been imported whole; without it nobody has made a stream.
_streams: ModuleType | None = None


def use_streams(module: ModuleType) -> None:
    """Look for streams from now on; called by their module when it is whole."""
    global _streams  # noqa: PLW0603 -- a fact about the process
    _streams = module


def stream_of(place: Place, stream: Any) -> Any:
    """The stream of a device that something stands for.

    Parameters
    ----------
    place : Place
        The device.
    stream : object
        ``None`` for the current stream, a `kerneldsl.Stream`, or another library's stream or
        handle.

    Returns
    -------
    DeviceStream or None or object
        ``None`` is the default stream; another library's stream stays what it is.

    Raises
    ------
    ArgumentTypeError
        If it is a bool, float, text or sequence.
    """
    streams = _streams
    if stream is None:
        return None if streams is None else streams.ambient_stream(place)
    if streams is not None and isinstance(stream, streams.Stream):
        return streams.resolve_stream(place, stream)
    if names_default_stream(stream):
        return None
    if isinstance(stream, _NEVER_STREAMS):
        raise ArgumentTypeError(
            f"stream is {stream!r}",
            value=stream,
            limit="A stream is None (the current one), a kd.Stream, another library's stream, or a "
            "handle",
            remedy="Leave it out, or make one with kd.Stream()",
        )
    is_ours = isinstance(stream, DeviceStream)
    if streams is not None and is_ours:
        return streams.resolve_stream(place, stream)
    if is_ours or isinstance(stream, int):
        return None if place.is_host and not is_ours else stream
    # Another library's stream means nothing where work is done at once. Elsewhere its handle tells
    # it from others; the address of the object may be another one's later.
    return None if place.is_host else place.target.wrap_stream(place.device, stream)


def is_foreign(stream: Any) -> bool:
    """Whether a stream is another library's, so that its handle may die at any time."""
    # What is no DeviceStream has no such attribute; to ask for that class takes far longer.
    return stream is not None and getattr(stream, "is_foreign", True)


def put(stream: Any, what: str, run: Callable[[], None], *needed: Any) -> None:
    """Do a piece of work in a stream, or let the stream record it.

    Parameters
    ----------
    stream : object
        As `stream_of` returns it.
    what : str
        Such as ``"copy 4 bytes to the host"``.
    run : callable
        Does it, in this stream.
    *needed
        What a recording must keep alive.
    """
    if isinstance(stream, DeviceStream):
        if stream.recording is not None:
            stream.recording.kept += needed
            note_recorded(needed)
        stream.put(what, run)
    else:
        run()


def note_recorded(objects: Iterable[Any]) -> None:
    """Note that a graph works with arrays, so that closing one leaves the memory to the graph.

    Parameters
    ----------
    objects : iterable
        Device arrays, their memory, tuples of them, and anything else.
    """
    for each in objects:
        if isinstance(each, tuple):
            note_recorded(each)
            continue
        owner = getattr(each, "_owner", each)
        if hasattr(owner, "is_recorded"):
            owner.is_recorded = True


#: What the work in each stream still needs, oldest first, with an event behind that work.
_kept: dict[tuple[Place, int], deque[tuple[DeviceEvent, tuple[Any, ...]]]] = {}
#: Held while that is changed: who looks whether the oldest is done must be who takes it out.
_kept_lock = ForkSafeLock()


def keep_until_done(place: Place, stream: Any, *needed: Any) -> None:
    """Keep objects alive until what is in a stream now has finished.

    Parameters
    ----------
    place : Place
        The device.
    stream : object
        As `stream_of` returns it. In a recorded stream the recording has the objects already.
    *needed
        Such as the array that a copy reads.
    """
    if not isinstance(stream, DeviceStream):
        stream = place.target.wrap_stream(place.device, stream)
    if stream.recording is not None:
        return
    event = place.target.create_event(place.device, is_timed=False)
    event.record(stream)
    with _kept_lock:
        _kept.setdefault((place, stream.handle), deque()).append((event, needed))
    let_go()


def let_go() -> None:
    """Let go of what the streams have done with."""
    done: list[tuple[DeviceEvent, tuple[Any, ...]]] = []
    failures: list[tuple[Place, DriverError]] = []
    with _kept_lock:
        for key, waiting in tuple(_kept.items()):
            try:
                while waiting and waiting[0][0].is_done():
                    done.append(waiting.popleft())
            except DriverError as error:  # the device has failed, and nothing on it goes on
                failures.append((key[0], error))
                done += waiting
                waiting.clear()
            if not waiting:
                del _kept[key]
    # What is told, and what goes with the events, may run anything, so not under the lock.
    for place, failure in failures:
        place.swallow(failure)
    for event, _ in done:
        event.close()
