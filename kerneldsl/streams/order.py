"""Put work into a stream, or let it be recorded, and keep alive what it needs until it is done."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kerneldsl.contract import Device, DeviceEvent, DeviceStream, Recording
from kerneldsl.contract.streams import is_recorded
from kerneldsl.errors import DriverError, GraphError
from kerneldsl.utilities.locks import ForkSafeLock

__all__ = [
    "is_capturing",
    "is_foreign",
    "keep_until_done",
    "note_recorded",
    "note_recording",
    "owners_of",
    "put",
    "record_launch",
    "refuse_recording",
    "release_finished",
]


def is_foreign(stream: Any) -> bool:
    """Return whether a stream is another library's, so that its handle may die at any time."""
    # Objects of other classes lack the attribute, and testing the class takes far longer.
    return stream is not None and getattr(stream, "is_foreign", True)


def record_launch(stream: DeviceStream, name: str, run: Callable[[], None], *needed: Any) -> None:
    """Let a stream record a launch.

    `run` starts the kernel in the stream, which is being recorded. `needed` is what the launch
    needs as long as it can be repeated: arguments, code.
    """
    assert stream.recording is not None
    stream.recording.kernels.append(name)
    put(stream, f"launch {name}", run, *needed)


def refuse_recording(stream: Any, doing: str, remedy: str | None = None) -> None:
    """Raise `GraphError` if a stream is recorded.

    `doing` is what cannot be done then, and begins with a verb.
    """
    if is_recorded(stream):
        raise GraphError(
            f"a stream on {stream.device} is being captured, so kerneldsl cannot {doing} in it",
            limit="Captured work does not run before its graph is launched",
            remedy=remedy or "Do it before or after the `with stream.capture()`",
        )


#: The recordings that are kept, those that have ended among them.
_recordings: weakref.WeakSet[Recording] = weakref.WeakSet()


def note_recording(recording: Recording) -> None:
    """Note a recording that begins."""
    _recordings.add(recording)


def is_capturing(device: Device) -> bool:
    """Return whether a stream of a device is recorded, in whichever thread."""
    return any(each.is_open and each.streams[0].device is device for each in _recordings.copy())


def put(stream: Any, what: str, run: Callable[[], None], *needed: Any) -> None:
    """Do a piece of work in a stream, or let the stream record it.

    The stream is as :func:`~kerneldsl.streams.current.stream_of` returns it, and `run` does the
    work in it; `needed` is what a recording must keep alive.
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

    The objects are as for `owners_of`.
    """
    for owner in owners_of(objects):
        if hasattr(owner, "is_recorded"):
            owner.is_recorded = True


def owners_of(objects: Iterable[Any]) -> Iterator[Any]:
    """Give what owns the memory of each device array among some objects, and the other objects.

    The objects are device arrays, their memory, tuples of them, and anything else.
    """
    for each in objects:
        if isinstance(each, tuple):
            yield from owners_of(each)
        else:
            yield getattr(each, "_owner", each)


#: Objects that the work in each stream still needs, oldest first, with an event after that work.
_keep_alive: dict[tuple[Device, int], deque[tuple[DeviceEvent, tuple[Any, ...]]]] = {}
#: Held while `_keep_alive` is changed: the thread that finds the oldest event reached removes it.
_kept_lock = ForkSafeLock()


def keep_until_done(device: Device, stream: Any, *needed: Any) -> None:
    """Keep objects alive until what is in a stream now has finished.

    In a recorded stream the recording has the objects already.
    """
    if not isinstance(stream, DeviceStream):
        stream = device.wrap_stream(stream)
    if stream.recording is not None:
        return
    event = device.create_event(is_timed=False)
    event.record(stream)
    with _kept_lock:
        _keep_alive.setdefault((device, stream.handle), deque()).append((event, needed))
    release_finished()


def release_finished() -> None:
    """Release objects that no stream needs any more."""
    done: list[tuple[DeviceEvent, tuple[Any, ...]]] = []
    failures: list[tuple[Device, DriverError]] = []
    with _kept_lock:
        for key, waiting in tuple(_keep_alive.items()):
            try:
                while waiting and waiting[0][0].is_done():
                    done.append(waiting.popleft())
            except DriverError as error:  # the device has failed, and nothing on it goes on
                failures.append((key[0], error))
                done += waiting
                waiting.clear()
            if not waiting:
                del _keep_alive[key]
    # Reports, and objects that are freed with the events, may run any code: not under the lock.
    for device, failure in failures:
        device.suppress(failure)
    for event, _ in done:
        event.close()
