"""Folds of tiles (:mod:`kerneldsl.ir.tiles.layout`), and products without tensor cores.

Along an axis, all elements are put into shared memory. Along axis 0 each thread combines columns
there. Along axis 1 the lanes of a warp combine a row, or several short ones, and exchange results.

References
----------
CUDA C++ Programming Guide, section "Warp Shuffle Functions"; M. Harris, "Optimizing Parallel
Reduction in CUDA", NVIDIA, 2007.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from kerneldsl.ir.operations import Operation
from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.ir.tiles.elements import Slot, Variable, add_product, write_region
from kerneldsl.ir.tiles.folds import Combiner
from kerneldsl.ir.tiles.layout import TileLayout
from targets.cuda.compile.mma.fragments import Fragments
from targets.cuda.compile.tiles.elements import OperationCode
from targets.cuda.compile.tiles.lanes import Lanes
from targets.cuda.compile.tiles.thread_code import Memory

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import Storage, TileWriter

__all__ = ["Fold", "write_fold"]

# Folds along the rows of a tile in shared memory.

_I64 = ir.IntType(64)


class _RowFold:
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


_I1, _I32 = ir.IntType(1), ir.IntType(32)


def write_fold(writer: TileWriter, operation: Operation) -> None:
    """Write a fold of all elements of a tile, or along an axis."""
    Fold(writer, operation).write()


class Fold:
    """Writes one fold."""

    def __init__(self, writer: TileWriter, operation: Operation) -> None:
        self.writer = writer
        self.code = writer.code
        self.operation = operation
        self.shape = writer.shape(operation)
        #: Type of the combined values.
        self.kind = operation.regions[1].arguments[0].type
        self.combiner = Combiner(operation, self.kind, self.code.context, self.code.builder)

    def write(self) -> None:
        writer, axis = self.writer, self.operation.attributes["axis"]
        layout = writer.layout(self.operation)
        if axis is None:
            writer.emitter.set(self.operation, self.finished(self._whole(), layout.count))
            return
        target = writer.storage(self.operation.result)
        layouts, result = writer.layouts, self.operation.result
        if layouts is not None and layouts.is_row(self.operation, result):
            _fold_rows(self, target)
            return
        if len(self.shape) == 1:
            value = self.finished(self._whole(), layout.count)
            self.code.wait()
            target.memory.set(_I64(0), value)
        else:
            self._along(target.memory, axis)
        self.code.wait()

    # -- values -----------------------------------------------------------------------------------

    def finished(self, total: ir.Value, count: int) -> ir.Value:
        """Return the result of a combination of `count` elements."""
        region = self.operation.regions[1]
        return write_region(self.writer.emitter, region, total, _I64(count))

    # -- the whole --------------------------------------------------------------------------------

    def _whole(self) -> ir.Value:
        """Combine all elements; every thread has the result."""
        writer, code = self.writer, self.code
        layout = writer.layout(self.operation)
        own = OperationCode(writer, self.operation).held(self.kind)
        total = self._of_thread(own, layout)
        if self.combiner.vote:
            return code.vote(self.combiner.vote, total)
        lanes, width = Lanes(code), min(code.threads, WARP_SIZE)
        count = lanes.count if code.threads % WARP_SIZE else None
        total = lanes.met(total, self.combiner.combined, width, lanes.lane, count)
        return self._of_warps(total, lanes)

    def _of_thread(self, own: Memory, layout: TileLayout) -> ir.Value:
        """Combine the thread's elements."""
        combined, identity = self.combiner.combined, self.combiner.identity()
        totals: list[ir.Value] = []
        for slot in range(layout.rounds * layout.group):
            value = own.get(_I64(slot))
            if not layout.is_even and slot >= (layout.rounds - 1) * layout.group:
                is_there = self._is_there(layout, slot)
                value = self.code.builder.select(is_there, value, identity)
            if slot < layout.group:
                totals.append(value)
            else:
                place = slot % layout.group
                totals[place] = combined(totals[place], value)
        while len(totals) > 1:
            pairs = zip(totals[::2], totals[1::2], strict=True)
            totals = [combined(one, two) for one, two in pairs]
        return totals[0]

    def _is_there(self, layout: TileLayout, slot: int) -> ir.Value:
        """Return whether an element belongs to a slot of the last round."""
        code, builder = self.code, self.code.builder
        turn, place = divmod(slot, layout.group)
        group = builder.add(code.thread, _I64(turn * layout.threads))
        return code.is_below(code.at(group, layout.group, _I64(place)), layout.count)

    def _of_warps(self, total: ir.Value, lanes: Lanes) -> ir.Value:
        """Combine the values of the first lanes of all warps."""
        writer, code = self.writer, self.code
        warps = -(-code.threads // WARP_SIZE)
        if warps == 1:
            return lanes.exchanged("idx", total, _I64(0))
        room = writer.room(self.operation, self.kind, warps)
        with code.when(code.is_equal(lanes.lane, 0)):
            room.set(lanes.warp, total)
        code.wait()
        total = room.get(_I64(0))
        for warp in range(1, warps):
            total = self.combiner.combined(total, room.get(_I64(warp)))
        if writer.loop_depth:
            code.wait()  # no thread writes the next result while another one reads
        return total

    # -- along an axis ----------------------------------------------------------------------------

    def _along(self, target: Memory, axis: int) -> None:
        writer, code, (rows, columns) = self.writer, self.code, self.shape
        room = writer.room(self.operation, self.kind, rows * columns)
        with writer.elements(self.operation) as (slot, element):
            room.set(slot.index, element)
        code.wait()
        if axis == 0:
            self._columns(target, room)
        elif code.threads >= WARP_SIZE:
            _RowFold(self, target, room).by_warps()
        else:
            _RowFold(self, target, room).by_threads()

    def _columns(self, target: Memory, room: Memory) -> None:
        """Combine each column, one row after the other, by a thread."""
        code, (rows, columns) = self.code, self.shape
        with code.range(code.thread, columns, code.threads) as line:
            total = code.variable(room.get(line))
            with code.range(1, rows) as row:
                element = room.get(code.at(row, columns, line))
                total.set(self.combiner.combined(total.get(), element))
            target.set(line, self.finished(total.get(), rows))


# This product has both factors in shared memory.
def write_mma(writer: TileWriter, operation: Operation) -> None:
    """Write a product, with the tile that is added; products are added along k, one by one."""
    code, builder = OperationCode(writer, operation), writer.code.builder
    (rows, columns), depth = code.shape, operation.attributes["depth"]
    exchanged = operation.attributes["exchanged"]
    factors = [writer.storage(each) for each in operation.operands[:2]]
    added = [writer.storage(each) for each in operation.operands[2:]]
    kind = operation.result.type.dtype
    zero = ir.Constant(writer.emitter.context.get_value_type(kind), 0)

    def value(number: int, place: tuple[ir.Value, ir.Value], columns: int) -> ir.Value:
        factor = factors[number]
        if exchanged[number]:
            place = place[::-1]
        index = writer.code.at(place[0], columns, place[1])
        return writer.emitter.convert(factor.get(index), factor.kind, kind)

    def element(slot: Slot) -> ir.Value:
        row, column = code.indices(slot)
        total = writer.code.variable(added[0].own(slot) if added else zero)
        with writer.code.range(0, depth) as place:
            one = value(0, (row, place), rows if exchanged[0] else depth)
            two = value(1, (place, column), depth if exchanged[1] else columns)
            total.set(add_product(builder, one, two, total.get()))
        return total.get()

    code.fill(element)


_ROW_LANES = (1, 2)


def _fold_rows(fold: Fold, target: Storage) -> None:
    """Write a fold of fragments along axis 1; each thread gets the results of its rows.

    A thread combines its elements of a row from left to right. Then the four lanes with elements of
    the row exchange their results, and the warps along the columns after that.
    """
    writer, code, builder = fold.writer, fold.code, fold.code.builder
    layout = writer.layout(fold.operation)
    assert isinstance(layout, Fragments)
    own = OperationCode(writer, fold.operation).held(fold.kind)
    lanes, rows = Lanes(code, whole=True), layout.of_rows()
    room = None
    if layout.column_warps > 1:
        room = writer.room(fold.operation, fold.kind, layout.column_warps * layout.rows)
    totals = []
    for row in range(rows.slot_count):
        block, half = divmod(row, 2)
        total: ir.Value | None = None
        for column in range(layout.column_blocks):
            for odd in range(2):
                value = own.get(_I64(layout.first(block, column) + 2 * half + odd))
                total = value if total is None else fold.combiner.combined(total, value)
        for width in _ROW_LANES:
            other = lanes.exchanged("bfly", total, _I64(width))
            total = fold.combiner.combined(total, other)
        totals.append(total)
    if room is not None:
        warp = builder.udiv(lanes.warp, _I64(layout.row_warps))
        start = builder.mul(warp, _I64(layout.rows))
        places = [rows.indices(builder, code.thread, _I64(row))[0] for row in range(len(totals))]
        with code.when(code.is_equal(builder.and_(lanes.lane, _I64(3)), 0)):
            for place, total in zip(places, totals, strict=True):
                room.set(builder.add(start, place), total)
        code.wait()
        for number, place in enumerate(places):
            total = room.get(place)
            for other in range(1, layout.column_warps):
                at = builder.add(place, _I64(other * layout.rows))
                total = fold.combiner.combined(total, room.get(at))
            totals[number] = total
        code.wait()
    results = [fold.finished(total, layout.columns) for total in totals]
    if not target.is_shared:
        for number, result in enumerate(results):
            target.memory.set(_I64(number), result)
        return
    with writer.written(target), code.when(rows.is_first(builder, code.thread)):
        for number, result in enumerate(results):
            target.memory.set(rows.indices(builder, code.thread, _I64(number))[0], result)
