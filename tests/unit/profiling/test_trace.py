"""Traces by the schema of the format; pictures and data frames where their packages are."""

from __future__ import annotations

import errno
import json
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.profiling.timeline import trace_of

jsonschema = pytest.importorskip("jsonschema")

#: The trace-event format, as far as complete and metadata events go ("Trace Event Format", 2016).
SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "traceEvents": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "ph", "pid", "tid"],
                "properties": {
                    "name": {"type": "string"},
                    "ph": {"enum": ["X", "M"]},
                    # Perfetto's tokenizer drops a number of more bits.
                    "pid": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
                    "tid": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
                    "args": {"type": "object"},
                },
                "if": {"properties": {"ph": {"const": "X"}}},
                "then": {
                    "required": ["ts", "dur", "cat"],
                    "properties": {
                        "cat": {"type": "string"},
                        "ts": {"type": "number", "minimum": 0},
                        "dur": {"type": "number", "minimum": 0},
                    },
                },
                "else": {
                    "required": ["args"],
                    "properties": {
                        "name": {"enum": ["process_name", "thread_name"]},
                        "args": {"required": ["name"], "properties": {"name": {"type": "string"}}},
                    },
                },
            },
        },
    },
}


@kd.kernel
def double(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = 2 * x[i]


@pytest.fixture(scope="module")
def profile() -> kd.Profile:
    x = np.ones(64)

    def work() -> None:
        with kd.use("cpu"):
            double.forall(64)(x)

    with kd.use("cpu"):
        double.forall(64)(x)
        with kd.profile() as p:
            double.forall(64)(x)
            kd.to_device(x).copy_to_host()
            kd.synchronize("cpu")
            thread = threading.Thread(target=work, name="worker")
            thread.start()
            thread.join()
    return p


def test_a_trace_follows_the_schema_and_holds_every_activity(
    profile: kd.Profile, tmp_path: Path
) -> None:
    file = tmp_path / "trace.json"
    profile.timeline(file)
    trace = json.loads(file.read_text())
    jsonschema.validate(trace, SCHEMA)
    events = [each for each in trace["traceEvents"] if each["ph"] == "X"]
    on_host = [each for each in events if each["pid"] == 1]
    assert len(on_host) == len(profile.activities)
    for event, activity in zip(on_host, profile.activities, strict=True):
        assert event["name"] == f"{activity.kind} {activity.name}"
        assert event["ts"] == pytest.approx(activity.begin_ns / 1e3)
        assert event["dur"] == pytest.approx(activity.host_ns / 1e3)
    timed = [each for each in profile.activities if each.device_ns is not None]
    assert len(events) - len(on_host) == len(timed) > 0


def test_every_track_of_a_trace_has_a_name(profile: kd.Profile, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    profile.timeline(str(file))
    events = json.loads(file.read_text())["traceEvents"]
    named = {(each["pid"], each["tid"]) for each in events if each["name"] == "thread_name"}
    assert {(each["pid"], each["tid"]) for each in events if each["ph"] == "X"} == named
    names = {each["args"]["name"] for each in events if each["ph"] == "M"}
    assert {"host", "device cpu", "worker", "from worker"} <= names


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.booleans()), max_size=8))
def test_every_slice_stands_in_the_track_of_its_thread(begun: list[tuple[str, bool]]) -> None:
    """Threads by name, of which some begin once all earlier ones have ended.

    The system gives these the identifier of one that has ended.
    """
    x = np.ones(64)
    waiting: list[threading.Thread] = []
    expected: list[str] = []

    def work(number: int) -> None:
        with kd.use("cpu"):
            for _ in range(1 + number % 3):
                double.forall(64)(x)

    with kd.profile() as p:
        for number, (name, is_after) in enumerate(begun):
            while is_after and waiting:
                waiting.pop().join()
            waiting.append(threading.Thread(target=work, args=(number,), name=name))
            expected += [name] * (1 + number % 3)
            waiting[-1].start()
        for thread in waiting:
            thread.join()
    trace = trace_of(p.activities)
    jsonschema.validate(trace, SCHEMA)
    names: dict[tuple[int, int], list[str]] = {}
    for each in trace["traceEvents"]:
        if each["name"] == "thread_name":
            names.setdefault((each["pid"], each["tid"]), []).append(each["args"]["name"])
    assert all(len(found) == 1 for found in names.values())
    slices = [each for each in trace["traceEvents"] if each["ph"] == "X"]
    for pid, prefix in ((1, ""), (2, "from ")):
        launches = [e for e in slices if e["pid"] == pid and e["cat"] == "launch"]
        found = [names[pid, each["tid"]][0] for each in launches]
        assert sorted(found) == sorted(prefix + name for name in expected)
        counts = Counter(each["tid"] for each in launches)
        assert sorted(counts.values()) == sorted(1 + n % 3 for n in range(len(begun)))


