"""Devices with a recording under way, and the operations that must not be done there meanwhile.

To wait for a whole context while one of its streams is captured is an error that drops the capture,
whichever thread waits (CUDA Programming Guide, "Prohibited and Unhandled Operations"). So a device
with a recording is waited for stream by stream, and code is unloaded, which has to wait, after it.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
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
    "postpone",
]

_lock = ForkSafeLock()
#: Recordings under way, by number of the device.
_counts: dict[int, int] = {}
_postponed: deque[tuple[int, Callable[[], None]]] = deque()
#: Streams of ours that do not wait for the default stream.
_nonblocking: weakref.WeakSet[DeviceStream] = weakref.WeakSet()


def begin(index: int) -> None:
    """Note that a recording begins on a device."""
    with _lock:
        _counts[index] = _counts.get(index, 0) + 1


def end(index: int) -> None:
    """Note that a recording has ended, and do what was postponed for it."""
    with _lock:
        _counts[index] -= 1
    _do_postponed()


def _do_postponed() -> None:
    """Do what no recording stands in the way of any more."""
    for _ in range(len(_postponed)):
        try:
            device, work = _postponed.popleft()
        except IndexError:  # another thread was faster
            return
        if is_under_way(device):
            _postponed.append((device, work))
        else:
            work()


def is_under_way(index: int) -> bool:
    """Return whether a device has a recording under way."""
    return _counts.get(index, 0) > 0


def postpone(index: int, work: Callable[[], None]) -> bool:
    """Let work be done after the recordings of a device; say whether there are any.

    Finalizers call this, so it never waits.
    """
    if not is_under_way(index):
        return False
    _postponed.append((index, work))
    if not is_under_way(index):  # the last recording has ended meanwhile, and did not see it
        _do_postponed()
    return True


def note_stream(stream: DeviceStream) -> None:
    """Note a stream of ours that does not wait for the default stream."""
    with _lock:
        _nonblocking.add(stream)


def live_streams(index: int) -> tuple[DeviceStream, ...]:
    """Return those streams of a device that are there now."""
    with _lock:
        found = tuple(_nonblocking)
    return tuple(stream for stream in found if stream.device.index == index)
