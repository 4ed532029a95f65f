"""Tiles of memory that has two names, or that an operation meets again: one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList
from tests.support.python_kernels import python_function
from tests.support.tile_words import of_tile

_LIST = CaseList("tile_order")
CASES = _LIST.cases

_BLOCKS = (4, 33, 64)
#: How two arguments of 80 elements share memory.
_NAMES: dict[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "same": lambda a: (a[:80], a[:80]),
    "behind": lambda a: (a[:80], a[5:85]),
    "before": lambda a: (a[37:117], a[:80]),
    "reversed": lambda a: (a[:80], a[84:4:-1]),
    "sparse": lambda a: (a[:160:2], a[:80]),
    "apart": lambda a: (a[:80], a[100:180]),
}


@kd.func
def _before(v, i, a):
    return a[i] + v


@kd.func
def _picked(v, a):
    return a[v]


@kd.func
def _scattered(v, i, a):
    a[(i * 7 + 3) % 40] = v
    return v + 1


@kd.kernel
def _two_names(x, y, out):
    kd.tile.store(y, 3, kd.tile.load(x, 0, 40))
    kd.tile.store(x, 0, kd.tile.load(y, 1, 50) + 1)
    for k in range(5):
        kd.tile.store(x, k * 3, kd.tile.load(y, 40 - k, 17))
    kd.tile.store(out, 0, kd.tile.load(x, 0, 80))


@kd.kernel
def _threads_between(x, y, out):
    t = kd.threadIdx.x
    count = kd.blockDim.x
    x[count - 1 - t] = t
    v = kd.tile.load(y, 1, 64)
    x[count - 1 - t] = v.sum() + t
    kd.tile.store(y, 0, kd.tile.of(x[t]) + 1)
    out[t] = x[count - 1 - t]


@kd.kernel
def _computed_whole(x, y, out):
    kd.tile.store(x, 1, kd.tile.load(y, 0, 60), _before, x)
    kd.tile.store(x, 2, kd.tile.load(x, 0, 60), _before, y)
    kd.tile.store(y, 3, kd.tile.arange(70).map(_picked, x))
    for k in range(4):
        kd.tile.store(y, k, kd.tile.load(out, 0, 75), _before, y)
    kd.tile.store(out, 0, kd.tile.load(y, 0, 80))


@kd.kernel
def _written_by_functions(x, y, out):
    kd.tile.store(x, 40, kd.tile.load(x, 40, 40), _scattered, y)
    kd.tile.store(out, 0, kd.tile.load(y, 0, 40))
    kd.tile.store(out, 40, kd.tile.load(x, 40, 40))


def _load(array: np.ndarray, at: Any, shape: Any) -> np.ndarray:
    (tile,) = of_tile("load", {0: (array, at, shape, 0, None)}).values()
    return tile  # type: ignore[no-any-return]


def _store(array: np.ndarray, at: Any, tile: np.ndarray, *function: Any) -> None:
    if function:
        function = (python_function(function[0]), *function[1:])
    of_tile("store", {0: (array, at, tile, *function)})


def _moved(block: int, x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    _store(y, 3, _load(x, 0, 40))
    _store(x, 0, _load(y, 1, 50) + 1)
    for k in range(5):
        _store(x, k * 3, _load(y, 40 - k, 17))
    _store(out, 0, _load(x, 0, 80))


def _between(block: int, x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    t = np.arange(block)
    x[block - 1 - t] = t
    v = _load(y, 1, 64)
    x[block - 1 - t] = v.sum() + t
    _store(y, 0, x[t] + 1)
    out[t] = x[block - 1 - t]


def _whole(block: int, x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    _store(x, 1, _load(y, 0, 60), _before, x)
    _store(x, 2, _load(x, 0, 60), _before, y)
    _store(y, 3, x[:70].copy())
    for k in range(4):
        _store(y, k, _load(out, 0, 75), _before, y)
    _store(out, 0, _load(y, 0, 80))


def _by_functions(block: int, x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    _store(x, 40, _load(x, 40, 40), _scattered, y)
    _store(out, 0, _load(y, 0, 40))
    _store(out, 40, _load(x, 40, 40))


def _expected(follow: Callable[..., None], block: int) -> Any:
    def expected(*args: np.ndarray) -> dict[int, np.ndarray]:
        follow(block, *args)
        return dict(enumerate(args))

    return expected


def _add(name: str, kernel: Any, follow: Callable[..., None], names: str, block: int) -> None:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        x, y = _NAMES[names](rng.integers(-99, 99, 200))
        return x, y, rng.integers(-99, 99, 80)

    _LIST.add(
        f"{name}.{names}.{block}",
        kernel,
        make,
        block=(block,),
        expected=_expected(follow, block),
    )


for _block in _BLOCKS:
    for _names in _NAMES:
        _add("two_names", _two_names, _moved, _names, _block)
        _add("threads", _threads_between, _between, _names, _block)
        _add("whole", _computed_whole, _whole, _names, _block)
    _add("functions", _written_by_functions, _by_functions, "apart", _block)


@cache
def _in_turns(width: int, step: int) -> Any:
    @kd.kernel
    def in_turns(y):
        for k in range(y.shape[0]):
            for i in range(3):
                kd.tile.store(y[k // 2], k + i * step, kd.tile.arange(width) * (i + 1) + k)

    return in_turns


def _turned(width: int, step: int) -> Any:
    def expected(y: np.ndarray) -> dict[int, np.ndarray]:
        for k in range(y.shape[0]):
            for i in range(3):
                _store(y[k // 2], k + i * step, np.arange(width) * (i + 1) + k)
        return {0: y}

    return expected


for _block in _BLOCKS:
    for _width, _step in ((64, 7), (100, 33), (64, 64), (128, 0)):
        _LIST.add(
            f"turns.{_width}.{_step}.{_block}",
            _in_turns(_width, _step),
            lambda rng: (poisoned((6, 150), np.int64),),
            block=(_block,),
            expected=_turned(_width, _step),
        )


@kd.func
def _of_other(v, i, j, a):
    return a[j, i] + v


@kd.kernel
def _two_axes(x, y, out):
    for k in range(3):
        kd.tile.store(y, (k, 1), kd.tile.load(x, (0, k), (9, 12)))
    kd.tile.store(x, (2, 0), kd.tile.load(y, (1, 1), (10, 10)), _of_other, y)
    t = kd.tile.load(x, (0, 0), (12, 12))
    kd.tile.store(y, (0, 0), t.T)
    kd.tile.store(out, (0, 0), kd.tile.load(x, (0, 0), (12, 12)))


def _in_planes(block: int, x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    for k in range(3):
        _store(y, (k, 1), _load(x, (0, k), (9, 12)))
    _store(x, (2, 0), _load(y, (1, 1), (10, 10)), _of_other, y)
    _store(y, (0, 0), _load(x, (0, 0), (12, 12)).T)
    _store(out, (0, 0), _load(x, (0, 0), (12, 12)))


_PLANES: dict[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "same": lambda a: (a, a),
    "transposed": lambda a: (a, a.T),
    "apart": lambda a: (a, a + 1),
}
for _block in _BLOCKS:
    for _names, _planes in _PLANES.items():
        _LIST.add(
            f"axes.{_names}.{_block}",
            _two_axes,
            lambda rng, planes=_planes: (
                *planes(rng.integers(-99, 99, (12, 12))),
                poisoned((12, 12), np.int64),
            ),
            block=(_block,),
            expected=_expected(_in_planes, _block),
        )
