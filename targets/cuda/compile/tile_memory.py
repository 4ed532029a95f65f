"""Loads and stores of tiles that are spread over threads.

A thread takes a group of neighbours by one instruction where the whole tile lies within the array
and the group's place allows it, and element by element, each tested, elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kerneldsl.analysis.tile_shapes import Shape
from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.lowering.tile_plan import Layout
from kerneldsl.lowering.trees import copy_tree

if TYPE_CHECKING:
    from targets.cuda.compile.spread_tiles import TileSpreader

__all__ = ["MemorySpreader", "plus", "times"]


class MemorySpreader:
    """Writes the accesses of one operation.

    Parameters
    ----------
    spreader : TileSpreader
        Writes elements, loops and declarations.
    shape : Shape
        Of the tile.
    """

    def __init__(self, spreader: TileSpreader, shape: Shape) -> None:
        self.spreader = spreader
        self.names = spreader.names
        self.shape = shape
        self.layout: Layout = spreader.plan.layout(shape)

    def load(self, target: str, node: ast.Call) -> list[ast.stmt]:
        """Return the statements that give the target the elements of an array."""
        spreader, layout = self.spreader, self.layout
        array, other, *at = node.args
        name, before, starts = self._array(array, at)
        dtype = spreader.plan.variables[target].dtype
        rest = self.names.make("other")
        before.append(assign(rest, call(f"kd_as_{dtype}", other)))

        def write(index: ast.expr, slot: ast.expr, place: ast.expr) -> list[ast.stmt]:
            where = index if target in spreader.shared else slot
            test, element = self._place(name, starts, index)
            taken = spreader.set(target, where, element)
            return [ast.If(test, [taken], [spreader.set(target, copy_tree(where), load(rest))])]

        guarded = spreader.slots(layout, write)
        if not self._may_be_wide or target in spreader.shared:
            return [*before, *guarded]
        turn, first, slot = self._turn(starts[0])
        moved = call(f"kd_transfer_{layout.group}", load(target), slot, load(name), first)
        wide = spreader.unrolled(turn, layout.rounds, [ast.Expr(moved)])
        return [*before, ast.If(self._is_wide(name, starts[0]), [wide], guarded)]

    def store(self, node: ast.Call, dtype: str) -> list[ast.stmt]:
        """Return the statements that write elements into an array of a dtype."""
        spreader, layout = self.spreader, self.layout
        array, *at, value = node.args
        name, before, starts = self._array(array, at)

        def write(index: ast.expr, slot: ast.expr, place: ast.expr) -> list[ast.stmt]:
            test, where = self._place(name, starts, index)
            where.ctx = ast.Store()
            element = spreader.element(value, self.shape, index, slot)
            return [ast.If(test, [ast.Assign([where], element)], [])]

        guarded = spreader.slots(layout, write)
        if not self._may_be_wide:
            return [*before, *guarded]
        group = self.names.make("group")
        spreader.array(group, "local", layout.rounds * layout.group, dtype)

        def compute(index: ast.expr, slot: ast.expr, place: ast.expr) -> list[ast.stmt]:
            element = spreader.element(value, self.shape, index, slot)
            return [spreader.set(group, copy_tree(slot), element)]

        turn, first, slot = self._turn(starts[0])
        moved = call(f"kd_transfer_{layout.group}", load(name), first, load(group), slot)
        wide = spreader.unrolled(turn, layout.rounds, [ast.Expr(moved)])
        computed = spreader.slots(layout, compute)
        return [*before, ast.If(self._is_wide(name, starts[0]), [*computed, wide], guarded)]

    @property
    def _may_be_wide(self) -> bool:
        return len(self.shape) == 1 and self.layout.group > 1

    def _is_wide(self, array: str, start: str) -> ast.expr:
        """Return the test whether groups can be accessed by wide instructions."""
        count, group = ast.Constant(self.layout.count), ast.Constant(self.layout.group)
        return call("kd_is_wide", load(array), load(start), count, group)

    def _turn(self, start: str) -> tuple[str, ast.expr, ast.expr]:
        """Return the variable of a loop over groups, and a group's place in memory and its slot."""
        turn, layout = self.names.make("round"), self.layout
        number = plus(times(load(turn), layout.threads), load(self.spreader.thread))
        first = plus(load(start), times(number, layout.group))
        return turn, first, times(load(turn), layout.group)

    def _array(
        self, array: ast.expr, at: Sequence[ast.expr]
    ) -> tuple[str, list[ast.stmt], list[str]]:
        """Name an array, and the first index along each of its axes."""
        name = self.names.make("array")
        starts = [self.names.make("start") for _ in at]
        before: list[ast.stmt] = [assign(name, array)]
        before += [assign(s, call("kd_place", place)) for s, place in zip(starts, at, strict=True)]
        return name, before, starts

    def _place(
        self, array: str, starts: list[str], index: ast.expr
    ) -> tuple[ast.expr, ast.Subscript]:
        """Return the element of an array for a number, and the test whether it is there."""
        parts = [index]
        if len(self.shape) > 1:
            columns = ast.Constant(self.shape[1])
            parts = [ast.BinOp(index, op, columns) for op in (ast.FloorDiv(), ast.Mod())]
        places = [plus(load(s), part) for s, part in zip(starts, parts, strict=True)]
        tests: list[ast.expr] = []
        for axis, place in enumerate(places):
            extent = ast.Subscript(
                ast.Attribute(load(array), "shape", ast.Load()), ast.Constant(axis), ast.Load()
            )
            tests.append(ast.Compare(ast.Constant(0), [ast.LtE()], [place]))
            tests.append(ast.Compare(copy_tree(place), [ast.Lt()], [extent]))
        indices: list[ast.expr] = [call("kd_unsigned", copy_tree(place)) for place in places]
        whole = indices[0] if len(indices) == 1 else ast.Tuple(indices, ast.Load())
        return ast.BoolOp(ast.And(), tests), ast.Subscript(load(array), whole, ast.Load())


def plus(one: ast.expr, two: ast.expr) -> ast.expr:
    """Return a sum."""
    return ast.BinOp(one, ast.Add(), two)


def times(one: ast.expr, factor: int) -> ast.expr:
    """Return a product with a constant."""
    return one if factor == 1 else ast.BinOp(one, ast.Mult(), ast.Constant(factor))
