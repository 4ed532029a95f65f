"""Checks of ``kd.preflight()`` for NVIDIA GPUs, from the device files to the code they take.

Without an NVIDIA GPU no problem is reported. With one, everything that prevents a kernel from
running is a problem with a remedy.

References
----------
CUDA Compatibility, "Minor Version Compatibility" and "Forward Compatibility"; NVIDIA Driver README,
chapter "Known Issues", on device files; CUDA Programming Guide, "Compute Modes".
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from glob import glob
from pathlib import Path

from kerneldsl.contract import Check, CheckStatus, Device
from kerneldsl.contract.checks import said_by
from kerneldsl.errors import DriverError, TargetUnavailableError, ToolMissingError
from kerneldsl.tools.detection.files import find_library, library_version, read_text, tool_output
from kerneldsl.tools.detection.probes import Finding
from kerneldsl.tools.versions import package_version
from kerneldsl.utilities.formatting import format_version
from targets.cuda.architectures import ARCHITECTURES, PTX_RELEASES, choose_ptx_version, parse_arch
from targets.cuda.compile.libdevice import find_libdevice
from targets.cuda.compile.nvrtc import nvrtc_version
from targets.cuda.driver.attributes import read_pci_address
from targets.cuda.driver.driver import Driver, get_driver

__all__ = [
    "check_cuda",
    "find_cuda",
    "nvidia_driver_library",
    "nvidia_driver_version",
    "nvidia_gpus",
]

_INSTALL_DRIVER = (
    "Install NVIDIA's driver, so that nvidia-smi works; in a container, start it with --gpus all"
)
_COMPUTE_MODES = {0: "default", 2: "prohibited", 3: "exclusive process"}
#: Values of ``CUDA_VISIBLE_DEVICES`` that leave no device.
_HIDES_ALL = ("", "-1", "nodevfiles")


def check_cuda() -> Iterator[Check]:
    """Look at driver, device files, packages, and each device."""
    gpus, library = nvidia_gpus(), nvidia_driver_library()
    driver = _start()
    if not gpus and library is None and not isinstance(driver, Driver):
        yield Check(
            "cuda.driver", "ok", "no NVIDIA GPU and no driver is here; kernels run on the CPU"
        )
        yield _check_libdevice(is_needed=False)
        yield _check_nvrtc()
        return
    yield _check_driver(library, gpus, is_started=isinstance(driver, Driver))
    yield from _check_kernel_module(library)
    yield from _check_device_files(bool(gpus))
    yield from _check_visible_devices()
    yield from _check_packages()
    yield _check_libdevice(is_needed=True)
    yield _check_nvrtc()
    if isinstance(driver, Driver):
        yield from _check_started(driver, library)
    elif library is not None:
        yield _refused(driver)


def _start() -> Driver | TargetUnavailableError | DriverError:
    """Return the driver, or why it cannot be used; only starting it shows whether it works."""
    try:
        return get_driver()
    except (TargetUnavailableError, DriverError) as error:
        return error


# ------------------------------------------------------------------------------ driver, as files


def _check_driver(library: str | None, gpus: tuple[str, ...], *, is_started: bool) -> Check:
    version = nvidia_driver_version() or "of unknown version"
    if library is None and is_started:
        return Check("cuda.driver", "ok", f"driver {version}, which the loader finds by itself")
    if library is None:
        found = f"there is an NVIDIA GPU ({gpus[0]}), but the driver's library was not found"
        return Check("cuda.driver", "problem", found, _INSTALL_DRIVER)
    if "stubs" in Path(library).parts:
        return Check(
            "cuda.driver",
            "problem",
            f"{library} is the toolkit's stub, with which nothing runs",
            f"Take {os.path.dirname(library)} out of LD_LIBRARY_PATH",
        )
    return Check("cuda.driver", "ok", f"driver {version}, {library}")


def _check_kernel_module(library: str | None) -> Iterator[Check]:
    """Check that the kernel module and the library are of one version."""
    module = nvidia_driver_version() if read_text("/proc/driver/nvidia/version") else None
    told = library_version(library) if library else None
    # The name may end at the major version, which says nothing.
    if module is None or told is None or "." not in told or told == module:
        return
    yield Check(
        "cuda.kernel_module",
        "problem",
        f"the kernel module is {module}, the library {library} is {told}",
        "Restart the machine, or install the driver again; in a container, remove the driver "
        "packages from its image",
    )


def _check_device_files(has_gpu: bool) -> Iterator[Check]:
    """Return whether this user may open the device files."""
    if sys.platform != "linux" or os.path.exists("/dev/dxg"):  # WSL 2 has another way
        return
    nodes = [*sorted(glob("/dev/nvidia[0-9]*")), "/dev/nvidiactl", "/dev/nvidia-uvm"]
    missing = [node for node in nodes if not os.path.exists(node)]
    if not has_gpu and len(missing) == len(nodes):
        return
    closed = [
        node for node in nodes if node not in missing and not os.access(node, os.R_OK | os.W_OK)
    ]
    if closed:
        yield Check(
            "cuda.permissions",
            "problem",
            f"user {os.getuid()} may not open {', '.join(closed)}",
            "Add the user to the group that owns them (ls -l /dev/nvidia*; often video or render) "
            "and log in again; in a container, pass the devices",
        )
    elif missing:
        yield Check(
            "cuda.permissions",
            "warning",
            f"{', '.join(missing)} is missing",
            "Run `nvidia-modprobe -u -c=0` as root; in a container, start it with --gpus all",
        )
    else:
        yield Check("cuda.permissions", "ok", f"user {os.getuid()} may open {', '.join(nodes)}")


def _check_visible_devices() -> Iterator[Check]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return
    found = f"CUDA_VISIBLE_DEVICES is {visible!r}"
    if visible.strip().lower() in _HIDES_ALL:
        remedy = "Unset it, or name a device such as 0 in it, unless this is wanted"
        yield Check("cuda.visible_devices", "warning", f"{found}: it hides every GPU", remedy)
    else:
        yield Check("cuda.visible_devices", "ok", found)


# -------------------------------------------------------------------------------------- packages


def _check_packages() -> Iterator[Check]:
    version = package_version("cuda-bindings")
    if version is None:
        yield Check(
            "cuda.bindings",
            "problem",
            "cuda-bindings is not installed, so no GPU can be used",
            'Run: pip install "kerneldsl[cuda13]", or "kerneldsl[cuda12]" for a driver of CUDA 12',
        )
    elif (hidden := _what_hides_bindings()) is not None:
        yield Check(
            "cuda.bindings",
            "problem",
            f"cuda-bindings {version} is installed, but import cuda finds {hidden}",
            f"Rename {hidden}, or uninstall the package that brings it",
        )
    else:
        yield Check("cuda.bindings", "ok", f"cuda-bindings {version}")
    core = package_version("cuda-core")
    if core is None:
        yield Check(
            "cuda.core",
            "warning",
            "cuda-core is not installed: no streams, events, graphs, pinned memory or live values",
            'Run: pip install "kerneldsl[cuda13]", or "kerneldsl[cuda12]" for a driver of CUDA 12',
        )
    else:
        yield Check("cuda.core", "ok", f"cuda-core {core}")


def _what_hides_bindings() -> str | None:
    """Return the file that takes the name ``cuda``, where NVIDIA's namespace cannot be imported."""
    try:
        if importlib.util.find_spec("cuda.bindings.driver") is not None:
            return None
        spec = importlib.util.find_spec("cuda")
    except (ImportError, AttributeError, ValueError):
        spec = importlib.util.find_spec("cuda")
    return (spec.origin if spec else None) or "something else of that name"


