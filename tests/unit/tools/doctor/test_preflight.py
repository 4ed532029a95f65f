"""``kd.preflight()``: each thing that can be wrong with a machine, simulated."""

from __future__ import annotations

import json
import multiprocessing
import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl._version import TESTED_RANGES
from kerneldsl.errors import DeviceMemoryError
from kerneldsl.placement import fallback
from kerneldsl.tools import versions
from kerneldsl.tools.doctor import host, preflight, trial
from kerneldsl.tools.doctor.checkup import _complete
from kerneldsl.utilities import environment
from targets import null as null_target
from targets.cpu.runtime import host_pool as cpu_checks
from targets.cpu.runtime import threads
from tests.support.checkups import by_name, forget_variables, unload
from tests.support.fake_target import FakeTarget

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    forget_variables(monkeypatch)


# ------------------------------------------------------------------------------------ as a whole


def test_this_machine():
    parts = []
    report = kd.preflight(progress=parts.append)
    checks = by_name(report.checks)
    for name in ("python", "packages.numba", "packages.own", "cache.folder", "memory.host"):
        assert name in checks
    assert "cpu.threading_layer" in checks
    assert "cuda.driver" in checks
    assert checks["kernel.cpu"].status == "ok", checks["kernel.cpu"]
    assert parts[0] == "python"
    assert "kernel on cpu" in parts
    assert not [name for name in checks if name.startswith("null")]


def test_without_kernels_nothing_runs(monkeypatch):
    monkeypatch.setattr(trial, "check_devices", lambda target: pytest.fail("a kernel ran"))
    names = by_name(kd.preflight(run_kernels=False).checks)
    assert not [name for name in names if name.startswith("kernel.")]


def test_the_report():
    ok = kd.Check("a.b", "ok", "fine")
    bad = kd.Check("c.d", "problem", "<broken>", "mend it")
    odd = kd.Check("e.f", "warning", "slow", "hurry")
    report = kd.Report((ok, bad, odd))
    assert (report.problems, report.warnings, report.is_ok) == ((bad,), (odd,), False)
    assert report.verdict == "3 checks: 1 problem and 1 warning"
    assert kd.Report((ok, odd, odd)).verdict == "3 checks: 2 warnings"
    assert kd.Report((ok,)).verdict == "all checks passed (1 check)"
    assert kd.Report((ok, odd)).is_ok
    assert report.named("c.d") is bad
    with pytest.raises(KeyError):
        report.named("x")
    told = json.loads(json.dumps(report.to_dict()))
    assert told["problem_count"] == 1
    assert told["checks"][1] == {
        "name": "c.d",
        "status": "problem",
        "found": "<broken>",
        "remedy": "mend it",
    }
    assert "mend it" in repr(report)
    assert "&lt;broken&gt;" in report._repr_html_()


@pytest.mark.parametrize(
    "error", [RuntimeError("no such\nthing"), kd.KernelError("no such thing", remedy="look again")]
)
def test_a_check_that_fails_is_a_finding_and_ends_nothing(error):
    def look():
        yield kd.Check("part.first", "ok", "fine")
        raise error

    first, failed = _complete("part", look)
    assert first.status == "ok"
    assert failed.status == "problem"
    assert "no such thing" in failed.found
    assert failed.remedy


def test_a_target_that_cannot_be_loaded_is_a_finding(monkeypatch):
    module = sys.modules["kerneldsl.tools.doctor.checkup"]
    real = module.get_target

    def get(name):
        if name == "cuda":
            raise kd.ShadowedPackageError("hidden by /x/targets.py", remedy="Rename it")
        return real(name)

    monkeypatch.setattr(module, "get_target", get)
    check = kd.preflight(run_kernels=False).named("cuda.check")
    assert check.status == "problem"
    assert "/x/targets.py" in check.found
    assert check.remedy == "Rename it"


def test_checks_of_other_targets_are_asked_for(monkeypatch):
    class Other(FakeTarget):
        def checks(self):
            yield kd.Check("other.thing", "warning", "is odd", "look")

    module = sys.modules["kerneldsl.tools.doctor.checkup"]
    real = module.get_target
    monkeypatch.setattr(module, "target_names", lambda: ("cpu", "other"))
    monkeypatch.setattr(
        module, "get_target", lambda n: Other("other", devices=0) if n == "other" else real(n)
    )
    assert preflight(run_kernels=False).named("other.thing").status == "warning"


# ------------------------------------------------------------------------- Python and packages


