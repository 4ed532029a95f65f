"""Functions, dtypes, intrinsics, the grid's group and shapes as arguments of device functions."""

from __future__ import annotations

import math
import types

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


@kd.func
def array(x, i):
    return 2 * x[i]


@kd.func
def tiles(n, m):
    return n * m


@kd.func
def calls_namesakes(x, n):
    return array(x, n) + tiles(n, n)


@kd.kernel
def namesakes(x, n):
    x[0] = calls_namesakes(x, n)


def test_functions_with_the_names_of_calls_that_need_constants():
    x = np.arange(4.0)
    namesakes[1, 1](x, 3)
    assert x[0] == 15


helpers = types.ModuleType("helpers")


@kd.func
def holding(x, count=3, dtype=kd.float32, *, function=twice):
    held = kd.local.array(count, dtype)
    held[count - 1] = x[0]
    return function(held[count - 1]) + held.size


vars(helpers)["holding"] = holding


@kd.func
def calls_in_module(x, n):
    return helpers.holding(x, n)


@kd.kernel
def defaults(x):
    x[1] = holding(x) + holding(x, 2) + holding(x, function=thrice)


@kd.kernel
def of_module(x):
    x[1] = calls_in_module(x, 5)


def test_defaults_are_constants_where_constants_are_needed():
    x = np.ones(2)
    defaults[1, 1](x)
    assert x[1] == (2 + 3) + (2 + 2) + (3 + 3)


def test_shapes_of_functions_of_a_module():
    x = np.ones(2)
    of_module[1, 1](x)
    assert x[1] == 2 + 5


@kd.kernel
def unknown_keyword(x):
    x[0] = apply(twice, x=x[0], y=1)


@kd.kernel
def given_twice(x):
    x[0] = apply(twice, x[0], f=thrice)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (unknown_keyword, r"apply has no parameter 'y'. Call it as apply\(f, x\)"),
        (given_twice, r"apply: 'f' is given twice. Call it as apply\(f, x\)"),
    ],
)
def test_arguments_that_do_not_fit(kernel, message: str) -> None:
    with pytest.raises(kd.UnsupportedConstructError, match=message):
        kernel[1, 1](np.zeros(1))
