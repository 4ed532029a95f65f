"""``kd.preflight()``: check the machine, one part after the other.

This module contains the checks of the core. :meth:`~kerneldsl.contract.Target.checks` of each
target adds its own. If a check raises an error, that is its result, and the other checks continue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kerneldsl.contract import Target
from kerneldsl.contract.checks import Check, said_by
from kerneldsl.errors import ArgumentTypeError, KernelError
from kerneldsl.errors.values import safe_repr
from kerneldsl.placement.registry import get_target, is_hardware, target_names
from kerneldsl.tools.doctor.cache import check_cache_folder
from kerneldsl.tools.doctor.host import check_environment, check_memory, check_processes
from kerneldsl.tools.doctor.packages import check_packages, check_python
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.formatting import format_count, html_table, text_table

__all__ = ["Report", "preflight"]

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
        start method of processes, then those of each target and its devices.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.preflight(run_kernels=False).named("python").status
    'ok'
    """
    if progress is not None and not callable(progress):
        raise ArgumentTypeError(
            f"progress is {safe_repr(progress)}",
            value=progress,
            limit="It must be a function of the name of a part",
        )
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
        yield "targets", _said(_failed("targets", error))
        return
    for name in filter(is_hardware, names):
        try:
            target = get_target(name)
        except (KernelError, ImportError) as error:
            yield name, _said(_failed(name, error))
            continue
        yield name, target.checks
        if run_kernels and target.unavailable_reason() is None:
            yield f"kernel on {name}", _devices_of(target)


def _devices_of(target: Target) -> Callable[[], Iterable[Check]]:
    def look() -> Iterable[Check]:
        from kerneldsl.tools.doctor.trial import check_devices  # it decorates a kernel

        return check_devices(target)

    return look


def _said(check: Check) -> Callable[[], Iterable[Check]]:
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
