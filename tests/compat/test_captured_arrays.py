"""Device arrays from outside a kernel: they are parameters that no launch names."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl import cuda


@pytest.fixture(autouse=True)
def cpu():
    with kd.use("cpu"):
        yield


@pytest.fixture
def values():
    """Return whole numbers, whose sums and products are exact, all of them different."""
    return np.random.default_rng().permutation(np.arange(1.0, 1000.0))[:37]


class Foreign:
    """An array of another library."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def test_kernel_functions_and_local_functions_read_it(values):
    table, other = cuda.to_device(values), cuda.to_device(values[::-1].copy())

    @cuda.jit(device=True)
    def at(i):
        return table[i] - other[i]

    @cuda.jit(device=True)
    def twice(i):
        return 2 * at(i)

    @cuda.jit
    def kernel(out):
        def of_table(j):
            return table[j] * out.size

        i = cuda.grid(1)
        if i < out.size:
            out[i] = twice(i) + of_table(i) + other[i]

    out = np.full(values.size, np.nan)
    kernel[2, 32](out)
    expected = 2 * (values - values[::-1]) + values * values.size + values[::-1]
    np.testing.assert_array_equal(out, expected)


def test_it_is_written(values):
    table = cuda.to_device(values)

    @cuda.jit
    def negate():
        i = cuda.grid(1)
        if i < table.size:
            table[i] = -table[i]

    negate[2, 32]()
    np.testing.assert_array_equal(table.copy_to_host(), -values)


def test_the_same_array_as_an_argument(values):
    table = cuda.to_device(values)

    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = 1.0
            x[i] += table[i]

    kernel[2, 32](table)
    np.testing.assert_array_equal(table.copy_to_host(), np.full(values.size, 2.0))


def test_with_forall_and_a_signature(values):
    table = cuda.to_device(values)

    @cuda.jit("void(float64[:], float64)")
    def scale(out, factor):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = factor * table[i]

    out = np.full(values.size, np.nan)
    scale.forall(values.size)(out, 3.0)
    np.testing.assert_array_equal(out, 3 * values)


def test_numba_keeps_the_first_one(values):
    table = cuda.to_device(values)

    @cuda.jit
    def kernel(out):
        out[cuda.grid(1)] = table[cuda.grid(1)]

    out = np.full(values.size, np.nan)
    kernel[1, values.size](out)
    table = cuda.to_device(-values)
    kernel[1, values.size](out)
    np.testing.assert_array_equal(out, values)


def test_of_another_library(values):
    table = Foreign(cuda.to_device(values))

    @cuda.jit(device=True)
    def at(i):
        return table[i]

    @cuda.jit
    def kernel(out):
        out[cuda.grid(1)] = at(cuda.grid(1))

    out = np.full(values.size, np.nan)
    kernel[1, values.size](out)
    np.testing.assert_array_equal(out, values)
