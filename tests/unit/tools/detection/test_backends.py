"""Detection: what is told from files, tools and packages, on machines that only pretend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kerneldsl as kd
from kerneldsl.tools.detection import files, probes, report
from targets.cuda import checks as nvidia

NAMES = ("cuda", "rocm", "metal", "vulkan", "opengl", "webgpu", "webgl2", "cpu")
ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def no_fake(monkeypatch):
    monkeypatch.delenv("KERNELDSL_FAKE_GPU", raising=False)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """An empty machine: no libraries, tools, devices or packages, until a test adds some."""

    class Machine:
        libraries: dict[str, str] = {}
        texts: dict[str, str] = {}
        tools: dict[str, str] = {}
        packages: dict[str, str] = {}
        globs: dict[str, list[str]] = {}
        paths: set[str] = set()
        system = "linux"

    there = Machine()
    there.libraries, there.texts, there.tools, there.packages = {}, {}, {}, {}
    there.globs, there.paths = {}, set()
    for name in ("LD_LIBRARY_PATH", "ROCM_PATH", "HIP_PATH", "VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.delenv(name, raising=False)

    def find(linux, *, macos=None, windows=None):
        name = {"darwin": macos, "win32": windows}.get(there.system, linux)
        return there.libraries.get(name)

    def both(name, function):
        for module in (probes, nvidia):
            monkeypatch.setattr(module, name, function, raising=False)

    both("find_library", find)
    both("library_version", lambda path: there.texts.get(f"version {path}"))
    monkeypatch.setattr(probes, "package_version", there.packages.get)
    both("read_text", lambda path: there.texts.get(str(path)))
    both("tool_output", lambda tool, *a: there.tools.get(tool))
    monkeypatch.setattr(probes, "system_name", lambda: there.system)
    both("glob", lambda pattern: there.globs.get(pattern, []))
    monkeypatch.setattr(probes.shutil, "which", lambda tool: there.tools.get(tool))
    monkeypatch.setattr(probes.os.path, "isdir", lambda p: str(p) in there.paths)
    is_file, root = os.path.isfile, str(Path(kd.__file__).parents[1])

    def is_there(path: object) -> bool:
        # Packages of kerneldsl are imported from the machine that the tests run on.
        return str(path) in there.paths or (str(path).startswith(root) and is_file(str(path)))

    monkeypatch.setattr(probes.os.path, "isfile", is_there)
    monkeypatch.setattr(probes.os.path, "exists", lambda p: str(p) in there.paths)
    monkeypatch.setattr(probes, "_query_vulkan_loader", lambda library: None)
    return there


def probe(name):
    return probes.probes()[name]()


# ------------------------------------------------------------------------------------- this machine


def test_every_backend_is_reported_once_and_in_order():
    found = kd.backends()
    assert tuple(b.name for b in found) == NAMES
    assert all(b.reason.strip() for b in found)
    assert not any(b.is_faked for b in found)
    # Nothing can be used that is not there.
    assert not [b for b in found if b.is_usable and not b.is_detected]


def test_the_cpu_is_always_usable_and_webgl2_never():
    found = kd.backends()
    assert found.named("cpu").is_detected
    assert found.named("cpu").is_usable
    assert not found.named("webgl2").is_usable
    assert "no compute shaders" in found.named("webgl2").reason


def test_usable_is_what_the_target_says():
    cuda = kd.backends().named("cuda")
    assert cuda.is_usable == (kd.get_target("cuda").unavailable_reason() is None)


def test_json_table_and_html():
    found = kd.backends()
    assert set(json.loads(json.dumps(found.to_dict()))) == set(NAMES)
    assert found.to_dict()["cpu"]["is_usable"] is True
    lines = repr(found).splitlines()
    assert lines[0].split() == ["backend", "detected", "version", "usable", "why"]
    assert [line.split()[0] for line in lines[1:]] == list(NAMES)
    assert found._repr_html_().count("<tr>") == len(NAMES) + 1
    with pytest.raises(KeyError):
        found.named("directx")


def test_values_can_be_sent_to_other_processes():
    import pickle

    found = kd.backends()
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301
    assert type(pickle.loads(pickle.dumps(found))) is type(found)  # noqa: S301


def test_html_is_escaped():
    backend = kd.Backend("cpu", True, None, True, "<b>bold</b>")
    html = report.Backends([backend])._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;" in html


def test_values_are_frozen():
    with pytest.raises(AttributeError):
        kd.backends().named("cpu").is_usable = False


def test_detection_loads_no_graphics_library_and_no_compiler():
    program = (
        "import sys, kerneldsl as kd\n"
        "kd.backends()\n"
        "print({m.partition('.')[0] for m in sys.modules} & {'numba', 'llvmlite', 'rich'})\n"
        "try:\n"
        "    maps = open('/proc/self/maps').read()\n"
        "except OSError:\n"
        "    maps = ''\n"
        "print([n for n in ('libGL', 'libEGL', 'libvulkan', 'libamdhip') if n in maps])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["set()", "[]"]


# -------------------------------------------------------------------------------------------- fakes


def test_a_fake_says_that_it_is_one(monkeypatch):
    monkeypatch.setenv("KERNELDSL_FAKE_GPU", " CUDA, rocm,")
    found = kd.backends()
    assert {b.name for b in found if b.is_detected} == {"cuda", "rocm", "cpu"}
    assert {b.name for b in found if b.is_usable} == {"cpu"}
    assert all(b.is_faked for b in found)
    assert "KERNELDSL_FAKE_GPU" in found.named("cuda").reason
    assert "(faked)" in repr(found)


def test_an_empty_fake_is_a_machine_without_gpu(monkeypatch):
    monkeypatch.setenv("KERNELDSL_FAKE_GPU", "")
    assert {b.name for b in kd.backends() if b.is_detected} == {"cpu"}


def test_a_fake_asks_no_driver_and_changes_no_dispatch(monkeypatch):
    before, devices = kd.current_target(), [str(d) for d in kd.devices()]
    monkeypatch.setenv("KERNELDSL_FAKE_GPU", "cuda")
    monkeypatch.setattr(report, "get_target", lambda name: pytest.fail(f"{name} was asked"))
    looked = dict.fromkeys(probes.probes(), lambda: pytest.fail("was looked for"))
    monkeypatch.setattr(report, "probes", lambda: looked)
    assert kd.backends().named("cuda").is_detected
    assert kd.current_target() == before
    assert [str(d) for d in kd.devices()] == devices


def test_an_unknown_fake_is_refused(monkeypatch):
    monkeypatch.setenv("KERNELDSL_FAKE_GPU", "cuda,directx,glide")
    with pytest.raises(kd.ArgumentValueError, match="names directx, glide") as refused:
        kd.backends()
    assert "webgl2" in refused.value.limit
    assert refused.value.remedy


# --------------------------------------------------------------------------------------------- CUDA


def test_cuda_by_library_and_kernel_module(machine):
    machine.libraries["libcuda.so.1"] = "/usr/lib/libcuda.so.1"
    machine.texts["/proc/driver/nvidia/version"] = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\nGCC 1"
    )
    found = probe("cuda")
    assert found.is_detected
    assert found.version == "580.159.04"
    assert found.evidence == ("/usr/lib/libcuda.so.1",)


def test_older_kernel_modules_are_read(machine):
    machine.texts["/proc/driver/nvidia/version"] = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13 16:14:05 UTC 2021"
    )
    assert nvidia.nvidia_driver_version() == "470.57.02"


def test_the_driver_version_falls_back_to_the_library_and_then_to_the_tool(machine):
    machine.libraries["libcuda.so.1"] = "/l/libcuda.so.1"
    machine.tools["nvidia-smi"] = "550.54.15\n550.54.15\n"
    assert nvidia.nvidia_driver_version() == "550.54.15"
    machine.texts["version /l/libcuda.so.1"] = "535.1.2"
    assert nvidia.nvidia_driver_version() == "535.1.2"


def test_a_gpu_without_a_driver(machine):
    device = "/sys/bus/pci/devices/0000:01:00.0"
    machine.globs["/sys/bus/pci/devices/*"] = [device, "/sys/bus/pci/devices/0000:01:00.1"]
    machine.texts[f"{device}/vendor"] = "0x10de\n"
    machine.texts[f"{device}/class"] = "0x030200\n"
    # The audio function of the same card is no GPU.
    machine.texts["/sys/bus/pci/devices/0000:01:00.1/vendor"] = "0x10de\n"
    machine.texts["/sys/bus/pci/devices/0000:01:00.1/class"] = "0x040300\n"
    assert nvidia.nvidia_gpus() == (device,)
    found = probe("cuda")
    assert not found.is_detected
    assert "no driver library" in found.what


def answer(monkeypatch, reason):
    """What the CUDA target says; it has the null target's devices where it can be used."""

    class Target:
        def unavailable_reason(self):
            return reason

        def devices(self):
            return kd.get_target("null").devices()

    monkeypatch.setattr(report, "get_target", lambda name: Target())


