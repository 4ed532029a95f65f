"""``kd.preflight()``: check the machine, one part after the other.

This module contains the checks of the core. :meth:`~kerneldsl.contract.Target.checks` of each
target adds its own. If a check raises an error, that is its result, and the other checks continue.

The code in the cache folder is run. So a folder that others can write to is a problem and not a
warning.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from kerneldsl.cache.folders import nearest_existing
from kerneldsl.cache.settings import read_settings
from kerneldsl.contract import Target
from kerneldsl.contract.checks import Check, said_by
from kerneldsl.errors import CacheError, KernelError
from kerneldsl.errors.kernels import wrong_type
from kerneldsl.placement.registry import get_target, is_hardware, target_names
from kerneldsl.tools.doctor.host import (
    check_environment,
    check_memory,
    check_packages,
    check_processes,
    check_python,
)
from kerneldsl.utilities import environment
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.formatting import format_bytes, format_count, html_table, text_table

__all__ = ["Report", "check_cache_folder", "preflight"]

_HEADERS = ("check", "status", "found", "what to do")


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The results of :func:`kerneldsl.preflight`; shown as a table.

    Parameters
    ----------
    checks : tuple of Check
        The checks, in order.
    """

    checks: tuple[Check, ...]

    @property
    def problems(self) -> tuple[Check, ...]:
        """Checks that failed."""
        return tuple(check for check in self.checks if check.status == "problem")

    @property
    def warnings(self) -> tuple[Check, ...]:
        """Checks that passed with a limitation: slower, or not everywhere."""
        return tuple(check for check in self.checks if check.status == "warning")

    @property
    def is_ok(self) -> bool:
        """True if there is no problem; there may be warnings."""
        return not self.problems

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        parts = [
            format_count(len(found), word)
            for word, found in (("problem", self.problems), ("warning", self.warnings))
            if found
        ]
        counted = format_count(len(self.checks), "check")
        return f"{counted}: {' and '.join(parts)}" if parts else f"all checks passed ({counted})"

    def named(self, name: str) -> Check:
        """Return the check of a name.

        Raises
        ------
        KeyError
            If no check has this name.
        """
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict and the checks, for JSON."""
        return {
            "is_ok": self.is_ok,
            "verdict": self.verdict,
            "problem_count": len(self.problems),
            "warning_count": len(self.warnings),
            "checks": [check.to_dict() for check in self.checks],
        }

    def _rows(self) -> list[tuple[object, ...]]:
        return [(c.name, c.status, c.found, c.remedy) for c in self.checks]

    def __repr__(self) -> str:
        return f"{text_table(_HEADERS, self._rows())}\n{self.verdict}"

    def _repr_html_(self) -> str:
        return html_table(_HEADERS, self._rows(), self.verdict)


def preflight(
    *, run_kernels: bool = True, progress: Callable[[str], object] | None = None
) -> Report:
    """Check this machine, and return a remedy for each problem.

    Parameters
    ----------
    run_kernels : bool
        Whether to compile and run a small kernel on each device, which takes a second or two.
        ``kd.stats()`` counts these launches, too.
    progress : callable, optional
        Called with the name of each part before its checks.

    Returns
    -------
    Report
        The checks of Python and its packages, the environment, the cache folder, memory, and the
        start method of processes. Then those of each target and its devices.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.preflight(run_kernels=False).named("python").status
    'ok'
    """
    if progress is not None and not callable(progress):
        raise wrong_type("progress", progress, "It must be a function of the name of a part")
    checks: list[Check] = []
    for part, look in _parts(read_flag("run_kernels", run_kernels)):
        if progress is not None:
            progress(part)
        checks += _complete(part, look)
    return Report(tuple(checks))


def _parts(run_kernels: bool) -> Iterator[tuple[str, Callable[[], Iterable[Check]]]]:
    yield "python", check_python
    yield "packages", check_packages
    yield "environment", check_environment
    yield "cache", check_cache_folder
    yield "memory", check_memory
    yield "processes", check_processes
    try:
        names = target_names()
    except KernelError as error:
        yield "targets", _collected_checks(_failed("targets", error))
        return
    for name in filter(is_hardware, names):
        try:
            target = get_target(name)
        except (KernelError, ImportError) as error:
            yield name, _collected_checks(_failed(name, error))
            continue
        yield name, target.checks
        if run_kernels and target.unavailable_reason() is None:
            yield f"kernel on {name}", _devices_of(target)


def _devices_of(target: Target) -> Callable[[], Iterable[Check]]:
    def look() -> Iterable[Check]:
        from kerneldsl.tools.doctor.trial import check_devices  # it decorates a kernel

        return check_devices(target)

    return look


def _collected_checks(check: Check) -> Callable[[], Iterable[Check]]:
    return lambda: (check,)


def _complete(part: str, look: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """Return the checks of a part. If it raises an error, the last one reports that."""
    try:
        yield from look()
    except Exception as error:  # noqa: BLE001 -- the other parts are still to be looked at
        yield _failed(part, error)


def _failed(part: str, error: BaseException) -> Check:
    remedy = getattr(error, "remedy", None)
    return Check(
        f"{part}.check",
        "problem",
        f"could not be looked at: {type(error).__name__}: {said_by(error)}",
        remedy or "Please report this, with the output of kerneldsl summary",
    )


# -- the cache folder -----------------------------------------------------------------------------


_LITTLE_ROOM_BYTES = 256 * 2**20
_ELSEWHERE = "Set KERNELDSL_CACHE_DIR to a folder of yours that can be written to"


def check_cache_folder() -> Iterator[Check]:
    """Look at the folder, and change nothing that stays."""
    try:
        folder = environment.cache_folder()
    except ImportError as error:
        found = f"unknown where the cache folder is: {error.name} is not installed"
        remedy = f"Run: pip install {error.name}. Or: {_ELSEWHERE}"
        yield Check("cache.folder", "warning", found, remedy)
        return
    except CacheError as error:  # there is no home directory
        yield Check("cache.folder", "warning", f"there is no cache folder: {error}", _ELSEWHERE)
        return
    existing = nearest_existing(folder)
    if existing is None or not existing.is_dir():
        found = f"{folder} cannot be made: {existing or folder.anchor} is not a folder"
        yield Check("cache.folder", "warning", found, _ELSEWHERE)
        return
    refused = _why_not_writable(existing)
    if refused is not None:
        verb = "be written to" if existing == folder else "be made"
        yield Check("cache.folder", "warning", f"{folder} cannot {verb}: {refused}", _ELSEWHERE)
        return
    if existing == folder:
        yield _check_mode(folder)
    else:
        yield Check("cache.folder", "ok", f"{folder} can be made")
    yield _check_room(folder, existing)


def _why_not_writable(folder: Path) -> str | None:
    try:
        # Only a write detects it: the mode does not show a read-only file system or a quota.
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"0")
            file.flush()
    except OSError as error:
        return f"{folder}: {error.strerror or error}"
    return None


def _check_mode(folder: Path) -> Check:
    status = folder.stat()
    mode = stat.S_IMODE(status.st_mode)
    if not hasattr(os, "getuid"):  # Windows guards the user's folders by other means
        return Check("cache.folder", "ok", f"{folder} can be written to")
    if read_settings().is_shared:
        found = f"{folder} can be written to, and is shared (KERNELDSL_CACHE_SHARED): "
        return Check("cache.folder", "ok", found + "entries are signed")
    if status.st_uid != os.getuid():
        return Check(
            "cache.folder",
            "problem",
            f"{folder} belongs to user {status.st_uid}; this process runs as {os.getuid()}",
            "Set KERNELDSL_CACHE_DIR to a folder of this user: what is cached is run",
        )
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        return Check(
            "cache.folder",
            "problem",
            f"{folder} can be written to by others (mode {mode:04o}), and what is cached is run",
            f"Run: chmod 700 {folder}",
        )
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        found = f"{folder} can be read by others (mode {mode:04o})"
        return Check("cache.folder", "warning", found, f"Run: chmod 700 {folder}")
    return Check("cache.folder", "ok", f"{folder} can be written to, by this user alone")


def _check_room(folder: Path, existing: Path) -> Check:
    free = shutil.disk_usage(existing).free
    found = f"{format_bytes(free)} free for {folder}"
    if free < _LITTLE_ROOM_BYTES:
        remedy = f"Free {format_bytes(_LITTLE_ROOM_BYTES)} there. Or: {_ELSEWHERE}"
        return Check("cache.space", "warning", found, remedy)
    return Check("cache.space", "ok", found)
