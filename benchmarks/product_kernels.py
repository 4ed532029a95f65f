"""The kernels of ``products.py``: those of ``docs/matrix-products.md``."""

from __future__ import annotations

import math
from typing import Any

import kerneldsl as kd

__all__ = [
    "attention",
    "batched",
    "fused",
    "grouped",
    "make_product",
    "product",
    "product_fast",
    "product_int",
    "product_tf32",
    "product_tuned",
]


def make_product(sums: Any = kd.float32, precision: str = "ieee", promote: Any = 128) -> Any:
    """Return a kernel of ``a @ b.T``; the arguments are constants in it."""

    @kd.kernel(space=kd.mma_space("BM", "BN", "BK", promote=promote))
    def product(a, b, c, *, BM, BN, BK):
        for m, n in kd.tiles(c.shape, (BM, BN)):
            acc = kd.tile.zeros((BM, BN), sums)
            for k in kd.pipelined(range(0, a.shape[1], BK)):
                x, y = kd.tile.load(a, (m, k), (BM, BK)), kd.tile.load(b, (n, k), (BN, BK))
                acc = kd.mma(x, y.T, acc, precision=precision, promote=promote)
            kd.tile.store(c, (m, n), acc)

    return product


product, product_int = make_product(), make_product(kd.int32)
product_tf32 = make_product(precision="tf32")
product_fast = make_product(promote=None)


@kd.kernel(space=kd.mma_space("BM", "BN", "BK"))
def product_tuned(a, b, c, *, BM, BN, BK):
    """Multiply as `product`. It is tuned, and the other one is not."""
    for m, n in kd.tiles(c.shape, (BM, BN)):
        acc = kd.tile.zeros((BM, BN), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], BK)):
            x, y = kd.tile.load(a, (m, k), (BM, BK)), kd.tile.load(b, (n, k), (BN, BK))
            acc = kd.mma(x, y.T, acc)
        kd.tile.store(c, (m, n), acc)


def gelu_of_sum(v, i, j, bias, rest, m, n):
    v += kd.float32(bias[n + j])
    half = kd.float32(0.5) * v * (kd.float32(1) + math.erf(v * kd.float32(0.70710678)))
    return half + kd.float32(rest[m + i, n + j])


@kd.kernel(space=kd.mma_space("BM", "BN", "BK"))
def fused(a, b, bias, rest, c, *, BM, BN, BK):
    for m, n in kd.tiles(c.shape, (BM, BN)):
        acc = kd.tile.zeros((BM, BN), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], BK)):
            x = kd.tile.load(a, (m, k), (BM, BK))
            acc = kd.mma(x, kd.tile.load(b, (n, k), (BN, BK)).T, acc)
        kd.tile.store(c, (m, n), acc, gelu_of_sum, bias, rest, m, n)


@kd.kernel
def grouped(a, weights, tiles, c, *, BM, BN, BK):
    """Multiply groups of rows; `tiles` has the place, the group and its end for each tile."""
    for tile in kd.tiles(tiles.shape[0], 1):
        m, n, group, end = tiles[tile, 0], tiles[tile, 1], tiles[tile, 2], tiles[tile, 3]
        acc = kd.tile.zeros((BM, BN), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], BK), stages=2):
            x = kd.tile.load(a[:end], (m, k), (BM, BK))
            acc = kd.mma(x, kd.tile.load(weights[group], (n, k), (BN, BK)).T, acc)
        kd.tile.store(c[:end], (m, n), acc)


@kd.kernel
def batched(a, b, c, *, BM, BN, BK):
    """Multiply the matrices of two stacks, with whole tiles of rows."""
    for place, n in kd.tiles((c.shape[0] * c.shape[1], c.shape[2]), (BM, BN)):
        number, m = place // c.shape[1], place % c.shape[1]
        acc = kd.tile.zeros((BM, BN), kd.float32)
        for k in kd.pipelined(range(0, a.shape[2], BK)):
            x = kd.tile.load(a[number], (m, k), (BM, BK))
            acc = kd.mma(x, kd.tile.load(b[number], (n, k), (BN, BK)).T, acc)
        kd.tile.store(c[number], (m, n), acc)


def visible(s, i, j, shift):
    return s if j <= i + shift else kd.float32(-math.inf)


@kd.kernel
def attention(q, k, v, out, scale2, *, BM, BN, D, causal):
    # Blocks with many keys come first.
    first, head = (kd.gridDim.x - 1 - kd.blockIdx.x) * BM, kd.blockIdx.y
    x = kd.tile.load(q[head], (first, 0), (BM, D))
    rows, cols = kd.tile.arange((1, BM)).T, kd.tile.arange((1, BN))
    acc = kd.tile.zeros((BM, D), kd.float32)
    top, total = kd.tile.full((BM, 1), -1e30, kd.float32), kd.tile.zeros((BM, 1), kd.float32)
    end = min(first + BM, k.shape[1]) if causal else k.shape[1]
    for j in kd.pipelined(range(0, end, BN)):
        s = kd.mma(x, kd.tile.load(k[head], (j, 0), (BN, D)).T)
        if causal and j + BN > first:
            s = s.map(visible, first + rows, j + cols, 0)
        high = max(top, s.max(axis=1) * scale2)
        p, fade = math.exp2(s * scale2 - high), math.exp2(top - high)
        total = total * fade + p.sum(axis=1)
        acc = kd.mma(p.astype(v.dtype), kd.tile.load(v[head], (j, 0), (BN, D)), acc * fade)
        top = high
    kd.tile.store(out[head], (first, 0), acc / total)
