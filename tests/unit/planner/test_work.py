"""The axis along x is the one along which more bytes lie side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import NO_PROMISES, ArrayPromises, Promises
from kerneldsl.language.signatures import parse_signature
from kerneldsl.planner.work import Oriented, element_work, orient
from tests.support.counting import counted


def scale(x, out):
    i, j = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] * 2


def scale_turned(x, out):
    i, j = kd.grid(2)
    out[j, i] = x[j, i] * 2


def transpose(x, out):
    i, j = kd.grid(2)
    out[j, i] = x[i, j]


def shift(x, out):
    i, j, k = kd.grid(3)
    out[i, j, k] = x[i, j, k] + 1


def around(x, out):
    i, j = kd.grid(2)
    n, m = x.shape
    if i < n and j < m:
        up = i - 1 if i > 0 else n - 1
        right = 0 if j == m - 1 else j + 1
        out[i, j] = x[up, j] + x[i, right]


def around_in_branches(x, out):
    i, j = kd.grid(2)
    n, m = x.shape
    if i < n and j < m:
        up, right = n - 1, j
        if i > 0:
            up = i - 1
        if j < m - 1:
            right = j + 1
        out[i, j] = x[up, j] + x[i, right]


def up_to_the_end(x, out):
    i, j = kd.grid(2)
    n, m = x.shape
    if i < n and j < m:
        out[i, j] = x[max(0, i - 1), j] + x[i, min(m - 1, j + 1)]


def inner(x, out):
    i, j = kd.grid(2)
    n, m = x.shape
    if 0 < i < n and j < m - 1:
        out[i, j] = x[i - 1, j] + x[i, j + 1]


def looked_up(x, out):
    i, j = kd.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        out[i, j] = x[i, j if j > 0 else int(x[i, 0])]


_ROWS = "f4[:, ::1], f4[:, ::1]"


def _orient(
    kernel: Callable[..., Any], signature: str, promises: Promises = NO_PROMISES
) -> Oriented:
    work = counted(kernel, signature)
    bodies = [work.body(x_is_last=is_last) for is_last in (True, False)]
    return orient(bodies[0], bodies[1], parse_signature(signature), promises)


@pytest.mark.parametrize(
    ("kernel", "signature", "is_first"),
    [
        (scale, "f4[:, ::1], f4[:, ::1]", False),
        (scale, "f4[::1, :], f4[::1, :]", True),
        (scale, "f4[:, ::1], f8[::1, :]", True),
        (scale, "f8[:, ::1], f4[::1, :]", False),
        (scale, "f4[:, ::1], f4[::1, :]", False),
        (scale_turned, "f4[:, ::1], f4[:, ::1]", True),
        (scale_turned, "f4[::1, :], f4[::1, :]", False),
        (transpose, "f4[:, ::1], f4[:, ::1]", False),
        (transpose, "f4[::1, :], f4[:, ::1]", True),
        (shift, "f4[:, :, ::1], f4[:, :, ::1]", False),
        (shift, "f4[::1, :, :], f4[::1, :, :]", True),
    ],
)
def test_x_runs_where_the_bytes_are(
    kernel: Callable[..., Any], signature: str, is_first: bool
) -> None:
    found = _orient(kernel, signature)
    assert found.is_first == is_first
    patterns = [access.pattern for access in found.body.accesses]
    assert "contiguous" in patterns
    if len({str(kind).partition("[")[2] for kind in parse_signature(signature)}) == 1:
        assert (set(patterns) == {"contiguous"}) == (kernel is not transpose)


def test_views_with_a_contiguous_first_axis_count_as_well() -> None:
    promises = Promises((ArrayPromises(unit_axis=0), ArrayPromises(unit_axis=0)))
    assert _orient(scale, "f4[:, :], f4[:, :]", promises).is_first
    assert not _orient(scale, "f4[:, :], f4[:, :]").is_first


@pytest.mark.parametrize("order", ["C", "F"])
def test_plans_follow_the_order_of_the_arrays(order: Any) -> None:
    kernel = kd.kernel(scale)
    with kd.use("null:0"):
        x, out = (kd.empty((1024, 2048), np.float32, order=order) for _ in range(2))
        plan = kernel.forall(*x.shape).plan(x, out)
        assert plan.mapping.axes == (None if order == "C" else (0, 1))
        assert plan.mapping.item_count > 1
        kernel.forall(*x.shape)(x, out)


def test_fortran_order_is_planned_as_its_transpose() -> None:
    kernel = kd.kernel(scale)
    with kd.use("null:0"):
        plans = []
        for order, shape in (("C", (1000, 3000)), ("F", (3000, 1000))):
            x, out = (kd.empty(shape, np.float32, order=order) for _ in range(2))
            plans.append(kernel.forall(*shape).plan(x, out))
    assert plans[0].grid_dim == plans[1].grid_dim
    assert plans[0].block_dim == plans[1].block_dim
    assert plans[0].mapping.items == plans[1].mapping.items


@pytest.mark.parametrize("kernel", [around, around_in_branches, up_to_the_end])
def test_ends_are_few(kernel: Callable[..., Any]) -> None:
    """What an index is at the ends of an array does not make its accesses scattered."""
    kinds = parse_signature(_ROWS)
    found, plain = (element_work(counted(each, _ROWS).body(), kinds) for each in (kernel, inner))
    for name in ("read_bytes", "written_bytes", "scattered_bytes", "load_bytes", "loads", "arrays"):
        if name != "arrays" or kernel is not around_in_branches:  # there j or j + 1 is read
            assert getattr(found, name) == getattr(plain, name), name


def test_what_memory_says_is_scattered() -> None:
    work = element_work(counted(looked_up, _ROWS).body(), parse_signature(_ROWS))
    assert work.scattered_bytes > 0
