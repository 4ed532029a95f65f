"""Loops over tuples, pairs, counted values and rows; unpacking."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("loops")
CASES = _list.cases

WEIGHTS = (3, -5, 7)
PAIRS = ((1, 20), (-3, 4), (5, -6))
STEPS = np.array([2, 9, 4, 1], np.int64)
STEPS.setflags(write=False)


def _rows(rng):
    return rng.integers(-50, 50, (41, 5)), poisoned(41, np.int64)


def _case(function):
    """Add an element kernel of signature (x, out), x with five columns, under its own name."""
    _list.add(function.__name__, function, _rows, extent=(41,))
    return function


@_case
@kd.kernel
def over_tuples(x, out):
    i = kd.grid(1)
    total = 0
    for v in (1, x[i, 0], i):
        if v < 0:
            continue
        total = total * 3 + v
    for w in WEIGHTS:
        total += w * x[i, 1]
        if total > 1000:
            break
    out[i] = total


@_case
@kd.kernel
def over_pairs(x, out):
    i = kd.grid(1)
    total = 0
    for a, b in PAIRS:
        total += a * x[i, 0] - b
    for a, (b, c) in ((1, (2, 3)), (i, (5, x[i, 2]))):
        total = 2 * total + a * b - c
    out[i] = total


@_case
@kd.kernel
def counted(x, out):
    i = kd.grid(1)
    total = 0
    for k, v in enumerate(x[i]):
        total += (k + 1) * v
    for k, w in enumerate(WEIGHTS, 2):
        total += k * w
    for k, n in enumerate(range(i % 4)):
        total += 100 * k - n
    out[i] = total


@_case
@kd.kernel
def together(x, out):
    i = kd.grid(1)
    total = 0
    for v, w in zip(x[i], WEIGHTS):  # noqa: B905 - the shorter ends it
        total += v * w
    for k, v, w in zip(range(10), x[i], x[(i + 1) % x.shape[0]]):  # noqa: B905
        total += k * v - w
    out[i] = total


@_case
@kd.kernel
def over_rows_and_constants(x, out):
    i = kd.grid(1)
    total = 0
    for v in x[i]:
        total = total * 2 + v
    for n in STEPS:
        total += n * i
    for v in x[i, 1:4]:
        total -= v
    out[i] = total


@_case
@kd.kernel
def unpacked(x, out):
    i = kd.grid(1)
    a, b, c, d, e = x[i]
    (a, b), c = (b, a), c + i
    first, (second, third) = PAIRS[0], PAIRS[1]
    out[i] = a + 10 * b + 100 * c + 1000 * d + 10000 * e + first[1] + second - third


@_case
@kd.kernel
def constant_array(x, out):
    steps = kd.const.array_like(STEPS)
    i = kd.grid(1)
    out[i] = steps[i % 4] * x[i, 0] + kd.const.array_like(STEPS)[1] + steps.size


@_case
@kd.kernel
def else_after_loops(x, out):
    i = kd.grid(1)
    total, n = 0, 0
    for v in x[i]:
        for w in WEIGHTS:
            if v % w == 2:
                break
            if v < 0:
                continue
            total += w
        else:
            total += 1000
            if total > 2500:
                break
    else:
        total = -total
    while n < x[i, 0] % 7:
        n += 1
        if n == x[i, 1] % 7:
            break
    else:
        n += 100
    for _ in range(2):
        total += n
    else:
        total *= 2
    out[i] = total
