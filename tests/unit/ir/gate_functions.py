"""The four kernels of the gate."""

from __future__ import annotations

import math

import numpy as np

import kerneldsl as kd

FULL = 0xFFFFFFFF
BLOCK = 256


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def tree(x, out):
    tile = kd.shared.array(BLOCK, kd.float32)
    t = kd.threadIdx.x
    i = kd.grid(1)
    tile[t] = x[i] if i < x.size else kd.float32(0)
    kd.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if t < width:
            tile[t] += tile[t + width]
        kd.syncthreads()
        width //= 2
    if t == 0:
        out[kd.blockIdx.x] = tile[0]


@kd.kernel
def shuffle(x, out):
    partial = kd.shared.array(32, np.float32)
    i = kd.grid(1)
    lane, warp = kd.threadIdx.x % 32, kd.threadIdx.x // 32
    value = x[i] if i < x.size else np.float32(0)
    for offset in (16, 8, 4, 2, 1):
        value += kd.shfl_down_sync(FULL, value, offset)
    if lane == 0:
        partial[warp] = value
    kd.syncthreads()
    if warp == 0:
        value = partial[lane] if lane < kd.blockDim.x // 32 else np.float32(0)
        for offset in (16, 8, 4, 2, 1):
            value += kd.shfl_down_sync(FULL, value, offset)
        if lane == 0:
            out[kd.blockIdx.x] = value


@kd.kernel
def softmax(x, out):
    row = kd.blockIdx.x
    v = kd.tile.load(x[row], 0, 512, other=-math.inf)
    e = math.exp(v - v.max())
    kd.tile.store(out[row], 0, e / e.sum())
