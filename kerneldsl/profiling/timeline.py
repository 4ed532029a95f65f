"""Write files of :meth:`Profile.timeline`: a trace, or a picture with a row for each thread.

Traces are in the trace-event format, which Perfetto and Chrome show.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import ArgumentValueError, ToolMissingError
from kerneldsl.errors.values import safe_repr
from kerneldsl.profiling.activities import KINDS, Activity, Worked, throughput, with_work
from kerneldsl.utilities.figures import INK, suit_any_page
from kerneldsl.utilities.paths import check_writable, read_path, writing

if TYPE_CHECKING:
    from kerneldsl.profiling.work import Work

__all__ = ["read_timeline", "trace_of", "write_timeline"]


#: Suffixes of traces, and of pictures, which matplotlib writes.
_TRACE = ".json"
_PICTURES = (".pdf", ".png", ".svg")

#: Inches of a picture, and of each track.
_WIDTH, _TRACK_HEIGHT, _MARGIN = 10.0, 0.45, 1.2


def read_timeline(file: Any) -> Path:
    """Return the path of a timeline, if nothing known before shows that it cannot be written.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If it is no path, has another ending, or cannot be written.
    ToolMissingError
        If it is a picture, and matplotlib is not installed.
    """
    path = read_path(file)
    ending = path.suffix.lower()
    if ending not in (_TRACE, *_PICTURES):
        text = os.fspath(file)
        raise ArgumentValueError(
            f"a timeline cannot be written to {safe_repr(text)}",
            value=text,
            limit=f"The name of a trace ends in {_TRACE}, of a picture in {', '.join(_PICTURES)}",
            remedy=f"Use a name such as {path.stem or 'timeline'}{_TRACE}",
        )
    check_writable(path)
    if ending in _PICTURES:
        _check_matplotlib()
    return path


def write_timeline(
    path: Path, activities: Sequence[Activity], works: Sequence[Work | None]
) -> None:
    """Write activities to a file that :func:`read_timeline` has read.

    Parameters
    ----------
    path : Path
        The file.
    activities : sequence of Activity
        All of a profile.
    works : sequence of Work or None
        The work of each, for a trace; empty if it was not requested.

    Raises
    ------
    ArgumentValueError
        If the file cannot be written.
    """
    with writing(path):
        if path.suffix.lower() == _TRACE:
            write_trace(path, activities, works)
        else:
            _write_picture(path, activities)


def _check_matplotlib() -> None:
    """Raise `ToolMissingError` if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise ToolMissingError(
            "a picture of a profile needs matplotlib, which is not installed",
            remedy='pip install "kerneldsl[profile]", or write a trace to a .json file',
        )


def _write_picture(path: str | os.PathLike[str], activities: Sequence[Activity]) -> None:
    """Draw activities to a file, in the format of its ending."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    tracks = _tracks(activities)
    figure = Figure(figsize=(_WIDTH, _MARGIN + _TRACK_HEIGHT * max(1, len(tracks))))
    axes = figure.add_subplot()
    colours = {kind: f"C{number}" for number, kind in enumerate(KINDS)}
    for row, (_, spans) in enumerate(tracks):
        for kind in KINDS:
            bars = [(begin / 1e6, took / 1e6) for begin, took, of in spans if of == kind]
            if bars:
                axes.broken_barh(bars, (row - 0.4, 0.8), color=colours[kind], linewidth=0)
    axes.set_yticks(range(len(tracks)), [name for name, _ in tracks])
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds since the profile began")
    used = [kind for kind in KINDS if any(each.kind == kind for each in activities)]
    if used:
        handles = [Patch(color=colours[kind], label=kind) for kind in used]
        axes.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
            labelcolor=INK,
            framealpha=0,
        )
    suit_any_page(figure)
    figure.savefig(path, bbox_inches="tight")


def _tracks(activities: Sequence[Activity]) -> list[tuple[str, list[tuple[int, int, str]]]]:
    """Return each track's name with begin, length and kind of what is drawn in it.

    Outer activities come first. Threads may have the same name; their numbers distinguish them.
    """
    threads: defaultdict[int, list[tuple[int, int, str]]] = defaultdict(list)
    devices: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    names: dict[int, str] = {}
    for each in activities:
        names[each.thread_id] = each.thread
        threads[each.thread_id].append((each.begin_ns, each.host_ns, each.kind))
        if each.device_begin_ns is not None and each.device_ns is not None:
            stream = "" if each.stream == "default" else f", {each.stream}"
            devices[f"{each.device}{stream}"].append(
                (each.device_begin_ns, each.device_ns, each.kind)
            )
    return [*((names[number], spans) for number, spans in threads.items()), *devices.items()]


# The host is one process of the trace, with its threads; each device is another one, with its
# streams. Times are microseconds since the profile began.
#
# References: "Trace Event Format" (Google, 2016), sections "Complete Events" and
# "Metadata Events"; Perfetto documentation, "Visualizing external trace formats".
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
    events = [event for each in with_work(activities, works) for event in _events(each, tracks)]
    return {"traceEvents": [*tracks.names(), *events], "displayTimeUnit": "ns"}


class _Tracks:
    """Processes and threads of a trace, numbered from 1 as they come: the format has 32 bits."""

    def __init__(self) -> None:
        #: Number of each process, and its threads by number and name.
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
