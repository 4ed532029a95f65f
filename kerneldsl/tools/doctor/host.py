"""The host: memory, the start of processes, variables that were set, Python and its packages.

References
----------
Linux kernel documentation, "Control Group v2", section "Memory Interface Files", and "Memory
Resource Controller" for version 1.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from kerneldsl._version import TESTED_RANGES
from kerneldsl.contract import MemoryType
from kerneldsl.contract.checks import Check, said_by
from kerneldsl.errors import KernelError, ShadowedPackageError
from kerneldsl.placement.devices import device_of
from kerneldsl.placement.registry import check_pass_names, get_target, target_of_memory
from kerneldsl.tools.detection import backends
from kerneldsl.tools.versions import TESTED_PYTHONS
from kerneldsl.utilities import environment
from kerneldsl.utilities.address_space import RAISE_LIMIT, Addresses, group_settings
from kerneldsl.utilities.formatting import format_bytes
from kerneldsl.utilities.own_packages import is_same_file, require_own_packages

__all__ = [
    "cgroup_memory_limit",
    "check_environment",
    "check_memory",
    "check_packages",
    "check_processes",
    "check_python",
]

#: Below this, compiling alone can run out of memory.
_LITTLE_MEMORY_BYTES = 512 * 2**20
#: Least limit that means "no limit": version 1 of control groups has a number near 2**63.
_NO_LIMIT_BYTES = 2**60


def check_memory() -> Iterator[Check]:
    """Look at the host's memory, and at the limits put on this process."""
    try:
        import psutil
    except ImportError:
        yield Check(
            "memory.host", "warning", "unknown: psutil is not installed", "pip install psutil"
        )
        return
    memory = psutil.virtual_memory()
    available, total = int(memory.available), int(memory.total)
    found = f"{format_bytes(available)} of {format_bytes(total)} available"
    limit = cgroup_memory_limit()
    if limit is not None and limit < total:
        left = max(0, limit - int(psutil.Process().memory_info().rss))
        available = min(available, left)
        found += f"; the control group allows {format_bytes(limit)}"
    if available < _LITTLE_MEMORY_BYTES:
        yield Check(
            "memory.host",
            "warning",
            found,
            "End other programs, or raise the limit: compiling takes about "
            f"{format_bytes(_LITTLE_MEMORY_BYTES)}",
        )
    else:
        yield Check("memory.host", "ok", found)
    yield from _check_address_space()


def _check_address_space() -> Iterator[Check]:
    addresses = Addresses.limited()
    if addresses is None:
        return
    name = "memory.address_space"
    found = f"this process may use {format_bytes(addresses.limit_bytes)} of addresses (ulimit -v)"
    missing = addresses.missing()
    if missing is not None:
        found += (
            f", of which {format_bytes(addresses.left_bytes)} are left: compiling needs "
            f"{format_bytes(missing)}"
        )
        yield Check(name, "problem", found, RAISE_LIMIT)
    else:
        yield Check(
            name,
            "warning",
            found,
            f"{RAISE_LIMIT}: CUDA reserves addresses for all of the memory of host and devices",
        )


def cgroup_memory_limit(root: str | Path = "/") -> int | None:
    """Return the smallest limit that control groups put on this process's memory, in bytes.

    The system's files begin at `root`, which is another folder in tests. ``None`` if there is no
    limit, or the system knows none.
    """
    texts = group_settings("memory", "memory.max", "memory.limit_in_bytes", Path(root))
    limits = [int(text) for text in texts if text.isdigit() and int(text) < _NO_LIMIT_BYTES]
    return min(limits, default=None)


def check_processes() -> Iterator[Check]:
    """Look at how ``multiprocessing`` starts processes."""
    chosen = multiprocessing.get_start_method(allow_none=True)
    method = chosen or multiprocessing.get_all_start_methods()[0]
    if method != "fork":
        yield Check("processes.start_method", "ok", f"multiprocessing uses {method}")
        return
    remedy = (
        'Use multiprocessing.get_context("spawn"): a forked child cannot use CUDA once its '
        "parent has"
    )
    if chosen and get_target(target_of_memory(MemoryType.CUDA)).unavailable_reason() is None:
        found = "this program has chosen fork for multiprocessing, and uses CUDA"
        yield Check("processes.start_method", "warning", found, remedy)
    else:
        yield Check(
            "processes.start_method",
            "ok",
            "multiprocessing uses fork; children that use CUDA need spawn or forkserver",
        )


def check_environment() -> Iterator[Check]:
    """Look at the environment variables of kerneldsl, misspelled ones too."""
    yield from _check_target_spec()
    yield from _check_words()
    yield from _check_fake_gpu()
    yield from _check_disabled_passes()
    unknown = [
        name
        for name in sorted(os.environ)
        if name.startswith("KERNELDSL_") and not environment.is_known(name)
    ]
    for name in unknown:
        found = f"kerneldsl reads no variable {name}"
        yield Check(f"environment.{name}", "warning", found, environment.nearest_to(name))
    if not unknown:
        names = [n for n in environment.VARIABLES if n in os.environ]
        shown = ", ".join(f"{n}={os.environ[n]!r}" for n in names) or "none is set"
        yield Check("environment", "ok", f"kerneldsl's variables: {shown}")


