"""Reductions along one axis of a tile that is spread over threads.

All elements are put into shared memory. Along axis 0 each thread combines columns there; along
axis 1 the lanes of a warp combine a row, or several short ones, and meet by shuffles.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kerneldsl.analysis.tile_shapes import Shape
from kerneldsl.frontend.syntax import assign, call, load, store
from targets.cuda.compile.tile_lanes import WARP_SIZE, WIDTHS, Lanes
from targets.cuda.compile.tile_memory import plus, times

if TYPE_CHECKING:
    from targets.cuda.compile.fold_tiles import FoldSpreader

__all__ = ["AxisFold"]


class AxisFold:
    """Writes one reduction along an axis.

    Parameters
    ----------
    fold : FoldSpreader
        How elements are combined.
    shape : Shape
        Of the tile that is reduced, with two axes.
    axis : int
        The axis.
    is_mean : bool
        Whether sums are divided by the extent.
    """

    def __init__(self, fold: FoldSpreader, shape: Shape, axis: int, *, is_mean: bool) -> None:
        self._fold = fold
        self._spreader = fold.spreader
        self._dtype = fold.dtype
        self._shape = shape
        self._axis = axis
        self._is_mean = is_mean

    def write(self, target: str, node: ast.expr) -> list[ast.stmt]:
        """Return the statements that give the target the results."""
        spreader, (rows, columns) = self._spreader, self._shape
        room = spreader.names.make("room")
        spreader.array(room, "shared", rows * columns, self._dtype)

        def put(index: ast.expr, slot: ast.expr, at: ast.expr) -> list[ast.stmt]:
            element = self._fold.converted(spreader.element(node, self._shape, index, slot))
            return [spreader.set(room, index, element)]

        out = [*spreader.slots(spreader.plan.layout(self._shape), put), spreader.wait()]
        if self._axis == 1 and spreader.plan.threads >= WARP_SIZE:
            return [*out, *self._rows_of_warps(target, room), spreader.wait()]
        line, total = spreader.names.make("line"), spreader.names.make("total")
        of_line = self._column if self._axis == 0 else self._row
        result = spreader.set(target, load(line), self._result(total))
        count = ast.Constant(columns if self._axis == 0 else rows)
        lines = call("kd_range", load(spreader.thread), count, ast.Constant(spreader.plan.threads))
        body = [*of_line(room, line, total, self._shape), result]
        return [*out, ast.For(store(line), lines, body, []), spreader.wait()]

    def _result(self, total: str) -> ast.expr:
        if not self._is_mean:
            return load(total)
        return self._fold.mean(load(total), self._shape[self._axis])

    def _rows_of_warps(self, target: str, room: str) -> list[ast.stmt]:
        """Combine rows: a lane each of a part of the warp that is as wide as a short row."""
        spreader, names = self._spreader, self._spreader.names
        rows, columns = self._shape
        width = min(WARP_SIZE, 1 << (columns - 1).bit_length())
        at_once = WARP_SIZE // width
        warps = spreader.plan.threads // WARP_SIZE
        lanes = Lanes(spreader, whole=True)
        first, row, column, total, at = (
            names.make(stem) for stem in ("first", "row", "column", "total", "at")
        )
        is_row = ast.Compare(load(row), [ast.Lt()], [ast.Constant(rows)])
        is_own: ast.expr = is_row
        if columns < width:
            is_column = ast.Compare(load(column), [ast.Lt()], [ast.Constant(columns)])
            is_own = ast.BoolOp(ast.And(), [is_row, is_column])
        start = plus(times(load(row), columns), load(column))
        taken: list[ast.stmt] = [assign(total, spreader.at(room, start))]
        whole = columns // width
        below = spreader.at(room, plus(start, times(load(at), width)))
        combined = assign(total, self._fold.combined(load(total), below))
        if whole > 1:
            rounds = call("kd_range", ast.Constant(1), ast.Constant(whole))
            taken.append(ast.For(store(at), rounds, [combined], []))
        if columns > width and columns % width:
            has_rest = ast.Compare(load(column), [ast.Lt()], [ast.Constant(columns % width)])
            taken += [assign(at, ast.Constant(whole)), ast.If(has_rest, [combined], [])]
        count = ast.Constant(columns) if columns < width else None
        is_first = ast.Compare(load(column), [ast.Eq()], [ast.Constant(0)])
        writes = ast.BoolOp(ast.And(), [is_first, is_row])
        part = ast.BinOp(lanes.lane, ast.FloorDiv(), ast.Constant(width))
        body: list[ast.stmt] = [
            assign(row, plus(load(first), part)),
            assign(column, ast.BinOp(lanes.lane, ast.Mod(), ast.Constant(width))),
            assign(total, self._fold.identity()),
            ast.If(is_own, taken, []),
            *self._met(total, lanes, width, load(column), count),
            ast.If(writes, [spreader.set(target, load(row), self._result(total))], []),
        ]
        bounds = (ast.Constant(rows), ast.Constant(warps * at_once))
        each = call("kd_range", times(lanes.warp, at_once), *bounds)
        along = ast.For(store(first), each, body, [])
        if spreader.plan.threads % WARP_SIZE == 0:
            return [*lanes.before, along]
        is_whole = ast.Compare(lanes.warp, [ast.Lt()], [ast.Constant(warps)])
        return [*lanes.before, ast.If(is_whole, [along], [])]

    def _met(
        self, total: str, lanes: Lanes, width: int, place: ast.expr, count: ast.expr | None
    ) -> list[ast.stmt]:
        """Combine a value of each of `width` lanes, neighbours first, to the first of them.

        `place` is a lane's place among them, of which the first `count` have a value, or all.
        """
        out: list[ast.stmt] = []
        other = self._spreader.names.make("other")
        for step in WIDTHS:
            if step >= width:
                break
            distance = ast.Constant(step)
            exchanged = lanes.exchanged("shfl_down_sync", total, distance, self._dtype)
            out.append(assign(other, exchanged))
            met: ast.expr = self._fold.combined(load(total), load(other))
            if count is not None:
                source = ast.BinOp(place, ast.Add(), distance)
                has_other = ast.Compare(source, [ast.Lt()], [count])
                met = ast.IfExp(has_other, met, load(total))
            out.append(assign(total, met))
        return out

    def _column(self, room: str, line: str, total: str, shape: Shape) -> list[ast.stmt]:
        """Combine a column, one row after the other."""
        rows, columns = shape
        row = self._spreader.names.make("row")
        start = ast.BinOp(load(row), ast.Mult(), ast.Constant(columns))
        below = self._spreader.at(room, ast.BinOp(start, ast.Add(), load(line)))
        added = assign(total, self._fold.combined(load(total), below))
        more = call("kd_range", ast.Constant(1), ast.Constant(rows))
        first = assign(total, self._spreader.at(room, load(line)))
        return [first, ast.For(store(row), more, [added], [])]

    def _row(self, room: str, line: str, total: str, shape: Shape) -> list[ast.stmt]:
        """Combine a row: as many accumulators as a warp has lanes, then neighbours."""
        spreader = self._spreader
        _, columns = shape
        lanes = min(WARP_SIZE, columns)
        own, at, turn = (spreader.names.make(stem) for stem in ("own", "at", "round"))
        spreader.array(own, "local", lanes, self._dtype)
        start = ast.BinOp(load(line), ast.Mult(), ast.Constant(columns))

        def element(offset: ast.expr) -> ast.expr:
            return spreader.at(room, ast.BinOp(start, ast.Add(), offset))

        out = [spreader.unrolled(at, lanes, [spreader.set(own, load(at), element(load(at)))])]

        def add(offset: ast.expr) -> ast.stmt:
            index = ast.BinOp(offset, ast.Add(), load(at))
            met = self._fold.combined(spreader.at(own, load(at)), element(index))
            return spreader.set(own, load(at), met)

        whole = columns // lanes
        if whole > 1:
            offset = ast.BinOp(load(turn), ast.Mult(), ast.Constant(lanes))
            inner = spreader.unrolled(at, lanes, [add(offset)])
            turns = call("kd_range", ast.Constant(1), ast.Constant(whole))
            out.append(ast.For(store(turn), turns, [inner], []))
        if columns % lanes:
            rest = add(ast.Constant(whole * lanes))
            out.append(spreader.unrolled(at, columns % lanes, [rest]))
        size = lanes
        while size > 1:
            pair = spreader.names.make("pair")
            twice = ast.BinOp(load(pair), ast.Mult(), ast.Constant(2))
            next_ = ast.BinOp(twice, ast.Add(), ast.Constant(1))
            met = self._fold.combined(spreader.at(own, twice), spreader.at(own, next_))
            out.append(spreader.unrolled(pair, size // 2, [spreader.set(own, load(pair), met)]))
            if size % 2:
                last = spreader.at(own, ast.Constant(size - 1))
                out.append(spreader.set(own, ast.Constant(size // 2), last))
            size = (size + 1) // 2
        return [*out, assign(total, spreader.at(own, ast.Constant(0)))]
