"""Threads of the CPU target: never more than can run at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from targets.cpu import processors
from targets.cpu.processors import processor_quota

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
from targets.cpu.threads import threading_layer
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
    ("quota", "period", "expected"), [("-1", "100000", None), ("300000", "200000", 1.5)]
)
def test_the_first_version_of_control_groups(tmp_path, quota, period, expected) -> None:
    files = {
        "cpu__box__cpu_dot_cfs_quota_us": quota,
        "cpu__box__cpu_dot_cfs_period_us": period,
    }
    root = _group(tmp_path, "4:cpu,cpuacct:/box\n1:name=systemd:/box\n", **files)
    assert processor_quota(root) == expected


def test_without_control_groups(tmp_path) -> None:
    assert processor_quota(tmp_path) is None


@pytest.mark.parametrize(("quota", "count"), [(0.2, 1), (1.0, 1), (1.5, 2), (None, 8), (64.0, 8)])
def test_a_quota_is_rounded_up(monkeypatch, quota, count) -> None:
    monkeypatch.setattr(processors.os, "sched_getaffinity", lambda pid: set(range(8)), False)
    monkeypatch.setattr(processors, "processor_quota", lambda: quota)
    found = processors.runnable_threads()
    assert found.threads == count
    assert ("quota" in found.limit) == (count < 8)


@pytest.mark.parametrize("layer", ["native", "workqueue"])
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
