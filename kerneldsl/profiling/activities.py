"""Activities: the records of a profile, as values, and their throughput."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kerneldsl.profiling.spans import Span
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import AsDict, format_duration

if TYPE_CHECKING:
    from kerneldsl.profiling.work import Work

__all__ = [
    "KINDS",
    "Activity",
    "Throughput",
    "Worked",
    "covered_ns",
    "make_activity",
    "throughput",
    "with_work",
]


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


# The summary's rows, the data frame and the trace all have them from here.

#: An activity with its work.
Worked: TypeAlias = "tuple[Activity, Work | None]"


class Throughput(NamedTuple):
    """Amounts that activities of one kind moved and computed; ``None`` where one is not known.

    Parameters
    ----------
    device_ns : int or None
        Time on the device.
    nbytes : float or None
        Bytes that were copied or allocated, and of launches those that memory moves at least.
    flops : float or None
        Operations on floats, of launches.
    bytes_per_s, flops_per_s : float or None
        The same in a second of the device's time.
    roof_share : float or None
        Time that the device needs at least, of its time.
    """

    device_ns: int | None
    nbytes: float | None
    flops: float | None
    bytes_per_s: float | None
    flops_per_s: float | None
    roof_share: float | None


def with_work(activities: Sequence[Activity], works: Sequence[Work | None]) -> list[Worked]:
    """Return activities with the work of each; `works` is empty if it was not requested."""
    return list(zip(activities, works or [None] * len(activities), strict=True))


def throughput(group: Sequence[Worked]) -> Throughput:
    """Add up activities of one kind, each with its work."""
    kind = group[0][0].kind
    device_ns = _sum([activity.device_ns for activity, _ in group])
    nbytes, flops, floor_ns = _sum([activity.nbytes for activity, _ in group]), None, None
    if kind == "launch":
        works = [work for _, work in group]
        nbytes = _sum([work and work.nbytes for work in works])
        flops = _sum([work and work.flops for work in works])
        floor_ns = _sum([work and work.floor_ns for work in works])

    def each_second(amount: float | None) -> float | None:
        return 1e9 * amount / device_ns if amount is not None and device_ns else None

    return Throughput(
        device_ns=None if device_ns is None else int(device_ns),
        nbytes=nbytes,
        flops=flops,
        bytes_per_s=each_second(nbytes) if kind in ("launch", "copy") else None,
        flops_per_s=each_second(flops),
        roof_share=None if floor_ns is None or not device_ns else floor_ns / device_ns,
    )


def _sum(numbers: Sequence[float | None]) -> float | None:
    """Return the sum; ``None`` where a number is not known."""
    known = [each for each in numbers if each is not None]
    return sum(known) if len(known) == len(numbers) else None
