"""Reductions of tiles, in the order that :mod:`kerneldsl.lowering.tile_plan` tells.

Elements are combined into one accumulator for each place of the block, round by round; then
neighbours meet level by level, as far as the threads of a warp, and warps follow each other.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kerneldsl.analysis.tile_shapes import Shape, is_tile_use
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.language.element_types import ELEMENT_TYPES
from targets.cpu.ids import WARP_SIZE

if TYPE_CHECKING:
    from targets.cpu.tiles import TileWriter

__all__ = ["FoldWriter"]


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
        writer = self.writer
        layout = writer.plan.layout((count,))
        places = min(layout.places, count)
        buffers = [writer.buffer(places, self.dtype) for _ in range(2)]
        at, turn = writer.names.make("at"), writer.names.make("round")
        first = writer.set(buffers[0], load(at), self._element(source, load(at)))
        out = [writer.loop(at, 0, places, [first])]

        def add(start: ast.expr) -> ast.stmt:
            index = ast.BinOp(start, ast.Add(), load(at))
            old = writer.at(buffers[0], load(at))
            return writer.set(
                buffers[0], load(at), self._combined(old, self._element(source, index))
            )

        whole_rounds = count // places
        if whole_rounds > 1:
            start = ast.BinOp(load(turn), ast.Mult(), ast.Constant(places))
            inner = writer.loop(at, 0, places, [add(start)])
            turns = call("kd_range", ast.Constant(1), ast.Constant(whole_rounds))
            out.append(ast.For(store(turn), turns, [inner], []))
        if count % places:
            out.append(
                writer.loop(at, 0, count % places, [add(ast.Constant(whole_rounds * places))])
            )
        return [*out, *self._tree(buffers, places, layout.group)]

    def _tree(self, buffers: list[str], places: int, group: int) -> list[ast.stmt]:
        """Combine accumulators: those of a thread, of a warp's threads, of the warps."""
        writer, out = self.writer, list[ast.stmt]()
        size = places
        level = 1
        while level < group:
            out.append(self._level(buffers, 0, size // 2))
            buffers.reverse()
            size //= 2
            level *= 2
        full = size // WARP_SIZE * WARP_SIZE
        left = size - full
        rest: list[str] = []
        if left and full:
            rest = [writer.buffer(left, self.dtype) for _ in range(2)]
            at = writer.names.make("at")
            index = ast.BinOp(load(at), ast.Add(), ast.Constant(full))
            copied = writer.set(rest[0], load(at), writer.at(buffers[0], index))
            out.append(writer.loop(at, 0, left, [copied]))
        elif left:
            rest, full = buffers, 0
        warps = full
        while full and warps > full // WARP_SIZE:
            out.append(self._level(buffers, 0, warps // 2))
            buffers.reverse()
            warps //= 2
        found: list[ast.expr] = []
        if full:
            out.append(assign(self.total, writer.at(buffers[0], ast.Constant(0))))
            if warps > 1:
                at = writer.names.make("at")
                total = self._combined(load(self.total), writer.at(buffers[0], load(at)))
                warp_range = call("kd_range", ast.Constant(1), ast.Constant(warps))
                out.append(ast.For(store(at), warp_range, [assign(self.total, total)], []))
            found = [load(self.total)]
        while left > 1:
            out.append(self._level(rest, 0, left // 2))
            if left % 2:
                last = writer.at(rest[0], ast.Constant(left - 1))
                out.append(writer.set(rest[1], ast.Constant(left // 2), last))
            rest.reverse()
            left = (left + 1) // 2
        if left:
            last = writer.at(rest[0], ast.Constant(0))
            out.append(assign(self.total, self._combined(found[0], last) if found else last))
        return out

    def _level(self, buffers: list[str], start: int, pairs: int) -> ast.stmt:
        """Combine neighbours of one array into another."""
        writer = self.writer
        at = writer.names.make("at")
        twice = ast.BinOp(load(at), ast.Mult(), ast.Constant(2))
        one = writer.at(buffers[0], twice)
        two = writer.at(buffers[0], ast.BinOp(twice, ast.Add(), ast.Constant(1)))
        return writer.loop(
            at, start, pairs, [writer.set(buffers[1], load(at), self._combined(one, two))]
        )

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
        row, at, turn = (writer.names.make(stem) for stem in ("row", "at", "round"))
        lanes = min(WARP_SIZE, columns)
        buffers = [writer.buffer(lanes, self.dtype) for _ in range(2)]
        start = ast.BinOp(load(row), ast.Mult(), ast.Constant(columns))

        def element(offset: ast.expr) -> ast.expr:
            return self._element(source, ast.BinOp(start, ast.Add(), offset))

        body = [writer.loop(at, 0, lanes, [writer.set(buffers[0], load(at), element(load(at)))])]

        def add(offset: ast.expr) -> ast.stmt:
            index = ast.BinOp(offset, ast.Add(), load(at))
            combined = self._combined(writer.at(buffers[0], load(at)), element(index))
            return writer.set(buffers[0], load(at), combined)

        whole = columns // lanes
        if whole > 1:
            offset = ast.BinOp(load(turn), ast.Mult(), ast.Constant(lanes))
            inner = writer.loop(at, 0, lanes, [add(offset)])
            turns = call("kd_range", ast.Constant(1), ast.Constant(whole))
            body.append(ast.For(store(turn), turns, [inner], []))
        if columns % lanes:
            body.append(writer.loop(at, 0, columns % lanes, [add(ast.Constant(whole * lanes))]))
        body += self._tree(buffers, lanes, 1)
        result = load(self.total) if mean_of is None else self._mean(load(self.total), mean_of)
        body.append(writer.set(target, load(row), result))
        return [ast.For(store(row), call("kd_range", ast.Constant(rows)), body, [])]


def len_of(shape: Shape) -> int:
    """Return how many elements a tile has."""
    count = 1
    for extent in shape:
        count *= extent
    return count
