"""The meaning of kernels of tiles: one thread that runs from top to bottom, in plain NumPy.

Blocks run one after the other. A tile is a NumPy array. ``kd.tiles`` gives all tiles to the first
block, and ``kd.pipelined`` is its range. Products add along k in order, with one rounding each.
Sums are NumPy's, so only sums that are exact can be compared bit by bit.
"""

from __future__ import annotations

import itertools
import math
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.language.packed_numbers import PACKED_NUMBERS
from tests.support.conversions import cast
from tests.support.tile_words import product

__all__ = ["run_sequentially"]

_SCALARS = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64")


class _Tile(np.ndarray):
    """A tile."""

    def map(self, function: Callable[..., Any], *others: Any) -> _Tile:
        arrays = np.broadcast_arrays(self, *others)
        found = [function(*each) for each in zip(*(a.flat for a in arrays), strict=True)]
        return _tile(np.array(found).reshape(arrays[0].shape))

    def astype(self, dtype: Any, **named: Any) -> _Tile:  # type: ignore[override]
        return _tile(cast(np.asarray(self), np.dtype(dtype)))


def _reduction(name: str) -> Any:
    def reduce(self: _Tile, axis: int | None = None, **named: Any) -> Any:
        array = np.asarray(self)
        if name == "sum" and array.dtype.kind in "iub":
            array = array.astype(np.int64)
        elif name == "sum" and array.dtype.itemsize < 4:
            array = array.astype(np.float32)
        function = getattr(np, {"max": "fmax", "min": "fmin", "sum": "add"}[name])
        if axis is None:
            return function.reduce(array, axis=None)
        return _tile(function.reduce(array, axis=axis, keepdims=True))

    return reduce


for _name in ("sum", "max", "min"):
    setattr(_Tile, _name, _reduction(_name))


def _tile(array: np.ndarray) -> _Tile:
    return np.ascontiguousarray(array).view(_Tile)


def _extents(shape: Any) -> tuple[int, ...]:
    return shape if isinstance(shape, tuple) else (shape,)


