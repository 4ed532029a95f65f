"""What is said of the processors of a machine, where the machine is a test's invention."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

import kerneldsl as kd
from targets.cpu.codegen import levels
from targets.cpu.runtime import processors


@pytest.fixture
def info():
    return kd.device_info("cpu")


@pytest.fixture(autouse=True)
def fresh():
    processors.cpu_model.cache_clear()
    yield
    processors.cpu_model.cache_clear()


def test_this_machine_is_described(info):
    found = info.to_dict()
    assert found["kind"] == "cpu"
    assert found["name"]
    assert 1 <= found["usable_core_count"] <= found["logical_core_count"]
    assert found["total_memory_bytes"] > 2**28
    assert 0 < found["free_memory_bytes"] <= found["total_memory_bytes"]
    assert 0 <= found["utilization_percent"] <= 100
    assert found["vector_extension"] == found["vector_extensions"][0]
    assert 0 not in (found["clock_rate_khz"], found["current_clock_mhz"])
    assert "power_watts" in found["unavailable"]


def test_the_usable_cores_are_the_affinity_masks():
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system has no affinity masks")
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "import kerneldsl as kd; print(kd.device_info('cpu').usable_core_count)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "1"


@pytest.mark.parametrize(
    ("text", "model"),
    [
        (
            "processor\t: 0\nmodel name\t: Intel(R)  Xeon(R) 8481C\nmodel name\t: other\n",
            "Intel(R) Xeon(R) 8481C",
        ),
        ("processor\t: 0\nBogoMIPS\t: 50\nModel\t: Raspberry Pi 5\n", "Raspberry Pi 5"),
    ],
)
def test_the_model_on_linux(monkeypatch, tmp_path, text, model):
    file = tmp_path / "cpuinfo"
    file.write_text(text)
    monkeypatch.setattr(processors, "_CPUINFO", file)
    monkeypatch.setattr(sys, "platform", "linux")
    assert processors.cpu_model() == model


def test_without_a_model_the_architecture_serves(monkeypatch, tmp_path):
    monkeypatch.setattr(processors, "_CPUINFO", tmp_path / "nothing")
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    for system in ("linux", "sunos5"):
        monkeypatch.setattr(sys, "platform", system)
        processors.cpu_model.cache_clear()
        assert processors.cpu_model() == "riscv64"


class _Sysctl:
    """What macOS' kernel answers by name."""

    def __init__(self, **answers):
        self.answers = {name.replace("__", "."): value for name, value in answers.items()}

    def sysctlbyname(self, name, buffer, size, new, new_size):
        answer = self.answers.get(name.decode())
        if answer is None:
            return -1
        ctypes.memmove(buffer, answer, len(answer))
        size._obj.value = len(answer)
        return 0


def test_macos(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    kernel = _Sysctl(
        machdep__cpu__brand_string=b"Apple M3 Max\0",
        hw__perflevel0__l1dcachesize=(131072).to_bytes(8, "little"),
        hw__l1dcachesize=(65536).to_bytes(8, "little"),
        hw__l2cachesize=(4194304).to_bytes(8, "little"),
        hw__l3cachesize=(0).to_bytes(8, "little"),
    )
    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: kernel)
    assert processors.cpu_model() == "Apple M3 Max"
    info = processors.describe_cpu(kd.device_info("cpu").device)
    assert (info.l1_cache_bytes, info.l2_cache_bytes) == (131072, 4194304)
    with pytest.raises(kd.AttributeUnavailableError, match="sysctl reports no cache of level 3"):
        info.l3_cache_bytes