def test_nothing_of_nvidia_is_nothing_to_mend(machine, monkeypatch):
    answer(monkeypatch, "The library was not found. Install it")
    assert report._query_target("cuda", probe("cuda")) == (
        False,
        "NVIDIA's driver was not found; kernels run on the CPU",
    )
    machine.globs["/dev/nvidia[0-9]*"] = ["/dev/nvidia0"]
    assert report._query_target("cuda", probe("cuda"))[1].endswith("Install it")


def test_a_driver_in_an_unusual_place_is_believed(machine, monkeypatch):
    """What runs kernels is there, whatever the files say."""
    answer(monkeypatch, None)
    cuda = report._report("cuda", probe("cuda"), ("cuda",))
    assert cuda.is_usable
    assert cuda.is_detected


def test_a_target_that_cannot_be_loaded_is_a_reason(machine, monkeypatch):
    def fail(name):
        raise kd.ShadowedPackageError("the module 'targets' at /x hides\nkerneldsl's own package")

    monkeypatch.setattr(report, "get_target", fail)
    machine.libraries["libcuda.so.1"] = "/l/libcuda.so.1"
    usable, why = report._query_target("cuda", probe("cuda"))
    assert not usable
    assert "/x hides kerneldsl's own" in why


# --------------------------------------------------------------------------------- ROCm, Metal, web


