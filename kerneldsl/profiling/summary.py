"""Summaries of profiles: a table of calls, times, bytes and operations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from kerneldsl.profiling.activities import Activity, Worked, throughput, with_work
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import AsDict, AsTable, format_duration, format_percent

if TYPE_CHECKING:
    from kerneldsl.profiling.work import Work

__all__ = ["ProfileSummary", "SummaryRow", "summarize"]

_Clock: TypeAlias = Literal["host", "device"]


@dataclass(frozen=True, slots=True)
class SummaryRow(AsDict):
    """The totals of the activities of one kind, name and device.

    Parameters
    ----------
    kind, name, device, stream : str
        As in :class:`Activity`; `stream` is empty if the row contains all streams.
    calls, failures : int
        Number of activities, and number of those that ended with an exception.
    timed : int
        Number of activities with a known time. On the host, all have one.
    total_ns, min_ns, average_ns, max_ns : float or None
        Their times by the clock of the summary; ``None`` if no time is known.
    share : float or None
        The total, divided by the duration of the profile.
    device_ns : int or None
        Their total time on the device; ``None`` if the time of one is unknown.
    nbytes : float or None
        Bytes that were copied or allocated; for launches, the least number of bytes that memory
        transfers. ``None`` if the number of one activity is unknown.
    flops : float or None
        For launches, operations on floats.
    bytes_per_s, flops_per_s : float or None
        Both, divided by the time on the device.
    roof_share : float or None
        The least time that the device needs, divided by its time.
    """

    kind: str
    name: str
    device: str
    stream: str
    calls: int
    failures: int
    timed: int
    total_ns: int | None
    min_ns: int | None
    average_ns: float | None
    max_ns: int | None
    share: float | None
    device_ns: int | None
    nbytes: float | None
    flops: float | None
    bytes_per_s: float | None
    flops_per_s: float | None
    roof_share: float | None


@dataclass(frozen=True, slots=True, repr=False)
class ProfileSummary(AsTable, AsDict):
    """The totals of a profile's activities. Made by :meth:`Profile.summary`.

    An activity may contain others, as a launch contains the copies of its arguments. Its time on
    the host then includes that of the others.

    Parameters
    ----------
    by : {"host", "device"}
        The clock: time on the host, or on the device.
    wall_ns : int
        Duration of the profile.
    rows : tuple of SummaryRow
        The rows, those with the longest total first.
    """

    by: _Clock
    wall_ns: int
    rows: tuple[SummaryRow, ...]

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        has_streams = any(row.stream for row in self.rows)
        headers = ("kind", "name", "device", *(("stream",) if has_streams else ()))
        headers += ("calls", "total", "min", "average", "max", "share")
        # The last columns of launches are known if their work was counted.
        known = [name for name, cell in _RATES.items() if any(map(cell, self.rows))]
        rows = [
            (*_cells(row, has_streams), *(_RATES[name](row) for name in known)) for row in self.rows
        ]
        return (*headers, *known), rows

    def _caption(self) -> str:
        whose = "the host" if self.by == "host" else "the devices"
        return f"Profile of {format_duration(self.wall_ns)}, by the time of {whose}"


def _cells(row: SummaryRow, has_streams: bool) -> tuple[object, ...]:
    times = (row.total_ns, row.min_ns, row.average_ns, row.max_ns)
    return (
        row.kind,
        row.name,
        row.device or None,
        *((row.stream or None,) if has_streams else ()),
        row.calls,
        *(None if each is None else format_duration(each) for each in times),
        _percent(row.share),
    )


def _percent(share: float | None) -> str | None:
    return None if share is None else format_percent(share)


def _giga(rate: float | None) -> str | None:
    return f"{rate / 1e9:.3g}" if rate else None


#: Columns that a table shows only if a row has a value in them.
_RATES: Mapping[str, Callable[[SummaryRow], str | None]] = {
    "GB/s": lambda row: _giga(row.bytes_per_s),
    "GFLOP/s": lambda row: _giga(row.flops_per_s),
    "of the roof": lambda row: _percent(row.roof_share),
}


def summarize(
    activities: Sequence[Activity],
    works: Sequence[Work | None],
    *,
    wall_ns: int,
    by: _Clock,
    with_streams: bool,
) -> ProfileSummary:
    """Compute the totals of activities.

    - `activities`: all activities of a profile.
    - `works`: the work of each, if it is known; empty if it was not requested.
    - `wall_ns`: duration of the profile.
    - `by`: the clock: time on the host, or on the device.
    - `with_streams`: whether each stream has separate rows.
    """
    groups: defaultdict[tuple[str, ...], list[Worked]] = defaultdict(list)
    for activity, work in with_work(activities, works):
        stream = activity.stream if with_streams and activity.device else ""
        groups[activity.kind, activity.name, activity.device, stream].append((activity, work))
    rows = [_row(key, group, wall_ns, by) for key, group in groups.items()]
    rows.sort(key=lambda row: (-(row.total_ns or 0), row.kind, row.name, row.device, row.stream))
    return ProfileSummary(by, wall_ns, tuple(rows))


def _row(key: tuple[str, ...], group: Sequence[Worked], wall_ns: int, by: _Clock) -> SummaryRow:
    activities = [activity for activity, _ in group]
    of_clock = (each.host_ns if by == "host" else each.device_ns for each in activities)
    times = [each for each in of_clock if each is not None]
    total = sum(times) if times else None
    kind, name, device, stream = key
    return SummaryRow(
        kind,
        name,
        device,
        stream,
        calls=len(group),
        failures=sum(1 for each in activities if each.failure),
        timed=len(times),
        total_ns=total,
        min_ns=min(times, default=None),
        average_ns=None if total is None else total / len(times),
        max_ns=max(times, default=None),
        share=None if total is None or not wall_ns else total / wall_ns,
        **throughput(group)._asdict(),
    )
