"""Tiles whose axes are exchanged, and tiles that are stored in shared arrays of a program."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from tests.support.arrays import HOST_DTYPES, poisoned, random_array
from tests.support.cases import CaseList
from tests.support.tiles import TILE_BLOCKS, scan_row

_LIST = CaseList("tile_transposes")
CASES = _LIST.cases


@cache
def _transposing(shape: tuple[int, int]) -> Any:
    @kd.kernel
    def transposing(x, y):
        rows, columns = shape
        at, to = kd.blockIdx.y * rows, kd.blockIdx.x * columns
        kd.tile.store(y, (to, at), kd.tile.load(x, (at, to), shape).T)

    return transposing


def _add_transpose(dtype: str, shape: tuple[int, int], block: int) -> None:
    _LIST.add(
        f"memory.{dtype}.{shape[0]}x{shape[1]}.{block}",
        _transposing(shape),
        lambda rng: (random_array(rng, (50, 37), dtype), poisoned((37, 50), dtype)),
        grid=(-(-37 // shape[1]), -(-50 // shape[0])),
        block=(block,),
        expected=lambda x, y: {1: np.ascontiguousarray(x.T)},
    )


for _dtype in HOST_DTYPES:
    _add_transpose(_dtype, (16, 16), 64)
for _block in TILE_BLOCKS:
    _add_transpose("float32", (32, 32), _block)
    _add_transpose("float64", (7, 20), _block)


@cache
def _square(side: int) -> Any:
    @kd.kernel
    def square(x, y, columns, sums):
        t = kd.tile.load(x, (0, 0), (side, side))
        t += t.T
        t = (t * kd.int32(2)).T - t.max(axis=0).T
        kd.tile.store(y, (0, 0), t)
        kd.tile.store(columns, (0, 0), t.T.sum(axis=0) + kd.tile.transpose(t).max(axis=1).T)
        kd.tile.store(sums, (0, 0), t.T.cumsum(axis=1))

    return square


def _squared(x: Any, y: Any, columns: Any, sums: Any) -> dict[int, Any]:
    t = x + x.T
    t = (t * 2).T - t.max(0)[:, None]
    rows = np.stack([scan_row(row) for row in t.T.astype(np.int64)])
    return {1: t, 2: (t.T.sum(0) + t.T.max(1))[None], 3: rows}


for _block in TILE_BLOCKS:
    for _side in (8, 17):
        _LIST.add(
            f"square.{_side}.{_block}",
            _square(_side),
            lambda rng, side=_side: (
                rng.integers(-50, 50, (side, side)),
                poisoned((side, side), np.int64),
                poisoned((1, side), np.int64),
                poisoned((side, side), np.int64),
            ),
            block=(_block,),
            expected=_squared,
        )


@kd.kernel
def _through_shared(x, y):
    held = kd.shared.array((12, 20), kd.float32)
    i = kd.threadIdx.x
    kd.tile.store(held, (0, 0), kd.tile.load(x, (kd.blockIdx.x * 12, 0), (12, 20), other=-1))
    kd.syncthreads()
    while i < 240:
        y[kd.blockIdx.x, i] = held[11 - i // 20, 19 - i % 20]
        i += kd.blockDim.x


def _reversed(x: np.ndarray, y: np.ndarray) -> dict[int, np.ndarray]:
    whole = np.full((24, 20), -1, np.float32)
    whole[: x.shape[0]] = x
    return {1: whole.reshape(2, 240)[:, ::-1].copy()}


for _block in TILE_BLOCKS:
    _LIST.add(
        f"through_shared.{_block}",
        _through_shared,
        lambda rng: (random_array(rng, (17, 20), "float32"), poisoned((2, 240), "float32")),
        grid=(2,),
        block=(_block,),
        expected=_reversed,
    )
