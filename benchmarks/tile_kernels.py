"""Kernels of ``tiles.py``: each at most fifteen lines, for a GPU and a CPU alike."""

from __future__ import annotations

import math

import numpy as np

import kerneldsl as kd

__all__ = [
    "NORM_BLOCKS",
    "SCAN_BLOCK",
    "SOFTMAX_BLOCKS",
    "SORT_BLOCK",
    "TERNARY_BLOCKS",
    "cumulative_sum",
    "layer_norm",
    "segment_sort",
    "softmax",
    "ternary_product",
]


#: Width of a row to the threads that hold it, the best that were found on an H200.
SOFTMAX_BLOCKS = {1024: 32, 2048: 32, 4096: 64, 8192: 512, 16384: 512, 32768: 1024}
#: The same, and whether weights are loaded before the row is reduced, which takes registers.
NORM_BLOCKS = {
    1024: (128, True),
    2048: (256, True),
    4096: (64, True),
    8192: (256, True),
    16384: (256, False),
    32768: (1024, False),
}
#: Threads of a block of the scan, and elements of its part.
SCAN_BLOCK = (256, 16384)
#: Rows of ternary weights to the rows that a warp multiplies, and the threads of a block.
TERNARY_BLOCKS = {4096: (1, 256), 16384: (2, 128)}
#: Threads of a block that sorts 4096 elements.
SORT_BLOCK = 256
_CODES = np.uint32(0x03030303)


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
def layer_norm(x, weight, bias, out, eps, *, width, early):
    """Give each row mean 0 and variance 1, then scale and shift it; (rows, width) float32."""
    row = kd.blockIdx.x
    v = kd.tile.load(x[row], 0, width)
    d = v - v.mean()
    scale = kd.float32(1) / math.sqrt((d * d).mean() + eps)
    if early:
        w = kd.tile.load(weight, 0, width)
        kd.tile.store(out[row], 0, d * scale * w + kd.tile.load(bias, 0, width))
    else:
        kd.tile.store(out[row], 0, d, _affine, scale, weight, bias)


@kd.kernel
def cumulative_sum(x, out, state, *, part):
    """Add up to each element, (n,) float32; a block looks back for the sum of earlier parts.

    Later blocks have its own sum while it adds up its elements.
    """
    number = kd.chain.next(state)
    v = kd.tile.load(x, number * part, part)
    total = v.sum()
    kd.chain.publish(state, number, total)
    sums = v.cumsum()
    before = kd.chain.before(state, number, total)
    kd.tile.store(out, number * part, sums + before)


@kd.kernel
def segment_sort(x, out, *, width):
    """Sort each row, (rows, width); a block holds a row."""
    row = kd.blockIdx.x
    kd.tile.store(out[row], 0, kd.tile.load(x[row], 0, width).sort())


@kd.kernel
def ternary_product(w, a, a_sum, scale, y, *, words, rows):
    """Multiply ternary weights with int8 numbers: y = scale * (W @ a), a warp for some rows.

    `a` is int32 (4, words), four numbers each, and `a_sum` their sum. `w` is uint32 (n, words),
    a multiple of 128 words: two bits a weight, 0, 1, 2 for -1, 0, 1. Word ``[row, j]`` has from bit
    ``8 * b + 2 * g`` on the weight of byte `b` of ``a[g, j]``. Codes stay where they are in their
    bytes, so that the sums of `g` are 4 to the `g` times too large until the end.
    """
    lane, row = kd.threadIdx.x % 32, kd.grid(1) // 32 * rows
    weights, numbers = kd.view(w, kd.uint32x4), kd.view(a, kd.int32x4)
    sums = kd.local.array((rows, 4), kd.int32x4)
    for i in range(4 * rows):
        sums[i // 4, i % 4] = kd.int32x4(0, 0, 0, 0)
    for j in range(lane, words // 4, 32):
        for r in range(rows):
            v = kd.load(weights, (row + r, j), "streaming")
            for g in range(4):
                codes = v & (_CODES << kd.uint32(2 * g))
                sums[r, g] = kd.dot4(codes, numbers[g, j], sums[r, g])
    for r in range(rows):
        part = sums[r, 0] + (sums[r, 1] >> 2) + (sums[r, 2] >> 4) + (sums[r, 3] >> 6)
        total = kd.warp.sum(part.x + part.y + part.z + part.w)
        if lane == 0:
            y[row + r] = scale * kd.float32(total - a_sum)
