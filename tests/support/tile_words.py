"""Give what operations on tiles give, for the slow references.

A tile is a NumPy array that nobody writes. An operation happens once for a block, when all of its
threads have come to it; they give it the same, but for the value of ``tile.of``.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from kerneldsl.language.element_types import element_name
from kerneldsl.language.intrinsics.host_values import fma
from kerneldsl.language.intrinsics.matrix import ACCUMULATORS
from tests.support.conversions import cast
from tests.support.tiles import (
    fold,
    fold_row,
    places_in_order,
    reduced,
    scan,
    scan_row,
    sort_row,
    summed,
)

__all__ = ["TILE_METHODS", "TILE_WORDS", "VaryingArgumentError", "of_tile", "product"]

_Threads = Mapping[int, tuple[Any, ...]]
_REDUCTIONS = frozenset(("sum", "prod", "max", "min", "argmax", "argmin", "mean", "any", "all"))


class VaryingArgumentError(Exception):
    """Threads give an operation on tiles different numbers."""


def _extents(shape: Any) -> tuple[int, ...]:
    return tuple(map(int, shape)) if isinstance(shape, tuple) else (int(shape),)


def _places(at: Any, shape: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Each index in a tile, and the one in the array, which may have no such element."""
    first = at if isinstance(at, tuple) else (at,)
    for index in itertools.product(*map(range, shape)):
        yield index, tuple(int(a) + i for a, i in zip(first, index, strict=True))


def _has(array: np.ndarray, place: tuple[int, ...]) -> bool:
    return all(0 <= p < n for p, n in zip(place, array.shape, strict=True))


def _load(array: np.ndarray, at: Any, shape: Any, other: Any, dtype: Any) -> np.ndarray:
    extents = _extents(shape)
    tile = np.empty(extents, array.dtype if dtype is None else dtype)
    tile[...] = cast(other, tile.dtype)
    for index, place in _places(at, extents):
        if _has(array, place):
            tile[index] = cast(array[place], tile.dtype)
    return tile


def _store(array: np.ndarray, at: Any, tile: np.ndarray, *function: Any) -> None:
    """Write the elements for which there is a place; a function is called for no other.

    All elements are computed before the first is written.
    """
    computed = []
    for index, place in _places(at, tile.shape):
        if _has(array, place):
            value = tile[index]
            if function:
                value = function[0](value, *map(np.int64, index), *function[1:])
            computed.append((place, cast(value, array.dtype)))
    for place, value in computed:
        array[place] = value


def _full(shape: Any, value: Any, dtype: Any) -> np.ndarray:
    number = np.asarray(value)[()]
    return np.full(_extents(shape), number if dtype is None else cast(number, dtype))


def _arange(shape: Any, dtype: Any) -> np.ndarray:
    extents = _extents(shape)
    numbers = np.arange(extents[-1]).astype(dtype)
    return np.broadcast_to(numbers, extents).copy()


def _map(tile: np.ndarray, function: Callable[..., Any], *others: Any) -> np.ndarray:
    """Call a function for each element, with those of other tiles and with numbers."""
    tiles = np.broadcast_arrays(tile, *(o for o in others if isinstance(o, np.ndarray)))
    found = []
    for index in np.ndindex(tiles[0].shape):
        given = iter([each[index] for each in tiles[1:]])
        rest = [next(given) if isinstance(o, np.ndarray) else o for o in others]
        found.append(function(tiles[0][index], *rest))
    return np.array(found).reshape(tiles[0].shape)


def _reduce(name: str, tile: np.ndarray, axis: Any, threads: int) -> Any:
    if axis is None:
        return np.asarray(reduced(name, tile, threads, fold))[()]
    number = int(axis) % tile.ndim
    rows = np.moveaxis(tile, number, -1).reshape(-1, tile.shape[number])
    by = fold if tile.ndim == 1 else (_down, _across)[number]
    found = np.array([reduced(name, row, threads, by) for row in rows])
    shape = [1 if each == number else extent for each, extent in enumerate(tile.shape)]
    return found.reshape(shape)


