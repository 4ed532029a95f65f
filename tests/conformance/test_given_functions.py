"""Functions in a kernel that are arguments, results of NumPy in arrays, and texts of numbers."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.arrays import poisoned


@kd.func
def apply(f, *args):
    return f(*args)


@kd.func
def both(f, g, x):
    return 10 * f(x) + g(x)


@kd.func
def through(f, x):
    return apply(f, x) - apply(f, x, 1)


def test_functions_are_arguments_of_functions(computing):
    scale = 10

    @kd.kernel
    def kernel(out, n):
        shift = scale

        def inner(a, b=3):
            return 2 * a + b + shift

        def outer(h, z):
            return h(z) * 2

        out[0] = apply(inner, 1)
        out[1] = apply(inner, 1, n)
        out[2] = apply(lambda: 7)
        out[3] = outer(inner, n)
        out[4] = through(inner, 5)
        out[5] = both(lambda x: x + 1, lambda x: x + 2, n)
        out[6] = both(lambda x: x * x, lambda x: x - 2, n) + both(inner, inner, n)

    out = poisoned(7, np.float64)
    n = 100
    kernel[1, 1](out, n)

    def inner(a, b=3):
        return 2 * a + b + scale

    expected = [inner(1), inner(1, n), 7, 2 * inner(n), inner(5) - inner(5, 1), 10 * 101 + 102]
    expected += [10 * n * n + n - 2 + 11 * inner(n)]
    assert out.tolist() == expected


def test_what_such_a_function_reads_is_constant(on):
    @kd.kernel
    def kernel(out, n):
        size = n + 1

        def inner(a):
            return a + size

        out[0] = apply(inner, 1)

    with pytest.raises(kd.UnsupportedConstructError, match=r"reads size.*not a constant"):
        kernel[1, 1](np.zeros(1), 3)


def test_a_text_of_a_number(computing):
    @kd.kernel
    def kernel(out):
        out[0], out[1], out[2] = float("nan"), -float("inf"), float(" 1e3")

    out = poisoned(3, np.float64)
    kernel[1, 1](out)
    np.testing.assert_array_equal(out, [np.nan, -np.inf, 1000])


def test_a_text_that_is_no_number(on):
    @kd.kernel
    def kernel(out):
        out[0] = float("ten")

    with pytest.raises(kd.UnsupportedConstructError, match="'ten' is not a number"):
        kernel[1, 1](np.zeros(1))


@pytest.mark.parametrize("function", [np.maximum, np.minimum, np.fmax, np.fmin, np.add])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.uint64, np.float32])
def test_an_array_for_the_result_of_a_ufunc(computing, function, dtype, rng):
    @kd.kernel
    def arrays(x, y, out):
        function(x, y, out)

    @kd.kernel
    def numbers(x, y, out):
        function(x[0], y[0], out)

    x, y = (rng.integers(0, 100, 5).astype(dtype) for _ in range(2))
    out, one = poisoned(5, dtype), poisoned(1, dtype)
    arrays[1, 1](x, y, out)
    numbers[1, 1](x, y, one)
    assert out.tolist() == function(x, y).tolist()
    assert one[0] == out[0]