def _inside(
    array: np.ndarray, at: Any, shape: tuple[int, ...]
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return the part of a tile that an array has a place for, and that place."""
    in_tile, in_array = [], []
    for first, count, extent in zip(_extents(at), shape, array.shape, strict=True):
        low, high = min(max(0, -first), count), max(0, min(count, extent - first))
        high = max(low, high)
        in_tile.append(slice(low, high))
        in_array.append(slice(first + low, first + high) if high > low else slice(0, 0))
    return tuple(in_tile), tuple(in_array)


class _TileWords:
    """``kd.tile``."""

    @staticmethod
    def load(array: np.ndarray, at: Any, shape: Any, other: Any = 0, dtype: Any = None) -> _Tile:
        extents = _extents(shape)
        made = np.empty(extents, dtype or array.dtype)
        made[...] = cast(np.asarray(other), made.dtype)
        in_tile, in_array = _inside(array, at, extents)
        made[in_tile] = cast(array[in_array], made.dtype)
        return _tile(made)

    @staticmethod
    def store(array: np.ndarray, at: Any, tile: Any, function: Any = None, *given: Any) -> None:
        in_tile, in_array = _inside(array, at, tile.shape)
        part = np.asarray(tile)[in_tile]
        if function is not None:
            starts = [each.start for each in in_tile]
            found = [
                function(value, *(int(n + s) for n, s in zip(index, starts, strict=True)), *given)
                for index, value in np.ndenumerate(part)
            ]
            part = np.array(found).reshape(part.shape)
        array[in_array] = cast(part, array.dtype)

    @staticmethod
    def zeros(shape: Any, dtype: Any) -> _Tile:
        return _tile(np.zeros(_extents(shape), dtype))

    @staticmethod
    def full(shape: Any, value: Any, dtype: Any = None) -> _Tile:
        return _tile(np.full(_extents(shape), value, dtype))

    @staticmethod
    def arange(shape: Any, dtype: Any = np.int64) -> _Tile:
        extents = _extents(shape)
        return _tile(np.broadcast_to(np.arange(extents[-1], dtype=dtype), extents))


class _Language:
    """``kd`` in a kernel."""

    tile = _TileWords

    def __init__(self) -> None:
        self.blockIdx = types.SimpleNamespace(x=0, y=0, z=0)
        for name in _SCALARS:
            setattr(self, name, np.dtype(getattr(kd, name)).type)
        for name in PACKED_NUMBERS:
            setattr(self, name, getattr(kd, name))

    @staticmethod
    def mma(one: Any, two: Any, acc: Any = None, promote: Any = None, precision: Any = "") -> _Tile:
        added = None if acc is None else np.asarray(acc)
        return _tile(product(np.asarray(one), np.asarray(two), added))

    @staticmethod
    def pipelined(turns: range, stages: int | None = None) -> range:
        return turns

    def tiles(self, extent: Any, shape: Any) -> Iterator[Any]:
        if (self.blockIdx.x, self.blockIdx.y, self.blockIdx.z) != (0, 0, 0):
            return iter(())
        pairs = zip(_extents(extent), _extents(shape), strict=True)
        places = itertools.product(*(range(0, *pair) for pair in pairs))
        return places if isinstance(shape, tuple) else (place for (place,) in places)

    @staticmethod
    def packed(numbers: np.ndarray, kind: Any) -> np.ndarray:
        return kind.unpack(numbers)  # type: ignore[no-any-return]


class _Mathematics:
    """``math`` for numbers and tiles."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(math, name)
        if not callable(found):
            return found

        def compute(value: Any) -> Any:
            return np.vectorize(lambda each: type(each)(found(each)), otypes=[value.dtype])(value)

        def either(value: Any) -> Any:
            return (
                _tile(compute(value))
                if isinstance(value, _Tile)
                else compute(np.asarray(value))[()]
            )

        return either


def _extreme(which: Any, builtin: Any) -> Any:
    def compute(*values: Any) -> Any:
        is_tile = any(isinstance(value, _Tile) for value in values)
        return which(*values) if is_tile else builtin(*values)

    return compute


def _bound(function: Any, language: _Language, given: dict[str, Any]) -> Any:
    """Return a function that means `language` by ``kd``, and its functions likewise."""

    def replaced(value: Any) -> Any:
        if value is kd:
            return language
        if value is math:
            return _Mathematics()
        inner = getattr(value, "__wrapped__", value)
        is_own = isinstance(inner, types.FunctionType) and inner.__module__ not in ("math",)
        return _bound(inner, language, {}) if is_own and inner is not function else value

    names = set(function.__code__.co_names)
    scope = {name: replaced(v) for name, v in function.__globals__.items() if name in names}
    scope |= {"max": _extreme(np.fmax, max), "min": _extreme(np.fmin, min)}
    scope["__builtins__"] = function.__globals__.get("__builtins__", __builtins__)
    cells = tuple(types.CellType(replaced(c.cell_contents)) for c in function.__closure__ or ())
    made = types.FunctionType(function.__code__, scope, function.__name__, None, cells)
    made.__kwdefaults__ = given
    return made


def run_sequentially(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Run a kernel block by block.

    Parameters
    ----------
    kernel : Kernel or function
        What to run.
    grid : tuple of int
        The number of blocks along x, y and z.
    *args
        The arguments; arrays are written.
    **constants
        Compile-time parameters.
    """
    language = _Language()
    function = _bound(getattr(kernel, "__wrapped__", kernel), language, constants)
    width, height, depth = (*grid, 1, 1)[:3]
    with np.errstate(all="ignore"):
        for z, y, x in itertools.product(range(depth), range(height), range(width)):
            language.blockIdx.x, language.blockIdx.y, language.blockIdx.z = x, y, z
            function(*args)
