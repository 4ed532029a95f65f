"""Detection, checks and the command line on a machine with a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import kerneldsl as kd
from targets.cuda import checks as probe

ROOT = Path(__file__).parents[2]


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "kerneldsl", *arguments, "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_cuda_is_detected_by_files_and_usable_by_its_driver():
    cuda = kd.backends().named("cuda")
    assert cuda.is_detected
    assert cuda.is_usable
    assert "cuda:0" in cuda.reason
    assert cuda.version == probe.nvidia_driver_version()
    assert any("cuda" in path for path in cuda.evidence)


def test_the_gpu_passes_every_check():
    report = kd.preflight()
    checks = {check.name: check for check in report.checks}
    of_gpu = [c for n, c in checks.items() if n.startswith(("cuda.", "kernel.cuda"))]
    assert not [c for c in of_gpu if c.status == "problem"]
    for name in ("cuda.driver", "cuda.start", "cuda.ptx.cuda:0", "memory.cuda:0", "kernel.cuda:0"):
        assert checks[name].status == "ok", checks[name]


def test_doctor_without_visible_devices():
    done = run("doctor", "--no-kernels", CUDA_VISIBLE_DEVICES="")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["cuda.visible_devices"]["status"] == "warning"
    assert checks["cuda.start"]["status"] == "warning"
    assert "CUDA_VISIBLE_DEVICES" in checks["cuda.start"]["remedy"]


def test_status_has_live_values():
    done = run("status")
    assert done.returncode == 0, done.stderr
    (gpu,) = [d for d in json.loads(done.stdout)["devices"] if d["device"] == "cuda:0"]
    assert 0 < gpu["free_memory_bytes"] <= gpu["total_memory_bytes"]
    assert set(gpu["unavailable"]) == {n for n, v in gpu.items() if v is None}


def test_the_gpu_is_the_default_and_the_fake_changes_nothing():
    done = run("default", KERNELDSL_FAKE_GPU="")
    told = json.loads(done.stdout)
    assert told["device"].startswith("cuda:")
    assert told["ranking"][0]["device"].startswith("cuda:")
    faked = json.loads(run("backends", KERNELDSL_FAKE_GPU="").stdout)["backends"]
    assert [b["name"] for b in faked if b["is_detected"]] == ["cpu"]
