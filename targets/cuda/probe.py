"""Probe for NVIDIA's driver and GPUs.

References
----------
NVIDIA Driver README, chapter "The /proc Filesystem Interface".
"""

from __future__ import annotations

import re
from glob import glob
from pathlib import Path

from kerneldsl.tools.detection.files import find_library, library_version, read_text, tool_output
from kerneldsl.tools.detection.probes import Finding

__all__ = ["find_cuda", "nvidia_driver_library", "nvidia_driver_version", "nvidia_gpus"]

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
