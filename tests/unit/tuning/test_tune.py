"""Tuning a launch: what is measured, what is remembered, and what is refused."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import OutOfMemoryError
from kerneldsl.launch.dispatch import Dispatcher
from kerneldsl.launch.measured import Measured, PlanChoices
from kerneldsl.launch.tuning_policy import Budget, read_budget
from kerneldsl.tuning import measuring
from kerneldsl.tuning.measuring import Stopwatch, median_interval
from kerneldsl.tuning.session import Session
from tests.cache.programs import ROOT, run_script
from tests.support.extent import examples
from tests.support.launched import null_in_use


def make_sums(*tiles: int) -> Any:
    @kd.kernel(space=kd.Space(block=[32, 64], tile=list(tiles), covers=lambda c: c.block * c.tile))
    def sums(x, out, *, tile):
        i = (kd.blockIdx.x * kd.blockDim.x + kd.threadIdx.x) * tile
        total = np.float64(0)
        for k in range(tile):
            if i + k < x.size:
                total += x[i + k]
        kd.atomic.add(out, 0, total)

    return sums


def test_later_launches_take_the_fastest_member(timed_by: Any):
    timed_by(lambda plan: 10.0 if dict(plan.parameters) == {"block": 64, "tile": 2} else 1000.0)
    sums, x, out = make_sums(1, 2, 4), np.arange(1000.0), np.zeros(1)
    with kd.use("cpu"):
        first = sums.forall(1000).plan(x, out)
        report = sums.forall(1000).tune(x, out, budget="full")
        assert dict(report.plan.parameters) == {"block": 64, "tile": 2} != dict(first.parameters)
        assert sums.forall(1000).plan(x, out).parameters == report.plan.parameters
        sums.forall(1000)(x, out)
        assert out[0] == x.sum()
    assert report.is_complete
    assert report.total_count == len(report.tried)
    assert report.speedup == 100.0
    assert "100.00 times as fast" in str(report)


_COMPARE = Session.compare


@pytest.mark.parametrize("slowest", [100.0, 200.0], ids=["quiet", "busy"])
def test_the_fastest_plans_are_compared_in_turns(
    timed_by: Any, monkeypatch: pytest.MonkeyPatch, slowest: float
):
    alone = {(32, 1): 100.0, (64, 1): 102.0, (32, 2): 104.0, (64, 2): 110.0}
    turns: list[int] = []

    def in_turns(watch: Stopwatch, launches: Any, median_ns: float) -> dict[int, Measured]:
        assert median_ns == 100.0
        turns.extend(launches)
        return {n: Measured(slowest - n, 0.0, 200.0, 21) for n in launches}

    timed_by(lambda plan: alone[dict(plan.parameters)["block"], dict(plan.parameters)["tile"]])
    monkeypatch.setattr(Session, "compare", _COMPARE)
    monkeypatch.setattr(Stopwatch, "in_turns", in_turns)
    sums, x, out = make_sums(1, 2), np.arange(1000.0), np.zeros(1)
    with kd.use("cpu"):
        report = sums.forall(1000).tune(x, out, budget="full")
        again = sums.forall(1000).tune(x, out, budget="cached")
        repeated = sums.forall(1000).tune(x, out, budget="full")
    times = {each.plan: each.measured.median_ns for each in report.tried}
    compared = [report.tried[n] for n in turns]
    assert len(compared) >= 3
    assert max(alone[32, 2], *(each.measured.median_ns or 0 for each in compared)) < 105
    assert report.plan.parameters == report.tried[max(turns)].plan.parameters
    assert again.plan.parameters == repeated.plan.parameters == report.plan.parameters
    assert times == {each.plan: each.measured.median_ns for each in again.tried}


@pytest.mark.parametrize(("seconds", "samples"), [(0.001, 21), (0.06, 8), (0.2, 0)])
def test_turns_end_after_some_time(
    monkeypatch: pytest.MonkeyPatch, seconds: float, samples: int
) -> None:
    """To empty a cache may take far longer than a launch."""
    now = iter(np.arange(1000) * 2 * seconds)
    monkeypatch.setattr(measuring, "time", SimpleNamespace(perf_counter=now.__next__))
    monkeypatch.setattr(Stopwatch, "_sample", lambda watch, launch, count: 10.0)
    watch = object.__new__(Stopwatch)
    watch._before = lambda: None
    found = watch.in_turns({0: lambda: None, 1: lambda: None}, 10.0)
    assert [each.samples for each in found.values()] == [samples] * 2 * (samples > 0)


def test_times_are_of_arrays_of_the_same_shapes(timed_by: Any):
    timed_by(lambda plan: 10.0)
    sums, out = make_sums(1, 2), np.zeros(1)
    with kd.use("cpu"):
        for size, is_known in ((1000, False), (4000, False), (4000, True)):
            report = sums.forall(1000).tune(np.ones(size), out, budget="full")
            assert {each.was_known for each in report.tried} == {is_known}


class _Events:
    """Events of a device that is done with its work so many times before launches are queued."""

    def __init__(self) -> None:
        self.idle, self.log = 0, list[str]()

    def __call__(self) -> Any:
        return self

    def record(self, stream: Any) -> None:
        self.log.append("record")

    def query(self) -> bool:
        self.idle -= 1
        return self.idle >= 0

    def elapsed_ms(self, end: Any) -> float:
        return 1.0


@pytest.mark.parametrize(("idle", "waits"), [(0, 0), (1, 1), (3, 4), (100, 64)])
def test_launches_are_queued_while_the_device_is_at_work(
    monkeypatch: pytest.MonkeyPatch, idle: int, waits: int
):
    events = _Events()
    monkeypatch.setattr(measuring, "Event", events)
    events.idle = idle
    log = events.log
    watch = Stopwatch(None, None, lambda: lambda: log.append("wait"))
    assert watch._sample(lambda: log.append("launch"), 2) == 5e5
    last = ["wait"] * waits + ["launch", "record", "launch", "launch", "record"]
    assert log[-len(last) :] == last
    assert log[: -len(last)][-1:] in ([], ["record"])


def test_a_device_without_memory_to_write_is_measured(monkeypatch: pytest.MonkeyPatch):
    def make_wait() -> Any:
        raise OutOfMemoryError("no memory", code=2, name="CUDA_ERROR_OUT_OF_MEMORY")

    events = _Events()
    monkeypatch.setattr(measuring, "Event", events)
    events.idle = 9
    assert Stopwatch(None, None, make_wait)._sample(lambda: None, 1) == 1e6


def test_a_launch_that_was_repeated_before_takes_the_new_plan(timed_by: Any):
    timed_by(lambda plan: 10.0 if plan.host is not None and plan.host.threads == 1 else 1000.0)

    @kd.kernel
    def scale(x):
        x[kd.grid(1)] *= 2

    x = np.ones(1 << 20)
    with kd.use("cpu"):
        launch = scale.forall(x.size)
        for _ in range(100):
            launch(x)
        x[:] = 1
        launch.tune(x, budget="full")
        assert (x == 1).all()
        launch(x)
        assert (x == 2).all()
        host = launch.plan(x).host
        assert host is not None
        assert host.threads == 1


def test_what_a_kernel_writes_is_put_back():
    @kd.kernel
    def count(x, y):
        i = kd.grid(1)
        x[i] += 1
        y[i] = x[i]

    x, y = np.random.default_rng().random(5000), np.full(5000, np.nan)
    before = x.copy()
    with kd.use("cpu"):
        report = count.forall(5000).tune(x, y, budget=0.3)
    assert (x == before).all()
    assert np.isnan(y).all()
    assert report.best.measured.median_ns is not None
    assert report.best.measured.low_ns <= report.best.measured.median_ns


def test_launches_that_are_timed_are_made_by_native_code(monkeypatch: pytest.MonkeyPatch):
    """The way through Python takes longer than many a kernel."""
    through_python = []
    launch = Dispatcher.launch
    monkeypatch.setattr(
        Dispatcher, "launch", lambda *args: (through_python.append(args), launch(*args))[1]
    )
    sums, x, out = make_sums(1, 2, 4), np.arange(1000.0), np.zeros(1)
    with kd.use("cpu"):
        report = sums.forall(1000).tune(x, out, budget="full", processes=1)
    assert all(each.measured.samples >= 7 for each in report.tried)
    assert len(through_python) <= len(report.tried)


def test_a_plan_with_other_results_is_not_taken():
    @kd.kernel(space=kd.Space(block=[32, 64], covers=lambda c: c.block))
    def place(out):
        out[kd.grid(1)] = kd.blockDim.x

    out = np.zeros(640)
    with kd.use("cpu"):
        report = place.forall(640).tune(out, budget="full", reference=lambda out: np.full(640, 32))
    assert report.plan.block_dim == (32, 1, 1)
    (wrong,) = {each.measured.problem for each in report.tried if each.plan.block_dim[0] == 64}
    assert wrong == "argument 1: 640 of 640 elements are wrong, the first at (0,): np.float64(64.0)"


def test_a_new_member_is_measured_alone(timed_by: Any):
    measured: list[PlanChoices] = []
    timed_by(lambda plan: measured.append(plan) or 100.0)
    x, out = np.arange(100.0), np.zeros(1)
    with kd.use("cpu"):
        make_sums(1, 2).forall(100).tune(x, out, budget="full")
        count = len(measured)
        assert count
        report = make_sums(1, 2, 4).forall(100).tune(x, out, budget="full")
    assert {dict(plan.parameters)["tile"] for plan in measured[count:]} == {4}
    assert sum(each.was_known for each in report.tried) == count


PROGRAM = """
import numpy as np
import kerneldsl as kd

