"""What a stream that is being recorded takes, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kerneldsl.errors import GraphError
from kerneldsl.runtime.streams.order import note_recorded
from kerneldsl.target import DeviceStream

__all__ = ["is_recorded", "record_launch", "refuse_recording"]


def is_recorded(stream: Any) -> bool:
    """Whether what is put into a stream is recorded instead of run."""
    # What is no DeviceStream has no recording; to ask for that class takes far longer.
    return stream is not None and getattr(stream, "recording", None) is not None


def record_launch(stream: DeviceStream, name: str, run: Callable[[], None], *needed: Any) -> None:
    """Let a stream record a launch.

    Parameters
    ----------
    stream : DeviceStream
        A stream that is being recorded.
    name : str
        The kernel's: that of its function.
    run : callable
        Starts the kernel in the stream.
    *needed
        What the launch needs as long as it can be repeated: arguments, code.
    """
    assert stream.recording is not None
    stream.recording.kept += needed
    stream.recording.kernels.append(name)
    note_recorded(needed)
    stream.put(f"launch {name}", run)


def refuse_recording(stream: Any, doing: str, remedy: str | None = None) -> None:
    """Raise `GraphError` if a stream is recorded.

    Parameters
    ----------
    stream : DeviceStream or int or None
        What is to be used.
    doing : str
        What cannot be done then; begins with a verb.
    remedy : str, optional
        What to do instead.
    """
    if is_recorded(stream):
        raise GraphError(
            f"a stream on {stream.device} is being recorded, so kerneldsl cannot {doing} in it",
            limit="A recording runs nothing before it is launched",
            remedy=remedy or "Do it before or after the `with stream.capture()`",
        )
