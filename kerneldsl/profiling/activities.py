"""Activities: the records of a profile, as values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kerneldsl.profiling.spans import Span
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import AsDict, format_duration

__all__ = ["KINDS", "Activity", "covered_ns", "make_activity"]

#: Kinds of activities, in the order in which tables and traces have them.
KINDS: Final = (
    "launch",
    "copy",
    "allocation",
    "compilation",
    "cache hit",
    "load",
    "wait",
    "fallback",
)


@dataclass(frozen=True, slots=True)
class Activity(AsDict):
    """One record of a profile. Times are in ns since the profile began.

    Parameters
    ----------
    kind : str
        ``"launch"``, ``"copy"``, ``"allocation"``, ``"compilation"``, ``"cache hit"``, ``"load"``,
        ``"wait"`` or ``"fallback"``.
    name : str
        The kernel, the direction of a copy, the kind of memory, or the awaited object.
    device : str
        The device, such as ``"cuda:0"``; for a compilation, the target and the architecture.
    stream : str
        ``"default"``, or the stream's handle; empty if it has no stream.
    thread : str
        Name of the thread.
    thread_id : int
        Number of the thread, 1 or more, unique in the process. `threading.get_ident` is not,
        because Python gives the number of an ended thread to another one.
    depth : int
        Number of activities of the same thread that contain it.
    begin_ns, host_ns : int
        Begin and duration of the call on the host.
    device_begin_ns, device_ns : int or None
        Begin and duration on the device; ``None`` if unknown. On a CPU, those of the call that runs
        the kernel, or copies.
    nbytes : int or None
        Bytes that were copied or allocated.
    detail : str
        The reason of a fallback.
    failure : str
        Class of the exception that ended it; empty if there was none.
    is_synchronous : bool
        Whether the device finishes its work within the call, as a CPU does.
    """

    kind: str
    name: str
    device: str
    stream: str
    thread: str
    thread_id: int
    depth: int
    begin_ns: int
    host_ns: int
    device_begin_ns: int | None
    device_ns: int | None
    nbytes: int | None
    detail: str
    failure: str
    is_synchronous: bool = False

    def __str__(self) -> str:
        where = f" on {self.device}" if self.device else ""
        failed = f", ended by {self.failure}" if self.failure else ""
        return f"{self.kind} {self.name}{where}: {format_duration(self.host_ns)}{failed}"


def make_activity(span: Span, begin_ns: int) -> Activity:
    """Make the activity of a span, for a profile with its begin on the host's clock."""
    device_begin = span.device_begin_ns
    return Activity(
        kind=span.kind,
        name=span.name,
        device="" if span.device is None else str(span.device),
        stream="" if span.device is None or type(span.device) is str else _name(span.stream),
        thread=span.thread_name,
        thread_id=span.thread,
        depth=span.depth,
        begin_ns=span.begin_ns - begin_ns,
        host_ns=span.end_ns - span.begin_ns,
        device_begin_ns=None if device_begin is None else device_begin - begin_ns,
        device_ns=span.device_ns,
        nbytes=span.nbytes,
        detail=span.detail,
        failure=span.failure,
        is_synchronous=getattr(span.device, "is_synchronous", False),
    )


def _name(stream: Any) -> str:
    handle = getattr(stream, "handle", stream)
    return f"{handle:#x}" if isinstance(handle, int) and handle > 1 else "default"


def covered_ns(activities: Iterable[Activity]) -> int:
    """Return the ns of the host's time that at least one activity covers.

    Examples
    --------
    >>> def of(begin, end):
    ...     fields = ("launch", "k", "cpu", "default", "main", 1, 0, begin, end - begin)
    ...     return Activity(*fields, None, None, None, "", "")
    >>> covered_ns([of(0, 10), of(5, 20), of(30, 31)])
    21
    """
    covered = reached = 0
    for begin, end in sorted((each.begin_ns, each.begin_ns + each.host_ns) for each in activities):
        covered += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return covered
