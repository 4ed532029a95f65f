"""Limits of integers of sizes, indices and constants."""

# ruff: noqa: F841 -- kernels are looked at, and not run

from __future__ import annotations

import ast

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.analysis.integer_limits import IntegerLimits
from tests.support.python_kernels import unit_of

_SIZE = 2**60


def _limits(function, arrays=("x", "out")):
    unit = unit_of(function)
    limits = IntegerLimits(unit, arrays)
    return {
        target.id: limits.of(target)
        for node in ast.walk(unit.tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }, limits.factored_variables()


def test_sizes_indices_and_what_is_made_of_them() -> None:
    def kernel(x, out, n):
        t, grid, size = kd.threadIdx.x, kd.grid(1), x.size
        rows = x.shape[0]
        stride = kd.gridDim.x * kd.blockDim.x
        half = kd.blockDim.x // 2
        before = t - 1
        masked = t & 31
        lane = (t - 40) % 32
        width = kd.warpsize << 2
        shifted = grid >> 3
        out[t] = size + rows + n

    found, _ = _limits(kernel)
    pairs = {"t": (0, 1023), "grid": (0, _SIZE), "size": (0, _SIZE)}
    assert {**found, **pairs} == {
        **pairs,
        "rows": (0, _SIZE),
        "stride": (1, 2**41),
        "half": (0, 512),
        "before": (-1, 1022),
        "masked": (0, 31),
        "lane": (0, 31),
        "width": (128, 128),
        "shifted": (0, _SIZE >> 3),
    }


def test_nothing_is_known_of_others() -> None:
    def kernel(x, out, n):
        t = kd.threadIdx.x
        a = n
        b = x[0]
        c = t * 0.5
        d = x.size * x.size
        e = out.ndim
        f = np.int32(3)
        g = t // n
        h = t % -3
        x = out
        k = x.size
        for m in range(4):
            q = m
        y, z = t, t
        out[0] = a + b + c + d + e + f + g + h + k + q + y + z

    found, _ = _limits(kernel)
    assert {name for name, limits in found.items() if limits is not None} == {"t"}


def test_variables_that_change_by_a_factor() -> None:
    def kernel(x, out):
        t = kd.threadIdx.x
        step = kd.blockDim.x // 2
        while step > 0:
            out[t] += x[t + step]
            step //= 2
        width = 1
        while width <= kd.blockDim.x:
            part = width // 2
            while part > 0:
                out[t ^ part] += 1
                part >>= 1
            width = width * 4
        reach = 1
        while reach < 32:
            reach <<= 1

    assert _limits(kernel)[1] == {
        "step": (0, 512),
        "part": (0, 2048),
        "width": (0, 4096),
        "reach": (0, 62),
    }


def updated_twice(x, out):
    v = 1
    while v < 32:
        v *= 2
        v *= 3


def updated_in_a_loop_within(x, out):
    v = 1
    while v < 32:
        for _ in range(9):
            v *= 2


def updated_elsewhere(x, out):
    v = 1
    while v < 32:
        v += 1
    v *= 2


def without_a_guard(x, out):
    v = 1
    for _ in range(9):
        v *= 2


def with_the_guard_of_another(x, out):
    v = 1
    w = 1
    while w < 32:
        v *= 2
        w += 1


def guarded_by_an_argument(x, out, n):
    v = 1
    while v < n:
        v *= 2


def guarded_by_what_is_not_equal(x, out):
    v = 3
    while v != 32:
        v *= 2


def below_zero(x, out):
    v = kd.threadIdx.x - 5
    while v < 32:
        v *= 2


def by_a_negative_factor(x, out):
    v = 1
    while v < 32:
        v *= -2


def by_itself(x, out):
    v = 1
    while v < 32:
        v *= v


def halved_of_an_argument(x, out, n):
    v = n
    while v > 0:
        v //= 2


def an_argument(x, out, v):
    while v < 32:
        v *= 2


def of_two_targets(x, out):
    v = w = 1
    while v < 32:
        v *= 2


def of_a_pair(x, out):
    v, w = 1, 1
    while v < 32:
        v *= 2


def exchanged(x, out):
    v = 1
    w = 2
    while v < 32:
        v *= 2
    v, w = w, v


def given_an_element(x, out):
    v = 1
    while v < 32:
        v *= 2
    v = x[0]


@pytest.mark.parametrize(
    "function",
    [
        updated_twice,
        updated_in_a_loop_within,
        updated_elsewhere,
        without_a_guard,
        with_the_guard_of_another,
        guarded_by_an_argument,
        guarded_by_what_is_not_equal,
        below_zero,
        by_a_negative_factor,
        by_itself,
        halved_of_an_argument,
        an_argument,
        of_two_targets,
        of_a_pair,
        exchanged,
        given_an_element,
    ],
)
def test_variables_without_limits(function) -> None:
    assert _limits(function)[1] == {}
