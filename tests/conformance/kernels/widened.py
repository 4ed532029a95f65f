"""Exchanges of a variable that a loop behind its first value makes wider than that value is."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("widened")
CASES = _list.cases


@kd.kernel
def reduces(x, out):
    t = kd.threadIdx.x
    total = np.int32(0)
    if t % 3 != 1:
        for k in range(3):
            total += x[t] * (k - 1) - 5
    out[t, 0] = kd.block.sum(total)
    out[t, 1] = kd.block.max(total)
    out[t, 2] = kd.warp.sum(total)
    out[t, 3] = kd.warp.min(total)


@kd.kernel
def scans(x, out):
    t = kd.threadIdx.x
    total = np.int32(0)
    if t % 3 != 1:
        for k in range(3):
            total += x[t] * (k - 1) - 5
    out[t, 0] = kd.block.exclusive_scan(total)
    out[t, 1] = kd.block.inclusive_scan(total)
    out[t, 2] = kd.warp.exclusive_scan(total)
    out[t, 3] = kd.warp.inclusive_scan(total)


@kd.kernel
def moves(x, out):
    t = kd.threadIdx.x
    total = np.int32(0)
    if t % 3 != 1:
        for k in range(3):
            total += x[t] * (k - 1) - 5
    out[t, 0] = kd.block.broadcast(total, 3)
    out[t, 1] = kd.warp.exchange(total, t % 32 // 2)
    out[t, 2] = kd.warp.broadcast(total, 0)
    out[t, 3] = kd.block.sort(total)


def _values(dtype):
    def make(rng):
        return random_array(rng, 96, dtype), poisoned((96, 4), dtype)

    return make


for _kernel in (reduces, scans, moves):
    for _dtype in ("int64", "float64"):
        _list.add(f"{_kernel.__name__}_{_dtype}", _kernel, _values(_dtype), grid=(1,), block=(96,))
