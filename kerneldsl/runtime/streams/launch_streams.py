"""The stream of a launch: which one it is, what it waits for, and whose memory it uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kerneldsl.runtime.streams import current
from kerneldsl.runtime.streams.current import active_stream, ambient_stream, resolve_stream
from kerneldsl.runtime.streams.order import is_recorded, owners_of
from kerneldsl.runtime.streams.stream_handles import find
from kerneldsl.target import Device

__all__ = ["launch_stream", "note_uses"]


def launch_stream(place: Device, named: Any, producers: tuple[int, ...]) -> Any:
    """Where to launch, after what other libraries have started on the arguments.

    Parameters
    ----------
    place : Device
        Where the kernel runs.
    named : object
        The stream of the launch, or ``None``.
    producers : tuple of int
        Handles of the streams in which other libraries made arguments.

    Returns
    -------
    DeviceStream or int or None
        What `LaunchConfig.stream` takes.
    """
    if named is None and not producers:
        return ambient_stream(place)
    stream: Any = resolve_stream(place, named)
    if not producers or place.is_host:
        return stream
    first, *others = dict.fromkeys(producers)
    if stream is None and named is None and active_stream(place) is None:
        known = find(place, first)
        stream = first if known is None else known
    else:
        others.insert(0, first)
    if not is_recorded(stream):
        # In a recording nothing runs now, so there is nothing to wait for.
        handle = getattr(stream, "handle", stream)
        for other in others:
            if other != handle:
                place.wait_stream(stream, other)
    return stream


def note_uses(objects: Iterable[Any], stream: Any) -> None:
    """Note that a stream uses the memory of the device arrays among some objects.

    Parameters
    ----------
    objects : iterable
        As for :func:`~kerneldsl.runtime.streams.order.owners_of`.
    stream : DeviceStream or int or None
        The stream; a number is another library's.
    """
    if stream is None and not current.are_some_nonblocking:
        return  # every stream waits for the default stream before memory is given out again
    for owner in owners_of(objects):
        note_use = getattr(owner, "note_use", None)
        if note_use is not None:
            note_use(stream)