def _check_libdevice(*, is_needed: bool) -> Check:
    path = find_libdevice()
    if path is not None:
        return Check("cuda.libdevice", "ok", str(path))
    found = "libdevice was not found: kernels for GPUs cannot use functions such as sin and exp"
    if not is_needed:
        return Check("cuda.libdevice", "ok", f"{found}; no GPU here needs it")
    return Check("cuda.libdevice", "problem", found, 'Run: pip install "kerneldsl[cuda13]"')


# ------------------------------------------------------------------------------ driver, started


def _check_nvrtc() -> Check:
    """Say whether CUDA C++ can be compiled, which few programs need."""
    try:
        version = format_version(nvrtc_version())
    except ToolMissingError as error:
        found = "NVRTC was not found, so CUDA C++ (kd.cuda_source) cannot be compiled"
        return Check("cuda.nvrtc", "ok", f"{found}. {error.remedy}")
    return Check("cuda.nvrtc", "ok", f"NVRTC {version}, which compiles CUDA C++")


def _refused(error: TargetUnavailableError | DriverError) -> Check:
    is_hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip().lower() in _HIDES_ALL
    status: CheckStatus = "warning" if is_hidden else "problem"
    return Check("cuda.start", status, said_by(error), error.remedy or _INSTALL_DRIVER)


def _check_started(driver: Driver, library: str | None) -> Iterator[Check]:
    """Look at what the driver says of itself and of its devices."""
    names = ", ".join(f"{device} {device.name}" for device in driver.devices())
    supported = format_version(driver.cuda_version)
    yield Check("cuda.start", "ok", f"the driver supports CUDA {supported}; devices: {names}")
    yield from _check_bindings_fit(driver)
    yield from _check_assembler(library)
    found = [_check_ptx(driver, device) for device in driver.devices()]
    if any(check.status == "ok" for check in found):
        # An old card beside a good one is no problem: kernels run on the other one.
        found = [replace(c, status="warning") if c.status == "problem" else c for c in found]
    yield from found
    for device in driver.devices():
        yield from _check_mode(driver, device)


def _check_bindings_fit(driver: Driver) -> Iterator[Check]:
    version = package_version("cuda-bindings") or ""
    major = version.partition(".")[0]
    if major.isdigit() and int(major) > driver.cuda_version[0]:
        supported = format_version(driver.cuda_version)
        yield Check(
            "cuda.bindings_fit",
            "problem",
            f"cuda-bindings {version} is newer than the driver, which supports CUDA {supported}",
            f'Run: pip install "kerneldsl[cuda{driver.cuda_version[0]}]", or update the driver',
        )