def _down(column: np.ndarray, threads: int, combine: Callable[..., Any]) -> Any:
    return functools.reduce(combine, column)


def _across(row: np.ndarray, threads: int, combine: Callable[..., Any]) -> Any:
    return fold_row(row, combine)


def _cumsum(tile: np.ndarray, axis: Any, exclusive: Any, threads: int) -> np.ndarray:
    wide = tile.astype(summed(tile.dtype))
    if axis is None:
        return scan(wide, threads, exclusive=bool(exclusive))
    if int(axis) % 2:
        return np.stack([scan_row(row, exclusive=bool(exclusive)) for row in wide])
    total = np.add.accumulate(wide, axis=0)
    if exclusive:
        total = np.concatenate([np.zeros_like(wide[:1]), total[:-1]])
    return total


def _take(tile: np.ndarray, places: np.ndarray) -> np.ndarray:
    last = tile.shape[-1] - 1
    near = np.array([min(max(int(p), 0), last) for p in places.flat]).reshape(places.shape)
    return np.take_along_axis(tile, near, -1)


def _mma(one: Any, two: Any, acc: Any, promote: Any = None, precision: Any = None) -> np.ndarray:
    return product(one, two, acc)


def product(one: np.ndarray, two: np.ndarray, acc: np.ndarray | None = None) -> np.ndarray:
    """Return a product by one accumulator for each element, to which products are added in order.

    Products of floats are added with one rounding.
    """
    name = ACCUMULATORS[element_name(one.dtype)]
    total = np.zeros((one.shape[0], two.shape[1]), name) if acc is None else acc.copy()
    if name == "int32":
        with np.errstate(over="ignore"):
            return total + one.astype(name) @ two.astype(name)
    one, two = one.astype(name), two.astype(name)
    add = np.vectorize(fma, otypes=[total.dtype])
    for column, row in zip(one.T, two, strict=True):
        total = add(column[:, None], row[None, :], total)
    return total


_ONCE: dict[str, Callable[..., Any]] = {
    "load": _load,
    "store": _store,
    "zeros": lambda shape, dtype: np.zeros(_extents(shape), dtype),
    "full": _full,
    "arange": _arange,
    "astype": cast,
    "map": _map,
    "mma": _mma,
    "sort": lambda tile: np.apply_along_axis(sort_row, -1, tile),
    "argsort": lambda tile: np.apply_along_axis(places_in_order, -1, tile),
    "take": _take,
}
#: Operations on tiles, and those that are methods too.
TILE_WORDS = frozenset((*_ONCE, *_REDUCTIONS, "cumsum", "of", "own"))
TILE_METHODS = frozenset((*_REDUCTIONS, "astype", "argsort", "cumsum", "map", "sort", "take"))


def _identity(value: Any) -> Any:
    """What is the same for values that are the same to the last bit."""
    if isinstance(value, tuple):
        return tuple(map(_identity, value))
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype, np.shape(value), np.ascontiguousarray(value).tobytes()
    return value if isinstance(value, int | float | bool | str | None) else None


def of_tile(word: str, given: _Threads) -> dict[int, Any]:
    """Return what each thread of a block gets.

    Parameters
    ----------
    word : str
        One of :data:`TILE_WORDS`.
    given : mapping
        For each thread of the block, its arguments in the order of the parameters.

    Raises
    ------
    VaryingArgumentError
        Threads give different numbers.
    """
    numbers = sorted(given)
    if word == "of":
        tile = np.array([given[number][0] for number in numbers])
        return dict.fromkeys(numbers, tile)
    if len({_identity(args) for args in given.values()}) > 1:
        raise VaryingArgumentError(f"tile.{word}: {list(given.values())[:2]}")
    first = given[numbers[0]]
    if word == "own":
        return {number: first[0][number] for number in numbers}
    with np.errstate(all="ignore"):
        if word in _REDUCTIONS:
            return dict.fromkeys(numbers, _reduce(word, *first, threads=len(numbers)))
        if word == "cumsum":
            return dict.fromkeys(numbers, _cumsum(*first, threads=len(numbers)))
        return dict.fromkeys(numbers, _ONCE[word](*first))