def test_tested_ranges_are_those_of_the_metadata():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {}
    for line in project["dependencies"]:
        name, lowest, below = re.match(r"(\w+)>=([\d.]+)(?:,<([\d.]+))?", line).groups()
        required[name] = (lowest, below)
    required.pop("tbb")  # its absence is told by the threading layer
    assert required == TESTED_RANGES
    classified = [
        tuple(map(int, c.rsplit(" ", 1)[1].split(".")))
        for c in project["classifiers"]
        if re.search(r":: \d+\.\d+$", c)
    ]
    # In this order: .ci/make-venv takes the last that is installed.
    assert tuple(classified) == versions.TESTED_PYTHONS
    lowest = ".".join(map(str, versions.TESTED_PYTHONS[0]))
    assert project["requires-python"] == f">={lowest}"


@pytest.mark.parametrize(
    ("version", "status"),
    [("0.68.0", "ok"), ("0.68.1rc1", "ok"), ("0.67.9", "warning"), ("0.69.0", "warning")],
)
def test_versions_outside_of_the_tested_range(monkeypatch, version, status):
    real = host.importlib.metadata.distribution

    def distribution(name):
        found = real(name)
        return SimpleNamespace(version=version, locate_file=found.locate_file)

    monkeypatch.setattr("importlib.metadata.distribution", distribution)
    check = host._check_package("numba", "0.68", "0.69")
    assert check.status == status
    if status != "ok":
        assert "numba>=0.68,<0.69" in check.remedy


@pytest.mark.parametrize(("name", "status"), [("numba", "problem"), ("psutil", "warning")])
def test_a_missing_package(monkeypatch, name, status):
    from importlib.metadata import PackageNotFoundError

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    check = host._check_package(name, "1.0", None)
    assert check.status == status
    assert "pip install" in check.remedy


@pytest.mark.parametrize("form", ["psutil.py", "psutil/__init__.py"])
def test_a_hidden_package(tmp_path, monkeypatch, form):
    place = tmp_path / form
    place.parent.mkdir(exist_ok=True)
    place.write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    unload(monkeypatch, "psutil")
    check = host._check_package("psutil", "6.0", None)
    assert check.status == "problem"
    assert str(tmp_path / "psutil") in check.found
    assert "Rename" in check.remedy


def test_own_packages_hidden(tmp_path, monkeypatch):
    place = tmp_path / "stdlib_kernels.py"
    place.write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    unload(monkeypatch, "stdlib_kernels")
    check = host._check_own_packages()
    assert check.status == "problem"
    assert str(place) in check.found
    assert "Rename" in check.remedy


@pytest.mark.parametrize(
    ("version", "bits", "status"),
    [((3, 12), 64, "ok"), ((3, 10), 64, "warning"), ((3, 15), 64, "warning"), ((3, 12), 32, None)],
)
def test_pythons(monkeypatch, version, bits, status):
    made = SimpleNamespace(
        version_info=version, version=f"{version[0]}.{version[1]}.0 (x)", executable="/py"
    )
    monkeypatch.setattr(host, "sys", made)
    monkeypatch.setattr(host.struct, "calcsize", lambda form: bits // 8)
    (check,) = by_name(host.check_python()).values()
    assert check.status == (status or "problem")


# -------------------------------------------------------------------------------- environment


def test_misspelled_variables(monkeypatch):
    monkeypatch.setenv("KERNELDSL_TARGETS", "cuda")
    monkeypatch.setenv("KERNELDSL_ZZZZ", "1")
    checks = by_name(host.check_environment())
    assert checks["environment.KERNELDSL_TARGETS"].remedy == "Did you mean KERNELDSL_TARGET?"
    assert "KERNELDSL_LOG" in checks["environment.KERNELDSL_ZZZZ"].remedy
    assert "environment" not in checks


def test_every_variable_that_is_read_is_known(monkeypatch):
    words = dict.fromkeys(environment.VARIABLES, "cpu")
    words |= {name: each.words[0] for name, each in environment.VARIABLES.items() if each.words}
    for name, word in words.items():
        monkeypatch.setenv(name, word)
    checks = by_name(host.check_environment())
    assert {c.name for c in checks.values() if c.status != "ok"} == {
        "environment.KERNELDSL_DISABLE_PASSES",
        "environment.KERNELDSL_FAKE_GPU",
    }
    assert checks["environment.KERNELDSL_TARGET"].status == "ok"


def test_the_table_of_variables_is_what_the_code_reads():
    read = set()
    for folder in ("kerneldsl", "targets", "stdlib_kernels", "kerneldsl_demo"):
        for source in (ROOT / folder).rglob("*.py"):
            text = source.read_text(encoding="utf-8")
            if source.name == "environment.py":
                table = text.index("VARIABLES = {")
                text = text[:table] + text[text.index("}", table) :]
            read.update(re.findall(r"""["'](KERNELDSL_[A-Z]+(?:_[A-Z]+)*)["']""", text))
            # Others read it by a name of their own.
            read.update(re.findall(r"environ(?:\.get\(|\[)\W*(KERNELDSL_[A-Z_]+)", text))
    assert read == set(environment.VARIABLES)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("KERNELDSL_FALLBACK", "problem"),
        ("KERNELDSL_DEBUG", "problem"),
        ("KERNELDSL_LOG", "warning"),
        ("KERNELDSL_POOL", "problem"),
        ("KERNELDSL_LAUNCHER", "problem"),
        ("KERNELDSL_THREADING_LAYER", "problem"),
        ("KERNELDSL_CACHE", "warning"),
        ("KERNELDSL_CACHE_SHARED", "warning"),
        ("KERNELDSL_TRACEBACK", "problem"),
    ],
)
def test_a_variable_with_a_word_that_nobody_knows(monkeypatch, name, status):
    monkeypatch.setenv(name, " Perhaps ")
    check = by_name(host.check_environment())[f"environment.{name}"]
    assert check.status == status
    assert "'perhaps'" in check.found
    for word in environment.VARIABLES[name].words:
        assert word in check.remedy
        monkeypatch.setenv(name, word.upper())
        assert f"environment.{name}" not in by_name(host.check_environment())
    monkeypatch.setenv(name, " ")
    assert f"environment.{name}" not in by_name(host.check_environment())


