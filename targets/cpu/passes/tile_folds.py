"""Reductions of tiles, in the order that :mod:`kerneldsl.lowering.tile_plan` gives.

Elements are combined into one accumulator for each place of the block, round by round. Then
neighbours meet level by level, as far as the threads of a warp, and warps follow each other.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from kerneldsl.analysis.tile_shapes import Shape, is_tile_use
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.frontend.trees import copy_tree
from kerneldsl.language.element_types import ELEMENT_TYPES
from targets.cpu.passes.ids import WARP_SIZE
from targets.cpu.passes.statements import sum_of

if TYPE_CHECKING:
    from targets.cpu.passes.tiles import TileWriter

__all__ = ["FoldWriter"]

#: Rounds whose elements are added before the accumulators are stored again.
_ROUNDS = 8
#: Most nodes of an element's expression that is repeated so often.
_SHORT = 24


class FoldWriter:
    """Writes reductions of one kind and dtype.

    Parameters
    ----------
    writer : TileWriter
        Writes elements and loops.
    fold : str
        A name of :data:`~kerneldsl.lowering.tile_folds.COMBINATIONS`.
    dtype : str
        Of the result, in which elements are combined.
    """

    def __init__(self, writer: TileWriter, fold: str, dtype: str) -> None:
        self.writer = writer
        self.fold = fold
        self.dtype = dtype
        #: The variable in which a reduction ends.
        self.total = writer.names.make("total")

    def write(
        self, target: str, node: ast.expr, shape: Shape, axis: int | None, *, is_mean: bool
    ) -> list[ast.stmt]:
        """Return the statements that give the target the result."""
        before, source = self._source(node, shape)
        if axis is None or len(shape) == 1:
            count = len_of(shape)
            statements = [*before, *self._whole(source, count)]
            result = self._mean(load(self.total), count) if is_mean else load(self.total)
            if axis is None:
                return [*statements, assign(target, result)]
            return [*statements, self.writer.set(target, ast.Constant(0), result)]
        mean_of = shape[axis] if is_mean else None
        if axis == 0:
            return [*before, *self._columns(target, source, shape, mean_of)]
        return [*before, *self._rows(target, source, shape, mean_of)]

    # -- elements ---------------------------------------------------------------------------------

    def _source(self, node: ast.expr, shape: Shape) -> tuple[list[ast.stmt], ast.expr | str]:
        """Return what is folded: an expression, or an array of it, with what is done before."""
        unit, plan = self.writer.unit, self.writer.plan
        use = unit.use_of(node)
        if use is not None and is_tile_use(use) and use.intrinsic.name == "tile.element":
            assert isinstance(node, ast.Call)
            assert isinstance(node.args[0], ast.Name)
            name = node.args[0].id
            if plan.variables[name].shape == shape and not use.static.get("transposed"):
                return [], name
        if len(shape) == 1:
            return [], node
        dtype = "bool" if self.dtype == "bool" else self.dtype
        buffer = self.writer.buffer(len_of(shape), dtype)
        wrapped = self._converted(node)
        return self.writer.fill(buffer, wrapped, shape), buffer

    def _converted(self, element: ast.expr) -> ast.expr:
        """Return an element as it is combined."""
        if self.dtype == "bool" and self.fold in ("any", "all"):
            return ast.Compare(element, [ast.NotEq()], [ast.Constant(0)])
        return call(f"kd_as_{self.dtype}", element)

    def _element(self, source: ast.expr | str, index: ast.expr) -> ast.expr:
        if isinstance(source, str):
            return self._converted(self.writer.at(source, index))
        count = (1,)  # the places are given, so the extent does not matter
        return self._converted(self.writer.element(source, count, [index]))

    def _combined(self, one: ast.expr, two: ast.expr) -> ast.expr:
        return call(f"kd_fold_{self.fold}", one, two)

    def _mean(self, total: ast.expr, count: int) -> ast.expr:
        row = ELEMENT_TYPES[self.dtype]
        real = {"complex64": "float32", "complex128": "float64"}.get(self.dtype, row.name)
        divisor = call(f"kd_as_{real}", ast.Constant(count))
        return call(f"kd_as_{self.dtype}", ast.BinOp(total, ast.Div(), divisor))

    # -- the whole --------------------------------------------------------------------------------

    def _whole(self, source: ast.expr | str, count: int) -> list[ast.stmt]:
        """Combine all elements into the total."""
        layout = self.writer.plan.layout((count,))
        places = min(layout.places, count)
        buffer = self.writer.buffer(places, self.dtype)

        def element(offset: ast.expr) -> ast.expr:
            return self._element(source, offset)

        rounds = self._rounds(buffer, element, count, places)
        return [*rounds, *self._meet(buffer, places, WARP_SIZE * layout.group)]

    def _rounds(
        self, buffer: str, element: Callable[[ast.expr], ast.expr], count: int, places: int
    ) -> list[ast.stmt]:
        """Combine as many elements into each of the accumulators, round by round."""
        writer = self.writer
        at, start = writer.names.make("at"), writer.names.make("start")

        def add(first: ast.expr, rounds: int, *, to: ast.expr | None, end: int) -> ast.stmt:
            total = to
            for number in range(rounds):
                offset = sum_of(sum_of(copy_tree(first), ast.Constant(number * places)), load(at))
                new = element(offset)
                total = new if total is None else self._combined(total, new)
            assert total is not None
            return writer.loop(at, 0, end, [writer.set(buffer, load(at), total)])

        whole, rest = divmod(count, places)
        step = _ROUNDS if sum(1 for _ in ast.walk(element(load(at)))) <= _SHORT else 1
        begun = (whole - 1) % step + 1
        out = [add(ast.Constant(0), begun, to=None, end=places)]
        old = writer.at(buffer, load(at))
        if whole > begun:
            bounds = (begun * places, whole * places, step * places)
            starts = call("kd_range", *map(ast.Constant, bounds))
            inner = add(load(start), step, to=old, end=places)
            out.append(ast.For(store(start), starts, [inner], []))
        if rest:
            out.append(add(ast.Constant(whole * places), 1, to=old, end=rest))
        return out

    def _meet(self, buffer: str, places: int, warp: int) -> list[ast.stmt]:
        """Combine accumulators: the neighbours of each warp in a tree, then warp by warp."""
        start = self.writer.names.make("start")

        def met(first: ast.expr, count: int) -> ast.expr:
            return call(f"kd_met_{self.fold}", load(buffer), first, ast.Constant(count))

        def after(value: ast.expr) -> ast.stmt:
            return assign(self.total, self._combined(load(self.total), value))

        whole = places // warp * warp
        out: list[ast.stmt] = [assign(self.total, met(ast.Constant(0), min(warp, places)))]
        if whole > warp:
            starts = call("kd_range", *map(ast.Constant, (warp, whole, warp)))
            out.append(ast.For(store(start), starts, [after(met(load(start), warp))], []))
        if whole and places > whole:
            out.append(after(met(ast.Constant(whole), places - whole)))
        return out

    # -- along an axis ----------------------------------------------------------------------------

    def _columns(
        self, target: str, source: ast.expr | str, shape: Shape, mean_of: int | None
    ) -> list[ast.stmt]:
        """Combine each column, one row after the other."""
        writer = self.writer
        rows, columns = shape
        row, at = writer.names.make("row"), writer.names.make("at")
        first = writer.set(target, load(at), self._element(source, load(at)))
        start = ast.BinOp(load(row), ast.Mult(), ast.Constant(columns))
        below = self._element(source, ast.BinOp(start, ast.Add(), load(at)))
        added = writer.set(target, load(at), self._combined(writer.at(target, load(at)), below))
        out = [writer.loop(at, 0, columns, [first])]
        more = call("kd_range", ast.Constant(1), ast.Constant(rows))
        out.append(ast.For(store(row), more, [writer.loop(at, 0, columns, [added])], []))
        if mean_of is not None:
            mean = self._mean(writer.at(target, load(at)), mean_of)
            out.append(writer.loop(at, 0, columns, [writer.set(target, load(at), mean)]))
        return out

    def _rows(
        self, target: str, source: ast.expr | str, shape: Shape, mean_of: int | None
    ) -> list[ast.stmt]:
        """Combine each row: as many accumulators as a warp has lanes, then neighbours."""
        writer = self.writer
        rows, columns = shape
        row = writer.names.make("row")
        lanes = min(WARP_SIZE, columns)
        buffer = writer.buffer(lanes, self.dtype)
        start = ast.BinOp(load(row), ast.Mult(), ast.Constant(columns))

        def element(offset: ast.expr) -> ast.expr:
            return self._element(source, sum_of(copy_tree(start), offset))

        body = self._rounds(buffer, element, columns, lanes)
        body += self._meet(buffer, lanes, WARP_SIZE)
        result = load(self.total) if mean_of is None else self._mean(load(self.total), mean_of)
        body.append(writer.set(target, load(row), result))
        return [ast.For(store(row), call("kd_range", ast.Constant(rows)), body, [])]


def len_of(shape: Shape) -> int:
    """Return how many elements a tile has."""
    count = 1
    for extent in shape:
        count *= extent
    return count
