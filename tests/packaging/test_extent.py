"""A quick run collects no test of a full one, and leaves none without parameters."""

from __future__ import annotations

import pytest

from tests.conformance import test_kernels
from tests.support import extent

full = pytest.param(1, marks=pytest.mark.full)


def test_a_quick_run_takes_no_parameters_of_a_full_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extent, "IS_QUICK", True)
    assert extent.within_extent([full, 2]) == [2]
    assert extent.within_extent([full]) == [full]
    assert extent.full_beyond([1, 2, 3], [2]) == [2]
    assert not any(map(extent.is_full, test_kernels._on_every_target()))


def test_a_full_run_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extent, "IS_QUICK", False)
    assert extent.within_extent([full, 2]) == [full, 2]
    assert extent.full_beyond([1, 2], [2]) == [full, 2]


def test_marks_of_functions() -> None:
    @pytest.mark.full
    def test_of_a_full_run() -> None: ...

    assert extent.is_full(test_of_a_full_run)
    assert not extent.is_full(test_marks_of_functions)
