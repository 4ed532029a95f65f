"""Loads and stores of tiles that are spread over threads.

Tiles of one axis are moved by :mod:`targets.cuda.intrinsics.tile_memory`, others element by
element.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kerneldsl.analysis.tile_shapes import Shape
from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.frontend.trees import copy_tree
from kerneldsl.lowering.tile_plan import Layout

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
        assert isinstance(node.func, ast.Name)
        is_packed = node.func.id in spreader.plan.packed
        if len(self.shape) == 1 and target not in spreader.shared and not is_packed:
            given = map(load, (target, name, rest, starts[0], spreader.thread))
            return [*before, ast.Expr(call(f"kd_take_{layout.count}", *given))]

        def write(index: ast.expr, slot: ast.expr, place: ast.expr) -> list[ast.stmt]:
            where = index if target in spreader.shared else slot
            test, element = self._place(name, starts, index)
            taken = spreader.set(target, where, element)
            return [ast.If(test, [taken], [spreader.set(target, copy_tree(where), load(rest))])]

        return [*before, *spreader.slots(layout, write)]

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

        assert isinstance(node.func, ast.Name)
        if node.func.id in spreader.order.between:
            return [*before, *self._in_turn(value, dtype, name, starts)]
        if len(self.shape) > 1:
            return [*before, *spreader.slots(layout, write)]
        own = spreader.held(value, self.shape, dtype)
        computed: list[ast.stmt] = []
        if own is None:
            own = self._registers(dtype)
            computed = spreader.slots(layout, self._computing(own, value))
        given = map(load, (name, own, starts[0], spreader.thread))
        stored = [*computed, ast.Expr(call(f"kd_put_{layout.count}", *given))]
        if not self._calls_function(value):
            return [*before, *stored]
        # It is called for elements that the array has a place for, and for no other.
        is_wide = call(f"kd_is_wide_{layout.count}", load(name), load(starts[0]))
        return [*before, ast.If(is_wide, stored, spreader.slots(layout, write))]

    def _in_turn(
        self, value: ast.expr, dtype: str, array: str, starts: list[str]
    ) -> list[ast.stmt]:
        """Compute every element that there is a place for, and write none before."""
        spreader = self.spreader
        own = self._registers(dtype)

        def compute(index: ast.expr, slot: ast.expr, place: ast.expr) -> list[ast.stmt]:
            test, _ = self._place(array, starts, index)
            element = spreader.element(value, self.shape, index, slot)
            return [ast.If(test, [spreader.set(own, slot, element)], [])]

        def write(index: ast.expr, slot: ast.expr, place: ast.expr) -> list[ast.stmt]:
            test, where = self._place(array, starts, index)
            where.ctx = ast.Store()
            return [ast.If(test, [ast.Assign([where], spreader.at(own, slot))], [])]

        computed, written = (spreader.slots(self.layout, each) for each in (compute, write))
        return [*computed, spreader.wait(), *written]

    def _registers(self, dtype: str) -> str:
        """Declare an array for a thread's elements."""
        name = self.names.make("group")
        self.spreader.array(name, "local", self.layout.rounds * self.layout.group, dtype)
        return name

    def _computing(
        self, own: str, value: ast.expr
    ) -> Callable[[ast.expr, ast.expr, ast.expr], list[ast.stmt]]:
        def compute(index: ast.expr, slot: ast.expr, place: ast.expr) -> list[ast.stmt]:
            element = self.spreader.element(value, self.shape, index, slot)
            return [self.spreader.set(own, copy_tree(slot), element)]

        return compute

    def _calls_function(self, value: ast.expr) -> bool:
        """Return whether an element comes from a device function, which may do anything."""
        unit = self.spreader.unit
        return any(unit.callee_of(inner) is not None for inner in ast.walk(value))

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
