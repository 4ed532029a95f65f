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
from collections.abc import Iterator, Sequence
from typing import Any

from kerneldsl.profiling.activities import Activity

__all__ = ["trace_of", "write_trace"]

_HOST = 1


def write_trace(path: str | os.PathLike[str], activities: Sequence[Activity]) -> None:
    """Write the trace of activities to a file."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(trace_of(activities), file)


def trace_of(activities: Sequence[Activity]) -> dict[str, Any]:
    """Return the trace of activities, as JSON has it."""
    tracks: dict[tuple[str, str], tuple[int, int]] = {}
    events = [event for each in activities for event in _events(each, tracks)]
    return {"traceEvents": [*_names(activities, tracks), *events], "displayTimeUnit": "ns"}


def _events(
    activity: Activity, tracks: dict[tuple[str, str], tuple[int, int]]
) -> Iterator[dict[str, Any]]:
    yield {
        "name": f"{activity.kind} {activity.name}",
        "cat": activity.kind,
        "ph": "X",
        "ts": activity.begin_ns / 1e3,
        "dur": activity.host_ns / 1e3,
        "pid": _HOST,
        "tid": activity.thread_id,
        "args": _facts(activity),
    }
    if activity.device_begin_ns is None or activity.device_ns is None:
        return
    stream = f"stream {activity.stream}"
    if activity.is_synchronous:  # several threads' work may run at the same time in one stream
        stream = f"from {activity.thread}"
    process, thread = _track((activity.device, stream), tracks)
    yield {
        "name": activity.name,
        "cat": activity.kind,
        "ph": "X",
        "ts": activity.device_begin_ns / 1e3,
        "dur": activity.device_ns / 1e3,
        "pid": process,
        "tid": thread,
        "args": _facts(activity),
    }


def _track(key: tuple[str, str], tracks: dict[tuple[str, str], tuple[int, int]]) -> tuple[int, int]:
    """Return the process and the thread that stand for a device and a stream of it."""
    if key not in tracks:
        processes = {device: pid for (device, _), (pid, _) in tracks.items()}
        pid = processes.get(key[0], _HOST + 1 + len(processes))
        tracks[key] = pid, 1 + sum(1 for device, _ in tracks if device == key[0])
    return tracks[key]


def _facts(activity: Activity) -> dict[str, Any]:
    facts = {
        "device": activity.device,
        "stream": activity.stream,
        "bytes": activity.nbytes,
        "detail": activity.detail,
        "failure": activity.failure,
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}


def _names(
    activities: Sequence[Activity], tracks: dict[tuple[str, str], tuple[int, int]]
) -> Iterator[dict[str, Any]]:
    """Yield the names of processes and threads."""

    def name(what: str, text: str, pid: int, tid: int = 0) -> dict[str, Any]:
        return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": text}}

    yield name("process_name", "host", _HOST)
    threads = {each.thread_id: each.thread for each in activities}
    yield from (name("thread_name", text, _HOST, tid) for tid, text in threads.items())
    yield from (
        name("process_name", f"device {device}", pid)
        for device, pid in {device: pid for (device, _), (pid, _) in tracks.items()}.items()
    )
    yield from (name("thread_name", stream, pid, tid) for (_, stream), (pid, tid) in tracks.items())
