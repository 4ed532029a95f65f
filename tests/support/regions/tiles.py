"""Tile operations as stops of a thread: the regions of elements become functions.

An operation computes its elements first, by ``tile.map``. What it does with them is what the word
of the language does with a tile (:mod:`tests.support.tile_words`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numba import types

from kerneldsl.ir.operations import Operation, Region, Value
from tests.support.regions.numbers import dtype_of, typed
from tests.support.simt import Thread

__all__ = ["TILE_OPERATIONS", "Writer"]

#: A fold, and the word of the language that combines alike.
_FOLDS = {"mean": "sum"}


class Writer(Protocol):
    """Writes the text of a thread's generator."""

    def name(self, value: Value) -> str:
        """Return the variable of a value."""

    def outside(self, thing: Any) -> str:
        """Return a name for an object that the text reads."""

    def closure(self, region: Region) -> str:
        """Write a region as a function; return its name."""

    def stop(self, word: str, given: list[str]) -> str:
        """Return the text of a stop of all threads, whose value is the answer."""

    def define(self, values: list[Value], texts: list[str]) -> None:
        """Assign values."""

    def line(self, text: str) -> None:
        """Write a line."""


def _elements(writer: Writer, operation: Operation, dtype: Any) -> str:
    """Return the text of the tile that the region of elements computes."""
    attributes = operation.attributes
    axes, shape = attributes["axes"], _shape(writer, operation)
    tiles = operation.operands[attributes["first"] :]
    function = writer.closure(operation.regions[0])
    has_place = isinstance(operation.regions[0].yielded[0].type, types.BaseTuple)

    def with_indices(given: Callable[..., Any], shape: tuple[int, ...]) -> Callable[..., Any]:
        def compute(place: Any, *elements: Any) -> Any:
            index = np.unravel_index(place, shape)
            found = given(*elements, *(np.int64(index[axis]) for axis in axes))
            return found[0] if has_place else found

        return compute

    texts = [f"{writer.outside(_places)}({shape})"]
    texts.append(f"{writer.outside(with_indices)}({function}, {shape})")
    for tile, is_transposed in zip(tiles, attributes["transposed"], strict=True):
        text = writer.name(tile) + (".T" if is_transposed else "")
        texts.append(f"{writer.outside(_broadcast)}({text}, {shape})")
    return f"{writer.stop('tile.map', texts)}.astype({writer.outside(dtype_of(dtype))})"


def _shape(writer: Writer, operation: Operation) -> str:
    """Return the text of a shape; an extent of 0 is the number of the block's threads."""
    shape = tuple(operation.attributes["shape"])
    if 0 not in shape:
        return repr(shape)

    def with_threads(thread: Thread) -> tuple[int, ...]:
        return tuple(each or math.prod(map(int, thread.blockDim)) for each in shape)

    name = f"s{writer.outside(with_threads)}"
    writer.line(f"{name} = {name[1:]}(thread)")
    return name


def _places(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape)


