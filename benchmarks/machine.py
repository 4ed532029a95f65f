"""Environment of a run's figures and logs: devices, driver, versions, commit and date.

The benchmarks put it into their results; for the head of a log it can be printed::

    python benchmarks/machine.py --commit 1a2b3c4
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = [
    "command_output",
    "commit_name",
    "describe_cpu_machine",
    "describe_gpu_machine",
    "package_versions",
    "settle_threads",
]

_ROOT = Path(__file__).resolve().parents[1]
# For whoever is measured in this process: threads of GNU OpenMP, which Numba and C may use, spin
# for some 50 us at the end of a loop, as between the loops of a time step, and not for
# milliseconds, where they would take a core from the next contender.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")
#: The same for OpenBLAS, the library of NumPy's products, as 2 to the power of so many cycles.
_OPENBLAS_VARIABLE, _OPENBLAS_SPINS = "OPENBLAS_THREAD_TIMEOUT", "17"
_GPU_PACKAGES = (
    "kerneldsl",
    "numba",
    "llvmlite",
    "numba-cuda",
    "numpy",
    "torch",
    "cuda-bindings",
    "cuda-core",
)


def settle_threads() -> None:
    """Run this program anew where OpenBLAS's threads would spin for long after each product.

    They do so for some 30 ms, on cores that the next contender needs. OpenBLAS reads the time as it
    is loaded, and NumPy loads it.
    """
    if _OPENBLAS_VARIABLE not in os.environ:
        os.environ[_OPENBLAS_VARIABLE] = _OPENBLAS_SPINS
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def command_output(*command: str) -> str:
    """Return what a command wrote; nothing where it is missing or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=30, cwd=_ROOT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the version of each package; of kerneldsl also where it runs from its sources."""
    return {name: _version(name) for name in names}


def commit_name(given: str | None = None) -> str:
    """Return what is measured: `given`, the variable COMMIT, or the commit that git names.

    Git's name says whether there are changes.
    """
    if given := given or os.environ.get("COMMIT"):
        return given
    commit = command_output("git", "rev-parse", "--short=12", "HEAD")
    changed = command_output("git", "status", "--porcelain", "--untracked-files=no")
    return (commit + (" with changes" if changed else "")) if commit else "unknown"


def describe_gpu_machine(commit: str | None = None) -> dict[str, Any]:
    """Return what results of GPUs depend on; `commit` where there is no git repository."""
    import kerneldsl as kd
    from targets.cuda.driver.driver import get_driver

    found = kd.devices("cuda")
    driver = command_output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return {
        "device": found[0].name,
        "devices": [f"{device}: {device.name}, {device.arch}" for device in found],
        "multiprocessors": found[0].limits.multiprocessor_count,
        "driver": driver.partition("\n")[0] or "unknown",
        "driver_cuda": ".".join(map(str, get_driver().cuda_version)),
        "host": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": package_versions(_GPU_PACKAGES),
        "commit": commit_name(commit),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe_cpu_machine(commit: str | None = None) -> dict[str, Any]:
    """Return what results of a CPU depend on; `commit` where there is no git repository."""
    import kerneldsl as kd

    return {
        "device": kd.device_info("cpu").device.name,
        "host": platform.platform(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": package_versions(("kerneldsl", "numba", "llvmlite", "numpy")),
        "commit": commit_name(commit),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        if name != "kerneldsl":
            return "not installed"
    import kerneldsl

    return kerneldsl.__version__


def main() -> int:
    """Print it; the exit status is 1 where fewer devices are there than are wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", help="what is run, where there is no git repository")
    parser.add_argument("--devices", type=int, default=1, help="how many there must be")
    options = parser.parse_args()
    from kerneldsl.placement.registry import get_target

    reason = get_target("cuda").unavailable_reason()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 1
    found = describe_gpu_machine(options.commit)
    print(json.dumps(found, indent=1))
    if len(found["devices"]) < options.devices:
        print(f"{options.devices} CUDA devices are needed", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
