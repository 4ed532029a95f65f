"""Variables that are halved and doubled within a block have 32 bits in PTX, and the same values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from targets.cuda.compile.compiler import compile_kernel
from tests.ptx.helpers import body_of, compile_ptx, specialize
from tests.support.simulated_grid import SimulatedGrid


def halved(x, out):
    t = kd.threadIdx.x
    step = kd.blockDim.x // 2
    while step > 0:
        if t < step:
            x[t] += x[t + step]
        kd.syncthreads()
        step //= 2
    out[0] = x[0]


def doubled(x, out):
    t = kd.threadIdx.x
    span = 2
    while span <= kd.blockDim.x:
        step = span // 2
        while step > 0:
            other = t ^ step
            if other > t and (t & span) == 0:
                x[other] = x[t]
            kd.syncthreads()
            step //= 2
        span *= 2


@pytest.mark.parametrize("function", [halved, doubled])
def test_they_have_32_bits(function: Callable[..., Any]) -> None:
    body = body_of(compile_ptx(function, "float32[::1], float32[::1]"))
    assert re.search(r"shr\.u32\s+(%r\d+), \1, 1;", body)
    assert not re.search(r"shr\.[us]64", body)
    assert not re.search(r"setp\.\w+\.[usb]64", body)


def distances(x, out):
    i = kd.grid(1)
    t = kd.threadIdx.x
    total = i
    step = kd.blockDim.x // 2
    while step > 0:
        total = total * 7 + (t ^ step) - step + (t - step) // 3
        step //= 2
    total = total * 7 + step
    width = 1
    while width <= kd.blockDim.x:
        part = width >> 1
        while part > 0:
            total = total * 5 - part * width + max(part, t)
            part >>= 1
        width = width * 4
    reach = 3
    while reach < x.size % 100:
        total = total + reach * reach
        reach <<= 2
    out[i] = total * 11 + (width - reach) // 2


def _in_python(x_size: int, t: int, block: int, i: int) -> int:
    total, step = i, block // 2
    while step > 0:
        total = total * 7 + (t ^ step) - step + (t - step) // 3
        step //= 2
    total, width = total * 7 + step, 1
    while width <= block:
        part = width >> 1
        while part > 0:
            total = total * 5 - part * width + max(part, t)
            part >>= 1
        width = width * 4
    reach = 3
    while reach < x_size % 100:
        total = total + reach * reach
        reach <<= 2
    return (total * 11 + (width - reach) // 2 + 2**63) % 2**64 - 2**63


def test_values_are_pythons() -> None:
    grid = SimulatedGrid(
        compile_kernel(specialize(distances, "int8[::1], int64[::1]"), arch="sm_90")
    )
    for block, size in ((1, 0), (2, 5), (31, 64), (64, 99), (1000, 150), (1024, 1)):
        out = np.zeros(2 * block, np.int64)
        x = np.zeros(size, np.int8)
        grid.run((2, 1, 1), (block, 1, 1), [x.ctypes.data, size, out.ctypes.data, out.size])
        expected = [_in_python(size, i % block, block, i) for i in range(2 * block)]
        assert out.tolist() == expected
