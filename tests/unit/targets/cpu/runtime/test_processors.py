"""Threads of the CPU target: never more than can run at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from targets.cpu import target
from targets.cpu.runtime import processors, threads
from targets.cpu.runtime.host_pool import check_cpu
from targets.cpu.runtime.processors import Runnable, describe_cpu, processor_quota
from tests.support.extent import full_beyond

PROGRAM = """
import threading
import numpy as np
import kerneldsl as kd

@kd.kernel
def double(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]

x, out = np.ones(1_000_000), np.zeros(1_000_000)
double.forall(x.size)(x, out)
assert (out == 2).all()
from targets.cpu.runtime.threads import threading_layer
print(threading_layer().thread_count)
"""


def _group(root: Path, lines: str, **files: str) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(lines)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("inner", "outer", "quota"),
    [
        ("max 100000", "max 100000", None),
        ("150000 100000", "max 100000", 1.5),
        ("400000 100000", "200000 100000", 2.0),
        ("50000 100000", "800000 100000", 0.5),
        ("", "", None),
    ],
)
def test_the_smallest_quota_of_nested_groups(tmp_path, inner, outer, quota) -> None:
    files = {"pod__box__cpu_dot_max": inner, "pod__cpu_dot_max": outer}
    assert processor_quota(_group(tmp_path, "0::/pod/box\n", **files)) == quota


@pytest.mark.parametrize(
    ("quota", "period", "expected"),
    [
        ("-1", "100000", None),
        ("300000", "200000", 1.5),
        ("500000", "50000", 10.0),
        ("50000", "10000", 5.0),
        ("20000", "1000000", 0.02),
        ("150000", "", 1.5),
    ],
)
def test_the_first_version_of_control_groups(tmp_path, quota, period, expected) -> None:
    files = {
        "cpu__box__cpu_dot_cfs_quota_us": quota,
        "cpu__box__cpu_dot_cfs_period_us": period,
    }
    root = _group(tmp_path, "4:cpu,cpuacct:/box\n1:name=systemd:/box\n", **files)
    assert processor_quota(root) == expected


def test_the_smallest_quota_where_periods_differ(tmp_path) -> None:
    files = {
        "cpu__pod__cpu_dot_cfs_quota_us": "300000",
        "cpu__pod__cpu_dot_cfs_period_us": "100000",
        "cpu__pod__box__cpu_dot_cfs_quota_us": "80000",
        "cpu__pod__box__cpu_dot_cfs_period_us": "20000",
    }
    assert processor_quota(_group(tmp_path, "4:cpu:/pod/box\n", **files)) == 3.0


@pytest.mark.parametrize(
    ("text", "expected"), [("80000 20000", 4.0), ("150000", 1.5), ("max", None), ("junk 7", None)]
)
def test_both_versions_are_mounted(tmp_path, text, expected) -> None:
    files = {"cpu_dot_max": text, "cpu__cpu_dot_cfs_quota_us": "-1"}
    root = _group(tmp_path, "0::/\n4:cpu:/\n3:memory:/\n", **files)
    assert processor_quota(root) == expected


@pytest.mark.parametrize(
    ("asked", "variable", "runnable", "said"),
    [
        (None, None, Runnable(1, "quota"), "; the limit is the quota"),
        (8, None, Runnable(1, "quota"), "; the limit is the quota"),
        (8, "8", Runnable(2, "quota"), " of 8 in NUMBA_NUM_THREADS; the limit is the quota"),
        (2, "2", Runnable(2, "quota"), "; the limit is the quota"),
        (1, "1", Runnable(2, "quota"), "; the limit is NUMBA_NUM_THREADS"),
        (1, None, Runnable(2, "quota"), "; the limit is Numba's setting"),
    ],
)
def test_the_limit_that_acts_is_named(monkeypatch, asked, variable, runnable, said) -> None:
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    if variable is not None:
        monkeypatch.setenv("NUMBA_NUM_THREADS", variable)
    monkeypatch.setattr(threads, "requested_threads", lambda: asked)
    monkeypatch.setattr(processors, "runnable_threads", lambda: runnable)
    (check,) = [each for each in check_cpu() if each.name == "cpu.threading_layer"]
    assert said in check.found
    assert ("NUMBA_NUM_THREADS" in check.found) == ("NUMBA_NUM_THREADS" in said)


def test_without_control_groups(tmp_path) -> None:
    assert processor_quota(tmp_path) is None


@pytest.mark.parametrize(("quota", "count"), [(0.2, 1), (1.0, 1), (1.5, 2), (None, 8), (64.0, 8)])
def test_a_quota_is_rounded_up(monkeypatch, quota, count) -> None:
    monkeypatch.setattr(processors.os, "sched_getaffinity", lambda pid: set(range(8)), False)
    monkeypatch.setattr(processors, "processor_quota", lambda: quota)
    found = processors.runnable_threads()
    assert found.threads == count
    assert ("quota" in found.limit) == (count < 8)


def test_the_device_has_no_more_multiprocessors_than_threads_can_run(monkeypatch) -> None:
    monkeypatch.setattr(processors, "processor_quota", lambda: 0.5)
    device = target._make_device()
    assert device.limits.multiprocessor_count == 1
    assert describe_cpu(device).usable_core_count == 1


@pytest.mark.parametrize("layer", full_beyond(["native", "workqueue"], ["native"]))
def test_no_more_threads_than_can_run(tmp_path, layer) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = os.environ | {"NUMBA_NUM_THREADS": "100000", "KERNELDSL_TARGET": "cpu"}
    done = subprocess.run(
        [sys.executable, str(program)],
        env=environment | {"KERNELDSL_THREADING_LAYER": layer, "KERNELDSL_CACHE": "off"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert int(done.stdout) == processors.runnable_threads().threads
