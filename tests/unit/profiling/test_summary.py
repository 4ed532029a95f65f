"""Summaries against sums that are made plainly, and the work of known launches."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.profiling.activities import KINDS, Activity, covered_ns
from kerneldsl.profiling.summary import summarize
from kerneldsl.profiling.timeline import trace_of
from kerneldsl.profiling.work import Work


@st.composite
def activities(draw: Any) -> Activity:
    def times() -> Any:
        return st.integers(0, 10**12)

    return Activity(
        kind=draw(st.sampled_from(KINDS)),
        name=draw(st.sampled_from(["a", "b"])),
        device=draw(st.sampled_from(["", "cpu", "cuda:0"])),
        stream=draw(st.sampled_from(["default", "0x10"])),
        thread="main",
        thread_id=1,
        depth=draw(st.integers(0, 3)),
        begin_ns=draw(times()),
        host_ns=draw(times()),
        device_begin_ns=None,
        device_ns=draw(st.none() | times()),
        nbytes=draw(st.none() | st.integers(0, 10**9)),
        detail="",
        failure=draw(st.sampled_from(["", "KernelError"])),
    )


WORKS = st.none() | st.builds(Work, *[st.integers(0, 10**9).map(float)] * 3)


# A machine that does much else takes long to draw.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(activities(), WORKS)), st.booleans(), st.sampled_from(["host", "device"]))
def test_a_summary_is_the_sum_of_its_activities(worked: Any, streams: bool, by: Any) -> None:
    found = [activity for activity, _ in worked]
    works = [work for _, work in worked]
    summary = summarize(found, works, wall_ns=10**9, by=by, with_streams=streams)
    assert sum(row.calls for row in summary.rows) == len(found)
    totals = [row.total_ns or 0 for row in summary.rows]
    assert totals == sorted(totals, reverse=True)
    for row in summary.rows:
        own = [
            (each, work)
            for each, work in worked
            if (each.kind, each.name, each.device) == (row.kind, row.name, row.device)
            and (not streams or not each.device or each.stream == row.stream)
        ]
        assert row.calls == len(own)
        assert row.failures == sum(each.failure != "" for each, _ in own)
        times = [each.host_ns if by == "host" else each.device_ns for each, _ in own]
        known = [time for time in times if time is not None]
        assert row.timed == len(known)
        if known:
            assert row.total_ns == sum(known)
            assert (row.min_ns, row.max_ns) == (min(known), max(known))
            assert row.average_ns == pytest.approx(sum(known) / len(known))
            assert row.share == pytest.approx(sum(known) / 10**9)
        else:
            assert row.total_ns is row.min_ns is row.average_ns is row.max_ns is row.share is None
        device = [each.device_ns for each, _ in own]
        is_known = None not in device
        assert row.device_ns == (sum(device) if is_known else None)
        sizes = [
            (work.nbytes if work else None) if row.kind == "launch" else each.nbytes
            for each, work in own
        ]
        assert row.nbytes == (sum(sizes) if None not in sizes else None)
        if row.bytes_per_s is not None:
            assert row.kind in ("launch", "copy")
            assert row.bytes_per_s == pytest.approx(1e9 * row.nbytes / row.device_ns)
        if row.roof_share is not None:
            assert row.roof_share == pytest.approx(
                sum(work.floor_ns for _, work in own) / row.device_ns
            )
    json.dumps(summary.to_dict())


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20))))
def test_the_covered_time_is_that_of_the_union(spans: list[tuple[int, int]]) -> None:
    def of(begin: int, took: int) -> Activity:
        return Activity("wait", "", "", "", "", 1, 0, begin, took, None, None, None, "", "")

    union = {tick for begin, took in spans for tick in range(begin, begin + took)}
    assert covered_ns([of(*each) for each in spans]) == len(union)


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU's rates are given, so that nothing is measured."""
    from kerneldsl.profiling import work
    from kerneldsl.tools.ranking import Measurement

    cpu = kd.device_info("cpu").device
    monkeypatch.setitem(work._measured, cpu, Measurement(1e9, 1e9))


