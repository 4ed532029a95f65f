"""Operations of warps and blocks that are given functions, which come and go."""

from __future__ import annotations

import gc

import numpy as np

import kerneldsl as kd
from tests.support.source import exec_source

_SOURCE = """
import kerneldsl as kd

@kd.func
def combine(a, b):
    return a * {factor} + b

@kd.kernel
def kernel(x, out):
    i = kd.grid(1)
    out[i] = kd.block.reduce(x[i], combine)
"""


def test_functions_of_one_name_are_told_apart_when_others_are_gone() -> None:
    for factor in range(1, 7):
        kernel = exec_source(_SOURCE.format(factor=factor), f"generated{factor}")["kernel"]
        x, out = np.array([2, 5], np.int64), np.zeros(2, np.int64)
        with kd.use("cpu"):
            kernel[1, 2](x, out)
        assert out.tolist() == [2 * factor + 5] * 2
        del kernel
        gc.collect()


@kd.kernel
def after_a_return_that_all_take(x, out):
    if kd.gridDim.x > 0:
        return
    out[kd.threadIdx.x] = kd.block.sum(x[kd.threadIdx.x])


def test_nobody_may_come() -> None:
    x, out = np.ones(5), np.full(5, 7.0)
    with kd.use("cpu"):
        after_a_return_that_all_take[1, 5](x, out)
    assert out.tolist() == [7.0] * 5
