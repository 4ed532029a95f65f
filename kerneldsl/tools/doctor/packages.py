"""The interpreter and the packages: in tested ranges, and hidden by nothing."""

from __future__ import annotations

import importlib.util
import os
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from kerneldsl._version import TESTED_RANGES
from kerneldsl.contract.checks import Check
from kerneldsl.errors import ShadowedPackageError
from kerneldsl.tools.versions import TESTED_PYTHONS
from kerneldsl.utilities.own_packages import require_own_packages

__all__ = ["check_packages", "check_python"]

#: What a launch needs; the others serve the command line and reports.
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
    if place is not None and expected.is_dir() and not _is_same(place, expected):
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


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


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