def test_rocm(machine):
    machine.paths |= {"/opt/rocm", "/dev/kfd"}
    machine.texts["/opt/rocm/.info/version"] = "6.2.4-123\n"
    machine.tools["rocminfo"] = "/opt/rocm/bin/rocminfo"
    found = probe("rocm")
    assert found.is_detected
    assert found.version == "6.2.4"
    assert found.evidence == ("/opt/rocm", "/opt/rocm/bin/rocminfo")


def test_rocm_without_a_gpu(machine):
    machine.tools["rocm-smi"] = "/usr/bin/rocm-smi"
    found = probe("rocm")
    assert not found.is_detected
    assert "/dev/kfd" in found.what


def test_rocm_can_be_used_by_a_target_of_others(machine, monkeypatch):
    class Target:
        def unavailable_reason(self):
            return None

        def devices(self):
            return kd.get_target("null").devices()

    monkeypatch.setattr(report, "target_names", lambda: ("cpu", "cuda", "null", "rocm"))
    real = report.get_target
    monkeypatch.setattr(report, "get_target", lambda n: Target() if n == "rocm" else real(n))
    rocm = kd.backends().named("rocm")
    assert rocm.is_usable
    assert rocm.is_detected


@pytest.mark.parametrize("system", ["linux", "win32"])
def test_metal_is_macos_alone(machine, system):
    machine.system = system
    assert not probe("metal").is_detected


def test_metal_and_opengl_on_macos(machine):
    machine.system = "darwin"
    machine.paths.add("/System/Library/Frameworks/Metal.framework")
    machine.libraries["OpenGL"] = "/System/Library/Frameworks/OpenGL.framework/OpenGL"
    assert probe("metal").is_detected
    assert "without compute shaders" in probe("opengl").what


def test_opengl_takes_egl_too(machine):
    assert not probe("opengl").is_detected
    machine.libraries["libEGL.so.1"] = "/usr/lib/libEGL.so.1"
    assert probe("opengl").evidence == ("/usr/lib/libEGL.so.1",)


def test_webgpu_by_package(machine):
    machine.packages["wgpu"] = "0.19.3"
    assert probe("webgpu").version == "0.19.3"


def test_in_a_browser(machine, monkeypatch):
    machine.system = "emscripten"
    monkeypatch.setattr(probes, "_browser_has_gpu", lambda: True)
    assert probe("webgpu").is_detected
    assert probe("webgl2").is_detected


# ------------------------------------------------------------------------------------------- Vulkan


def add_vulkan(machine, library="libdriver.so"):
    machine.libraries["libvulkan.so.1"] = "/usr/lib/libvulkan.so.1"
    machine.texts["version /usr/lib/libvulkan.so.1"] = "1.3.275"
    manifest = "/usr/share/vulkan/icd.d/driver.json"
    machine.globs["/usr/share/vulkan/icd.d/*.json"] = [manifest]
    machine.texts[manifest] = json.dumps({"ICD": {"library_path": library}})
    return manifest


