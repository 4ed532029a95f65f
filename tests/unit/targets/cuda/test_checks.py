"""``kd.preflight()``: each thing that can be wrong with a GPU and what drives it, simulated."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import kerneldsl as kd
from kerneldsl.errors import TargetUnavailableError, ToolMissingError
from targets.cuda import checks as cuda_checks
from tests.support.checkups import by_name, forget_variables, unload


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    forget_variables(monkeypatch)


@pytest.fixture
def nvidia(monkeypatch):
    """A machine with a GPU and everything in order, until a test breaks something."""

    class Api:
        attributes = {"COMPUTE_MODE": 0, "KERNEL_EXEC_TIMEOUT": 0}

        class CUdevice_attribute:
            CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = "COMPUTE_MODE"
            CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT = "KERNEL_EXEC_TIMEOUT"

        def cuDeviceGet(self, index):
            return index

        def cuDeviceGetAttribute(self, attribute, handle):
            return there.attributes[attribute]

    class Driver(cuda_checks.Driver):
        def __init__(self):
            self.contexts = {}

        api = Api()
        cuda_version = (13, 0)

        def call(self, function, *args, doing):
            return function(*args)

        def devices(self):
            return (there.device, *there.more)

    class Machine:
        attributes: dict[str, int]
        driver = Driver()
        gpus = ("/dev/nvidia0",)
        library = "/usr/lib/libcuda.so.1"
        module = "580.1.2"
        library_version = "580.1.2"
        versions: dict[str, str]
        nodes: dict[str, bool]
        device = kd.get_target("null").devices()[0].description
        more: tuple[kd.Device, ...] = ()
        failure: Exception | None = None
        libdevice: Path | None = Path("/x/libdevice.10.bc")

    there = Machine()
    there.attributes = {"COMPUTE_MODE": 0, "KERNEL_EXEC_TIMEOUT": 0}
    there.versions = {"cuda-bindings": "13.5.0", "cuda-core": "1.2.0"}
    there.nodes = {"/dev/nvidia0": True, "/dev/nvidiactl": True, "/dev/nvidia-uvm": True}

    def start():
        if there.failure is not None:
            raise there.failure
        return there.driver

    real_exists = os.path.exists
    monkeypatch.setattr(cuda_checks, "nvidia_gpus", lambda: there.gpus)
    monkeypatch.setattr(cuda_checks, "nvidia_driver_library", lambda: there.library)
    monkeypatch.setattr(cuda_checks, "nvidia_driver_version", lambda: there.module)
    monkeypatch.setattr(cuda_checks, "library_version", lambda path: there.library_version)
    monkeypatch.setattr(cuda_checks, "read_text", lambda path: there.module and "NVRM")
    monkeypatch.setattr(cuda_checks, "package_version", lambda name: there.versions.get(name))
    monkeypatch.setattr(cuda_checks, "find_libdevice", lambda: there.libdevice)
    monkeypatch.setattr(cuda_checks, "find_library", lambda name: f"/usr/lib/{name}")
    monkeypatch.setattr(cuda_checks, "get_driver", start)
    monkeypatch.setattr(cuda_checks, "_what_hides_bindings", lambda: None)
    monkeypatch.setattr(
        cuda_checks, "glob", lambda p: [n for n in there.nodes if re.match(r"/dev/nvidia\d", n)]
    )
    monkeypatch.setattr(
        cuda_checks.os.path,
        "exists",
        lambda p: p in there.nodes if str(p).startswith("/dev/") else real_exists(p),
    )
    real_access = os.access
    monkeypatch.setattr(
        cuda_checks.os, "access", lambda p, mode: there.nodes.get(p, real_access(p, mode))
    )
    return there


def faults(checks):
    return {c.name: c for c in by_name(checks).values() if c.status != "ok"}


def test_a_gpu_in_order(nvidia):
    checks = by_name(cuda_checks.check_cuda())
    assert faults(checks.values()) == {}
    assert "580.1.2" in checks["cuda.driver"].found
    assert "CUDA 13.0" in checks["cuda.start"].found
    assert "PTX up to 9.0" in checks[f"cuda.ptx.{nvidia.device}"].found


def test_without_a_gpu_nothing_is_wrong(nvidia):
    nvidia.gpus, nvidia.library, nvidia.libdevice = (), None, None
    nvidia.failure = TargetUnavailableError("The library was not found", remedy="Install it")
    checks = by_name(cuda_checks.check_cuda())
    assert faults(checks.values()) == {}
    assert "kernels run on the CPU" in checks["cuda.driver"].found


def test_a_driver_that_the_loader_alone_finds(nvidia):
    nvidia.gpus, nvidia.library = (), None
    checks = by_name(cuda_checks.check_cuda())
    assert faults(checks.values()) == {}
    assert checks["cuda.start"].status == "ok"


def test_a_gpu_without_a_driver(nvidia):
    nvidia.library = None
    nvidia.failure = TargetUnavailableError("The library was not found", remedy="Install it")
    found = faults(cuda_checks.check_cuda())
    assert found["cuda.driver"].status == "problem"
    assert "--gpus all" in found["cuda.driver"].remedy


def test_a_stub_library(nvidia):
    nvidia.library = "/usr/local/cuda/lib64/stubs/libcuda.so.1"
    assert "LD_LIBRARY_PATH" in faults(cuda_checks.check_cuda())["cuda.driver"].remedy


def test_a_kernel_module_of_another_version(nvidia):
    nvidia.library_version = "575.9.9"
    check = faults(cuda_checks.check_cuda())["cuda.kernel_module"]
    assert check.status == "problem"
    assert "580.1.2" in check.found
    assert "575.9.9" in check.found


@pytest.mark.parametrize("told", [None, "1"])
def test_a_library_name_without_its_version_says_nothing(nvidia, told):
    nvidia.library_version = told
    assert faults(cuda_checks.check_cuda()) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="device files are Linux's")
def test_device_files(nvidia):
    nvidia.nodes["/dev/nvidia-uvm"] = False
    check = faults(cuda_checks.check_cuda())["cuda.permissions"]
    assert check.status == "problem"
    assert f"user {os.getuid()} may not open /dev/nvidia-uvm" in check.found
    del nvidia.nodes["/dev/nvidia-uvm"]
    check = faults(cuda_checks.check_cuda())["cuda.permissions"]
    assert check.status == "warning"
    assert "nvidia-modprobe" in check.remedy
    nvidia.nodes["/dev/dxg"] = True  # Windows' own way to the GPU
    assert "cuda.permissions" not in faults(cuda_checks.check_cuda())


@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles"])
def test_hidden_devices(nvidia, monkeypatch, value):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    nvidia.failure = TargetUnavailableError("The CUDA driver sees no device", remedy="Unset it")
    found = faults(cuda_checks.check_cuda())
    assert {name: c.status for name, c in found.items()} == {
        "cuda.visible_devices": "warning",
        "cuda.start": "warning",
    }


def test_a_driver_that_does_not_start(nvidia):
    nvidia.failure = TargetUnavailableError("Could not initialize", limit="It answered 803")
    check = faults(cuda_checks.check_cuda())["cuda.start"]
    assert check.status == "problem"
    assert check.found == "Could not initialize. It answered 803"


def test_missing_and_hidden_bindings(nvidia, monkeypatch):
    nvidia.versions = {}
    found = faults(cuda_checks.check_cuda())
    assert found["cuda.bindings"].status == "problem"
    assert found["cuda.core"].status == "warning"
    nvidia.versions = {"cuda-bindings": "13.0.0", "cuda-core": "1.0"}
    monkeypatch.setattr(cuda_checks, "_what_hides_bindings", lambda: "/here/cuda.py")
    assert "/here/cuda.py" in faults(cuda_checks.check_cuda())["cuda.bindings"].remedy


def test_what_hides_the_bindings(tmp_path, monkeypatch):
    (tmp_path / "cuda.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    unload(monkeypatch, "cuda")
    assert cuda_checks._what_hides_bindings() == str(tmp_path / "cuda.py")


def test_bindings_newer_than_the_driver(nvidia):
    nvidia.driver.cuda_version = (12, 4)
    try:
        found = faults(cuda_checks.check_cuda())
    finally:
        nvidia.driver.cuda_version = (13, 0)
    assert "cuda12" in found["cuda.bindings_fit"].remedy


def test_a_driver_too_old_for_the_ptx(nvidia):
    nvidia.driver.cuda_version = (11, 2)
    try:
        check = faults(cuda_checks.check_cuda())[f"cuda.ptx.{nvidia.device}"]
    finally:
        nvidia.driver.cuda_version = (13, 0)
    assert check.status == "problem"
    assert "PTX up to 7.2" in check.found
    assert "branch 520" in check.remedy


def test_an_architecture_that_is_too_old(nvidia):

    nvidia.device = replace(nvidia.device, arch="sm_35")
    check = faults(cuda_checks.check_cuda())[f"cuda.ptx.{nvidia.device}"]
    assert check.status == "problem"
    assert "sm_35" in check.found


def test_a_missing_libdevice_and_assembler(nvidia, monkeypatch):
    nvidia.libdevice = None
    monkeypatch.setattr(cuda_checks, "find_library", lambda name: None)
    found = faults(cuda_checks.check_cuda())
    assert found["cuda.libdevice"].status == "problem"
    if sys.platform == "linux":
        assert "ptxjitcompiler" in found["cuda.assembler"].found


def test_an_old_card_beside_a_good_one_is_only_a_warning(nvidia):

    nvidia.more = (replace(nvidia.device, index=1, arch="sm_35"),)
    found = faults(cuda_checks.check_cuda())
    assert [(c.name, c.status) for c in found.values()] == [("cuda.ptx.null:1", "warning")]


@pytest.mark.parametrize(("mode", "status"), [(2, "problem"), (3, "warning")])
def test_compute_modes(nvidia, mode, status):
    nvidia.attributes["COMPUTE_MODE"] = mode
    check = faults(cuda_checks.check_cuda())[f"cuda.compute_mode.{nvidia.device}"]
    assert check.status == status
    assert "nvidia-smi -i NUMBER " in check.remedy


def test_a_compute_mode_is_changed_on_the_gpu_that_is_meant(nvidia):
    """nvidia-smi does not count as CUDA_VISIBLE_DEVICES does."""
    for part, number in {"DOMAIN": 0, "BUS": 0x1B, "DEVICE": 0}.items():
        name = f"PCI_{part}_ID"
        setattr(nvidia.driver.api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}", name)
        nvidia.attributes[name] = (0, number)
    nvidia.attributes["COMPUTE_MODE"] = 2
    check = faults(cuda_checks.check_cuda())[f"cuda.compute_mode.{nvidia.device}"]
    assert "nvidia-smi -i 0000:1b:00.0 -c DEFAULT" in check.remedy


def test_a_gpu_that_drives_a_display(nvidia):
    nvidia.attributes["KERNEL_EXEC_TIMEOUT"] = 1
    found = faults(cuda_checks.check_cuda())
    assert found[f"cuda.timeout.{nvidia.device}"].status == "warning"


def test_nvrtc_is_named_and_needed_by_few(nvidia, monkeypatch):
    found = {each.name: each for each in cuda_checks.check_cuda()}["cuda.nvrtc"]
    assert (found.status, found.found[:6]) == ("ok", "NVRTC ")
    assert "compiles CUDA C++" in found.found

    def missing():
        raise ToolMissingError("CUDA C++ needs NVRTC", remedy="Run: pip install it")

    monkeypatch.setattr(cuda_checks, "nvrtc_version", missing)
    found = {each.name: each for each in cuda_checks.check_cuda()}["cuda.nvrtc"]
    assert (found.status, found.found[-19:]) == ("ok", "Run: pip install it")
