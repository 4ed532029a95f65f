"""Reductions of tiles that are spread over threads, in the order that the plan of tiles tells.

References
----------
CUDA C++ Programming Guide, section "Warp Shuffle Functions"; M. Harris, "Optimizing Parallel
Reduction in CUDA", NVIDIA, 2007.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from kerneldsl.analysis.tile_shapes import Shape
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.lowering.tile_folds import identity_of
from targets.cuda.compile.tile_lanes import WARP_SIZE, WIDTHS, Lanes

if TYPE_CHECKING:
    from targets.cuda.compile.spread_tiles import TileSpreader

__all__ = ["FoldSpreader"]


class FoldSpreader:
    """Writes reductions of one kind and dtype.

    Parameters
    ----------
    spreader : TileSpreader
        Writes elements, loops and declarations.
    fold : str
        A name of :data:`~kerneldsl.lowering.tile_folds.COMBINATIONS`.
    dtype : str
        Of the result, in which elements are combined.
    """

    def __init__(self, spreader: TileSpreader, fold: str, dtype: str) -> None:
        self.spreader = spreader
        self.fold = fold
        self.dtype = dtype

    def write(
        self, target: str, node: ast.expr, shape: Shape, axis: int | None, *, is_mean: bool
    ) -> list[ast.stmt]:
        """Return the statements that give the target the result."""
        if axis is None:
            out, total = self._whole(node, shape)
            count = math.prod(shape)
            return [*out, assign(target, self._mean(total, count) if is_mean else total)]
        if len(shape) == 1:
            out, total = self._whole(node, shape)
            result = self._mean(total, shape[0]) if is_mean else total
            written = self.spreader.set(target, ast.Constant(0), result)
            return [*out, self.spreader.wait(), written, self.spreader.wait()]
        return self._along(target, node, shape, axis, is_mean=is_mean)

    # -- values -----------------------------------------------------------------------------------

    def converted(self, element: ast.expr) -> ast.expr:
        """Return an element as it is combined."""
        if self.dtype == "bool":
            return ast.Compare(element, [ast.NotEq()], [ast.Constant(0)])
        return call(f"kd_as_{self.dtype}", element)

    def combined(self, one: ast.expr, two: ast.expr) -> ast.expr:
        return call(f"kd_fold_{self.fold}", one, two)

    def _identity(self) -> ast.expr:
        identity = ast.Constant(identity_of(self.fold, self.dtype))
        return call(f"kd_as_{self.dtype}", identity)

    def _mean(self, total: ast.expr, count: int) -> ast.expr:
        real = {"complex64": "float32", "complex128": "float64"}.get(self.dtype, self.dtype)
        divisor = call(f"kd_as_{real}", ast.Constant(count))
        return call(f"kd_as_{self.dtype}", ast.BinOp(total, ast.Div(), divisor))

    # -- the whole --------------------------------------------------------------------------------

    def _whole(self, node: ast.expr, shape: Shape) -> tuple[list[ast.stmt], ast.expr]:
        """Combine all elements; return the statements, and what every thread has then."""
        spreader = self.spreader
        layout = spreader.plan.layout(shape)
        names = spreader.names
        own = names.make("own")
        spreader.array(own, "local", layout.group, self.dtype)
        place = names.make("place")
        start = spreader.unrolled(
            place, layout.group, [spreader.set(own, load(place), self._identity())]
        )

        def write(index: ast.expr, slot: ast.expr, at: ast.expr) -> list[ast.stmt]:
            element = self.converted(spreader.element(node, shape, index, slot))
            return [spreader.set(own, at, self.combined(spreader.at(own, at), element))]

        out = [start, *spreader.slots(layout, write)]
        values: list[ast.expr] = [spreader.at(own, ast.Constant(i)) for i in range(layout.group)]
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [self.combined(one, two) for one, two in pairs]
        total = names.make("total")
        out.append(assign(total, values[0]))
        if self.dtype == "bool":
            vote = "syncthreads_or" if self.fold == "any" else "syncthreads_and"
            return out, call("kd_as_bool", spreader.use(vote, load(total)))
        return [*out, *self._block(total)], load(total)

    def _block(self, total: str) -> list[ast.stmt]:
        """Combine a value of each thread, and give all of them the result."""
        spreader, threads = self.spreader, self.spreader.plan.threads
        lanes = Lanes(spreader)
        out = [*lanes.before, *self._warp(total, lanes)]
        warps = -(-threads // WARP_SIZE)
        if warps == 1:
            first = lanes.exchanged("shfl_sync", total, ast.Constant(0), self.dtype)
            return [*out, assign(total, first)]
        room = spreader.names.make("room")
        spreader.array(room, "shared", warps, self.dtype)
        is_first = ast.Compare(lanes.lane, [ast.Eq()], [ast.Constant(0)])
        out.append(ast.If(is_first, [spreader.set(room, lanes.warp, load(total))], []))
        out.append(spreader.wait())
        out.append(assign(total, spreader.at(room, ast.Constant(0))))
        at = spreader.names.make("at")
        index = ast.BinOp(load(at), ast.Add(), ast.Constant(1))
        more = self.combined(load(total), spreader.at(room, index))
        out.append(spreader.unrolled(at, warps - 1, [assign(total, more)]))
        if spreader.loop_depth:
            out.append(spreader.wait())  # nobody writes the next result while another one reads
        return out

    def _warp(self, total: str, lanes: Lanes) -> list[ast.stmt]:
        """Combine a value of each lane of a warp; the first lane has the result then."""
        spreader = self.spreader
        out: list[ast.stmt] = []
        other = spreader.names.make("other")
        for width in WIDTHS:
            if width >= spreader.plan.threads:
                break
            distance = ast.Constant(width)
            exchanged = lanes.exchanged("shfl_down_sync", total, distance, self.dtype)
            out.append(assign(other, exchanged))
            met: ast.expr = self.combined(load(total), load(other))
            if lanes.rest:
                source = ast.BinOp(lanes.lane, ast.Add(), distance)
                has_other = ast.Compare(source, [ast.Lt()], [lanes.count])
                met = ast.IfExp(has_other, met, load(total))
            out.append(assign(total, met))
        return out

    # -- along an axis ----------------------------------------------------------------------------

    def _along(
        self, target: str, node: ast.expr, shape: Shape, axis: int, *, is_mean: bool
    ) -> list[ast.stmt]:
        """Combine along an axis, through shared memory."""
        spreader = self.spreader
        rows, columns = shape
        room = spreader.names.make("room")
        spreader.array(room, "shared", rows * columns, self.dtype)

        def write(index: ast.expr, slot: ast.expr, at: ast.expr) -> list[ast.stmt]:
            element = self.converted(spreader.element(node, shape, index, slot))
            return [spreader.set(room, index, element)]

        out = [*spreader.slots(spreader.plan.layout(shape), write), spreader.wait()]
        line, total = spreader.names.make("line"), spreader.names.make("total")
        count, length = (columns, rows) if axis == 0 else (rows, columns)
        folded = (
            self._column(room, line, total, shape)
            if axis == 0
            else (self._row(room, line, total, shape))
        )
        result: ast.expr = load(total)
        if is_mean:
            result = self._mean(result, length)
        body = [*folded, spreader.set(target, load(line), result)]
        lines = call(
            "kd_range",
            load(spreader.thread),
            ast.Constant(count),
            ast.Constant(spreader.plan.threads),
        )
        return [*out, ast.For(store(line), lines, body, []), spreader.wait()]

    def _column(self, room: str, line: str, total: str, shape: Shape) -> list[ast.stmt]:
        """Combine a column, one row after the other."""
        rows, columns = shape
        row = self.spreader.names.make("row")
        start = ast.BinOp(load(row), ast.Mult(), ast.Constant(columns))
        below = self.spreader.at(room, ast.BinOp(start, ast.Add(), load(line)))
        added = assign(total, self.combined(load(total), below))
        more = call("kd_range", ast.Constant(1), ast.Constant(rows))
        first = assign(total, self.spreader.at(room, load(line)))
        return [first, ast.For(store(row), more, [added], [])]

    def _row(self, room: str, line: str, total: str, shape: Shape) -> list[ast.stmt]:
        """Combine a row: as many accumulators as a warp has lanes, then neighbours."""
        spreader = self.spreader
        _, columns = shape
        lanes = min(WARP_SIZE, columns)
        own, at, turn = (spreader.names.make(stem) for stem in ("own", "at", "round"))
        spreader.array(own, "local", lanes, self.dtype)
        start = ast.BinOp(load(line), ast.Mult(), ast.Constant(columns))

        def element(offset: ast.expr) -> ast.expr:
            return spreader.at(room, ast.BinOp(start, ast.Add(), offset))

        out = [spreader.unrolled(at, lanes, [spreader.set(own, load(at), element(load(at)))])]

        def add(offset: ast.expr) -> ast.stmt:
            index = ast.BinOp(offset, ast.Add(), load(at))
            met = self.combined(spreader.at(own, load(at)), element(index))
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
            met = self.combined(spreader.at(own, twice), spreader.at(own, next_))
            out.append(spreader.unrolled(pair, size // 2, [spreader.set(own, load(pair), met)]))
            if size % 2:
                last = spreader.at(own, ast.Constant(size - 1))
                out.append(spreader.set(own, ast.Constant(size // 2), last))
            size = (size + 1) // 2
        return [*out, assign(total, spreader.at(own, ast.Constant(0)))]