def test_the_work_of_a_launch_is_counted_by_the_analysis(measured: None) -> None:
    n = 4096
    x, y, out = (np.ones(n, np.float32) for _ in range(3))
    with kd.use("cpu"):
        axpy.forall(n)(np.float32(2), x, y, out)
        with kd.profile() as p:
            for _ in range(3):
                axpy.forall(n)(np.float32(2), x, y, out)
            axpy[n // 256, 256](np.float32(2), x, y, out)
    (row,) = (row for row in p.summary(work=True).rows if row.kind == "launch")
    assert row.nbytes == pytest.approx(4 * 12 * n)
    assert row.flops == 4 * 2 * n
    assert row.device_ns is not None
    assert row.bytes_per_s == pytest.approx(1e9 * row.nbytes / row.device_ns)
    # At 1 GB/s the bytes take longer than the arithmetic.
    assert row.roof_share == pytest.approx(4 * 12 * n / row.device_ns)


def test_the_frame_and_the_trace_have_the_summarys_figures(measured: None) -> None:
    pytest.importorskip("pandas")
    n = 4096
    x, y, out = (np.ones(n, np.float32) for _ in range(3))
    with kd.use("cpu"):
        axpy.forall(n)(np.float32(2), x, y, out)
        with kd.profile() as p:
            axpy.forall(n)(np.float32(2), x, y, out)
            axpy.forall(n // 2)(np.float32(2), x[: n // 2], y[: n // 2], out[: n // 2])
            kd.to_device(x)
    frame = p.to_dataframe(work=True)
    launches = frame[frame["kind"] == "launch"]
    assert list(launches["flops"]) == [2 * n, n]
    assert list(launches["nbytes"]) == pytest.approx([12 * n, 6 * n])
    (row,) = (row for row in p.summary(work=True).rows if row.kind == "launch")
    assert launches["nbytes"].sum() == pytest.approx(row.nbytes)
    assert launches["device_ns"].sum() == row.device_ns
    shares = launches["roof_share"] * launches["device_ns"]
    assert shares.sum() == pytest.approx(row.roof_share * row.device_ns)
    (copy,) = frame[frame["kind"] == "copy"].to_dict("records")
    assert copy["bytes_per_s"] == pytest.approx(1e9 * x.nbytes / copy["device_ns"])
    assert frame[frame["kind"] == "allocation"]["bytes_per_s"].isna().all()

    events = trace_of(*p._read_with_work(True))["traceEvents"]
    slices = [e["args"] for e in events if e["ph"] == "X" and e["cat"] == "launch"]
    assert len(slices) == 2 * len(launches)  # on the host, and on the device
    expected = launches.to_dict("records")
    for args in slices:
        (found,) = (each for each in expected if each["flops"] == args["flops"])
        assert args["bytes"] == found["nbytes"]
        assert args["GB/s"] == pytest.approx(found["bytes_per_s"] / 1e9)
        assert args["GFLOP/s"] == pytest.approx(found["flops_per_s"] / 1e9)
        assert args["share of the roof"] == pytest.approx(found["roof_share"])

    plain = p.to_dataframe()
    assert list(plain.columns) == list(frame.columns)
    assert plain[plain["kind"] == "launch"]["flops"].isna().all()


def test_the_work_is_analyzed_once(measured: None, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones(64, np.float32)
    with kd.use("cpu"), kd.profile() as p:
        axpy.forall(64)(np.float32(2), x, x.copy(), x.copy())
    first = p.summary(work=True)
    monkeypatch.setattr("kerneldsl.profiling.work.explain_kernel", None)
    assert p.summary(work=True) == first


def test_strides_tuples_and_float64_are_read_from_the_parameters(measured: None) -> None:
    @kd.kernel
    def scale(pair, out):
        i, j = kd.grid(2)
        if i < out.shape[0] and j < out.shape[1]:
            out[i, j] = pair[0][i, j] * pair[1]

    wide = np.ones((64, 256))
    out = np.zeros((64, 128), order="F")
    with kd.use("cpu"), kd.profile() as p:
        scale.forall((64, 128))((wide[:, ::2], 3.0), out)
    (row,) = (row for row in p.summary(work=True).rows if row.kind == "launch")
    assert row.flops == 64 * 128
    # Every sector of the wide array is read, though every second element is.
    assert row.nbytes == pytest.approx(wide.nbytes + out.nbytes)
    assert row.roof_share is not None


def test_without_sympy_there_are_times_and_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones(64, np.float32)
    with kd.use("cpu"), kd.profile() as p:
        axpy.forall(64)(np.float32(2), x, x.copy(), x.copy())
    monkeypatch.setitem(sys.modules, "sympy", None)
    row = next(row for row in p.summary(work=True).rows if row.kind == "launch")
    assert row.nbytes is None
    assert row.total_ns


def test_a_summary_is_a_table_and_a_card(measured: None) -> None:
    x = np.ones(64, np.float32)
    with kd.use("cpu"):
        axpy.forall(64)(np.float32(2), x, x.copy(), x.copy())
        with kd.profile() as p:
            axpy.forall(64)(np.float32(2), x, x.copy(), x.copy())
    summary = p.summary()
    headers, row = str(summary).splitlines()
    assert headers.split()[:3] == ["kind", "name", "device"]
    assert row.split()[:4] == ["launch", "axpy", "cpu", "1"]
    html = summary._repr_mimebundle_()["text/html"]
    assert "<td>axpy</td>" in html
    assert "by the time of the host" in html


def test_columns_of_work_are_there_where_it_was_counted(measured: None) -> None:
    from kerneldsl.cards.tables import profile_card, profile_text

    x = np.ones(64, np.float32)
    with kd.use("cpu"), kd.profile() as p:
        axpy.forall(64)(np.float32(2), x, x.copy(), x.copy())
    plain, counted = (str(p.summary(work=work)).splitlines() for work in (False, True))
    assert plain[0].split()[-1] == "share"
    assert counted[0].split() == [*plain[0].split(), "GB/s", "GFLOP/s", "of", "the", "roof"]
    # The profile itself shows the columns of its summary, also once the work was counted.
    assert profile_text(p) == f"{p!r}\n{p.summary()!r}"
    headers = re.findall("<th>([^<]*)</th>", profile_card(p))
    assert headers == re.split(r"\s{2,}", plain[0])
    with kd.use("cpu"), kd.profile() as q:
        kd.to_device(x)
    assert str(q.summary()).splitlines()[0].split()[-2:] == ["share", "GB/s"]
    assert str(kd.profile().summary()).split()[-1] == "share"


def test_a_first_summary_imports_nothing_heavy() -> None:
    program = """
import sys
import numpy as np
import kerneldsl as kd
with kd.use("cpu"), kd.profile() as p:
    kd.to_device(np.ones(64)).copy_to_host()
before = set(sys.modules)
repr(p), str(p.summary()), p._repr_html_()
print({name.partition(".")[0] for name in set(sys.modules) - before})
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    for package in ("numba", "sympy", "scipy", "pandas", "matplotlib", "unittest"):
        assert f"'{package}'" not in done.stdout
    assert "'kerneldsl'" in done.stdout
