"""Conditions by ``and`` and ``or`` are branches, unless their value is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kerneldsl as kd


@kd.kernel
def guarded(x, out):
    i = kd.grid(1)
    if 0 < i < x.size and (x[i] > 2 or x[i] < -5) and not (x[i] == 7 or x[i] == 9):
        out[i] = x[i]


@kd.kernel
def stored(x, out):
    i = kd.grid(1)
    is_between = 0 < x[i] < 7 or not x[i]
    if is_between:
        out[i] = is_between


@kd.kernel
def chosen(x, out):
    i = kd.grid(1)
    out[i] = 1 if x[i] > 2 and x[i] < 9 and i < 7 else 2
    while x[i] > 3 and out[i] < 9:
        out[i] += 1


@pytest.mark.parametrize("kernel", [guarded, stored, chosen], ids=lambda each: each.__name__)
def test_conditions_are_compiled(kernel: Callable[..., Any]) -> None:
    ptx = kernel.ptx("int64[::1], int64[::1]", arch="sm_90")  # type: ignore[attr-defined]
    assert "st.global" in ptx
