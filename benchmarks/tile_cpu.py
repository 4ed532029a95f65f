"""The cases of ``tiles.py`` on a CPU, against NumPy and Numba's ``prange`` as people write it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
import tile_kernels as ours
from contest import Bound, Case, Prepared
from numba import prange

__all__ = ["cases"]

WIDTHS = (1024, 4096, 32768)
_ELEMENTS = 1 << 24
_SEGMENT = 4096
#: Threads of a block, which decide here how many elements are added side by side, and no more.
_BLOCK = 64
_EPS = np.float32(1e-5)
_BOUNDS = (Bound("NumPy", 1.5), Bound("prange", 0.9))


def cases() -> Iterator[Case]:
    """Return the cases."""
    for width in WIDTHS:
        yield Case(f"softmax {width}", lambda w=width: _softmax(w), _BOUNDS)
    for width in WIDTHS:
        yield Case(f"layer norm {width}", lambda w=width: _layer_norm(w), _BOUNDS)
    yield Case("cumulative sum 2^24", lambda: _cumulative_sum(_ELEMENTS), _BOUNDS)
    for dtype in (np.float32, np.int32):
        name = f"sort of 4096 {np.dtype(dtype)}"
        yield Case(name, lambda d=dtype: _segment_sort(1 << 22, d), _BOUNDS)
    yield Case("ternary 4096 x 4096", lambda: _ternary(4096, 4096), _BOUNDS)


def _error_to(reference: Any) -> Callable[[Any], float]:
    scale = np.abs(reference).max()
    return lambda result: float(np.abs(np.asarray(result, np.float64) - reference).max() / scale)


# -- rows -----------------------------------------------------------------------------------------


def _softmax(width: int) -> Prepared:
    rows = _ELEMENTS // width
    x = np.random.default_rng().standard_normal((rows, width), np.float32)
    out = {name: np.full_like(x, np.nan) for name in ("ours", "NumPy", "prange")}
    launch = ours.softmax.member(width=width)[rows, _BLOCK]

    def by_numpy() -> None:
        e = np.exp(x - x.max(1, keepdims=True), out=out["NumPy"])
        e /= e.sum(1, keepdims=True)

    wide = np.exp(x.astype(np.float64))
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: launch(x, out["ours"]),
        "NumPy": by_numpy,
        "prange": lambda: _softmax_prange(x, out["prange"]),
    }
    error = _error_to(wide / wide.sum(1, keepdims=True))
    return Prepared(launches, out, error, 2e-6, 2 * x.nbytes, count=1)


def _layer_norm(width: int) -> Prepared:
    rows = _ELEMENTS // width
    rng = np.random.default_rng()
    x = rng.standard_normal((rows, width), np.float32) * np.float32(2) + np.float32(1)
    weight, bias = (rng.standard_normal(width, np.float32) for _ in range(2))
    out = {name: np.full_like(x, np.nan) for name in ("ours", "NumPy", "prange")}
    launch = ours.layer_norm.member(width=width, early=False)[rows, _BLOCK]

    def by_numpy() -> None:
        d = np.subtract(x, x.mean(1, keepdims=True), out=out["NumPy"])
        scale = 1 / np.sqrt((d * d).mean(1, keepdims=True) + _EPS)
        d *= scale
        d *= weight
        d += bias

    wide = x.astype(np.float64)
    wide -= wide.mean(1, keepdims=True)
    reference = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + float(_EPS)) * weight + bias
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: launch(x, weight, bias, out["ours"], _EPS),
        "NumPy": by_numpy,
        "prange": lambda: _layer_norm_prange(x, weight, bias, out["prange"], _EPS),
    }
    return Prepared(launches, out, _error_to(reference), 2e-5, 2 * x.nbytes, count=1)


# -- scans and sorts ------------------------------------------------------------------------------


def _cumulative_sum(n: int) -> Prepared:
    x = np.random.default_rng().standard_normal(n, np.float32)
    out = {name: np.full_like(x, np.nan) for name in ("ours", "NumPy", "prange")}
    block, part = ours.SCAN_BLOCK
    state = np.zeros(6 * (n // part), np.uint64)
    launch = ours.cumulative_sum.member(part=part)[n // part, block]
    sums = np.empty(n // part, np.float32)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: launch(x, out["ours"], state),
        "NumPy": lambda: np.cumsum(x, out=out["NumPy"]),
        "prange": lambda: _cumulative_sum_prange(x, out["prange"], sums),
    }
    # NumPy adds one element after the other, so that its error grows with their number.
    error = _error_to(np.cumsum(x, dtype=np.float64))
    return Prepared(launches, out, error, 1e-2, 2 * x.nbytes, count=1)


def _segment_sort(n: int, dtype: Any) -> Prepared:
    x = np.random.default_rng().standard_normal((n // _SEGMENT, _SEGMENT), np.float32)
    if dtype is np.int32:
        x = (x * np.float32(1 << 28)).astype(dtype)
    out = {name: np.full_like(x, -1) for name in ("ours", "prange")}
    launch = ours.segment_sort.member(width=_SEGMENT)[len(x), _BLOCK]
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: launch(x, out["ours"]),
        "NumPy": lambda: np.sort(x, 1),
        "prange": lambda: _segment_sort_prange(x, out["prange"]),
    }
    return Prepared(launches, out, _error_to(np.sort(x, 1).astype(np.float64)), 0.0, 0, count=1)


# -- ternary weights ------------------------------------------------------------------------------


def _ternary(rows: int, columns: int) -> Prepared:
    rng = np.random.default_rng()
    dense = rng.integers(-1, 2, (rows, columns), np.int8)
    a = rng.integers(-127, 128, columns, np.int8)
    codes = (dense + 1).astype(np.uint8).reshape(rows, 4, columns // 16, 4)
    shifts = np.array([0, 2, 4, 6], np.uint8)
    packed = (codes << shifts[:, None, None]).sum(1, dtype=np.uint8)
    words = np.ascontiguousarray(packed).reshape(rows, columns // 4).view(np.uint32)
    a_sum, scale = np.int32(a.sum(dtype=np.int32)), np.float32(0.25)
    out = {name: np.full(rows, np.nan, np.float32) for name in ("ours", "NumPy", "prange")}
    launch = ours.ternary_product.member(words=columns // 16, rows=1)[rows // 4, 128]
    quads = a.view(np.int32).reshape(4, -1)
    real, real_a = dense.astype(np.float32), a.astype(np.float32)

    def by_numpy() -> None:
        np.matmul(real, real_a, out=out["NumPy"])
        out["NumPy"] *= scale

    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: launch(words, quads, a_sum, scale, out["ours"]),
        "NumPy, float32": by_numpy,
        "prange": lambda: _ternary_prange(words, a, a_sum, scale, out["prange"]),
    }
    out["NumPy, float32"] = out["NumPy"]
    error = _error_to((dense.astype(np.float64) @ a.astype(np.float64)) * 0.25)
    return Prepared(launches, out, error, 1e-6, 0, count=4)


# -- what an experienced user of Numba writes -----------------------------------------------------


@numba.njit(parallel=True, fastmath=True)
def _softmax_prange(x, out):
    for i in prange(x.shape[0]):
        top = np.float32(-np.inf)
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            out[i, j] = math.exp(x[i, j] - top)
            total += out[i, j]
        factor = np.float32(1) / total
        for j in range(x.shape[1]):
            out[i, j] *= factor


@numba.njit(parallel=True, fastmath=True)
def _layer_norm_prange(x, weight, bias, out, eps):
    for i in prange(x.shape[0]):
        mean = np.float32(0)
        for j in range(x.shape[1]):
            mean += x[i, j]
        mean /= np.float32(x.shape[1])
        variance = np.float32(0)
        for j in range(x.shape[1]):
            d = x[i, j] - mean
            variance += d * d
        scale = np.float32(1) / np.sqrt(variance / np.float32(x.shape[1]) + eps)
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * scale * weight[j] + bias[j]


@numba.njit(parallel=True)
def _cumulative_sum_prange(x, out, sums):
    size = x.size // sums.size
    for p in prange(sums.size):
        total = np.float32(0)
        for i in range(p * size, (p + 1) * size):
            total += x[i]
            out[i] = total
        sums[p] = total
    before = np.float32(0)
    for p in range(sums.size):
        before, sums[p] = before + sums[p], before
    for p in prange(sums.size):
        for i in range(p * size, (p + 1) * size):
            out[i] += sums[p]


@numba.njit(parallel=True)
def _segment_sort_prange(x, out):
    for i in prange(x.shape[0]):
        out[i] = np.sort(x[i])


@numba.njit(parallel=True)
def _ternary_prange(words, a, a_sum, scale, y):
    for i in prange(words.shape[0]):
        dot = np.int32(0)
        for g in range(4):
            for b in range(4):
                for j in range(words.shape[1]):
                    code = np.int32(words[i, j] >> np.uint32(8 * b + 2 * g) & np.uint32(3))
                    dot += code * np.int32(a[4 * (g * words.shape[1] + j) + b])
        y[i] = scale * np.float32(dot - a_sum)
