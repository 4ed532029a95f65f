"""Find where the sorted elements of a tile were, in the order that they had where they are equal.

What is sorted are integers of 64 bits: the integer by which an element is sorted above its place,
so that no two are equal. One of 64 bits itself is sorted by its lower half first; in the integers
for its upper half follows where the element then stood, and below that where it was at first.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from kerneldsl.analysis.tile_shapes import Shape
from kerneldsl.frontend.syntax import call
from kerneldsl.lowering.tile_sorts import key_dtype
from targets.cuda.compile.sort_tiles import SortSpreader
from targets.cuda.compile.tile_memory import plus, times

if TYPE_CHECKING:
    from targets.cuda.compile.spread_tiles import TileSpreader

__all__ = ["PlaceSpreader"]

_HALF = 32
#: Bits of a place: shared memory has room for fewer integers.
_PLACE_BITS = 16


class PlaceSpreader:
    """Writes the places of one tile's sorted elements.

    Parameters
    ----------
    spreader : TileSpreader
        Writes elements, loops and declarations.
    shape : Shape
        Of the tile.
    dtype : str
        Of its elements.
    """

    def __init__(self, spreader: TileSpreader, shape: Shape, dtype: str) -> None:
        self._spreader = spreader
        self._shape = shape
        self._is_wide = key_dtype(dtype) == "uint64"
        self._sort = SortSpreader(spreader, shape, dtype, "uint64")

    def write(self, target: str, node: ast.expr) -> list[ast.stmt]:
        """Return the statements that give the target the places."""
        sort = self._sort
        if sort.bits == 0:
            return sort.written(target, lambda index, slot: ast.Constant(0))
        sort.declare()
        if self._is_wide:
            out = self._sorted_by_halves(node)
        else:

            def key(index: ast.expr, slot: ast.expr) -> ast.expr:
                return _above(sort.key_of(node, index, slot), sort.column(index))

            out = sort.sorted(key)
        bits = _PLACE_BITS if self._is_wide else _HALF

        def place(index: ast.expr, slot: ast.expr) -> ast.expr:
            return _low(sort.sorted_key(index), bits)

        return [*out, *sort.written(target, place), *sort.released(target)]

    def _sorted_by_halves(self, node: ast.expr) -> list[ast.stmt]:
        spreader, sort = self._spreader, self._sort
        layout = spreader.plan.layout(self._shape)
        keys, first = (spreader.names.make(stem) for stem in ("keys", "first"))
        spreader.array(keys, "shared", math.prod(self._shape), "uint64")
        spreader.array(first, "local", layout.rounds * layout.group, "int64")

        def held(index: ast.expr, slot: ast.expr, at: ast.expr) -> list[ast.stmt]:
            return [spreader.set(keys, index, sort.key_of(node, index, slot))]

        def noted(index: ast.expr, slot: ast.expr, at: ast.expr) -> list[ast.stmt]:
            return [spreader.set(first, slot, _low(sort.sorted_key(index), _HALF))]

        def lower(index: ast.expr, slot: ast.expr) -> ast.expr:
            key = spreader.at(keys, index)
            return _above(key, sort.column(index))

        def upper(index: ast.expr, slot: ast.expr) -> ast.expr:
            column = sort.column(index)
            row = ast.BinOp(index, ast.Sub(), column)
            was = spreader.at(first, slot)
            key = ast.BinOp(spreader.at(keys, plus(row, was)), ast.RShift(), ast.Constant(_HALF))
            return _above(key, plus(times(column, 1 << _PLACE_BITS), was))

        return [
            *spreader.slots(layout, held),
            spreader.wait(),
            *sort.sorted(lower),
            *spreader.slots(layout, noted),
            spreader.wait(),
            *sort.sorted(upper),
        ]


def _above(key: ast.expr, low: ast.expr) -> ast.expr:
    """Return an integer of the lower half of a key, and 32 bits below it."""
    high = ast.BinOp(call("kd_as_uint64", key), ast.LShift(), ast.Constant(_HALF))
    return ast.BinOp(high, ast.BitOr(), call("kd_as_uint64", low))


def _low(key: ast.expr, bits: int) -> ast.expr:
    """Return the lowest bits of an integer, as a place."""
    return call("kd_as_int64", ast.BinOp(key, ast.BitAnd(), ast.Constant((1 << bits) - 1)))
