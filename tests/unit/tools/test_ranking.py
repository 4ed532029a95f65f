"""Which device is best, and which one is the default."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.contract import Device, DeviceLimits
from kerneldsl.placement import devices as placement
from kerneldsl.placement.devices import current_device, why_current
from kerneldsl.placement.scores import KIND_POINTS, score_of
from kerneldsl.tools import ranking
from targets import null
from tests.support.fake_target import FakeTarget, installed

KINDS = list(KIND_POINTS)


def a_device(
    kind="discrete", capability=(9, 0), gib=80.0, multiprocessors=132, *, index=0, target="cuda"
):
    limits = DeviceLimits(
        1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535), 49152, 32, multiprocessors
    )
    extra = {"compute_capability": capability, "total_memory_bytes": int(gib * 2**30)}
    return Device(target, index, f"{kind} {index}", "sm_90", limits, extra, kind)


devices = st.builds(
    a_device,
    kind=st.sampled_from(KINDS),
    capability=st.tuples(st.integers(0, 10**6), st.integers(0, 9)),
    gib=st.floats(0, 1e12),
    multiprocessors=st.integers(1, 10**12),
)


@given(devices, devices)
def test_the_kind_is_never_outweighed(first, second):
    if KIND_POINTS[first.kind] > KIND_POINTS[second.kind]:
        assert score_of(first).total > score_of(second).total


@given(devices, st.sampled_from(["capability", "gib", "multiprocessors"]))
def test_more_is_never_worse(device, what):
    before = score_of(device)
    more = {
        "capability": (device.extra["compute_capability"][0] + 1, 0),
        "gib": device.extra["total_memory_bytes"] / 2**30 + 1,
        "multiprocessors": device.limits.multiprocessor_count + 1,
    }
    given_ = {
        "kind": device.kind,
        "capability": device.extra["compute_capability"],
        "gib": device.extra["total_memory_bytes"] / 2**30,
        "multiprocessors": device.limits.multiprocessor_count,
    }
    assert score_of(a_device(**{**given_, what: more[what]})).total >= before.total


@given(devices)
def test_the_parts_add_up(device):
    found = score_of(device)
    parts = found.to_dict()
    assert parts["kind_points"] == KIND_POINTS[device.kind]
    named = [value for name, value in parts.items() if name.endswith("_points")]
    assert math.isclose(parts["total"], sum(named))
    assert 0 <= found.total - found.kind_points < 40
    assert json.loads(json.dumps(parts)) == parts


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (a_device(capability=(9, 0)), a_device(capability=(8, 0))),
        (a_device(gib=141), a_device(gib=80)),
        (a_device(multiprocessors=132), a_device(multiprocessors=114)),
        (a_device("integrated", gib=1, multiprocessors=1), a_device("virtual")),
    ],
)
def test_each_part_counts(better, worse):
    assert score_of(better).total > score_of(worse).total


def test_a_score_shows_its_parts():
    with null.described_as(null.H100):
        found = kd.score("null")
    assert found.kind_points == 1000
    lines = [line.split() for line in repr(found).splitlines()]
    assert lines[0] == ["null:0", "points"]
    assert lines[-1] == ["total", f"{found.total:.1f}"]
    assert "<table>" in found._repr_html_()


def test_the_memory_of_the_cpu_counts_too():
    found = kd.score("cpu")
    assert found.memory_points > 0
    assert found.compute_capability_points == 0
    assert 50 < found.total < 100


# --------------------------------------------------------------------------- the default


@pytest.fixture
def machine(monkeypatch):
    """A machine with a CPU and the GPUs that a test describes."""
    monkeypatch.delenv("KERNELDSL_TARGET", raising=False)
    monkeypatch.setattr(placement, "_detected", None)
    monkeypatch.setattr(placement, "_from_environment", None)
    monkeypatch.setattr(placement._choices, "_plain", [])
    monkeypatch.setattr(placement._choices, "process_wide", None)
    cpu = FakeTarget("cpu", is_host=True, devices=1)
    cpu.describe_devices(a_device("cpu", (0, 0), 64, 96, target="cpu"))
    gpus = FakeTarget("cuda", devices=0)
    with installed(cpu), installed(gpus):

        def describe(*found):
            gpus.describe_devices(*found)
            placement._detected = None
            return gpus

        yield describe
    placement._detected = None


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ((), "cpu"),
        ((a_device(),), "cuda:0"),
        ((a_device(), a_device(index=1)), "cuda:0"),
        ((a_device("integrated"), a_device(capability=(6, 0), gib=2, index=1)), "cuda:1"),
        ((a_device(gib=80), a_device(gib=141, index=1), a_device(gib=40, index=2)), "cuda:1"),
        ((a_device("virtual", (7, 0), 1, 1),), "cuda:0"),
        ((a_device("other"),), "cpu"),
    ],
)
def test_the_default_is_the_best(machine, gpus, expected):
    machine(*gpus)
    assert kd.current_target() == expected
    assert str(kd.best_device()) == expected
    assert "highest score" in why_current()


def test_a_device_that_can_run_nothing_is_not_chosen(machine, monkeypatch):
    _, old = machine(a_device(), a_device(gib=141, index=1)).found
    monkeypatch.setitem(vars(old), "unusable_reason", lambda: "it is too old")
    assert kd.current_target() == "cuda:0"
    kd.use("cuda:0")
    with pytest.raises(kd.TargetUnavailableError, match=r"cuda:1 .*it is too old.*used: cuda:0"):
        placement.device_of("cuda:1")
    ranked = kd.rank_devices(among=kd.devices())
    assert [str(e.info) for e in ranked.entries] == ["cuda:0", "cpu", "cuda:1"]
    assert ranked.entries[-1].problem == "it is too old"
    assert str(ranked.best) == "cuda:0"


def test_a_choice_stands_above_the_score(machine, monkeypatch):
    machine(a_device(), a_device(gib=141, index=1))
    monkeypatch.setenv("KERNELDSL_TARGET", "cuda:0")
    assert (kd.current_target(), why_current()) == ("cuda:0", "KERNELDSL_TARGET is 'cuda:0'")
    with kd.use("cpu"):
        assert (kd.current_target(), why_current()) == ("cpu", "An active `with` chose cpu")
    kd.use(kd.best_device())
    assert (kd.current_target(), why_current()) == ("cuda:1", "kd.use('cuda:1') was called")
    assert current_device().index == 1


# ----------------------------------------------------------------------------- ranking


def test_ranking_by_score_shows_the_scores():
    with null.described_as(null.SMALL_OLD_CARD, null.H100):
        ranked = kd.rank_devices(among=["cpu", "null:0", "null:1"])
        assert [str(entry.info) for entry in ranked.entries] == ["null:1", "null:0", "cpu"]
        assert str(kd.best_device(among=["cpu", "null:0", "null:1"])) == "null:1"
    text = repr(ranked)
    assert text.splitlines()[0].split() == ["device", "name", "kind", "score"]
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["null:1", "null:0", "cpu"]
    found = ranked.to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["devices"][0]["score"]["kind"] == "discrete"
    assert "<table>" in ranked._repr_html_()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: kd.best_device(by="speed"), "cannot be ranked by 'speed'.*\"benchmark\""),
        (lambda: kd.best_device(among=[]), "list of devices is empty"),
    ],
)
def test_what_cannot_be_ranked(call, words):
    with pytest.raises(kd.ArgumentValueError, match=words):
        call()


def test_a_device_that_is_not_there_cannot_be_ranked():
    with pytest.raises(kd.DeviceMismatchError, match="no device cpu:3"):
        kd.rank_devices(among=["cpu:3"])


def test_measuring_the_cpu_gives_figures_of_this_world(monkeypatch):
    monkeypatch.setattr(ranking, "_BUDGET_SECONDS", 0.2)
    ranked = kd.rank_devices(by="benchmark", among=["cpu"])
    measured = ranked.entries[0].measurement
    assert measured is not None
    assert 1e8 < measured.copy_bytes_per_s < 1e13
    assert 1e7 < measured.float32_operations_per_s < 1e14
    assert "copy GB/s" in repr(ranked)
    assert ranked.to_dict()["devices"][0]["copy_bytes_per_s"] == measured.copy_bytes_per_s


def _chains_per_s(seconds):
    """Operations of Numba in a second: multiply-adds in chains that wait for none other."""

    @numba.njit(parallel=True, fastmath=True)
    def chains(rounds, out):
        for t in numba.prange(out.shape[0]):
            row = out[t]
            for _ in range(rounds):
                for j in range(128):
                    row[j] = row[j] * np.float32(0.5) + np.float32(0.5)

    out = np.zeros((numba.get_num_threads(), 128), np.float32)
    chains(1, out)
    end, best = time.perf_counter() + seconds, math.inf
    while time.perf_counter() < end:
        start = time.perf_counter()
        chains(5000, out)
        best = min(best, time.perf_counter() - start)
    return 2 * 5000 * out.size / best


def _copied_bytes_per_s(seconds):
    """Bytes that NumPy reads and writes in a second."""
    source = np.ones(2**24, np.float32)
    out, end, best = np.zeros_like(source), time.perf_counter() + seconds, math.inf
    while time.perf_counter() < end:
        start = time.perf_counter()
        np.copyto(out, source)
        best = min(best, time.perf_counter() - start)
    return 2 * source.nbytes / best


@pytest.mark.measures
def test_measuring_the_cpu_reaches_what_it_can():
    """Half of what Numba and NumPy show, on a machine that others may use meanwhile."""
    found, possible = [], []
    for _ in range(5):
        (entry,) = kd.rank_devices(by="benchmark", among=["cpu"]).entries
        measured = entry.measurement
        found.append((measured.float32_operations_per_s, measured.copy_bytes_per_s))
        possible.append((_chains_per_s(0.3), _copied_bytes_per_s(0.3)))
        best, limit = np.max(found, axis=0), np.max(possible, axis=0)
        if (best > 0.5 * limit).all():
            return
    raise AssertionError(f"operations and bytes a second: {found}; by Numba and NumPy: {possible}")


@pytest.mark.full
def test_measuring_ends_when_its_time_is_over(monkeypatch):
    monkeypatch.setattr(ranking, "_BUDGET_SECONDS", 0.2)
    kd.rank_devices(by="benchmark", among=["cpu"])  # compiled
    before = time.perf_counter()
    kd.rank_devices(by="benchmark", among=["cpu"])
    assert time.perf_counter() - before < 10


def test_measured_figures_decide_and_problems_stand_last(machine, monkeypatch):
    machine(a_device(), a_device(gib=141, index=1), a_device(index=2))
    figures = {"cpu": (1e10, 1e11), "cuda:0": (3e12, 6e13), "cuda:1": (1e12, 1e13)}

    def measure(info, seconds):
        assert seconds == pytest.approx(1 / 4)
        if str(info) not in figures:
            raise kd.OutOfMemoryError("No room", code=2, name="CUDA_ERROR_OUT_OF_MEMORY")
        return ranking.Measurement(*figures[str(info)])

    monkeypatch.setattr(ranking, "_measure", measure)
    ranked = kd.rank_devices(by="benchmark")
    assert [str(e.info) for e in ranked.entries] == ["cuda:0", "cuda:1", "cpu", "cuda:2"]
    assert "No room" in ranked.entries[-1].problem
    assert str(ranked.best) == "cuda:0"


def test_the_default_is_found_without_what_a_launch_does_not_need():
    program = (
        "import sys, kerneldsl as kd; kd.current_target();"
        "heavy = {'psutil', 'llvmlite', 'numba', 'importlib.metadata', 'cuda.core', "
        "'cuda.bindings.nvml', 'kerneldsl.tools.ranking', 'kerneldsl.contract.info_display'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"
