"""Functions that passes are shown on."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd

TILE = 16
LEVELS = 256


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


def count_levels(pixels, counts, chunk):
    """Add the histogram of each block's chunk to `counts`: ``(uint8[n], int64[256], chunk)``."""
    block_counts = kd.shared.array(LEVELS, kd.int32)
    t = kd.threadIdx.x
    block_counts[t] = 0
    kd.syncthreads()
    first = kd.blockIdx.x * chunk
    last = min(first + chunk, pixels.size)
    for row in range(first, last, LEVELS):
        if row + t < last:
            kd.atomic.add(block_counts, pixels[row + t], 1)
    kd.syncthreads()
    kd.atomic.add(counts, t, block_counts[t])


def equalizing_table(counts, table):
    """Make the table of new grey values: ``(int64[256], uint8[256])``, one block of 256.

    The cumulative histogram is stretched so that the darkest level that occurs becomes 0 and the
    brightest 255.
    """
    below = kd.shared.array(LEVELS, kd.int64)
    first = kd.shared.array(1, kd.int64)
    t = kd.threadIdx.x
    below[t] = counts[t]
    if t == 0:
        first[0] = LEVELS
    kd.syncthreads()
    if counts[t] > 0:
        kd.atomic.min(first, 0, t)
    distance = 1
    while distance < LEVELS:
        added = kd.int64(0)
        if t >= distance:
            added = below[t - distance]
        kd.syncthreads()
        below[t] += added
        kd.syncthreads()
        distance *= 2
    darkest = counts[first[0]]
    rest = below[LEVELS - 1] - darkest
    value = t
    if rest > 0:
        value = (max(below[t] - darkest, 0) * (LEVELS - 1) + rest // 2) // rest
    table[t] = value