def test_events_of_a_track_do_not_cross(profile: kd.Profile, tmp_path: Path) -> None:
    # The format nests complete events of a thread; two that overlap must be one in the other.
    file = tmp_path / "trace.json"
    profile.timeline(file)
    events = [e for e in json.loads(file.read_text())["traceEvents"] if e["ph"] == "X"]
    for track in {(each["pid"], each["tid"]) for each in events}:
        own = sorted(
            (round(1e3 * e["ts"]), round(1e3 * (e["ts"] + e["dur"])))
            for e in events
            if (e["pid"], e["tid"]) == track
        )
        ends: list[int] = []
        for begin, end in sorted(own, key=lambda span: (span[0], -span[1])):
            while ends and ends[-1] <= begin:
                ends.pop()
            assert not ends or end <= ends[-1]
            ends.append(end)


def test_another_ending_is_refused(profile: kd.Profile, tmp_path: Path) -> None:
    with pytest.raises(kd.ArgumentValueError, match=r"The name of a trace ends in \.json"):
        profile.timeline(tmp_path / "trace.txt")
    with pytest.raises(kd.ArgumentTypeError, match="the file is 3"):
        profile.timeline(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["trace.json", "picture.svg"])
def test_a_file_that_cannot_be_written_is_named(
    name: str, profile: kd.Profile, tmp_path: Path
) -> None:
    if name.endswith("svg"):
        pytest.importorskip("matplotlib")
    file = tmp_path / "missing" / name
    with pytest.raises(kd.ArgumentValueError) as refused:
        profile.timeline(file)
    said = str(refused.value)
    assert f"{file} cannot be written: There is no folder {file.parent}" in said
    assert "Choose another file" in said
    (tmp_path / name).mkdir()
    with pytest.raises(kd.ArgumentValueError, match="It is a folder"):
        profile.timeline(tmp_path / name)


def test_a_disk_that_fills_up_is_told(
    profile: kd.Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("kerneldsl.profiling.timeline.write_trace", fail)
    with pytest.raises(kd.ArgumentValueError, match=r"trace\.json cannot be written: No space"):
        profile.timeline(tmp_path / "trace.json")


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("pandas", lambda p: p.to_dataframe()),
        ("matplotlib", lambda p: p.timeline("picture.png")),
    ],
)
def test_a_package_that_is_missing_is_named(
    package: str, call: Any, profile: kd.Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [package, *(each for each in sys.modules if each.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(kd.ToolMissingError, match=package):
        call(profile)


def test_a_data_frame_has_a_row_for_each_activity(profile: kd.Profile) -> None:
    pytest.importorskip("pandas")
    frame = profile.to_dataframe()
    assert list(frame["name"]) == [each.name for each in profile.activities]
    assert frame["host_ns"].sum() == sum(each.host_ns for each in profile.activities)
    with kd.profile() as empty:
        pass
    assert list(empty.to_dataframe().columns) == list(frame.columns)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_picture_is_drawn(ending: str, profile: kd.Profile, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / f"picture.{ending}"
    profile.timeline(file)
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    assert file.read_bytes().startswith(begins[ending])


def test_a_picture_of_nothing_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with kd.profile() as empty:
        pass
    empty.timeline(tmp_path / "empty.png")
    assert (tmp_path / "empty.png").stat().st_size > 0
