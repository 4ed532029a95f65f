"""A float that is given to range is refused, where its type is certain."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl import KernelTypingError

HALF = 2.5


@kd.func
def repeated(x, n):
    total = 0.0
    for _ in range(n):
        total += x
    return total


def constant(x, out):
    for i in range(2.7):
        out[i] = x[i]


def captured(x, out):
    for i in range(1, HALF):
        out[i] = x[i]


def divided(x, out):
    for i in range(x.size / 2):
        out[i] = x[i]


def element(x, out):
    n = x[0]
    for i in range(0, 4, n):
        out[i] = x[i]


def elsewhere(x, out):
    out[0] = repeated(x[0], x[1])


@pytest.mark.parametrize(
    ("function", "told", "remedy"),
    [
        (constant, "constant gives 2.7, a float64, to range", "Write int(2.7)."),
        (captured, "captured gives HALF, a float64, to range", "Write int(HALF)."),
        (divided, "x.size / 2, a float64", "Write int(x.size / 2), or x.size // 2."),
        (element, "element gives n, a float32, to range", "Write int(n)."),
        (elsewhere, "repeated gives n, a float32, to range", "Write int(n)."),
    ],
)
@pytest.mark.parametrize("target", ["cpu", "null"])
def test_refusals(target, function, told, remedy):
    x, out = np.ones(8, np.float32), np.zeros(8)
    with kd.use(target), pytest.raises(KernelTypingError) as caught:
        kd.kernel(function)[1, 1](x, out)
    message = str(caught.value)
    assert told in message
    assert remedy in message
    assert "range takes integers, as in Python" in message
    assert "test_float_ranges.py:" in message


def test_integers_of_every_kind_are_taken() -> None:
    @kd.kernel
    def counts(x, n, out):
        for i in range(n[0]):
            for j in range(int(x[0]), x.size // 2, True):
                out[0] += i
                out[0] += j

    n, out = np.array([3], np.uint8), np.zeros(1)
    with kd.use("cpu"):
        counts[1, 1](np.zeros(4, np.float32), n, out)
    assert out[0] == sum(i + j for i in range(3) for j in range(2))
