"""Tiles whose elements are sorted, of one axis and along the last of two."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.language.element_types import ELEMENT_TYPES
from tests.support.arrays import HOST_DTYPES, poisoned
from tests.support.cases import CaseList
from tests.support.tiles import TILE_BLOCKS, places_in_order, sort_row, special_values

_LIST = CaseList("tile_sorts")
CASES = _LIST.cases


@cache
def _sorting(width: int) -> Any:
    @kd.kernel
    def sorting(x, y):
        for row in range(kd.blockIdx.x, x.shape[0], kd.gridDim.x):
            kd.tile.store(y[row], 0, kd.tile.load(x[row], 0, width).sort())

    return sorting


def _rows(rng: np.random.Generator, count: int, dtype: str) -> np.ndarray:
    """Rows with special values, with many equal elements, of zeros and NaN, of extremes."""
    rows = np.stack([special_values(rng, count, dtype) for _ in range(4)])
    rows[1] = rows[1][rng.integers(0, min(count, 5), count)]
    row = ELEMENT_TYPES[dtype]
    if row.is_float:
        some = np.array([np.nan, -0.0, 0.0, -np.nan], np.float32).astype(dtype)
        rows[2] = some[rng.integers(0, 4, count)]
    else:
        rows[2] = np.array(row.integer_range, dtype)[rng.integers(0, 2, count)]
    rows[3] = np.sort(rows[3])[::-1]
    return rows


def _add_sort(dtype: str, width: int, block: int) -> None:
    _LIST.add(
        f"{dtype}.{width}.{block}",
        _sorting(width),
        lambda rng: (_rows(rng, width, dtype), poisoned((4, width), dtype)),
        grid=(3,),
        block=(block,),
        expected=lambda x, y: {1: np.stack([sort_row(row) for row in x])},
    )


for _dtype in HOST_DTYPES:
    if ELEMENT_TYPES[_dtype].is_float or ELEMENT_TYPES[_dtype].is_integer:
        _add_sort(_dtype, 300, 64)
        _add_sort(_dtype, 512, 32)
for _block in TILE_BLOCKS:
    for _width in sorted({1, 2, 5, 16, 17, 100, 1000, 2048, 16 * _block}):
        _add_sort("float32", _width, _block)
    _add_sort("int64", 4096, _block)
_add_sort("float32", 4096, 1024)
_add_sort("int32", 4096, 256)
_add_sort("int32", 2048, 256)


@cache
def _sorting_rows(shape: tuple[int, int]) -> Any:
    @kd.kernel
    def sorting_rows(x, y):
        t = kd.tile.load(x, (0, 0), shape)
        t = (t - t.min(axis=0)).sort()
        kd.tile.store(y, (0, 0), t)

    return sorting_rows


for _shape in ((5, 70), (40, 6), (3, 256), (64, 1), (33, 32)):
    for _block in (*TILE_BLOCKS, 32):
        _LIST.add(
            f"rows.{_shape[0]}x{_shape[1]}.{_block}",
            _sorting_rows(_shape),
            lambda rng, shape=_shape: (
                rng.integers(-50, 50, shape).astype(np.float32),
                poisoned(shape, np.float32),
            ),
            block=(_block,),
            expected=lambda x, y: {1: np.sort(x - x.min(0))},
        )


@cache
def _pairing(width: int) -> Any:
    @kd.kernel
    def pairing(x, v, keys, values, places):
        for row in range(kd.blockIdx.x, x.shape[0], kd.gridDim.x):
            t = kd.tile.load(x[row], 0, width)
            order = t.argsort()
            kd.tile.store(places[row], 0, order)
            kd.tile.store(keys[row], 0, t.take(order))
            kd.tile.store(values[row], 0, kd.tile.load(v[row], 0, width).take(order))

    return pairing


def _paired(
    x: np.ndarray, v: np.ndarray, keys: np.ndarray, values: np.ndarray, places: np.ndarray
) -> dict[int, np.ndarray]:
    order = np.stack([places_in_order(row) for row in x])
    return {
        2: np.take_along_axis(x, order, -1),
        3: np.take_along_axis(v, order, -1),
        4: order,
    }


def _add_pairs(dtype: str, width: int, block: int) -> None:
    _LIST.add(
        f"pairs.{dtype}.{width}.{block}",
        _pairing(width),
        lambda rng: (
            _rows(rng, width, dtype),
            rng.integers(-99, 99, (4, width)).astype(np.int16),
            poisoned((4, width), dtype),
            poisoned((4, width), np.int16),
            poisoned((4, width), np.int64),
        ),
        grid=(3,),
        block=(block,),
        expected=_paired,
    )


for _dtype in HOST_DTYPES:
    if ELEMENT_TYPES[_dtype].is_float or ELEMENT_TYPES[_dtype].is_integer:
        _add_pairs(_dtype, 257, 64)
for _block in TILE_BLOCKS:
    for _width in (1, 2, 17, 48, 49, 512, 2048):
        _add_pairs("float32", _width, _block)
    for _width in (1, 5, 256, 1000):
        _add_pairs("int64", _width, _block)


@cache
def _taking(shape: tuple[int, int], count: int) -> Any:
    @kd.kernel
    def taking(x, wanted, y, z):
        t = kd.tile.load(x, (0, 0), shape)
        p = kd.tile.load(wanted, (0, 0), (shape[0], count))
        kd.tile.store(y, (0, 0), (t * 2).take(p - 1) + p)
        t = t.take(t.argsort())
        kd.tile.store(z, (0, 0), t)

    return taking


def _taken(
    x: np.ndarray, wanted: np.ndarray, y: np.ndarray, z: np.ndarray
) -> dict[int, np.ndarray]:
    near = np.clip(wanted.astype(np.int64) - 1, 0, x.shape[1] - 1)
    order = np.argsort(x, -1, kind="stable")
    return {
        2: np.take_along_axis(x * 2, near, -1) + wanted,
        3: np.take_along_axis(x, order, -1),
    }


for _shape, _count in (((5, 70), 9), ((40, 6), 6), ((3, 256), 300), ((1, 33), 1), ((64, 1), 2)):
    for _block in (*TILE_BLOCKS, 32):
        for _dtype in ("int32", "float64"):
            _LIST.add(
                f"take.{_shape[0]}x{_shape[1]}.{_count}.{_dtype}.{_block}",
                _taking(_shape, _count),
                lambda rng, shape=_shape, count=_count, dtype=_dtype: (
                    rng.integers(-9, 9, shape).astype(dtype),
                    rng.integers(-5, shape[1] + 5, (shape[0], count)),
                    poisoned((shape[0], count), np.result_type(dtype, np.int64)),
                    poisoned(shape, dtype),
                ),
                block=(_block,),
                expected=_taken,
            )
