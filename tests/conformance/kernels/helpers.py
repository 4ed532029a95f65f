"""Plain Python functions, lambdas and functions in functions, which kernels call."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList, integers_into

__all__ = ["CASES"]

_list = CaseList("helpers")
CASES = _list.cases

BIAS = 11
FULL = 0xFFFFFFFF


def scaled(x, factor=3, *, bias=BIAS):
    """A plain function, with parameters of each kind."""
    return x * factor + bias


def first(a, b, /):
    return a if a > b else b


def outer(x):
    return scaled(x, bias=2) - first(x, 5)


def store(array, i, value):
    array[i] = value


def here():
    return kd.blockIdx.x * kd.blockDim.x + kd.threadIdx.x


def block_sum(value, scratch):
    """A plain function with barriers."""
    t = kd.threadIdx.x
    scratch[t] = value
    kd.syncthreads()
    step = kd.blockDim.x // 2
    while step > 0:
        if t < step:
            scratch[t] += scratch[t + step]
        kd.syncthreads()
        step //= 2
    return scratch[0]


class Tools:
    """Holds a function."""

    @staticmethod
    def negative(x):
        return -x


doubled = lambda x: x * 2
plus, minus = lambda x, y=7: x + y, lambda x, y=7: x - y
apart = (
    lambda x:
        x * 5
        + BIAS
)  # fmt: skip


@kd.kernel
def plain_functions(x, out):
    i = kd.grid(1)
    value = outer(x[i]) + scaled(bias=i, x=x[i]) + Tools.negative(first(x[i], 0))
    store(out, i, value)


_list.add("plain_functions", plain_functions, integers_into(67), extent=(67,))


@kd.kernel
def captured_lambdas(x, out):
    i = kd.grid(1)
    out[i] = doubled(x[i]) + plus(x[i]) * 100 + minus(x[i], 3) * 10000 + apart(i)


_list.add("captured_lambdas", captured_lambdas, integers_into(67), extent=(67,))


@kd.kernel
def lambdas_see_variables(x, out):
    i = kd.grid(1)
    k = 3
    times_k = lambda v: v * k
    shifted = lambda v, by=k: times_k(v) + by + BIAS
    k = x[i] % 5
    out[i] = times_k(x[i]) + 1000 * shifted(i) + shifted(i, by=2)


_list.add("lambdas_see_variables", lambdas_see_variables, integers_into(67), extent=(67,))


@kd.kernel
def functions_in_functions(x, out):
    i = kd.grid(1)
    offset = 2

    def total(n, *, step=1):
        value = 0
        inner = lambda j: x[(i + j) % x.size] + offset
        for j in range(0, n, step):
            if inner(j) < 0:
                continue
            value += inner(j)
        return value

    def put(value):
        out[i] = value

    offset += i % 3
    put(total(5) - total(6, step=2))


_list.add("functions_in_functions", functions_in_functions, integers_into(67), extent=(67,))


@kd.kernel
def barriers_in_functions(x, out):
    scratch = kd.shared.array(64, np.int64)
    i = here()
    spread = lambda value: block_sum(value, scratch)
    total = spread(x[i] if i < x.size else 0)
    if i < out.size:
        out[i] = total


def _two_blocks(rng):
    return rng.integers(-99, 99, 101), poisoned(101, np.int64)


_list.add("barriers_in_functions", barriers_in_functions, _two_blocks, grid=(2,), block=(64,))


@kd.func
def with_keywords(x, *, low=-10, high):
    return min(max(x, low), high)


@kd.kernel
def keyword_only_parameters(x, out):
    i = kd.grid(1)
    out[i] = with_keywords(x[i], high=i) + with_keywords(high=9, low=0, x=x[i])


_list.add("keyword_only_parameters", keyword_only_parameters, integers_into(67), extent=(67,))


def _over(function):
    @kd.kernel
    def applied(x, out):
        i = kd.grid(1)
        out[i] = function(x[i])

    return applied


_list.add("closure_of_a_lambda", _over(lambda x: x * x - BIAS), integers_into(67), extent=(67,))