def test_a_fake_that_does_not_exist(monkeypatch):
    monkeypatch.setenv("KERNELDSL_FAKE_GPU", "directx")
    check = by_name(host.check_environment())["environment.KERNELDSL_FAKE_GPU"]
    assert check.status == "problem"
    assert "directx" in check.found
    assert "webgpu" in check.found


def test_disabled_passes(monkeypatch):
    name = "KERNELDSL_DISABLE_PASSES"
    for text, status in (("unroll-strides", "warning"), ("unroll-stride", "problem")):
        monkeypatch.setenv(name, text)
        check = by_name(host.check_environment())[f"environment.{name}"]
        assert check.status == status
        assert text in check.found


def test_the_policies_that_are_known_are_those_of_fallback():
    assert environment.VARIABLES["KERNELDSL_FALLBACK"].words == get_args(fallback.Policy)


@pytest.mark.parametrize(
    ("spec", "limit"), [("tpu", "cpu, cuda, null"), ("cpu:7", "has 1 device"), ("cpu:x", "colon")]
)
def test_a_target_that_is_not_there(monkeypatch, spec, limit):
    monkeypatch.setenv("KERNELDSL_TARGET", spec)
    check = by_name(host.check_environment())["environment.KERNELDSL_TARGET"]
    assert check.status == "problem"
    assert repr(spec) in check.found
    assert limit in check.found


# -------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(("available", "status"), [(8 * 2**30, "ok"), (100 * 2**20, "warning")])
def test_host_memory(monkeypatch, available, status):
    import psutil

    made = SimpleNamespace(available=available, total=16 * 2**30)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: made)
    monkeypatch.setattr(host, "cgroup_memory_limit", lambda: None)
    monkeypatch.setattr(host, "_check_address_space", lambda: iter(()))
    (check,) = by_name(host.check_memory()).values()
    assert check.status == status


def test_a_control_groups_limit_counts(monkeypatch):
    monkeypatch.setattr(host, "cgroup_memory_limit", lambda: 64 * 2**20)
    check = by_name(host.check_memory())["memory.host"]
    assert check.status == "warning"
    assert "64 MiB" in check.found


def test_memory_without_psutil(monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    (check,) = host.check_memory()
    assert check.status == "warning"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_limits_of_control_groups_version_2(tmp_path):
    write(tmp_path / "proc/self/cgroup", "0::/user/job\n")
    top = tmp_path / "sys/fs/cgroup"
    write(top / "user/job/memory.max", "max\n")
    assert host.cgroup_memory_limit(tmp_path) is None
    write(top / "user/memory.max", "5000000\n")
    write(top / "memory.max", "9000000\n")
    assert host.cgroup_memory_limit(tmp_path) == 5_000_000


def test_limits_of_control_groups_version_1(tmp_path):
    write(tmp_path / "proc/self/cgroup", "9:cpu,cpuacct:/\n4:memory:/job\n0::/\n")
    top = tmp_path / "sys/fs/cgroup/memory"
    write(top / "memory.limit_in_bytes", "9223372036854771712\n")
    assert host.cgroup_memory_limit(tmp_path) is None
    write(top / "job/memory.limit_in_bytes", "123456789\n")
    assert host.cgroup_memory_limit(tmp_path) == 123_456_789


def test_no_control_groups(tmp_path):
    assert host.cgroup_memory_limit(tmp_path) is None


@pytest.mark.parametrize(("left", "status"), [(4 * 2**40, "warning"), (2**20, "problem")])
def test_a_limit_of_addresses(monkeypatch, left, status):
    made = host.Addresses(2**30 + left, 2**30)
    monkeypatch.setattr(host.Addresses, "limited", lambda: made)
    (check,) = host._check_address_space()
    assert check.status == status
    assert ("compiling needs" in check.found) == (status == "problem")
    assert "ulimit -v unlimited" in check.remedy


# ----------------------------------------------------------------------------------- processes


@pytest.mark.parametrize(
    ("chosen", "has_gpu", "status"),
    [
        ("fork", True, "warning"),
        ("fork", False, "ok"),
        (None, True, "ok"),
        ("spawn", True, "ok"),
    ],
)
def test_start_methods(monkeypatch, chosen, has_gpu, status):
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none: chosen)
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["fork", "spawn"])
    target = SimpleNamespace(unavailable_reason=lambda: None if has_gpu else "none")
    monkeypatch.setattr(host, "get_target", lambda name: target)
    (check,) = by_name(host.check_processes()).values()
    assert check.status == status
    if status == "warning":
        assert "spawn" in check.remedy