def _check_assembler(library: str | None) -> Iterator[Check]:
    """Check for the driver's own assembler, a separate file that small images leave out."""
    if sys.platform != "linux" or library is None:
        return
    name = "libnvidia-ptxjitcompiler.so.1"
    beside = os.path.join(os.path.dirname(library), name)
    if not os.path.isfile(beside) and find_library(name) is None:
        yield Check(
            "cuda.assembler",
            "warning",
            f"{name}, with which the driver assembles PTX, was not found",
            "Install the driver's complete packages; in a container, set "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        )


def _check_ptx(driver: Driver, device: Device) -> Check:
    """Return whether the driver takes the PTX that is written for the device."""
    name = f"cuda.ptx.{device}"
    if device.arch not in ARCHITECTURES:
        found = f"{device.name} is {device.arch}, which is older than what can be compiled for"
        return Check(name, "problem", found, 'Run kernels on the CPU: kd.use("cpu")')
    needed = choose_ptx_version(parse_arch(device.arch))
    release = next(r for r in PTX_RELEASES if r.ptx == needed)
    newest = [r.ptx for r in PTX_RELEASES if r.cuda <= driver.cuda_version]
    taken = (
        f"the driver takes PTX up to {format_version(newest[-1])}"
        if newest
        else "the driver is old"
    )
    found = f"{device.name}: code for {device.arch} is PTX {format_version(needed)}; {taken}"
    if driver.cuda_version < release.cuda:
        remedy = f"Update the NVIDIA driver to branch {release.driver} or newer"
        return Check(name, "problem", found, remedy)
    return Check(name, "ok", found)


def _check_mode(driver: Driver, device: Device) -> Iterator[Check]:
    """Check settings of a device that surprise: who may use it, how long a kernel may run."""
    mode = driver.attribute(device.index, "COMPUTE_MODE")
    if mode in (2, 3):
        yield Check(
            f"cuda.compute_mode.{device}",
            "problem" if mode == 2 else "warning",
            f"{device.name} is in compute mode {_COMPUTE_MODES[mode]}",
            # nvidia-smi counts in its own order, and knows no CUDA_VISIBLE_DEVICES.
            f"Run as root: nvidia-smi -i {_smi_name(driver, device)} -c DEFAULT",
        )
    if driver.attribute(device.index, "KERNEL_EXEC_TIMEOUT"):
        yield Check(
            f"cuda.timeout.{device}",
            "warning",
            f"{device.name} drives a display: a kernel that runs for seconds is ended",
            "Split long work into several launches, or use a GPU without a display",
        )


def _smi_name(driver: Driver, device: Device) -> str:
    """Return a device as ``nvidia-smi -i`` takes it."""
    handle = driver.call(driver.api.cuDeviceGet, device.index, doing=f"find {device}")
    return read_pci_address(driver.api, handle) or "NUMBER"


# Probe for NVIDIA's driver and GPUs.
#
# See NVIDIA Driver README, chapter "The /proc Filesystem Interface".

_VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)*\b")
_NVIDIA_VENDOR = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")


def nvidia_driver_library() -> str | None:
    """Return where the CUDA driver's library is, or ``None``."""
    return find_library("libcuda.so.1", windows="nvcuda")


def nvidia_driver_version() -> str | None:
    """Return the version of NVIDIA's driver, such as ``"580.159.04"``, or ``None``.

    The kernel module's own word comes first; if it cannot be read, the file name of the library
    and then ``nvidia-smi`` are asked.
    """
    line = (read_text("/proc/driver/nvidia/version") or "").partition("\n")[0]
    match = re.search(r"Kernel Module(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)?)", line)
    if match:
        return match[1]
    library = nvidia_driver_library()
    told = library_version(library) if library else None
    if told is not None:
        return told
    answer = tool_output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    match = _VERSION.search(answer or "")
    return match[0] if match else None


def nvidia_gpus() -> tuple[str, ...]:
    """Return signs of NVIDIA GPUs in this machine, whether or not their driver works."""
    found = sorted(glob("/dev/nvidia[0-9]*"))
    found += sorted(glob("/proc/driver/nvidia/gpus/*"))
    for device in sorted(glob("/sys/bus/pci/devices/*")):
        vendor = (read_text(Path(device, "vendor")) or "").strip()
        kind = (read_text(Path(device, "class")) or "").strip()
        if vendor == _NVIDIA_VENDOR and kind.startswith(_DISPLAY_CLASSES):
            found.append(device)
    return tuple(found)


def find_cuda() -> Finding:
    """Look for NVIDIA's driver."""
    library = nvidia_driver_library()
    evidence = tuple(filter(None, (library, *nvidia_gpus())))
    if library is None:
        missing = "NVIDIA's driver was not found"
        if evidence:
            missing = f"there is an NVIDIA GPU ({evidence[0]}), but no driver library for it"
        return Finding(False, missing, evidence=evidence)
    return Finding(True, "NVIDIA's driver was found", nvidia_driver_version(), evidence)
