"""Tiles: loads and stores beyond edges, elements, reductions, threads' own elements."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import numpy as np

import kerneldsl as kd
from tests.support.arrays import HOST_DTYPES, poisoned, random_array
from tests.support.cases import CaseList
from tests.support.tiles import TILE_BLOCKS, fold, fold_row, reduced, special_values

_LIST = CaseList("tiles")
CASES = _LIST.cases


# -- memory ---------------------------------------------------------------------------------------


@cache
def _copying(width: int) -> Any:
    @kd.kernel
    def copying(x, y, at, to):
        first = kd.blockIdx.x * width
        t = kd.tile.load(x, first + at, width, other=1)
        kd.tile.store(y, first + to, t)

    return copying


def _copied(width: int, blocks: int) -> Any:
    def expected(x: np.ndarray, y: np.ndarray, at: int, to: int) -> dict[int, np.ndarray]:
        for block in range(blocks):
            for i in range(width):
                source, place = block * width + at + i, block * width + to + i
                if 0 <= place < y.size:
                    y[place] = x[source] if 0 <= source < x.size else 1
        return {1: y}

    return expected


def _add_copies(dtype: str, width: int, block: int, n: int, m: int, at: int, to: int) -> None:
    blocks = -(-n // width)
    _LIST.add(
        f"copy.{dtype}.{width}.{block}.{at}",
        _copying(width),
        lambda rng: (random_array(rng, n, dtype), poisoned(m, dtype), at, to),
        grid=(blocks,),
        block=(block,),
        expected=_copied(width, blocks),
        dtype=dtype,
    )


for _dtype in HOST_DTYPES:
    _add_copies(_dtype, 256, 64, 900, 1000, 0, 0)
    _add_copies(_dtype, 130, 32, 700, 650, -3, 5)
for _block in TILE_BLOCKS:
    _add_copies("float32", 512, _block, 2048, 2048, 0, 0)
    _add_copies("float32", 400, _block, 1999, 1990, 1, -1)
    _add_copies("int8", 512, _block, 2048, 2049, 0, 1)


@kd.kernel
def _window(x, y, row, column):
    t = kd.tile.load(x, (row, column), (5, 12), other=-7)
    kd.tile.store(y, (row + 1, column - 1), t)


def _windowed(x: np.ndarray, y: np.ndarray, row: int, column: int) -> dict[int, np.ndarray]:
    for i in range(5):
        for j in range(12):
            at, to = (row + i, column + j), (row + 1 + i, column - 1 + j)
            if all(0 <= p < n for p, n in zip(to, y.shape, strict=True)):
                inside = all(0 <= p < n for p, n in zip(at, x.shape, strict=True))
                y[to] = x[at] if inside else -7
    return {1: y}


for _row, _column in ((0, 0), (-2, 20), (7, -5), (30, 0)):
    for _block in TILE_BLOCKS:
        _LIST.add(
            f"window.{_row}.{_block}",
            _window,
            lambda rng, row=_row, column=_column: (
                random_array(rng, (9, 30), "float64"),
                poisoned((10, 29), "float64"),
                row,
                column,
            ),
            block=(_block,),
            expected=_windowed,
        )


@kd.kernel
def _strided_rows(x, y):
    row = kd.blockIdx.x
    kd.tile.store(y[row], 0, kd.tile.load(x[:, row], 0, 40, dtype=kd.float32))


_LIST.add(
    "strided",
    _strided_rows,
    lambda rng: (random_array(rng, (33, 6), "int16"), poisoned((6, 37), "float32")),
    grid=(6,),
    block=(16,),
    expected=lambda x, y: {1: np.vstack([x.T.astype("f4").T, np.zeros((4, 6), "f4")]).T.copy()},
)


# -- elements -------------------------------------------------------------------------------------


@kd.func
def _clipped(v, low, high):
    if v < low:
        return low
    return high if v > high else v


@kd.func
def _with_index(v, i, table):
    return v + table[i]


@kd.kernel
def _elements(x, y, table, scale):
    first = kd.blockIdx.x * 96
    a = kd.tile.load(x, first, 96)
    b = a * scale - kd.tile.arange(96, kd.float32)
    b += kd.tile.full(96, scale)
    c = -b if scale > 1 else b
    positive = (c > kd.float32(0)) & ~(a == a + a)
    d = positive * c + kd.tile.zeros(96, kd.float32)
    d = kd.tile.astype(d, kd.float32).map(_clipped, kd.float32(-3), kd.float32(40))
    kd.tile.store(y, first, d, _with_index, table)


def _computed(x: np.ndarray, y: np.ndarray, table: np.ndarray, scale: Any) -> dict[int, Any]:
    for first in range(0, x.size, 96):
        a = np.zeros(96, np.float32)
        part = x[first : first + 96]
        a[: part.size] = part
        b = a * scale - np.arange(96, dtype=np.float32) + scale
        c = -b if scale > 1 else b
        d = (((c > 0) & ~(a == a + a)) * c).astype(np.float32) + np.float32(0)
        d = np.where(d < -3, np.float32(-3), np.where(d > 40, np.float32(40), d)) + table
        y[first : first + 96] = d[: part.size]
    return {1: y}


for _block in TILE_BLOCKS:
    for _scale in (np.float32(3), np.float32(-1)):
        _LIST.add(
            f"elements.{_block}.{int(_scale)}",
            _elements,
            lambda rng, scale=_scale: (
                rng.integers(-50, 50, 500).astype(np.float32),
                poisoned(500, np.float32),
                rng.integers(-50, 50, 96).astype(np.float32),
                scale,
            ),
            grid=(6,),
            block=(_block,),
            expected=_computed,
        )


@kd.kernel
def _own_of_block(x, y):
    i = kd.grid(1)
    t = kd.tile.of(x[i] if i < x.size else kd.int64(0))
    mean = t.sum() // kd.int64(kd.blockDim.x)
    own = (t - mean).own
    if i < y.size:
        y[i] = own


def _without_mean(block: int) -> Any:
    def expected(x: np.ndarray, y: np.ndarray) -> dict[int, np.ndarray]:
        for first in range(0, x.size, block):
            part = x[first : first + block]
            y[first : first + block] = part - part.sum() // block
        return {1: y}

    return expected


for _block in TILE_BLOCKS:
    _LIST.add(
        f"own.{_block}",
        _own_of_block,
        lambda rng: (rng.integers(-1000, 1000, 300), poisoned(300, np.int64)),
        grid=(-(-300 // _block),),
        block=(_block,),
        expected=_without_mean(_block),
    )


# -- reductions -----------------------------------------------------------------------------------


@cache
def _reducing(name: str, width: int) -> Any:
    kernels: dict[str, Any] = {}

    @kd.kernel
    def row_sum(x, y):
        for row in range(kd.blockIdx.x, x.shape[0], kd.gridDim.x):
            y[row] = kd.tile.load(x[row], 0, width).sum()

    @kd.kernel
    def row_max(x, y):
        for row in range(kd.blockIdx.x, x.shape[0], kd.gridDim.x):
            y[row] = kd.tile.load(x[row], 0, width).max()

    @kd.kernel
    def row_min(x, y):
        for row in range(kd.blockIdx.x, x.shape[0], kd.gridDim.x):
            y[row] = kd.tile.load(x[row], 0, width).min()

    @kd.kernel
    def row_mean(x, y):
        for row in range(kd.blockIdx.x, x.shape[0], kd.gridDim.x):
            y[row] = kd.tile.load(x[row], 0, width).mean()

    @kd.kernel
    def row_any(x, y):
        for row in range(kd.blockIdx.x, x.shape[0], kd.gridDim.x):
            y[row] = kd.tile.load(x[row], 0, width).any()

    @kd.kernel
    def row_all(x, y):
        for row in range(kd.blockIdx.x, x.shape[0], kd.gridDim.x):
            y[row] = kd.tile.load(x[row], 0, width).all()

    @kd.kernel
    def row_prod(x, y):
        for row in range(kd.blockIdx.x, x.shape[0], kd.gridDim.x):
            y[row] = kd.tile.load(x[row], 0, width, other=1).prod()

    kernels.update(sum=row_sum, max=row_max, min=row_min, mean=row_mean, any=row_any, all=row_all)

    @kd.kernel
    def row_argmax(x, y):
        for row in range(kd.blockIdx.x, x.shape[0], kd.gridDim.x):
            y[row] = kd.tile.load(x[row], 0, width).argmax()

    @kd.kernel
    def row_argmin(x, y):
        for row in range(kd.blockIdx.x, x.shape[0], kd.gridDim.x):
            y[row] = kd.tile.load(x[row], 0, width).argmin()

    kernels.update(prod=row_prod, argmax=row_argmax, argmin=row_argmin)
    return kernels[name]


def _add_reduction(name: str, dtype: str, width: int, block: int) -> None:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        kind = np.dtype(dtype)
        rows = np.stack([special_values(rng, width, dtype) for _ in range(5)])
        rows[4] = np.zeros(width, kind)  # all of it nothing
        if name in ("argmax", "argmin"):
            rows[1] = np.where(rows[1] == rows[1], rows[1], np.array(0, kind))  # no NaN
            rows[1, width // 2 :] = rows[1, : width - width // 2]  # each twice
        if kind.kind == "f" and name in ("max", "min", "argmax", "argmin"):
            rows[3] = np.array(np.nan, kind)
            rows[2] = np.where(np.arange(width) % 3 == 0, -0.0, 0.0).astype(kind)
        if kind.kind in "iu" and name in ("sum", "mean"):
            rows //= np.array(4, kind)
        if name == "prod":
            rows[1:3] = np.where(rng.random((2, width)) < 0.1, rows[1:3], np.array(1, kind))
            rows[3] = np.array(1, kind)
            rows[3, :: 1 + width // 5] = np.array(1.25 if kind.kind in "fc" else 3, kind)
        given = reduced(name, rows[0], block)
        return rows, poisoned(5, np.asarray(given).dtype)

    def expected(rows: np.ndarray, out: np.ndarray) -> dict[int, np.ndarray]:
        return {1: np.array([reduced(name, row, block) for row in rows], out.dtype)}

    _LIST.add(
        f"{name}.{dtype}.{width}.{block}",
        _reducing(name, width),
        make,
        grid=(2,),
        block=(block,),
        expected=expected,
        ulp=2 if name == "mean" and np.dtype(dtype).kind == "c" else 0,  # of a complex division
    )


for _dtype in HOST_DTYPES:
    _kind = np.dtype(_dtype).kind
    for _name in ("sum", "prod", "max", "min", "argmax", "argmin", "mean", "any", "all"):
        if _name in ("max", "min") and (_kind == "c" or _dtype == "bool"):
            continue
        if _name in ("argmax", "argmin") and _kind == "c":
            continue
        _add_reduction(_name, _dtype, 300, 64)
for _block in TILE_BLOCKS:
    for _width in (5, 1024, 1000):
        for _name in ("sum", "prod", "max", "argmax", "any"):
            _add_reduction(_name, "float32", _width, _block)


@kd.kernel
def _axes(x, y, columns, rows):
    t = kd.tile.load(x, (0, 0), (6, 64))
    s = t.sum(axis=0)
    r = t.max(axis=1)
    kd.tile.store(columns, (0, 0), s)
    kd.tile.store(rows, (0, 0), r)
    kd.tile.store(y, (0, 0), t - r + s.mean() + t.mean(axis=-1) + t.sum(axis=1))


def _along_axes(block: int) -> Any:
    def expected(x: Any, y: Any, columns: Any, rows: Any) -> dict[int, Any]:
        total = x[0].copy()
        for row in x[1:]:
            total += row
        sums = np.array([fold_row(row, lambda a, b: a + b) for row in x], np.float32)[:, None]
        top = x.max(1, keepdims=True)
        mean = fold(total, block, lambda a, b: a + b) / np.float32(64)
        result = x - top + mean + sums / np.float32(64) + sums
        return {1: result, 2: total[None], 3: top}

    return expected


for _block in (*TILE_BLOCKS, 32):
    _LIST.add(
        f"axes.{_block}",
        _axes,
        lambda rng: (
            rng.integers(-20, 20, (6, 64)).astype(np.float32),
            poisoned((6, 64), np.float32),
            poisoned((1, 64), np.float32),
            poisoned((6, 1), np.float32),
        ),
        block=(_block,),
        expected=_along_axes(_block),
    )


# -- kernels --------------------------------------------------------------------------------------


@kd.func
def _normalized(t):
    e = math.exp(t - t.max())
    return e / e.sum()


@kd.kernel
def _softmax(x, out):
    n = x.shape[1]
    row = kd.blockIdx.x
    if n <= 128:
        v = kd.tile.load(x[row], 0, 128, other=-math.inf)
        kd.tile.store(out[row], 0, _normalized(v))
    else:
        top, total = kd.float32(-math.inf), kd.float32(0)
        for c in range(0, n, 128):
            v = kd.tile.load(x[row], c, 128, other=-math.inf)
            high = max(top, v.max())
            total = total * math.exp(top - high) + math.exp(v - high).sum()
            top = high
        for c in range(0, n, 128):
            v = kd.tile.load(x[row], c, 128)
            kd.tile.store(out[row], c, math.exp(v - top) / total)


def _softmaxed(x: np.ndarray, out: np.ndarray) -> dict[int, np.ndarray]:
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return {1: e / e.sum(1, keepdims=True)}


for _block in TILE_BLOCKS:
    for _columns in (100, 300):
        _LIST.add(
            f"softmax.{_block}.{_columns}",
            _softmax,
            lambda rng, n=_columns: (
                random_array(rng, (3, n), "float32"),
                poisoned((3, n), "float32"),
            ),
            grid=(3,),
            block=(_block,),
            expected=_softmaxed,
            ulp=12,
        )


# -- dtypes of values -----------------------------------------------------------------------------


@kd.kernel
def _dtypes_of_values(x, out):
    dtype = out.dtype
    zeros = kd.tile.zeros((4, 8), out.dtype)
    loaded = kd.tile.load(x, (0, 0), (4, 8), dtype=zeros.dtype)
    counted = kd.tile.full((4, 8), 2.75, dtype) + kd.tile.arange((4, 8), dtype=x.dtype)
    total = zeros + loaded + kd.tile.astype(counted, dtype)
    kd.tile.store(out, (0, 0), total.astype(dtype))


def _numbers(dtype: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(0, 99, (4, 8)).astype("float32"), poisoned((4, 8), dtype)


def _of_dtypes(x: np.ndarray, out: np.ndarray) -> dict[int, np.ndarray]:
    counted = np.full((4, 8), 2.75).astype(out.dtype) + np.arange(8).astype(x.dtype)
    return {1: (x.astype(out.dtype) + counted.astype(out.dtype)).astype(out.dtype)}


for _dtype in ("float32", "float64", "int16", "uint64"):
    _LIST.add(
        f"dtypes_of_values.{_dtype}",
        _dtypes_of_values,
        partial(_numbers, _dtype),
        grid=(1,),
        block=(32,),
        expected=_of_dtypes,
    )
