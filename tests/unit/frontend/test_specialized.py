"""Functions, dtypes, intrinsics, the grid's group and shapes as arguments of device functions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.frontend.specialized import static_parameters


def twice(x):
    return 2 * x


def thrice(x):
    return 3 * x


def apply(f, x):
    return f(x)


def apply_twice(f, x):
    return apply(f, apply(f, x))


def add_by(operation, array, value):
    operation(array, 0, value)


def reversed_by(x, n, dtype):
    held = kd.shared.array(n, dtype)
    i = kd.threadIdx.x
    held[i] = x[i]
    kd.syncthreads()
    return held[n - 1 - i]


def passed_on(x, count, dtype):
    return reversed_by(x, count, dtype)


def converted(dtype, x):
    return dtype(x)


def exchange(group, a, b):
    i = kd.grid(1)
    b[i] = a[(i + 1) % a.size]
    group.sync()
    a[i] = b[i]


@kd.kernel
def functions(x):
    i = kd.grid(1)
    x[i] = apply(twice, x[i]) + apply(thrice, x[i]) + apply_twice(f=twice, x=x[i])


@kd.kernel
def library_functions(x):
    i = kd.grid(1)
    x[i] = apply(math.sqrt, x[i]) + apply(np.negative, x[i])


@kd.kernel
def intrinsics(x):
    add_by(kd.atomic.add, x, 1.0)


@kd.kernel
def shapes(x):
    n = 8
    x[kd.threadIdx.x] = passed_on(x, n, kd.float64)


@kd.kernel
def dtypes(x):
    x[0] = converted(np.int32, x[0])
    x[1] = converted(np.float32, x[1])


@kd.kernel
def groups(a, b):
    g = kd.grid_group()
    exchange(g, a, b)
    g.sync()
    exchange(kd.grid_group(), a, b)


@kd.kernel
def varying(x, n):
    x[0] = passed_on(x, n, kd.float64)


@pytest.fixture(autouse=True)
def cpu():
    with kd.use("cpu"):
        yield


@pytest.mark.parametrize(
    ("kernel", "given", "expected"),
    [
        (functions, [1.0, 2.0], [9.0, 18.0]),
        (library_functions, [4.0, 9.0], [-2.0, -6.0]),
        (intrinsics, [0.0, 0.0], [2.0, 0.0]),
        (shapes, range(8), range(7, -1, -1)),
        (dtypes, [1.5, 0.1], [1.0, float(np.float32(0.1))]),
    ],
)
def test_values(kernel, given, expected):
    x = np.array(given, np.float64)
    kernel[1, x.size](x)
    assert x.tolist() == list(expected)


def test_the_group_of_the_grid():
    a, b = np.arange(8.0), np.zeros(8)
    groups[2, 4](a, b)
    assert a.tolist() == [2, 3, 4, 5, 6, 7, 0, 1]


def test_a_global_that_changes():
    global twice
    x, before = np.ones(1), twice
    functions[1, 1](x)
    try:
        twice = thrice
        y = np.ones(1)
        functions[1, 1](y)
    finally:
        twice = before
    assert (x[0], y[0]) == (9, 15)


def test_a_shape_that_is_not_constant():
    with pytest.raises(kd.UnsupportedConstructError, match=r"n, which is not a constant"):
        varying[1, 1](np.zeros(1), 1)


def holds(x, count, dtype):
    held = kd.local.array(shape=(count, 2), dtype=dtype)
    held[0, 0] = x[0]
    return held[0, 0]


def of_holds(x, n):
    twice = 2 * n
    return holds(x, twice, kd.float32)


def tiles_of(c, rows):
    for place in kd.tiles(c.shape, (rows, 16)):
        kd.tile.store(c, place, kd.tile.zeros((16, 16), kd.float32))


def test_what_must_be_constant() -> None:
    assert static_parameters(holds) == {"count", "dtype"}
    assert static_parameters(of_holds) == {"n"}


def test_extents_of_arrays_need_not_be_constant() -> None:
    assert static_parameters(tiles_of) == {"rows"}
