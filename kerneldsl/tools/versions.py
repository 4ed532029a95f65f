"""Versions of all packages that a kernel's result depends on, without importing them."""

from __future__ import annotations

import platform
import sys
from typing import Any

from kerneldsl._version import __version__

__all__ = [
    "TESTED_PYTHONS",
    "collect_versions",
    "package_version",
    "package_versions",
    "show_versions",
]

#: Versions of Python that the tests run with, oldest first.
TESTED_PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))

_DISTRIBUTIONS = (
    "numpy",
    "numba",
    "llvmlite",
    "tbb",
    "cuda-core",
    "cuda-bindings",
    "nvidia-nvvm",
    "nvidia-cuda-nvcc",
    "torch",
)


def package_versions() -> dict[str, str | None]:
    """Return the versions of Python and the packages by name; ``None`` if not installed.

    It imports and starts nothing.
    """
    found: dict[str, str | None] = {
        "kerneldsl": __version__,
        "python": platform.python_version(),
    }
    return found | {name: package_version(name) for name in _DISTRIBUTIONS}


def package_version(name: str) -> str | None:
    """Return the version of an installed distribution, or ``None``."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def collect_versions() -> dict[str, str]:
    """Return versions by name; a text replaces the version of a missing package.

    It loads llvmlite and the drivers, to read LLVM's version and the devices.
    """
    found = {
        "kerneldsl": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "executable": sys.executable,
        "platform": platform.platform(),
        "processor": _processor(),
    }
    packages = package_versions()
    found.update((name, packages[name] or "not installed") for name in _DISTRIBUTIONS)
    found["LLVM"] = _llvm_version()
    found.update(_targets())
    return found


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def _llvm_version() -> str:
    try:
        from llvmlite import binding
    except ImportError as error:
        return f"not loaded: {error}"
    return ".".join(map(str, binding.llvm_version_info))


def _targets() -> dict[str, str]:
    from kerneldsl.errors import KernelError
    from kerneldsl.placement.registry import get_target, target_names

    found: dict[str, str] = {}
    for name in target_names():
        try:
            target = get_target(name)
            reason = target.unavailable_reason()
            described: Any = reason or ", ".join(f"{d.name} ({d.arch})" for d in target.devices())
        except (KernelError, ImportError) as error:
            described = f"cannot be loaded: {error}"
        found[f"target {name}"] = " ".join(str(described).split())
    return found


def show_versions() -> None:
    """Print the versions of Python, kerneldsl and its dependencies, and the devices."""
    found = collect_versions()
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:<{width}}  {value}")