def test_vulkan_with_a_driver(machine, monkeypatch):
    monkeypatch.setenv("XDG_DATA_DIRS", "/usr/share")
    manifest = add_vulkan(machine)
    machine.libraries["libdriver.so"] = "/usr/lib/libdriver.so"
    machine.paths.add("/usr/lib/libdriver.so")
    found = probe("vulkan")
    assert found.is_detected
    assert found.version == "1.3.275"
    assert found.evidence == ("/usr/lib/libvulkan.so.1", manifest)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"ICD": {}}', '{"ICD": {"library_path": "x.so"}}']
)
def test_vulkan_without_a_working_driver(machine, monkeypatch, text):
    monkeypatch.setenv("XDG_DATA_DIRS", "/usr/share")
    machine.texts[add_vulkan(machine)] = text
    found = probe("vulkan")
    assert not found.is_detected
    assert "no driver (ICD)" in found.what


def test_vulkan_drivers_that_the_environment_names(machine, monkeypatch):
    add_vulkan(machine)
    monkeypatch.setenv("VK_DRIVER_FILES", os.pathsep.join(("/a/one.json", "/a/two.json")))
    machine.texts["/a/one.json"] = json.dumps({"ICD": {"library_path": "./lib/one.so"}})
    machine.paths.add("/a/./lib/one.so")
    assert probe("vulkan").evidence[1:] == ("/a/one.json",)


def test_the_loader_is_asked_in_a_process_of_its_own(tmp_path):
    # A file that is no library makes the child fail; this process only learns nothing.
    broken = tmp_path / "libvulkan.so.1"
    broken.write_bytes(b"\x7fELF not really")
    assert probes._query_vulkan_loader(str(broken)) is None


# -------------------------------------------------------------------------------- files and tools


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of libraries on Linux")
def test_libraries_are_found_by_path_first_and_by_the_cache_then(tmp_path, monkeypatch):
    (tmp_path / "libmade-up.so.1").write_bytes(b"")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere{os.pathsep}{tmp_path}")
    assert files.find_library("libmade-up.so.1") == str(tmp_path / "libmade-up.so.1")
    cached = {"libother.so.2": "/x/libother.so.2", "libmade-up.so.1": "/x/libmade-up.so.1"}
    monkeypatch.setattr(files, "_loader_cache", lambda: cached)
    assert files.find_library("libmade-up.so.1") == str(tmp_path / "libmade-up.so.1")
    assert files.find_library("libother.so.2") == "/x/libother.so.2"
    assert files.find_library("libnothing.so") is None


def test_the_loaders_listing_is_read(monkeypatch):
    listing = (
        "2 libs found in cache `/etc/ld.so.cache'\n"
        "\tlibcuda.so.1 (libc6) => /32/libcuda.so.1\n"
        "\tlibcuda.so.1 (libc6,x86-64) => /a/libcuda.so.1\n"
        "\tlibcuda.so.1 (libc6,x86-64) => /b/libcuda.so.1\n"
    )
    monkeypatch.setattr(files.shutil, "which", lambda tool, path=None: "/sbin/ldconfig")
    monkeypatch.setattr(files, "tool_output", lambda tool, *a: listing)
    files._loader_cache.cache_clear()
    try:
        assert files._loader_cache() == {"libcuda.so.1": "/a/libcuda.so.1"}
    finally:
        files._loader_cache.cache_clear()


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("libvulkan.so.1.3.275", "1.3.275"),
        ("libcuda.so.580.159.04", "580.159.04"),
        ("libMoltenVK.1.2.9.dylib", "1.2.9"),
        ("libGL.so.1", None),
        ("libplain.so", None),
    ],
)
def test_versions_in_file_names(tmp_path, name, version):
    real = tmp_path / name
    real.write_bytes(b"")
    assert files.library_version(str(real)) == version


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symbolic links")
def test_versions_are_read_through_links(tmp_path):
    (tmp_path / "libvulkan.so.1.4.0").write_bytes(b"")
    link = tmp_path / "libvulkan.so.1"
    link.symlink_to("libvulkan.so.1.4.0")
    assert files.library_version(str(link)) == "1.4.0"


def test_a_tool_that_hangs_fails_or_is_missing_says_nothing(monkeypatch):
    assert files.tool_output(sys.executable, "-c", "print(6 * 7)") == "42\n"
    monkeypatch.setattr(files, "_TIMEOUT_SECONDS", 0.2)
    assert files.tool_output(sys.executable, "-c", "import time; time.sleep(30)") is None
    assert files.tool_output(sys.executable, "-c", "raise SystemExit(3)") is None
    assert files.tool_output("no-such-tool-anywhere") is None


def test_unreadable_files_say_nothing(tmp_path):
    assert files.read_text(tmp_path / "missing") is None
    assert files.read_text(tmp_path) is None
    (tmp_path / "bad").write_bytes(b"\xff\xfe ok")
    assert "ok" in files.read_text(tmp_path / "bad")
