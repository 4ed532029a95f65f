"""Sums up to each element of a tile, in the order that :mod:`kerneldsl.lowering.tile_plan` gives.

A segment is three loops over the threads of a warp that LLVM vectorizes: each adds its neighbours,
the sums of all meet in a tree, and what is before is added to each element.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from kerneldsl.analysis.tile_shapes import Shape
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.frontend.trees import copy_tree
from kerneldsl.lowering.tile_folds import identity_of
from targets.cpu.passes.ids import WARP_SIZE
from targets.cpu.passes.statements import sum_of

if TYPE_CHECKING:
    from targets.cpu.passes.tiles import TileWriter

__all__ = ["ScanWriter"]


class ScanWriter:
    """Writes sums of one dtype.

    Parameters
    ----------
    writer : TileWriter
        Writes elements and loops.
    dtype : str
        In which elements are added.
    """

    def __init__(self, writer: TileWriter, dtype: str) -> None:
        self._writer = writer
        self._dtype = dtype

    def write(
        self, target: str, node: ast.expr, shape: Shape, axis: int | None, *, exclusive: bool
    ) -> list[ast.stmt]:
        """Return the statements that give the target the sums."""
        filled = self._writer.fill(target, call(f"kd_as_{self._dtype}", node), shape)
        if axis == 0:
            return [*filled, *self._columns(target, shape, exclusive=exclusive)]
        if axis is None:
            count = math.prod(shape)
            layout = self._writer.plan.layout((count,))
            segments = _Segments(self, target, layout.group, layout.threads, exclusive=exclusive)
            return [*filled, *segments.write(ast.Constant(0), count)]
        rows, columns = shape
        segments = _Segments(self, target, 1, WARP_SIZE, exclusive=exclusive)
        row = self._writer.names.make("row")
        start = ast.BinOp(load(row), ast.Mult(), ast.Constant(columns))
        body = segments.write(start, columns)
        return [*filled, ast.For(store(row), call("kd_range", ast.Constant(rows)), body, [])]

    @property
    def writer(self) -> TileWriter:
        """Return the writer of elements and loops."""
        return self._writer

    def buffer(self, count: int) -> str:
        """Return an array for sums that are needed for a while."""
        return self._writer.buffer(count, self._dtype)

    def added(self, one: ast.expr, two: ast.expr) -> ast.expr:
        """Return a sum with which nothing is contracted."""
        return call("kd_fold_sum", one, two)

    def nothing(self) -> ast.expr:
        """Return what changes no number that it is added to."""
        return call(f"kd_as_{self._dtype}", ast.Constant(identity_of("sum", self._dtype)))

    def zero(self) -> ast.expr:
        """Return the sum of no elements."""
        return call(f"kd_as_{self._dtype}", ast.Constant(0))

    def scanned(self, buffer: str) -> ast.stmt:
        """Replace what as many threads as a warp has gave, from place 1 on, by sums up to each."""
        return ast.Expr(call("kd_scan_lanes", load(buffer)))

    def _columns(self, target: str, shape: Shape, *, exclusive: bool) -> list[ast.stmt]:
        """Add the rows one after the other."""
        writer = self._writer
        rows, columns = shape
        row, at = writer.names.make("row"), writer.names.make("at")
        index = sum_of(ast.BinOp(load(row), ast.Mult(), ast.Constant(columns)), load(at))
        more = call("kd_range", ast.Constant(1), ast.Constant(rows))
        if not exclusive:
            above = writer.at(target, ast.BinOp(index, ast.Sub(), ast.Constant(columns)))
            added = writer.set(target, index, self.added(above, writer.at(target, index)))
            return [ast.For(store(row), more, [writer.loop(at, 0, columns, [added])], [])]
        total, own = self.buffer(columns), writer.names.make("own")
        first = [
            writer.set(total, load(at), writer.at(target, load(at))),
            writer.set(target, load(at), self.zero()),
        ]
        below = [
            assign(own, writer.at(target, index)),
            writer.set(target, index, writer.at(total, load(at))),
            writer.set(total, load(at), self.added(writer.at(total, load(at)), load(own))),
        ]
        return [
            writer.loop(at, 0, columns, first),
            ast.For(store(row), more, [writer.loop(at, 0, columns, below)], []),
        ]


class _Segments:
    """Writes the segments of one operation."""

    def __init__(
        self, scan: ScanWriter, target: str, group: int, threads: int, *, exclusive: bool
    ) -> None:
        self._scan = scan
        self._writer = scan.writer
        self._target = target
        self._group = group
        self._threads = threads
        self._exclusive = exclusive
        names = self._writer.names
        self._carry, self._lane = names.make("carry"), names.make("lane")
        #: What each thread has added by each of its places; the last one from place 1 on.
        self._own = [scan.buffer(WARP_SIZE) for _ in range(group - 1)]
        self._sums = scan.buffer(WARP_SIZE + 1)

    def write(self, start: ast.expr, count: int) -> list[ast.stmt]:
        """Return the sums of some neighbours in the target."""
        writer, group, threads = self._writer, self._group, self._threads
        width = WARP_SIZE * group
        first = writer.names.make("first")
        out: list[ast.stmt] = [assign(self._carry, self._scan.nothing())]
        if threads % WARP_SIZE == 0:
            whole = count // width * width
            place = sum_of(start, load(first))
            if whole:
                steps = call("kd_range", *map(ast.Constant, (0, whole, width)))
                out.append(ast.For(store(first), steps, self._segment(place, WARP_SIZE), []))
            if count > whole:
                place = sum_of(start, ast.Constant(whole))
                out += self._segment(place, (count - whole) // group)
        else:
            out.append(self._rounds(start, count, first))
        if self._exclusive:
            out.append(writer.set(self._target, start, self._scan.zero()))
        return out

    def _rounds(self, start: ast.expr, count: int, first: str) -> ast.stmt:
        """Return segments, some shorter: the last one of each round of the block."""
        writer, group, places = self._writer, self._group, self._threads * self._group
        round_, end, lanes = (writer.names.make(stem) for stem in ("round", "end", "lanes"))
        width = ast.Constant(WARP_SIZE * group)
        after = call("kd_min", sum_of(load(round_), ast.Constant(places)), ast.Constant(count))
        left = ast.BinOp(load(end), ast.Sub(), load(first))
        own = ast.BinOp(call("kd_min", left, width), ast.FloorDiv(), ast.Constant(group))
        body = [assign(lanes, own), *self._segment(sum_of(start, load(first)), load(lanes))]
        steps = call("kd_range", load(round_), load(end), width)
        rounds = call("kd_range", *map(ast.Constant, (0, count, places)))
        segments = ast.For(store(first), steps, body, [])
        return ast.For(store(round_), rounds, [assign(end, after), segments], [])

    def _segment(self, start: ast.expr, lanes: ast.expr | int) -> list[ast.stmt]:
        """Return the sums of one segment, whose threads are constant or not."""
        writer, scan, group = self._writer, self._scan, self._group

        def lane() -> ast.expr:
            return load(self._lane)

        def place(number: int) -> ast.expr:
            scaled = ast.BinOp(lane(), ast.Mult(), ast.Constant(group)) if group > 1 else lane()
            return sum_of(sum_of(copy_tree(start), scaled), ast.Constant(number))

        value = writer.names.make("value")
        gathered: list[ast.stmt] = [assign(value, writer.at(self._target, place(0)))]
        for number, own in enumerate(self._own):
            gathered.append(writer.set(own, lane(), load(value)))
            more = writer.at(self._target, place(number + 1))
            gathered.append(assign(value, scan.added(load(value), more)))
        gathered.append(writer.set(self._sums, sum_of(lane(), ast.Constant(1)), load(value)))
        before = writer.names.make("before")
        kept = [writer.at(own, lane()) for own in self._own]
        total = scan.added(load(self._carry), writer.at(self._sums, lane()))
        if self._exclusive:
            spread = [assign(before, total), writer.set(self._target, place(0), load(before))]
            spread += [
                writer.set(self._target, place(i + 1), scan.added(load(before), own))
                for i, own in enumerate(kept)
            ]
        else:
            # The tree has been at the last sum of a thread, which is computed once more.
            last = writer.at(self._target, place(group - 1))
            own_last = scan.added(kept[-1], last) if kept else last
            spread = [assign(before, total)]
            spread += [
                writer.set(self._target, place(i), scan.added(load(before), own))
                for i, own in enumerate([*kept, own_last])
            ]
        end = ast.Constant(lanes) if isinstance(lanes, int) else lanes
        following = writer.at(self._sums, end)
        return [
            writer.set(self._sums, ast.Constant(0), scan.nothing()),
            writer.loop(self._lane, 0, lanes, gathered),
            scan.scanned(self._sums),
            writer.loop(self._lane, 0, lanes, spread),
            assign(self._carry, scan.added(load(self._carry), following)),
        ]
