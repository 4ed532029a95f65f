"""Tiles whose elements are sorted, of one axis and along the last of two."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.language.element_types import ELEMENT_TYPES
from tests.support.arrays import HOST_DTYPES, poisoned
from tests.support.cases import CaseList
from tests.support.tiles import TILE_BLOCKS, sort_row, special_values

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
