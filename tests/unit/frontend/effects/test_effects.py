"""Which array parameters are written."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numba import njit

import kerneldsl as kd
from kerneldsl.frontend.effects.effects import written_parameters
from kerneldsl.frontend.normalize import make_unit


class Func:
    def __init__(self, function: Any) -> None:
        self.__kerneldsl_function__ = function


def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


def through_views(a, b, c, flag):
    row = a[kd.threadIdx.x]
    which = b if flag else c
    row[0] = 1.0
    which[1] += a[1, 2]


def elements(x, n):
    total = x[0]
    for i in range(n):
        total += x[i]
    x0, x1 = x[0], x[1]
    x0 += x1
    x1 -= 1


def unpacks(pair, x):
    p, q = pair
    p[0] = q[0]
    s, t = x, p
    s[0] = t.shape[0]


@Func
def store(target, value):
    target[0] = value


@Func
def pick(array, i):
    return array[i]


@njit
def add_into(target, source):
    for i in range(source.size):
        target[i] += source[i]


def calls(a, b, c, d):
    store(a, b[0])
    pick(c, 1)[2] = 0
    add_into(d, a)


def atomics(a, b, old):
    old[0] = kd.atomic.add(a, 0, b[0])


def reads_only(x, y, out):
    m = math.sqrt(y) + len(x) + x.shape[0]
    out[0] = np.float32(m) + np.sum(x) + max(y, 1.0)


def iterates(x, out):
    for v in x:
        out[0] = v


def in_place_row(a):
    row = a[0]
    row += 1.0
    a[0, 1] = row[0]


def methods(a, b, c):
    a.fill(0)
    b.reshape(2, 3)[0, 0] = c.sum()


def shared_only(n):
    tile = kd.shared.array(16, np.float32)
    tile[0] = n
    tile[1] += tile[0]


@pytest.mark.parametrize(
    ("function", "written"),
    [
        (axpy, {3}),
        (through_views, {0, 1, 2}),
        (elements, set()),
        (unpacks, {0, 1}),
        (calls, {0, 2, 3}),
        (atomics, {0, 2}),
        (reads_only, {2}),
        (iterates, {1}),
        (in_place_row, {0}),
        (methods, {0, 1}),
        (shared_only, set()),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_writes(function: Any, written: set[int]) -> None:
    assert written_parameters(make_unit(function)) == written


def results_in_parts(a, b, c, d, e, x):
    i = kd.grid(1)
    np.maximum(x[i], x[0], a[i])
    np.add(x[i], x[1], b[0, i : i + 1])
    row = c[i]
    np.negative(x[2], row)
    np.clip(x[i], 0, 1, d[i])
    np.exp(x[i], out=e[i])


def test_arrays_for_results_are_written_whatever_they_are_parts_of() -> None:
    assert written_parameters(make_unit(results_in_parts)) == {0, 1, 2, 3, 4}
