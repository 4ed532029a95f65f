"""Functions that passes are shown on."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd

TILE = 16


class Func:
    """Stands for a ``@kd.func`` object."""

    def __init__(self, function: Any) -> None:
        self.__kerneldsl_function__ = function


@Func
def clamp(value, low, high=1.0):
    return min(max(value, low), high)


def stencil(a, out):
    i, j = kd.grid(2)
    if i == 0 or j == 0 or i >= a.shape[0] - 1 or j >= a.shape[1] - 1:
        return
    total = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]
    out[i, j] = clamp(total * 0.25, 0.0)


def reduce(x, out):
    tile = kd.shared.array(TILE, np.float32)
    t = kd.threadIdx.x
    tile[t] = x[kd.grid(1)]
    kd.syncthreads()
    step = TILE // 2
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]
        kd.syncthreads()
        step //= 2
    if t == 0:
        kd.atomic.add(out, kd.blockIdx.x, tile[0])


def exceptions(x, n, out):
    i = kd.grid(1)
    assert n > 0, "n is positive"
    if n > 100:
        raise ValueError(f"n is {n}")
    if i >= out.size:
        raise IndexError
    elif out[i] < 0:
        assert out[i] > -1
    else:
        out[i] = x[n - 1]
    while out[i] > 1:
        assert n < 50


def tuples(a, pos):
    here = kd.grid(2)
    row = a[here[0]]
    row[pos[0]] = a[here]
    a[1:, pos[1]] = a[..., 2]
    kd.atomic.max(a, (pos[0], here[1]), a[here])
