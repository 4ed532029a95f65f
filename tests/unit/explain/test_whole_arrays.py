"""Threads that each go through a whole array are told of, with the user's line and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kerneldsl as kd

N = 1 << 13


@kd.func
def spread(values):
    return np.max(values) - values.min()


@kd.kernel
def center(y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = y[i] - y.mean()  # found


@kd.kernel
def scale(y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = y[i] / spread(y)


@kd.kernel
def product(y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = np.dot(y, y) * y[i]  # found


@kd.kernel
def part(y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = y[1:].sum()  # found


@kd.kernel
def clear(y, out):
    i = kd.grid(1)
    if i < y.size:
        out[:] = 0.0  # found


@kd.kernel
def own_rows(y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = y[i:].sum()


@kd.kernel
def of_one_thread(y, out):
    i = kd.grid(1)
    if i == 0:
        out[0] = y.argmax()


FOUND = [center, product, part, clear]
#: Reductions in a device function have its lines.
NOT_FOUND = [own_rows, of_one_thread]


def arguments(count: int = N) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(count), np.zeros(count)


def line_of(kernel: Any) -> int:
    code = kernel.__wrapped__.__code__
    with open(__file__, encoding="utf-8") as source:
        lines = source.readlines()
    return next(n for n in range(code.co_firstlineno, len(lines)) if "# found" in lines[n - 1])


def findings(kernel: Any, count: int = N) -> list[Any]:
    found = kernel.explain(*arguments(count), forall=count).findings
    return [each for each in found if each.kind == "whole array"]


@pytest.mark.parametrize("kernel", FOUND, ids=lambda kernel: kernel.__name__)
def test_explain_says_where_and_what_to_do(kernel: Any) -> None:
    (finding,) = findings(kernel)
    assert (finding.where.filename, finding.where.lineno) == (__file__, line_of(kernel))
    assert finding.number == N * N
    assert f"{N:,} threads" in finding.what
    assert f"{N:,} elements" in finding.what
    wanted = "own element" if kernel is clear else "Compute it once"
    assert wanted in finding.remedy


@pytest.mark.parametrize("kernel", FOUND, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("launch", ["forall", "grid"])
def test_plans_note_it(kernel: Any, launch: str) -> None:
    with kd.use("cpu"):
        start = kernel.forall(N) if launch == "forall" else kernel[N // 64, 64]
        (note,) = (each for each in start.plan(*arguments()).notes if "Each of" in each)
    assert f"{__file__}:{line_of(kernel)}" in note


def test_reductions_of_device_functions_have_their_lines() -> None:
    texts = {each.where.line[each.where.col_offset :].split(")")[0] for each in findings(scale)}
    assert texts == {"np.max(values", "values.min("}


@pytest.mark.parametrize("kernel", NOT_FOUND, ids=lambda kernel: kernel.__name__)
def test_what_is_not_done_by_all_threads_over_all_elements_is_not_told_of(kernel: Any) -> None:
    assert findings(kernel) == []


def test_little_work_is_not_told_of() -> None:
    assert findings(center, 64) == []
    with kd.use("cpu"):
        assert center.forall(64).plan(*arguments(64)).notes == ()
