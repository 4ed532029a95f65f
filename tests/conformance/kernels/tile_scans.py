"""Sums up to each element of tiles, of the whole and along an axis."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from tests.support.arrays import HOST_DTYPES, poisoned
from tests.support.cases import CaseList
from tests.support.tiles import TILE_BLOCKS, scan, scan_row, special_values, summed

_LIST = CaseList("tile_scans")
CASES = _LIST.cases


@cache
def _scanning(width: int, exclusive: bool) -> Any:
    @kd.kernel
    def scanning(x, y):
        for row in range(kd.blockIdx.x, x.shape[0], kd.gridDim.x):
            kd.tile.store(y[row], 0, kd.tile.load(x[row], 0, width).cumsum(exclusive=exclusive))

    return scanning


@np.errstate(all="ignore")
def _scanned(x: np.ndarray, block: int, exclusive: bool) -> np.ndarray:
    wide = x.astype(summed(x.dtype))
    return np.array([scan(row, block, exclusive=exclusive) for row in wide])


def _add_scan(dtype: str, width: int, block: int, exclusive: bool) -> None:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        rows = np.stack([special_values(rng, width, dtype) for _ in range(3)])
        with np.errstate(invalid="ignore"):
            rows[2] = rows[1] * np.array(0, rows.dtype)  # zeros of both signs, and NaN
        if np.dtype(dtype).kind == "f":
            rows[1] = np.array(-0.0, dtype)
        return rows, poisoned(rows.shape, summed(rows.dtype))

    _LIST.add(
        f"whole.{dtype}.{width}.{block}{'.exclusive' * exclusive}",
        _scanning(width, exclusive),
        make,
        grid=(2,),
        block=(block,),
        expected=lambda x, y: {1: _scanned(x, block, exclusive)},
    )


for _number, _dtype in enumerate(HOST_DTYPES):
    _add_scan(_dtype, 300, 64, _number % 2 == 1)
    _add_scan(_dtype, 512, 64, _number % 2 == 0)
for _block in TILE_BLOCKS:
    for _exclusive in (False, True):
        for _width in (5, 1000, 4 * _block, 8 * _block):
            _add_scan("float32", _width, _block, _exclusive)


@cache
def _scanning_axes(shape: tuple[int, int], exclusive: bool) -> Any:
    columns = shape[1]

    @kd.kernel
    def scanning_axes(x, down, along, flat, sums):
        t = kd.tile.load(x, (0, 0), shape)
        kd.tile.store(down, (0, 0), t.cumsum(axis=0, exclusive=exclusive))
        r = t.cumsum(axis=1, exclusive=exclusive)
        kd.tile.store(along, (0, 0), r)
        kd.tile.store(flat, 0, (t + kd.int32(1)).cumsum(exclusive=exclusive))
        kd.tile.store(sums, (0, 0), (t - t.max(axis=0)).cumsum(-1) * columns)

    return scanning_axes


@np.errstate(all="ignore")
def _scanned_axes(block: int, exclusive: bool) -> Any:
    def expected(x: Any, down: Any, along: Any, flat: Any, sums: Any) -> dict[int, Any]:
        wide = x.astype(down.dtype)
        total = np.add.accumulate(wide, axis=0)
        if exclusive:
            total = np.concatenate([np.zeros_like(wide[:1]), total[:-1]])
        rows = np.stack([scan_row(row, exclusive=exclusive) for row in wide])
        shifted = (x + np.int32(1)).astype(down.dtype)
        below = (x - x.max(0)).astype(sums.dtype)
        last = np.stack([scan_row(row) for row in below]) * x.shape[1]
        return {1: total, 2: rows, 3: scan(shifted, block, exclusive=exclusive), 4: last}

    return expected


def _add_scan_of_axes(shape: tuple[int, int], block: int, dtype: str, exclusive: bool) -> None:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        x = (rng.integers(-200, 200, shape) / (1 if dtype[0] == "i" else 7)).astype(dtype)
        wide = summed(x.dtype)
        outs = [poisoned(each, wide) for each in (shape, shape, x.size, shape)]
        return (x, *outs)

    _LIST.add(
        f"axes.{dtype}.{shape[0]}x{shape[1]}.{block}{'.exclusive' * exclusive}",
        _scanning_axes(shape, exclusive),
        make,
        block=(block,),
        expected=_scanned_axes(block, exclusive),
    )


for _block in (*TILE_BLOCKS, 32):
    _add_scan_of_axes((5, 70), _block, "float64", False)
    _add_scan_of_axes((6, 40), _block, "int32", True)
_add_scan_of_axes((40, 5), 64, "float64", True)
_add_scan_of_axes((3, 64), 7, "float64", True)
