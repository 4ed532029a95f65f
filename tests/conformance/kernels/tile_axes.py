"""Tiles that are reduced along an axis: rows of all lengths, in whole and partial warps."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList
from tests.support.tiles import TILE_BLOCKS, fold_row, reduced, summed

_LIST = CaseList("tile_axes")
CASES = _LIST.cases


@cache
def _reducing(shape: tuple[int, int]) -> Any:
    @kd.kernel
    def reducing(x, sums, highest, means, which, down):
        t = kd.tile.load(x, (0, 0), shape)
        kd.tile.store(sums, (0, 0), t.sum(axis=1))
        kd.tile.store(highest, (0, 0), t.max(axis=1))
        kd.tile.store(means, (0, 0), t.mean(axis=1))
        kd.tile.store(which, (0, 0), (t > t).any(axis=1) | (t == t).all(axis=1))
        kd.tile.store(down, (0, 0), t.sum(axis=0) + t.min(axis=0))

    return reducing


@np.errstate(all="ignore")
def _reduced(x: Any, sums: Any, highest: Any, means: Any, which: Any, down: Any) -> dict[int, Any]:
    def rows(dtype: Any) -> Any:
        return np.array([fold_row(row, lambda a, b: a + b) for row in x.astype(dtype)])[:, None]

    count = np.asarray(x.shape[1]).astype(means.dtype)
    total = np.add.accumulate(x.astype(sums.dtype), axis=0)[-1:]
    return {
        1: rows(sums.dtype),
        2: np.fmax.reduce(x, axis=1, keepdims=True),
        3: rows(means.dtype) / count,
        4: (x == x).all(1, keepdims=True),
        5: total + np.fmin.reduce(x, axis=0, keepdims=True),
    }


@cache
def _multiplying(shape: tuple[int, int]) -> Any:
    @kd.kernel
    def multiplying(x, across, down, whole):
        t = kd.tile.load(x, (0, 0), shape)
        kd.tile.store(across, (0, 0), t.prod(axis=1))
        kd.tile.store(down, (0, 0), kd.tile.prod(t, axis=0))
        whole[0] = t.prod()

    return multiplying


def _add_product(shape: tuple[int, int], block: int, dtype: str) -> None:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        x = (rng.integers(1, 20, shape) / (1 if dtype[0] == "i" else 7)).astype(dtype)
        x[rng.random(shape) < 0.2] = -1
        if dtype[0] == "f":
            x[-1, :3] = np.array([-0.0, np.inf, np.nan], dtype)[: shape[1]]
        wide = summed(x.dtype)
        return x, *(poisoned(each, wide) for each in ((shape[0], 1), (1, shape[1]), 1))

    @np.errstate(all="ignore")
    def expected(x: Any, across: Any, down: Any, whole: Any) -> dict[int, Any]:
        return {
            1: np.array([reduced("prod", row, block, _across) for row in x])[:, None],
            2: np.multiply.accumulate(x.astype(down.dtype), axis=0)[-1:],
            3: np.array([reduced("prod", x, block)], whole.dtype),
        }

    _LIST.add(
        f"product.{dtype}.{shape[0]}x{shape[1]}.{block}",
        _multiplying(shape),
        make,
        block=(block,),
        expected=expected,
    )


@cache
def _finding(shape: tuple[int, int]) -> Any:
    @kd.kernel
    def finding(x, across, down, whole):
        t = kd.tile.load(x, (0, 0), shape)
        kd.tile.store(across, (0, 0), t.argmax(axis=1) - t.argmin(1) * 1000)
        kd.tile.store(down, (0, 0), t.argmin(axis=0) - kd.tile.argmax(t, axis=-2) * 1000)
        whole[0] = t.argmax()
        whole[1] = (t != t).argmax()
        whole[2] = (-kd.tile.arange(shape, kd.int8)).argmin()

    return finding


def _add_places(shape: tuple[int, int], block: int, dtype: str) -> None:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        x = rng.integers(0, 4, shape).astype(dtype)
        if dtype[0] == "f":
            x[x == 0] = np.where(rng.random(shape) < 0.5, -0.0, 0.0).astype(dtype)[x == 0]
            x[-1, rng.integers(shape[1], size=2)] = np.nan
            x[0] = -np.inf  # as what is combined with nothing
        return x, *(poisoned(each, "int64") for each in ((shape[0], 1), (1, shape[1]), 3))

    def expected(x: Any, across: Any, down: Any, whole: Any) -> dict[int, Any]:
        return {
            1: (x.argmax(1) - x.argmin(1) * 1000)[:, None],
            2: (x.argmin(0) - x.argmax(0) * 1000)[None],
            3: np.array([x.argmax(), (x != x).argmax(), shape[1] - 1]),
        }

    _LIST.add(
        f"places.{dtype}.{shape[0]}x{shape[1]}.{block}",
        _finding(shape),
        make,
        block=(block,),
        expected=expected,
    )


def _across(row: Any, threads: int, combine: Any) -> Any:
    return fold_row(row, combine)


def _tenfold(a: Any, b: Any) -> Any:
    return a * 10 + b


@kd.kernel
def _counting(x, down, across, corner, mapped):
    t = kd.tile.load(x, (0, 0), (8, 4))
    kd.tile.store(down, (0, 0), t + kd.tile.arange((8, 1)) * 2 + kd.tile.arange((1, 8)).T)
    kd.tile.store(across, (0, 0), t + kd.tile.arange(4) + (kd.tile.arange((1, 4)) + t))
    kd.tile.store(corner, (0, 0), t - kd.tile.arange((1, 1), kd.float32))
    kd.tile.store(mapped, (0, 0), t.map(_tenfold, kd.tile.arange((8, 1))))


def _add_counting(block: int) -> None:
    """Positions of tiles that are broadcast to larger ones, of two axes and of one."""

    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        x = rng.integers(-90, 90, (8, 4))
        return x, *(poisoned((8, 4), "int64") for _ in range(4))

    def expected(x: Any, *_: Any) -> dict[int, Any]:
        rows, columns = np.arange(8)[:, None], np.arange(4)
        return {1: x + rows, 2: 2 * (x + columns), 3: x, 4: x * 10}

    _LIST.add(f"positions.{block}", _counting, make, block=(block,), expected=expected)


def _add(shape: tuple[int, int], block: int, dtype: str) -> None:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        x = (rng.integers(-90, 90, shape) / (1 if dtype[0] == "i" else 7)).astype(dtype)
        if dtype[0] == "f":
            x[0, rng.integers(shape[1])] = np.nan
        wide = summed(x.dtype)
        mean = np.float64 if dtype[0] == "i" else wide
        kinds = (wide, x.dtype, mean, np.bool_)
        outs = [poisoned((shape[0], 1), kind) for kind in kinds]
        return (x, *outs, poisoned((1, shape[1]), wide))

    _LIST.add(
        f"{dtype}.{shape[0]}x{shape[1]}.{block}",
        _reducing(shape),
        make,
        block=(block,),
        expected=_reduced,
    )


for _block in (1, 32, 96):
    _add_counting(_block)
for _block in (*TILE_BLOCKS, 32):
    for _shape in ((5, 70), (40, 5), (33, 1), (9, 16), (3, 256), (1, 100)):
        _add(_shape, _block, "float32")
for _block in (*TILE_BLOCKS, 32):
    for _shape in ((5, 70), (40, 5)):
        _add_product(_shape, _block, "float32")
        _add_places(_shape, _block, "float32")
_add_places((9, 16), 64, "float16")
_add_places((3, 100), 32, "int64")
_add_places((33, 1), 100, "uint8")
_add_product((7, 33), 7, "int32")
_add_product((7, 1), 64, "float64")
_add((6, 33), 96, "int16")
_add((70, 3), 96, "float64")
