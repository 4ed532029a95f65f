"""Indices that are marked without a proof."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from kerneldsl.frontend.normalize import make_unit
from kerneldsl.lowering.passes import mark_nonnegative_indices as module


def shift(x, y, n):
    for i in range(n):
        y[i] = x[i - 1]


def test_without_wraparound_nothing_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the analysis ran, although every index is marked")

    monkeypatch.setattr(module, "nonnegative_indices", refuse)
    unit = make_unit(shift)
    marked = module.MarkNonnegativeIndices.for_unit(unit, wraparound=False)(unit.tree)
    assert "y[kd_unsigned(i)] = x[kd_unsigned(i - 1)]" in ast.unparse(marked)
