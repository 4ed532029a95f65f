"""The result of looking at everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kerneldsl.contract.checks import Check
from kerneldsl.utilities.formatting import format_count, html_table, text_table

__all__ = ["Report"]

_HEADERS = ("check", "status", "found", "what to do")


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """Everything that :func:`kerneldsl.preflight` looked at; shows as a table.

    Parameters
    ----------
    checks : tuple of Check
        In the order in which they were made.
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
        """The whole in one sentence."""
        parts = [
            format_count(len(found), word)
            for word, found in (("problem", self.problems), ("warning", self.warnings))
            if found
        ]
        counted = format_count(len(self.checks), "check")
        return f"{counted}: {' and '.join(parts)}" if parts else f"{counted}: everything is well"

    def named(self, name: str) -> Check:
        """Return the check of a name.

        Raises
        ------
        KeyError
            If there was none of that name.
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
