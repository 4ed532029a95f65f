"""What tests of ``kd.preflight()`` share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

import pytest

from kerneldsl.contract import Check

__all__ = ["by_name", "forget_variables", "unload"]


def forget_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no variable of the environment set that checks look at, until the test ends."""
    for name in [n for n in os.environ if n.startswith("KERNELDSL_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def unload(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Unload a package until the test ends; what is imported in its place goes then."""
    monkeypatch.setitem(sys.modules, package, None)
    for name in [n for n in sys.modules if n.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)


def by_name(checks: Iterable[Check]) -> dict[str, Check]:
    """Checks by their names, of which there is one each."""
    found: dict[str, Check] = {}
    for check in checks:
        assert check.name not in found, f"{check.name} twice"
        # What is not well comes with what to do about it.
        assert (check.remedy is None) == (check.status == "ok"), check
        assert check.found.strip()
        found[check.name] = check
    return found