# ----------------------------------------------------------------------------------- CPU target


@pytest.mark.parametrize(
    ("layer", "survives", "status"),
    [
        ("native", True, "ok"),
        ("tbb", True, "ok"),
        ("omp", False, "ok"),
        ("workqueue", False, "warning"),
    ],
)
def test_threading_layers(monkeypatch, layer, survives, status):
    made = threads.ThreadingLayer(layer, 4, survives_fork=survives)
    monkeypatch.setattr(threads, "threading_layer", lambda: made)
    check = cpu_checks._check_threads()
    assert check.status == status
    assert f"{layer} with 4 threads" in check.found


def test_a_serial_layer_and_an_unknown_one(monkeypatch):
    monkeypatch.setattr(threads._process, "layer", None)
    monkeypatch.setenv("KERNELDSL_THREADING_LAYER", "serial")
    assert cpu_checks._check_threads().status == "warning"
    monkeypatch.setattr(threads._process, "layer", None)
    monkeypatch.setenv("KERNELDSL_THREADING_LAYER", "quick")
    check = cpu_checks._check_threads()
    assert check.status == "problem"
    assert "'quick'" in check.found
    assert "workqueue" in check.found, "it says what can be chosen"


def test_numba_that_compiles_nothing(monkeypatch):
    from numba.core import config

    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    check = by_name(cpu_checks.check_cpu())["cpu.numba"]
    assert check.status == "problem"
    assert "NUMBA_DISABLE_JIT" in check.remedy


# ------------------------------------------------------------------------------------- devices


def test_a_device_whose_results_are_wrong(monkeypatch):
    monkeypatch.setattr(
        kd.DeviceArray, "copy_to_host", lambda self, *a, **k: np.zeros(self.shape, self.dtype)
    )
    (check,) = trial.check_devices(kd.get_target("cpu"))
    assert check.status == "problem"
    assert f"of {trial._SIZE} results are wrong" in check.found


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (DeviceMemoryError("no memory", code=2, name="X", remedy="Free some"), "Free some"),
        (ZeroDivisionError("division by zero"), "report"),
    ],
)
def test_a_device_that_fails(monkeypatch, error, remedy):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(trial, "to_device", fail)
    (check,) = trial.check_devices(kd.get_target("cpu"))
    assert check.status == "problem"
    assert remedy in check.remedy


def test_no_fallback_helps_a_device_through():
    """The CPU would give the right result, and the GPU would look well."""
    device = replace(null_target.H100, name="a card on which nothing was loaded yet")
    with null_target.described_as(device) as null:
        null.fail_next("load", kd.KernelImageError("the image is bad", code=200, name="BAD_IMAGE"))
        check = by_name(trial.check_devices(null))[f"kernel.{null.devices()[0]}"]
    assert check.status == "problem"
    assert "the image is bad" in check.found


def test_a_device_that_only_pretends_to_run_is_found_out():
    null = kd.get_target("null")
    check = by_name(trial.check_devices(null))[f"kernel.{null.devices()[0]}"]
    assert check.status == "problem"
    assert "results are wrong" in check.found


def test_a_device_that_cannot_be_used_is_not_tried(monkeypatch):
    null = kd.get_target("null")
    (device,) = null.devices()
    monkeypatch.setitem(vars(device), "unusable_reason", lambda: "it is too old")
    monkeypatch.setattr(trial, "_try_kernel", lambda device: pytest.fail("was tried"))
    (check,) = trial.check_devices(null)
    assert check.status == "warning"
    assert "too old" in check.found


@pytest.mark.parametrize(("free", "status"), [(90, "ok"), (1, "warning")])
def test_memory_of_devices(free, status):
    (device,) = FakeTarget(devices=1).devices()
    vars(device)["memory_info"] = lambda: (free * 2**20, 100 * 2**20)
    (check,) = trial._check_memory(device)
    assert check.status == status
