"""Kernels of ``tiles.py``: each at most fifteen lines, for a GPU and a CPU alike."""

from __future__ import annotations

import math

import kerneldsl as kd

__all__ = ["NORM_BLOCKS", "SOFTMAX_BLOCKS", "layer_norm", "softmax", "ternary_product"]


#: Width of a row to the threads that hold it, the best that were found on an H200.
SOFTMAX_BLOCKS = {1024: 128, 2048: 256, 4096: 256, 8192: 512, 16384: 512, 32768: 1024}
NORM_BLOCKS = {1024: 128, 2048: 256, 4096: 256, 8192: 512, 16384: 256, 32768: 1024}


@kd.kernel
def softmax(x, out, *, width):
    """Normalize the exponentials of each row, (rows, width) float32; a block holds a row."""
    row = kd.blockIdx.x
    v = kd.tile.load(x[row], 0, width, other=-math.inf)
    e = math.exp(v - v.max())
    kd.tile.store(out[row], 0, e * (kd.float32(1) / e.sum()))


@kd.func
def _affine(v, i, scale, weight, bias):
    return v * scale * weight[i] + bias[i]


@kd.kernel
def layer_norm(x, weight, bias, out, eps, *, width):
    """Give each row mean 0 and variance 1, then scale and shift it; (rows, width) float32."""
    row = kd.blockIdx.x
    v = kd.tile.load(x[row], 0, width)
    d = v - v.mean()
    scale = kd.float32(1) / math.sqrt((d * d).mean() + eps)
    kd.tile.store(out[row], 0, d, _affine, scale, weight, bias)


@kd.kernel
def ternary_product(w, a, a_sum, scale, y):
    """Multiply ternary weights with int8 numbers: y = scale * (W @ a), a warp for each row.

    `w` is uint32 (rows, columns / 16): two bits a weight, 0, 1, 2 for -1, 0, 1, of which
    ``4 * g + b`` begins at bit ``8 * b + 2 * g`` of a word. `a` is int32 (columns / 4,), four
    numbers each; `a_sum` is their sum.
    """
    lane, row = kd.threadIdx.x % 32, kd.grid(1) // 32
    if row < w.shape[0]:
        dot = kd.int32(0)
        for j in range(lane, w.shape[1], 32):
            for g in range(4):
                codes = kd.uint32(w[row, j] >> kd.uint32(2 * g) & kd.uint32(0x03030303))
                dot = kd.dot4(codes, a[4 * j + g], dot)
        dot = kd.warp.sum(dot)
        if lane == 0:
            y[row] = scale * kd.float32(dot - a_sum)