def _broadcast(tile: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.ascontiguousarray(np.broadcast_to(tile, shape))


def _named(writer: Writer, operation: Operation, dtype: Any) -> str:
    """Write the tile of elements into a variable; return its name."""
    name = f"e{writer.name(operation.results[0])}" if operation.results else "e"
    writer.line(f"{name} = {_elements(writer, operation, dtype)}")
    return name


def _map(writer: Writer, operation: Operation) -> None:
    writer.define(operation.results, [_elements(writer, operation, operation.result.type.dtype)])


def _fold(writer: Writer, operation: Operation) -> None:
    attributes, kind = operation.attributes, operation.result.type
    axis = attributes["axis"]
    total = operation.regions[1].arguments[0]
    if attributes["fold"] in ("argmax", "argmin"):
        elements = _named(writer, operation, total.type.types[0])
        found = writer.stop(f"tile.{attributes['fold']}", [elements, repr(axis)])
        writer.define(operation.results, [found])
        return
    word = _FOLDS.get(attributes["fold"], attributes["fold"])
    elements = _named(writer, operation, total.type)
    finish = writer.closure(operation.regions[1])
    as_total, as_result = typed(total.type), typed(getattr(kind, "dtype", kind))

    def finished(found: Any, elements: Any, function: Callable[..., Any]) -> Any:
        extent = elements.size if axis is None else elements.shape[axis]

        def number(each: Any) -> Any:
            return as_result(function(as_total(each), np.int64(extent)))

        if axis is None:
            return number(found)
        return np.array([number(each) for each in found.flat]).reshape(found.shape)

    folded = writer.stop(f"tile.{word}", [elements, repr(axis)])
    writer.define(
        operation.results, [f"{writer.outside(finished)}({folded}, {elements}, {finish})"]
    )


def _scan(writer: Writer, operation: Operation) -> None:
    attributes, dtype = operation.attributes, dtype_of(operation.result.type.dtype)
    elements = _named(writer, operation, operation.result.type.dtype)
    given = [elements, repr(attributes["axis"]), repr(attributes["exclusive"])]
    scanned = writer.stop(f"tile.cum{attributes['fold']}", given)
    writer.define(operation.results, [f"{scanned}.astype({writer.outside(dtype)})"])


def _sort(writer: Writer, operation: Operation) -> None:
    elements = _named(writer, operation, operation.regions[0].yielded[0].type)
    writer.define(operation.results, [writer.stop(operation.name, [elements])])


def _take(writer: Writer, operation: Operation) -> None:
    places = _named(writer, operation, operation.regions[0].yielded[0].type)
    tile = writer.name(operation.operands[0])
    writer.define(operation.results, [writer.stop("tile.take", [tile, places])])


def _mma(writer: Writer, operation: Operation) -> None:
    one, two, *added = map(writer.name, operation.operands)
    exchanged = operation.attributes["exchanged"]
    pairs = zip((one, two), exchanged, strict=True)
    factors = [f"{name}.T" if is_exchanged else name for name, is_exchanged in pairs]
    given = [*factors, *(added or ["None"])]
    writer.define(operation.results, [writer.stop("tile.mma", given)])


def _load(writer: Writer, operation: Operation) -> None:
    array, other, *at = map(writer.name, operation.operands)
    dtype = writer.outside(dtype_of(operation.result.type.dtype))
    shape = _shape(writer, operation)
    given = [array, f"({', '.join(at)},)", shape, other, dtype]
    writer.define(operation.results, [writer.stop("tile.load", given)])


def _store(writer: Writer, operation: Operation) -> None:
    array = operation.operands[0]
    at = [*map(writer.name, operation.operands[1 : operation.attributes["first"]])]
    elements = _named(writer, operation, operation.regions[0].yielded[0].type)
    writer.line(writer.stop("tile.store", [writer.name(array), f"({', '.join(at)},)", elements]))


def _of_value(writer: Writer, operation: Operation) -> None:
    (value,) = operation.operands
    writer.define(operation.results, [writer.stop(operation.name, [writer.name(value)])])


def _place(writer: Writer, operation: Operation) -> None:
    limits = np.iinfo(np.int64)

    def place(value: Any) -> Any:
        return np.int64(min(max(int(value), limits.min), limits.max))

    text = f"{writer.outside(place)}({writer.name(operation.operands[0])})"
    writer.define(operation.results, [text])


def _wait(writer: Writer, operation: Operation) -> None:
    writer.line(writer.stop("syncthreads", []))


#: What writes an operation on tiles, by its name.
TILE_OPERATIONS: dict[str, Callable[[Writer, Operation], None]] = {
    "tile.map": _map,
    "tile.mma": _mma,
    "tile.fold": _fold,
    "tile.scan": _scan,
    "tile.sort": _sort,
    "tile.argsort": _sort,
    "tile.take": _take,
    "tile.load": _load,
    "tile.store": _store,
    "tile.of": _of_value,
    "tile.own": _of_value,
    "tile.place": _place,
    "tile.wait": _wait,
}
