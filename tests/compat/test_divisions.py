"""Divisions by zero in debug mode, which end a thread as numba.cuda does."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl import cuda
from tests.support.targets import require


@pytest.fixture(autouse=True, params=["cpu", "cuda"])
def target(request):
    if request.param != "cpu":
        require(request.param)
    with kd.use(request.param):
        yield


def quotient(out, x, y):
    out[0] = y[0] / x[0]
    out[1] = 1


def whole(out, x, y):
    out[0] = y[0] // x[0]
    out[1] = 1


def rest(out, x, y):
    z = y[0]
    z %= x[0]
    out[0] = z
    out[1] = 1


CASES = pytest.mark.parametrize("kernel", [quotient, whole, rest])
KINDS = pytest.mark.parametrize("kind", [np.float32, np.int32, np.uint64])


def run(kernel, kind, x, **options):
    out = np.full(2, -7.0)
    cuda.jit(opt=False, **options)(kernel)[1, 1](out, np.array([x], kind), np.array([9], kind))
    return out


@CASES
@KINDS
def test_the_thread_ends(kernel, kind):
    out = np.full(2, -7.0)
    checked = cuda.jit(debug=True, opt=False)(kernel)
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        checked[1, 1](out, np.zeros(1, kind), np.ones(1, kind))
    assert out.tolist() == [-7, -7]


@CASES
@KINDS
def test_other_divisors(kernel, kind, rng):
    x = int(rng.integers(1, 9))
    out = run(kernel, kind, x, debug=True)
    expected = {quotient: kind(9) / kind(x), whole: 9 // x, rest: 9 % x}[kernel]
    assert out.tolist() == [float(expected), 1]


@pytest.mark.parametrize("options", [{}, {"debug": True, "fastmath": True}])
def test_nothing_is_checked_without_debug_mode_or_with_fastmath(options):
    assert run(quotient, np.float32, 0, **options)[1] == 1
