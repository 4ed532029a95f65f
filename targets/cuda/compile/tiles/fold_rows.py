"""Folds along the rows of a tile in shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from kerneldsl.ir.tiles.elements import Variable
from targets.cuda.compile.tiles.lanes import Lanes
from targets.cuda.compile.tiles.thread_code import Memory
from targets.cuda.intrinsics.groups.lanes import WARP_SIZE

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.folds import Fold

__all__ = ["RowFold"]

_I64 = ir.IntType(64)


class RowFold:
    """Writes the fold of each row of `room` to an element of `target`."""

    def __init__(self, fold: Fold, target: Memory, room: Memory) -> None:
        self._fold = fold
        self._code = fold.code
        self._target = target
        self._room = room
        self._rows, self._columns = fold.shape

    def _finish(self, row: ir.Value, total: ir.Value) -> None:
        self._target.set(row, self._fold.finished(total, self._columns))

    # -- warps ------------------------------------------------------------------------------------

    def by_warps(self) -> None:
        """Combine rows by warps; a part of a warp that is as wide as a short row takes one."""
        code, builder = self._code, self._code.builder
        width = min(WARP_SIZE, 1 << (self._columns - 1).bit_length())
        at_once = WARP_SIZE // width
        warps = code.threads // WARP_SIZE
        lanes = Lanes(code, whole=True)
        part, column = code.line_and_place(lanes.lane, width)

        def each() -> None:
            start = builder.mul(lanes.warp, _I64(at_once))
            with code.range(start, self._rows, warps * at_once) as first:
                self._row_of_warp(builder.add(first, part), column, width, lanes)

        if code.threads % WARP_SIZE == 0:
            each()
            return
        with code.when(code.is_below(lanes.warp, warps)):
            each()

    def _row_of_warp(self, row: ir.Value, column: ir.Value, width: int, lanes: Lanes) -> None:
        code, builder, columns = self._code, self._code.builder, self._columns
        total = code.variable(self._fold.combiner.identity())
        is_row = code.is_below(row, self._rows)
        is_own = is_row
        if columns < width:
            is_own = builder.and_(is_row, code.is_below(column, columns))
        with code.when(is_own):
            self._take(total, code.at(row, columns, column), column, width)
        count = columns if columns < width else None
        combined = self._fold.combiner.combined
        value = lanes.met(total.get(), combined, width, column, count)
        with code.when(builder.and_(code.is_equal(column, 0), is_row)):
            self._finish(row, value)

    def _take(self, total: Variable, start: ir.Value, column: ir.Value, width: int) -> None:
        """Combine a lane's elements of a row."""
        code, builder, columns = self._code, self._code.builder, self._columns
        total.set(self._room.get(start))

        def add(at: ir.Value) -> None:
            element = self._room.get(builder.add(start, builder.mul(at, _I64(width))))
            total.set(self._fold.combiner.combined(total.get(), element))

        whole = columns // width
        if whole > 1:
            with code.range(1, whole) as at:
                add(at)
        if columns > width and columns % width:
            with code.when(code.is_below(column, columns % width)):
                add(_I64(whole))

    # -- threads ----------------------------------------------------------------------------------

    def by_threads(self) -> None:
        """Combine each row by a thread: as many values as a warp has lanes, then neighbours."""
        code = self._code
        own = code.local(self._fold.kind, min(WARP_SIZE, self._columns))
        with code.range(code.thread, self._rows, code.threads) as line:
            self._row_of_thread(line, own)

    def _row_of_thread(self, line: ir.Value, own: Memory) -> None:
        code, builder, columns = self._code, self._code.builder, self._columns
        combined = self._fold.combiner.combined
        lanes = min(WARP_SIZE, columns)
        start = builder.mul(line, _I64(columns))

        def element(offset: ir.Value) -> ir.Value:
            return self._room.get(builder.add(start, offset))

        def add(offset: ir.Value, count: int) -> None:
            with code.unrolled(count) as at:
                own.set(at, combined(own.get(at), element(builder.add(offset, at))))

        with code.unrolled(lanes) as at:
            own.set(at, element(at))
        whole = columns // lanes
        if whole > 1:
            with code.range(1, whole) as turn:
                add(builder.mul(turn, _I64(lanes)), lanes)
        if columns % lanes:
            add(_I64(whole * lanes), columns % lanes)
        size = lanes
        while size > 1:
            with code.unrolled(size // 2) as pair:
                twice = builder.mul(pair, _I64(2))
                following = builder.add(twice, _I64(1))
                own.set(pair, combined(own.get(twice), own.get(following)))
            if size % 2:
                own.set(_I64(size // 2), own.get(_I64(size - 1)))
            size = (size + 1) // 2
        self._finish(line, own.get(_I64(0)))
