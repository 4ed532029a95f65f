"""Write files of :meth:`Profile.timeline`: a trace, or a picture with a row for each thread."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import ArgumentValueError, ToolMissingError
from kerneldsl.errors.values import safe_repr
from kerneldsl.profiling.activities import KINDS, Activity
from kerneldsl.utilities.figures import INK, suit_any_page
from kerneldsl.utilities.paths import check_writable, read_path, writing

if TYPE_CHECKING:
    from kerneldsl.profiling.work import Work

__all__ = ["read_timeline", "write_timeline"]

#: Suffixes of traces, and of pictures, which matplotlib writes.
_TRACE = ".json"
_PICTURES = (".pdf", ".png", ".svg")

#: Inches of a picture, and of each track.
_WIDTH, _TRACK_HEIGHT, _MARGIN = 10.0, 0.45, 1.2


def read_timeline(file: Any) -> Path:
    """Return the path of a timeline that can be written, as far as that is known before.

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
            f"the timeline was to be written to {safe_repr(text)}",
            value=text,
            limit=f"A trace ends in {_TRACE}, a picture in {', '.join(_PICTURES)}",
            remedy=f"Name it, such as {path.stem or 'timeline'}{_TRACE}",
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
            from kerneldsl.profiling.trace import write_trace

            write_trace(path, activities, works)
        else:
            _write_picture(path, activities)


def _check_matplotlib() -> None:
    """Raise `ToolMissingError` if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise ToolMissingError(
            "a picture of a profile needs matplotlib, which is not installed",
            remedy='pip install "kerneldsl[profile]", or write a trace, whose name ends in .json',
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