def test_caches_are_the_largest_data_caches(monkeypatch, tmp_path):
    for cpu, index, level, kind, size in (
        (0, 0, 1, "Data", "32K"),
        (0, 1, 1, "Instruction", "64K"),
        (0, 2, 2, "Unified", "2M"),
        (1, 0, 1, "Data", "48K"),
    ):
        folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        (folder / "level").write_text(f"{level}\n")
        (folder / "type").write_text(f"{kind}\n")
        (folder / "size").write_text(f"{size}\n")
    (tmp_path / "cpu1/cache/index9").mkdir()  # without files, as some kernels have it
    monkeypatch.setattr(processors, "_CPUS", tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    info = processors.describe_cpu(kd.device_info("cpu").device)
    assert (info.l1_cache_bytes, info.l2_cache_bytes) == (48 * 1024, 2 * 2**20)
    with pytest.raises(kd.AttributeUnavailableError, match="no cache of level 3"):
        info.l3_cache_bytes


def test_caches_elsewhere_are_unavailable(monkeypatch, info):
    monkeypatch.setattr(sys, "platform", "win32")
    found = processors.describe_cpu(info.device).to_dict(live=False)
    assert found["unavailable"]["l2_cache_bytes"] == "kerneldsl cannot read caches on win32"


def test_what_psutil_does_not_know_is_unavailable(monkeypatch, info):
    import psutil

    monkeypatch.setattr(psutil, "cpu_count", lambda logical: None)
    monkeypatch.setattr(psutil, "cpu_freq", lambda: SimpleNamespace(current=0.0, max=0.0))
    monkeypatch.delattr(psutil, "sensors_temperatures", raising=False)
    found = processors.describe_cpu(info.device).to_dict()
    for name in (
        "physical_core_count",
        "logical_core_count",
        "clock_rate_khz",
        "current_clock_mhz",
        "temperature_celsius",
    ):
        assert found[name] is None
        assert found["unavailable"][name]


@pytest.mark.parametrize("error", [None, OSError, NotImplementedError, FileNotFoundError])
def test_a_clock_that_cannot_be_read(monkeypatch, info, error):
    import psutil

    def read():
        if error is None:
            return None
        raise error("no")

    monkeypatch.setattr(psutil, "cpu_freq", read)
    assert info.live()["current_clock_mhz"] is None


def test_the_hottest_sensor_of_the_processor_counts(monkeypatch, info):
    import psutil

    sensors = {
        "nvme": [SimpleNamespace(current=90.0)],
        "coretemp": [SimpleNamespace(current=51.0), SimpleNamespace(current=63.5)],
    }
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: sensors, raising=False)
    assert info.temperature_celsius == 63.5


# ------------------------------------------------------------------- vector extensions


@pytest.fixture
def host(monkeypatch):
    def set_host(cpu, *features, machine="x86_64"):
        monkeypatch.setattr(levels, "_host", lambda: (cpu, frozenset(features)))
        monkeypatch.setattr("platform.machine", lambda: machine)

    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    return set_host


@pytest.mark.parametrize(
    ("features", "machine", "expected"),
    [
        (("avx512f", "avx2", "avx", "sse2"), "x86_64", ("AVX-512", "AVX2", "AVX")),
        (("avx2", "avx", "sse4.2"), "x86_64", ("AVX2", "AVX")),
        (("sse2", "sse4.2"), "x86_64", ("baseline",)),
        (("neon", "sve2", "sve"), "aarch64", ("SVE2", "SVE", "NEON")),
        ((), "arm64", ("NEON",)),
    ],
)
def test_extensions_by_features(host, features, machine, expected):
    host("cpu", *features, machine=machine)
    assert levels.extensions_in_use() == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"NUMBA_ENABLE_AVX": "0"}, ("baseline",)),
        ({"NUMBA_CPU_FEATURES": "-avx512f"}, ("AVX2", "AVX")),
        ({"NUMBA_CPU_FEATURES": "", "NUMBA_CPU_NAME": "generic"}, ("baseline",)),
        ({"NUMBA_CPU_FEATURES": "+avx,+avx2", "NUMBA_CPU_NAME": "haswell"}, ("AVX2", "AVX")),
        ({"NUMBA_CPU_NAME": "generic"}, ("AVX-512", "AVX2", "AVX")),  # the host's features stay
    ],
)
def test_numbas_variables_count(host, monkeypatch, variables, expected):
    host("znver4", "avx512f", "avx2", "avx", "sse2")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert levels.extensions_in_use() == expected
    assert levels.compiled_for().cpu == variables.get("NUMBA_CPU_NAME", "znver4")


def test_numbas_own_settings_count_once_it_is_there(host, monkeypatch):
    host("znver4", "avx512f", "avx2")
    settings = SimpleNamespace(CPU_NAME=None, CPU_FEATURES="-avx512f", ENABLE_AVX=1)
    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace(config=settings))
    assert levels.extensions_in_use() == ("AVX2",)


def test_it_is_what_numba_says():
    from numba.core import registry

    flags = registry.cpu_target.target_context.codegen()._get_host_cpu_features().split(",")
    ours = levels.compiled_for().features
    assert ours == {flag[1:] for flag in flags if flag.startswith("+")}


def test_neither_numba_nor_the_driver_is_imported():
    program = (
        # The bindings of CUDA 12 import a module of theirs when an interpreter starts.
        "import sys; before = set(sys.modules);"
        "import kerneldsl as kd; print(repr(kd.device_info('cpu')));"
        "found = {m.partition('.')[0] for m in set(sys.modules) - before};"
        "print(sorted(found & {'numba', 'cuda'}))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines()[-1] == "[]"
