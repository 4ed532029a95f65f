"""Traces in the trace-event format, which Perfetto and Chrome show.

The host is one process of the trace, with its threads; each device is another one, with its
streams. Times are microseconds since the profile began.

References
----------
"Trace Event Format" (Google, 2016), sections "Complete Events" and "Metadata Events"; Perfetto
documentation, "Visualizing external trace formats".
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kerneldsl.profiling.activities import Activity
from kerneldsl.profiling.throughput import Worked, throughput, worked

if TYPE_CHECKING:
    from kerneldsl.profiling.work import Work

__all__ = ["trace_of", "write_trace"]

_HOST = "host"


def write_trace(
    path: str | os.PathLike[str], activities: Sequence[Activity], works: Sequence[Work | None]
) -> None:
    """Write the trace of activities to a file; `works` as :func:`trace_of` takes them."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(trace_of(activities, works), file)


def trace_of(activities: Sequence[Activity], works: Sequence[Work | None] = ()) -> dict[str, Any]:
    """Return the trace of activities, as JSON has it.

    `works` is the work of each activity, empty if it was not requested.
    """
    tracks = _Tracks()
    events = [event for each in worked(activities, works) for event in _events(each, tracks)]
    return {"traceEvents": [*tracks.names(), *events], "displayTimeUnit": "ns"}


class _Tracks:
    """Processes and threads of a trace, numbered from 1 as they come: the format has 32 bits."""

    def __init__(self) -> None:
        #: Of each process its number and its threads, by number and name.
        self._processes: dict[str, tuple[int, dict[Hashable, tuple[int, str]]]] = {_HOST: (1, {})}

    def place(self, process: str, key: Hashable, name: str) -> dict[str, int]:
        """Return the numbers that an event of a thread has; `name` is the thread's by then."""
        pid, threads = self._processes.setdefault(process, (len(self._processes) + 1, {}))
        tid = threads[key][0] if key in threads else len(threads) + 1
        threads[key] = tid, name
        return {"pid": pid, "tid": tid}

    def names(self) -> Iterator[dict[str, Any]]:
        """Yield the events that name processes and threads."""

        def name(what: str, text: str, pid: int, tid: int = 0) -> dict[str, Any]:
            return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": text}}

        for process, (pid, threads) in self._processes.items():
            yield name("process_name", process, pid)
            yield from (name("thread_name", text, pid, tid) for tid, text in threads.values())


def _events(of: Worked, tracks: _Tracks) -> Iterator[dict[str, Any]]:
    activity, facts = of[0], _facts(of)
    yield {
        "name": f"{activity.kind} {activity.name}",
        "cat": activity.kind,
        "ph": "X",
        "ts": activity.begin_ns / 1e3,
        "dur": activity.host_ns / 1e3,
        **tracks.place(_HOST, activity.thread_id, activity.thread),
        "args": facts,
    }
    if activity.device_begin_ns is None or activity.device_ns is None:
        return
    key: Hashable = activity.stream
    name = f"stream {activity.stream}"
    if activity.is_synchronous:  # several threads' work may run at the same time in one stream
        key, name = activity.thread_id, f"from {activity.thread}"
    yield {
        "name": activity.name,
        "cat": activity.kind,
        "ph": "X",
        "ts": activity.device_begin_ns / 1e3,
        "dur": activity.device_ns / 1e3,
        **tracks.place(f"device {activity.device}", key, name),
        "args": facts,
    }


def _facts(of: Worked) -> dict[str, Any]:
    activity, found = of[0], throughput([of])
    facts = {
        "device": activity.device,
        "stream": activity.stream,
        "bytes": found.nbytes,
        "flops": found.flops,
        "GB/s": None if found.bytes_per_s is None else found.bytes_per_s / 1e9,
        "GFLOP/s": None if found.flops_per_s is None else found.flops_per_s / 1e9,
        "share of the roof": found.roof_share,
        "detail": activity.detail,
        "failure": activity.failure,
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}
