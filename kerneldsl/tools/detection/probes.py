"""Probes for the files of each installed backend.

A probe reads files, runs a tool with a time limit, or looks a package up. It loads no graphics
library into this process.

References
----------
Vulkan Loader, "Driver Interface to the Vulkan Loader", section "Driver Discovery"; ROCm
documentation, "ROCm Linux Filesystem Hierarchy Standard"; NVIDIA Driver README, chapter "The
/proc Filesystem Interface"; OpenGL 4.3, chapter 19 "Compute Shaders".
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from glob import glob
from pathlib import Path

from kerneldsl.placement.registry import built_in_targets, hardware_targets, load_own
from kerneldsl.tools.detection.files import (
    find_library,
    library_version,
    read_text,
    system_name,
    tool_output,
)
from kerneldsl.tools.versions import package_version
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.untrusted import parse_json

__all__ = ["Finding", "probes"]

_VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)*\b")
_IN_BROWSER = "emscripten"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a probe."""

    #: Whether the backend's driver or runtime exists.
    is_detected: bool
    #: Name of the driver or runtime, or the missing part; the first half of the reason.
    what: str
    #: Version of the driver or runtime, if it is known.
    version: str | None = None
    #: Files that prove it.
    evidence: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------ ROCm


def _rocm() -> Finding:
    roots = (os.environ.get("ROCM_PATH"), os.environ.get("HIP_PATH"), "/opt/rocm")
    root = next((r for r in roots if r and os.path.isdir(r)), None)
    tools = [p for t in ("rocminfo", "amd-smi", "rocm-smi", "hipInfo") if (p := shutil.which(t))]
    library = find_library("libamdhip64.so", windows="amdhip64") or (
        find_library("libamdhip64.so.6") or find_library("libamdhip64.so.7")
    )
    evidence = tuple(filter(None, (root, library, *tools)))
    if not evidence:
        return Finding(False, "neither ROCm's tools nor its libraries were found")
    version = None
    if root is not None:
        match = _VERSION.match((read_text(Path(root, ".info", "version")) or "").strip())
        version = match[0] if match else None
    if system_name() == "linux" and not os.path.exists("/dev/kfd"):
        what = "ROCm is installed, but there is no AMD GPU that it serves (/dev/kfd)"
        return Finding(False, what, version, evidence)
    return Finding(True, "detected by ROCm's tools and libraries", version, evidence)


# -------------------------------------------------------------------------------- Metal, Vulkan


def _metal() -> Finding:
    if system_name() != "darwin":
        return Finding(False, "Metal is part of macOS")
    framework = "/System/Library/Frameworks/Metal.framework"
    if not os.path.isdir(framework):
        return Finding(False, f"{framework} is missing")
    macos = platform.mac_ver()[0]
    return Finding(True, f"part of macOS {macos}", None, (framework,))


def _vulkan() -> Finding:
    library = find_library("libvulkan.so.1", macos="vulkan", windows="vulkan-1")
    if library is None and system_name() == "darwin":
        library = find_library("", macos="MoltenVK")
    if library is None:
        return Finding(False, "the Vulkan loader was not found")
    drivers = tuple(_vulkan_drivers())
    version = library_version(library) or _query_vulkan_loader(library)
    if not drivers and system_name() != "win32":
        what = "the Vulkan loader is there, but no driver (ICD) is registered with it"
        return Finding(False, what, version, (library,))
    return Finding(True, "the Vulkan loader was found", version, (library, *drivers))


def _vulkan_drivers() -> Iterator[str]:
    """Return the manifests of installed drivers with an existing library."""
    named = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    if named:
        manifests = [p for p in named.split(os.pathsep) if p]
    else:
        shared = os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
        roots = ["/etc", "/usr/local/etc", os.path.expanduser("~/.local/share")]
        roots += ["/opt/homebrew/share", *shared.split(":")]
        manifests = [p for r in roots for p in sorted(glob(os.path.join(r, "vulkan/icd.d/*.json")))]
    for manifest in dict.fromkeys(manifests):
        try:
            library = parse_json(read_text(manifest) or "{}")["ICD"]["library_path"]
        except (ValueError, KeyError, TypeError):
            continue
        beside = os.path.join(os.path.dirname(manifest), str(library))
        # A bare name is the loader's to find; a path is relative to the manifest.
        found = beside if os.path.dirname(str(library)) else find_library(str(library))
        if system_name() == "darwin" or (found and os.path.isfile(found)):
            yield manifest


_ASK_LOADER = """
import ctypes, sys
number = ctypes.c_uint32()
ctypes.CDLL(sys.argv[1]).vkEnumerateInstanceVersion(ctypes.byref(number))
print(f"{number.value >> 22 & 127}.{number.value >> 12 & 1023}.{number.value & 4095}")
"""


def _query_vulkan_loader(library: str) -> str | None:
    """Query the version of the loader, in a separate process."""
    said = tool_output(sys.executable, "-I", "-c", _ASK_LOADER, library)
    match = _VERSION.fullmatch((said or "").strip())
    return match[0] if match else None


# ----------------------------------------------------------------------------- OpenGL and the web


def _opengl() -> Finding:
    library = find_library("libGL.so.1", macos="OpenGL", windows="opengl32")
    library = library or find_library("libEGL.so.1")
    if library is None:
        return Finding(False, "no OpenGL library was found")
    what = "an OpenGL library was found; its version is known only where there is a context"
    if system_name() == "darwin":
        what = "an OpenGL library was found; macOS stops at OpenGL 4.1, without compute shaders"
    return Finding(True, what, None, (library,))


def _webgpu() -> Finding:
    if system_name() == _IN_BROWSER:
        return Finding(_browser_has_gpu(), "asked of the browser (navigator.gpu)")
    for package in ("wgpu", "dawn-python", "pydawn"):
        version = package_version(package)
        if version is not None:
            what = f"the package {package} was found"
            return Finding(True, what, version, (f"{package} {version}",))
    return Finding(False, "outside of a browser it is a package such as wgpu, which is not there")


def _browser_has_gpu() -> bool:
    try:
        import js  # type: ignore[import-not-found]
    except ImportError:
        return False
    return bool(getattr(js.navigator, "gpu", None))


def _webgl2() -> Finding:
    if system_name() == _IN_BROWSER:
        return Finding(True, "this is a browser")
    return Finding(False, "it exists in browsers alone")


#: Probes of backends without a target of kerneldsl.
_PROBES: dict[str, Callable[[], Finding]] = {
    "rocm": _rocm,
    "metal": _metal,
    "vulkan": _vulkan,
    "opengl": _opengl,
    "webgpu": _webgpu,
    "webgl2": _webgl2,
}


def probes() -> dict[str, Callable[[], Finding]]:
    """Return each backend's probe, in the order in which they are shown: the host comes last."""
    references = {name: built_in_targets()[name].probe for name in hardware_targets()}
    ours = {name: load_own(probe) for name, probe in references.items() if probe is not None}
    *others, host = ours
    return {**{name: ours[name] for name in others}, **_PROBES, host: ours[host]}