def _check_fake_gpu() -> Iterator[Check]:
    spec = environment.fake_gpu_spec()
    if spec is None:
        return
    name = "environment.KERNELDSL_FAKE_GPU"
    try:
        backends()  # which reads the variable, and looks at nothing else
    except KernelError as error:
        yield Check(name, "problem", said_by(error), error.remedy)
    else:
        found = f"KERNELDSL_FAKE_GPU is {spec!r}, so kd.backends() pretends"
        yield Check(name, "warning", found, "Unset it outside of tests")


def _check_disabled_passes() -> Iterator[Check]:
    """Warn of passes that do not run, because kernels may be slower without them."""
    disabled = environment.disabled_passes()
    if not disabled:
        return
    name = "environment.KERNELDSL_DISABLE_PASSES"
    try:
        check_pass_names(",".join(disabled))
    except KernelError as error:
        yield Check(name, "problem", said_by(error), error.remedy)
    else:
        found = f"{', '.join(disabled)} do not run, so kernels may be slower"
        yield Check(name, "warning", found, "Unset it if you do not search for a fault")


def _check_words() -> Iterator[Check]:
    """Look at the variables that are one of a few words."""
    for name, variable in environment.VARIABLES.items():
        value = os.environ.get(name, "").strip().lower()
        if value and variable.words and value not in variable.words:
            yield Check(
                f"environment.{name}",
                "warning" if variable.otherwise else "problem",
                f"{name} is {value!r}. {variable.otherwise or 'No function can be decorated'}",
                f"Unset it, or set it to one of {', '.join(variable.words)}",
            )


def _check_target_spec() -> Iterator[Check]:
    spec = environment.target_spec()
    if spec is None:
        return
    check = "environment.KERNELDSL_TARGET"
    try:
        device = device_of(spec)
    except (KernelError, ImportError) as error:
        yield Check(
            check,
            "problem",
            f"KERNELDSL_TARGET is {spec!r}: {said_by(error)}",
            getattr(error, "remedy", None)
            or "Unset it, or set it to a device that is there, such as cpu",
        )
    else:
        yield Check(check, "ok", f"KERNELDSL_TARGET is {spec!r}: {device}")


# -- the interpreter and the packages -------------------------------------------------------------


#: Packages that launches need; others serve the command line and reports.
_ESSENTIAL = ("numba", "llvmlite", "numpy")


def check_python() -> Iterator[Check]:
    """Look at the interpreter."""
    version = sys.version_info[:2]
    bits = struct.calcsize("P") * 8
    found = f"Python {sys.version.split()[0]}, {bits} bits, {sys.executable}"
    lowest, highest = (".".join(map(str, v)) for v in (TESTED_PYTHONS[0], TESTED_PYTHONS[-1]))
    tested = f"kerneldsl is tested with Python {lowest} to {highest}"
    if bits != 64:
        yield Check("python", "problem", found, "Use a Python of 64 bits")
    elif version not in TESTED_PYTHONS:
        yield Check("python", "warning", found, f"Use another Python: {tested}")
    else:
        yield Check("python", "ok", found)


def check_packages() -> Iterator[Check]:
    """Look at what kerneldsl is built on: there, in the tested range, and the real one."""
    for name, (lowest, below) in TESTED_RANGES.items():
        yield _check_package(name, lowest, below)
    yield _check_own_packages()


def _check_package(name: str, lowest: str, below: str | None) -> Check:
    from importlib.metadata import PackageNotFoundError, distribution

    check = f"packages.{name}"
    wanted = f"{name}>={lowest}" + (f",<{below}" if below else "")
    remedy = f'Run: {os.path.basename(sys.executable) or "python"} -m pip install "{wanted}"'
    try:
        found = distribution(name)
    except PackageNotFoundError:
        if name not in _ESSENTIAL:
            return Check(check, "warning", f"{name} is not installed", remedy)
        return Check(check, "problem", f"{name} is not installed", remedy)
    place = _where_imported(name)
    expected = Path(str(found.locate_file(name)))
    if place is not None and expected.is_dir() and not is_same_file(place, expected):
        return Check(
            check,
            "problem",
            f"import {name} finds {place}, which hides the installed package at {expected}",
            f"Rename {place}, or start Python elsewhere",
        )
    number = _parse(found.version)
    if number < _parse(lowest) or (below is not None and number >= _parse(below)):
        shown = f"{name} {found.version}; kerneldsl is tested with {wanted}"
        return Check(check, "warning", shown, remedy)
    return Check(check, "ok", f"{name} {found.version}")


def _where_imported(name: str) -> Path | None:
    """Return the folder of a package, or the file of a module, that ``import`` finds."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(spec.origin) if spec.origin else None


def _parse(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with: ``0.68.1rc1`` counts as ``(0, 68, 1)``."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def _check_own_packages() -> Check:
    try:
        require_own_packages()
    except ShadowedPackageError as error:
        return Check("packages.own", "problem", error.what, error.remedy)
    return Check("packages.own", "ok", "kerneldsl's own packages are the ones that are imported")
