"""Loops of blocks: over the tiles of an extent, and over ranges with early loads.

Both are ordinary loops of the IR with an attribute that says what they may become:

* ``tiles``: the shape. The loop runs over the numbers of tiles, from the number of the block in
  steps of the grid. The last axis counts first.
* ``pipelined``: the most iterations that a load may be early, 0 for the compiler's choice.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from numba import types

from kerneldsl.frontend.parts import Part
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.frontend.exits import has
from kerneldsl.ir.frontend.members import type_of
from kerneldsl.ir.frontend.outside_calls import call_function
from kerneldsl.ir.frontend.reader import Reader
from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.refusals import Refusal, words
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.utilities.formatting import format_count

__all__ = ["BlockLoop", "tile_loop"]

_INT64 = types.int64
_ORDER = "Blocks take the iterations of kd.tiles in any order"


class BlockLoop(NamedTuple):
    """A loop over numbers with an attribute."""

    #: Start, end and step.
    bounds: list[Value]
    kind: Any
    #: Returns the value of the target for a number.
    item: Callable[[Value], Any]
    attributes: dict[str, Any]


def tile_loop(reader: Reader, node: ast.For, use: IntrinsicUse) -> BlockLoop:
    """Read the head of a loop over tiles."""
    assert isinstance(node.iter, ast.Call)
    for kind, word in ((ast.Break, "break"), (ast.Return, "return")):
        if has(node.body, kind):
            raise Refusal(
                f"a loop over kd.tiles has {word}",
                "Put the rest of the body under an if, or leave it by continue",
                limit=_ORDER,
            ).at(Part(reader.unit, node))
    shape: tuple[int, ...] = use.static["shape"]
    extents = _extents(reader, node.iter.args[0], shape)
    counts = [_count(reader, *each) for each in zip(extents, shape, strict=True)]
    total = counts[0]
    for count in counts[1:]:
        total = reader.numba(operator.mul, [total, count])
    first, step = _block(reader, node.iter)

    def item(number: Value) -> Any:
        places: list[Value] = []
        for count, extent in zip(counts[::-1], shape[::-1], strict=True):
            is_outermost = len(places) == len(shape) - 1
            place = number if is_outermost else _implied(reader, operator.mod, number, count)
            places.append(reader.numba(operator.mul, [place, reader.constant(extent)]))
            if not is_outermost:
                number = _implied(reader, operator.floordiv, number, count)
        return places[0] if len(places) == 1 else tuple(places[::-1])

    return BlockLoop([first, total, step], _INT64, item, {"tiles": shape})


def _implied(reader: Reader, function: Any, number: Value, count: Value) -> Value:
    """Divide by the tiles along an axis, which the program does not write."""
    found = reader.numba(function, [number, count])
    if isinstance(found.owner, Operation):
        found.owner.attributes["is_implied"] = True
    return found


def _extents(reader: Reader, node: ast.expr, shape: tuple[int, ...]) -> list[Value]:
    found = reader.value(node)
    extents = list(found) if isinstance(found, tuple) else [found]
    if len(extents) != len(shape):
        raise Refusal(
            f"kd.tiles: the extent has {format_count(len(extents), 'axis', 'axes')}, and the shape "
            f"{len(shape)}",
            "Give one number along each axis",
        ).at(Part(reader.unit, node))
    for each in extents:
        if not isinstance(each, Value) or not isinstance(each.type, types.Integer):
            raise Refusal(
                f"kd.tiles: the extent is {words(type_of(each))}",
                "Give integers, as in kd.tiles(c.shape, (BM, BN))",
            ).at(Part(reader.unit, node))
    return reader.casts(extents, [_INT64] * len(extents))


def _count(reader: Reader, extent: Value, width: int) -> Value:
    """Return the number of tiles along an axis."""
    most = reader.typing.function(max)
    extent = call_function(reader, most, [extent, reader.constant(0)], {})
    rounded = reader.numba(operator.add, [extent, reader.constant(width - 1)])
    found: Value = reader.numba(operator.floordiv, [rounded, reader.constant(width)])
    return found


def _block(reader: Reader, call: ast.Call) -> tuple[Value, Value]:
    """Return the number of the block in the grid, and that of all blocks."""
    assert isinstance(call.func, ast.Name)
    site = reader.unit, call.func.id

    def read(name: str) -> Value:
        use = IntrinsicUse(INTRINSICS[name], {})
        about = {"signature": _INT64(), "use": use, "site": site}
        return reader.add(name, [], (_INT64,), about).result

    def flat(places: Sequence[Value], extents: Sequence[Value]) -> Value:
        number, *rest = places
        for place, extent in zip(rest, extents, strict=True):
            number = reader.numba(operator.mul, [number, extent])
            number = reader.numba(operator.add, [number, place])
        return number

    places = [read(f"blockIdx.{axis}") for axis in "zyx"]
    extents = [read(f"gridDim.{axis}") for axis in "zyx"]
    total = extents[0]
    for extent in extents[1:]:
        total = reader.numba(operator.mul, [total, extent])
    return flat(places, extents[1:]), total
