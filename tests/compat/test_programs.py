"""What kernels of numba.cuda's programs may contain, on both targets."""

from __future__ import annotations

import numpy as np
import pytest
from numba import errors

import kerneldsl as kd
from kerneldsl import cuda
from tests.compat.extending_cases import target  # noqa: F401

pytestmark = pytest.mark.usefixtures("target")


@cuda.jit
def moved(x, y, rounds):
    i = cuda.grid(1)
    if i >= len(x):
        return
    grid = cuda.cg.this_grid()
    for _ in range(rounds):
        y[i] = x[(i + 1) % len(x)]
        grid.sync()
        x[i] = y[i]
        grid.sync()


@cuda.jit
def summed(x, y):
    i = cuda.grid(1)
    if i < len(x):
        y[i] = x[i]
        cuda.cg.this_grid().sync()
        y[i] = y[i] + x[len(x) - 1 - i]


class TestBarriersOfTheGrid:
    """Threads beyond the edge of an array have returned, and are not waited for."""

    @pytest.mark.parametrize(("size", "block"), [(100, 32), (1, 64), (129, 64)])
    def test_after_a_return(self, size, block, rng):
        values = rng.integers(0, 1 << 40, size)
        x, y = values.copy(), np.full(size, -1)
        moved[-(-size // block), block](x, y, 3)
        assert x.tolist() == y.tolist() == np.roll(values, -3).tolist()

    @pytest.mark.parametrize("size", [100, 97])
    def test_in_a_guard_around_the_rest(self, size, rng):
        x, y = rng.integers(0, 1 << 40, size), np.full(size, -1)
        summed[4, 32](x, y)
        assert y.tolist() == (x + x[::-1]).tolist()

    def test_kernels_of_kerneldsl_keep_their_rule(self):
        with pytest.raises(kd.BarrierDivergenceError, match="barrier of the grid"):
            kd.kernel(moved.py_func)[4, 32](np.zeros(100), np.zeros(100), 1)


@cuda.jit
def partly(out, n):
    if n > 0:
        found = n
    else:
        found += 1
    out[0] = found


class TestVariablesThatNoPathAssigns:
    def test_they_are_0_and_warned_of(self):
        out = np.full(1, -9)
        with pytest.warns(errors.NumbaWarning, match="Detected uninitialized variable found"):
            cuda.jit(partly.py_func)[1, 1](out, 5)
        assert out[0] == 5
        partly[1, 1](out, 0)
        assert out[0] == 1

    def test_kernels_of_kerneldsl_refuse_them(self):
        with pytest.raises(kd.KernelTypingError, match="found is not defined here"):
            kd.kernel(partly.py_func)[1, 1](np.zeros(1), 1)
