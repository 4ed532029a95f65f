"""``else`` after a loop runs unless ``break`` has left the loop, as in Python."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

import kerneldsl as kd
from kerneldsl.frontend.normalize import make_unit


def find(x, v):
    for i in range(x.size):
        if x[i] == v:
            found = i
            break
    else:
        found = -1
    return found


def pairs(x, v):
    count = 0
    for i in range(x.size):
        j = i
        while j < x.size:
            j += 1
            if x[i] + x[j - 1] == v:
                break
            if x[j - 1] > v:
                continue
            count += 1
        else:
            count += 100
            if count > 350:
                break
    else:
        return count + 10_000
    return count


@pytest.mark.parametrize("search", [find, pairs])
@pytest.mark.parametrize("decorate", [kd.func, njit, lambda function: function])
def test_functions(search, decorate) -> None:
    search_in_kernel = decorate(search)

    @kd.kernel
    def kernel(x, values, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = search_in_kernel(x, values[i])

    rng = np.random.default_rng()
    x, values = rng.integers(0, 12, 7), np.arange(-2, 26)
    out = np.full(values.size, -77)
    with kd.use("cpu"):
        kernel.forall(out.size)(x, values, out)
    assert out.tolist() == [search(x, v) for v in values]


def test_a_loop_without_break_has_no_flag() -> None:
    def kernel(x):
        for i in range(3):
            x[i] = 1
        else:
            x[0] = 2

    assert [type(each).__name__ for each in make_unit(kernel).tree.body] == ["For", "Assign"]


def test_a_value_that_only_break_gives_is_refused() -> None:
    @kd.func
    def of_break(x):
        for i in range(3):
            if x[i] > 1:
                return x[i]
        else:
            pass

    @kd.kernel
    def kernel(x, out):
        out[0] = of_break(x)

    with kd.use("cpu"), pytest.raises(kd.errors.KernelError, match="of_break"):
        kernel[1, 1](np.ones(3), np.ones(1))
