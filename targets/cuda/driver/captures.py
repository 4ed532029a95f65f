"""Devices with a recording under way, during which no code may wait for the whole context.

That is an error that drops the capture, whichever thread waits (CUDA Programming Guide, "Prohibited
and Unhandled Operations"). So a device with a recording is waited for stream by stream.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from kerneldsl.utilities.locks import ForkSafeLock

if TYPE_CHECKING:
    from kerneldsl.contract import DeviceStream

__all__ = [
    "begin",
    "end",
    "is_under_way",
    "live_streams",
    "note_stream",
]

_lock = ForkSafeLock()
#: Recordings under way, by number of the device.
_counts: dict[int, int] = {}
#: Streams of kerneldsl that do not wait for the default stream.
_nonblocking: weakref.WeakSet[DeviceStream] = weakref.WeakSet()


def begin(index: int) -> None:
    """Note that a recording begins on a device."""
    with _lock:
        _counts[index] = _counts.get(index, 0) + 1


def end(index: int) -> None:
    """Note that a recording has ended."""
    with _lock:
        _counts[index] -= 1


def is_under_way(index: int) -> bool:
    """Return whether a device has a recording under way."""
    return _counts.get(index, 0) > 0


def note_stream(stream: DeviceStream) -> None:
    """Note a stream of kerneldsl that does not wait for the default stream."""
    with _lock:
        _nonblocking.add(stream)


def live_streams(index: int) -> tuple[DeviceStream, ...]:
    """Return those streams of a device that are there now."""
    with _lock:
        found = tuple(_nonblocking)
    return tuple(stream for stream in found if stream.device.index == index)