@kd.kernel
def axpy(a, x, y):
    i = kd.grid(1)
    if i < y.size:
        y[i] += a * x[i]

x, y = np.ones(200_000), np.ones(200_000)
with kd.use("cpu"):
    plain = axpy.forall(x.size).plan(2.0, x, y).host
    report = axpy.forall(x.size).tune(2.0, x, y, budget=BUDGET, progress=PROGRESS)
result = [str(plain), str(report.plan.host), [each.was_known for each in report.tried]]
"""


def test_a_second_process_measures_nothing_and_launches_the_tuned_plan(tmp_path: Path):
    text = PROGRAM.replace("PROGRESS", "False")
    first = run_script(tmp_path / "a.py", text.replace("BUDGET", '"full"'))["result"]
    again = run_script(tmp_path / "b.py", text.replace("BUDGET", '"cached"'))["result"]
    assert not any(first[2])
    assert all(again[2])
    assert len(again[2]) == len(first[2])
    assert again[0] == again[1] == first[1]


@pytest.mark.parametrize(
    "kills",
    [examples(3, quick=1), pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])],
)
def test_nothing_that_was_measured_is_lost_in_a_kill(tmp_path: Path, kills: int):
    said = "lambda line: print(line.split()[0], flush=True)"
    text = PROGRAM.replace("PROGRESS", said).replace("BUDGET", '"full"')
    path = tmp_path / "killed.py"
    random = np.random.default_rng()
    known = 0
    for _ in range(kills):
        path.write_text(text)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            [sys.executable, str(path)], stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            seen = 0
            for line in process.stdout:
                seen = int(line)
                if seen > known and random.random() < 0.5:
                    process.send_signal(signal.SIGKILL)
                    break
        assert process.returncode in (0, -signal.SIGKILL)
        cached = run_script(
            tmp_path / "read.py",
            PROGRAM.replace("PROGRESS", "False").replace("BUDGET", '"cached"'),
        )
        found = len(cached["result"][2])
        assert found >= seen
        known = found


def test_the_measurements_in_the_t4_format(timed_by: Any):
    timed_by(lambda plan: 100.0)
    with kd.use("cpu"):
        report = make_sums(1, 2).forall(100).tune(np.arange(100.0), np.zeros(1), budget="full")
    found = json.loads(json.dumps(report.to_t4()))
    assert found["schema_version"] == "1.0.0"
    assert found["metadata"]["extent"] == [100]
    assert len(found["results"]) == len(report.tried)
    for result in found["results"]:
        assert result["measurements"] == [{"name": "time", "value": 100.0, "unit": "ns"}]
        assert result["configuration"]["tile"] in (1, 2)
    json.dumps(report.to_dict())
    assert "<table" in report._repr_html_()


def test_what_cannot_be_tuned_is_refused():
    @kd.kernel
    def ramp(out):
        out[kd.grid(1)] = 1

    out = np.zeros(64)
    with kd.use("cpu"):
        with pytest.raises(kd.LaunchConfigError, match="Tuning chooses them"):
            ramp[2, 32].tune(out)
        with pytest.raises(kd.LaunchConfigError, match="empty extent"):
            ramp.forall(0).tune(out)
        with pytest.raises(kd.LaunchConfigError, match="Nothing was measured before"):
            ramp.forall(64).tune(out, budget="cached")
        with pytest.raises(kd.ArgumentTypeError, match="the reference gave 2 arrays"):
            ramp.forall(64).tune(out, reference=lambda out: (out, out))
        for budget in ("soon", -1, float("nan"), "5 h"):
            with pytest.raises(kd.ArgumentValueError, match="budget is"):
                ramp.forall(64).tune(out, budget=budget)
        for budget in (None, True):
            with pytest.raises(kd.ArgumentTypeError, match="budget is a"):
                ramp.forall(64).tune(out, budget=budget)  # type: ignore[arg-type]
    with null_in_use(), pytest.raises(kd.ArgumentTypeError, match="Pass device arrays"):
        ramp.forall(64).tune(out)


def test_budgets():
    assert read_budget(2) == Budget(2.0)
    assert read_budget(" 3 s ") == Budget(3.0)
    assert read_budget("250ms") == Budget(0.25)
    assert not read_budget("never").uses_records


@pytest.mark.parametrize("count", range(7, 61))
def test_the_interval_of_a_median_holds_it_in_95_of_100_cases(count: int):
    """The samples below the median of what they are drawn from are binomially distributed."""
    median, low, high = median_interval([float(rank) for rank in range(count)])
    assert low <= median <= high
    cases = sum(math.comb(count, below) for below in range(int(low) + 1, int(high) + 1))
    assert cases / 2**count >= 0.95
