"""Tiles of packed numbers, of rows and planes of words."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.language.packed_numbers import PACKED_NUMBERS
from tests.support.arrays import poisoned, strided
from tests.support.cases import CaseList
from tests.support.tile_words import of_tile

_LIST = CaseList("packed_tiles")
CASES = _LIST.cases


@cache
def _loading(numbers: Any, width: int) -> Any:
    @kd.kernel
    def loading(words, out, scaled, at):
        for row in range(kd.blockIdx.x, words.shape[0], kd.gridDim.x):
            p = kd.packed(words[row], numbers)
            kd.tile.store(out[row], 0, kd.tile.load(p, at, width, other=-3))
            t = kd.tile.load(kd.packed(words[row], numbers), 1, width, dtype=kd.float32)
            kd.tile.store(scaled[row], 0, t * kd.float32(0.5))

    return loading


@cache
def _window(numbers: Any) -> Any:
    @kd.kernel
    def window(words, out, at):
        t = kd.tile.load(kd.packed(words, numbers), (1, at), (5, 9), other=2)
        kd.tile.store(out, (0, 0), t - t.min(axis=1))

    return window


def _words(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def _loaded(numbers: Any, width: int) -> Any:
    def expected(
        words: np.ndarray, out: np.ndarray, scaled: np.ndarray, at: int
    ) -> dict[int, np.ndarray]:
        for row, each in enumerate(numbers.unpack(words)):
            (tile,) = of_tile("load", {0: (each, at, width, -3, None)}).values()
            of_tile("store", {0: (out[row], 0, tile)})
            (tile,) = of_tile("load", {0: (each, 1, width, 0, np.float32)}).values()
            of_tile("store", {0: (scaled[row], 0, tile * np.float32(0.5))})
        return {1: out, 2: scaled}

    return expected


def _in_window(numbers: Any) -> Any:
    def expected(words: np.ndarray, out: np.ndarray, at: int) -> dict[int, np.ndarray]:
        (t,) = of_tile("load", {0: (numbers.unpack(words), (1, at), (5, 9), 2, None)}).values()
        of_tile("store", {0: (out, (0, 0), t.astype(np.int64) - t.min(1)[:, None])})
        return {1: out}

    return expected


for _name, _numbers in PACKED_NUMBERS.items():
    for _dtype in ("uint8", "int32", "uint32", "int64"):
        for _block, _width, _at, _step in ((32, 64, 0, 1), (33, 50, -7, 1), (7, 40, 3, -2)):
            _LIST.add(
                f"{_name}.{_dtype}.{_block}",
                _loading(getattr(kd, _name), _width),
                lambda rng, dtype=_dtype, width=_width, at=_at, step=_step: (
                    strided(_words(rng, (3, 5), dtype), (1, step)),
                    poisoned((3, width), np.int64),
                    poisoned((3, width), np.float32),
                    at,
                ),
                grid=(2,),
                block=(_block,),
                expected=_loaded(getattr(kd, _name), _width),
            )
        _LIST.add(
            f"window.{_name}.{_dtype}",
            _window(getattr(kd, _name)),
            lambda rng, dtype=_dtype: (_words(rng, (4, 3), dtype), poisoned((5, 9), np.int64), 5),
            block=(33,),
            expected=_in_window(getattr(kd, _name)),
        )
