"""Sums up to each element of a tile, in the order of :mod:`kerneldsl.ir.tiles.layout`.

Each thread adds its neighbours, and the lanes of its warp exchange sums. A sum of each warp and
round is in shared memory. Every thread adds those before its own.

References
----------
M. Harris, S. Sengupta and J. D. Owens, "Parallel Prefix Sum (Scan) with CUDA", GPU Gems 3, 2007.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from kerneldsl.ir.operations import Operation
from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.ir.tiles.elements import Slot, Variable
from kerneldsl.ir.tiles.folds import Combiner
from kerneldsl.ir.tiles.layout import TileLayout
from kerneldsl.lowering.groups import WIDTHS
from targets.cuda.compile.tiles.lanes import Lanes
from targets.cuda.compile.tiles.thread_code import Memory

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["write_scan"]

_I64 = ir.IntType(64)


def write_scan(writer: TileWriter, operation: Operation) -> None:
    """Write the sums up to each element of a tile, or of each line along an axis."""
    scan = Scan(writer, operation)
    axis = operation.attributes["axis"]
    if axis is None:
        scan.write()
    else:
        _AxisScan(scan).write(axis)


class Scan:
    """Writes one scan."""

    def __init__(self, writer: TileWriter, operation: Operation) -> None:
        self.writer = writer
        self.code = writer.code
        self.operation = operation
        self.shape = writer.shape(operation)
        self.kind = operation.result.type.dtype
        self.exclusive: bool = operation.attributes["exclusive"]
        self.combiner = Combiner(operation, self.kind, self.code.context, self.code.builder)
        self.target = writer.storage(operation.result)

    def met(self, total: ir.Value, lanes: Lanes) -> ir.Value:
        """Add to each lane's value those of the lanes before it."""
        builder = self.code.builder
        for width in WIDTHS:
            if width >= self.code.threads:
                break
            # The last lane of the lower half has the sum of all that is before the upper one.
            start = builder.and_(lanes.lane, _I64(-2 * width))
            other = lanes.exchanged("idx", total, builder.or_(start, _I64(width - 1)))
            half = builder.and_(lanes.lane, _I64(width))
            is_upper = builder.icmp_unsigned("!=", half, _I64(0))
            total = builder.select(is_upper, self.combiner.combined(other, total), total)
        return total

    def shifted(self, total: ir.Value, lanes: Lanes) -> ir.Value:
        """Return the value of the lane before this one; nothing in the first one."""
        before = lanes.exchanged("up", total, _I64(1))
        is_first = self.code.is_equal(lanes.lane, 0)
        return self.code.builder.select(is_first, self.combiner.identity(), before)

    # -- the whole --------------------------------------------------------------------------------

    def write(self) -> None:
        """Add all elements in the order of their numbers."""
        writer, code = self.writer, self.code
        layout = writer.layout(self.operation)
        own = code.local(self.kind, layout.rounds * layout.group)
        before = code.local(self.kind, layout.rounds)
        warps = -(-layout.threads // WARP_SIZE)
        room = writer.room(self.operation, self.kind, layout.rounds * warps)
        lanes = Lanes(code)
        self._own(own, layout)
        self._of_warps(own, before, room, layout, lanes)
        code.wait()
        self._after_warps(before, room, layout, lanes)
        with code.slots(layout) as slot:
            turn = code.builder.udiv(slot.slot, _I64(layout.group))
            value = self._result(own, before.get(turn), slot)
            self.target.put(slot, value)
        if self.target.is_shared or writer.loop_depth:
            code.wait()  # no thread writes the next sums while another one reads

    def _result(self, own: Memory, start: ir.Value, slot: Slot) -> ir.Value:
        code, builder = self.code, self.code.builder
        if not self.exclusive:
            return self.combiner.combined(start, own.get(slot.slot))
        first = builder.select(code.is_equal(slot.index, 0), self.combiner.nothing(), start)
        result = code.variable(first)
        assert slot.place is not None
        with code.when(builder.icmp_unsigned("!=", slot.place, _I64(0))):
            result.set(self.combiner.combined(start, own.get(builder.sub(slot.slot, _I64(1)))))
        return result.get()

    def _own(self, own: Memory, layout: TileLayout) -> None:
        """Add a thread's neighbours one after the other."""
        code, builder = self.code, self.code.builder
        if not layout.is_even:
            with code.unrolled(layout.rounds * layout.group) as slot:
                own.set(slot, self.combiner.identity())
        total = code.variable(self.combiner.identity())
        with self.writer.elements(self.operation) as (slot, element):
            assert slot.place is not None
            begins = code.is_equal(slot.place, 0)
            start = builder.select(begins, self.combiner.identity(), total.get())
            value = self.combiner.combined(start, element)
            total.set(value)
            own.set(slot.slot, value)

    def _of_warps(
        self, own: Memory, before: Memory, room: Memory, layout: TileLayout, lanes: Lanes
    ) -> None:
        """Add the values of the lanes of each warp, round by round; the last one has the sum."""
        code, builder = self.code, self.code.builder
        warps = -(-layout.threads // WARP_SIZE)
        is_last = code.is_equal(lanes.lane, builder.sub(lanes.count, _I64(1)))
        with code.unrolled(layout.rounds) as turn:
            last = code.at(turn, layout.group, _I64(layout.group - 1))
            total = self.met(own.get(last), lanes)
            before.set(turn, self.shifted(total, lanes))
            with code.when(is_last):
                room.set(code.at(turn, warps, lanes.warp), total)

    def _after_warps(self, before: Memory, room: Memory, layout: TileLayout, lanes: Lanes) -> None:
        """Add the sum before a warp to the sum before a thread in it."""
        code = self.code
        warps = -(-layout.threads // WARP_SIZE)
        total = code.variable(self.combiner.identity())
        # LLVM does not unroll the outer one of two loops, so they are one.
        with code.unrolled(layout.rounds * warps) as number:
            turn, warp = code.line_and_place(number, warps)
            with code.when(code.is_equal(warp, lanes.warp)):
                before.set(turn, self.combiner.combined(total.get(), before.get(turn)))
            total.set(self.combiner.combined(total.get(), room.get(number)))


# Sums up to each element along an axis of a tile in shared memory.


class _AxisScan:
    """Writes a scan along an axis of a tile of two."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._code = scan.code
        self._memory = scan.target.memory
        self._rows, self._columns = scan.shape

    def write(self, axis: int) -> None:
        scan, code = self._scan, self._code
        code.wait()
        with scan.writer.elements(scan.operation) as (slot, element):
            self._memory.set(slot.index, element)
        code.wait()
        if axis == 0:
            self._along_columns()
        elif code.threads < WARP_SIZE:
            self._rows_of_threads()
        else:
            self._rows_of_warps()
        code.wait()

    def _along_columns(self) -> None:
        """Add the rows, a thread for each column."""
        scan, code = self._scan, self._code
        with code.range(code.thread, self._columns, code.threads) as column:
            total = code.variable(scan.combiner.identity())
            with code.range(0, self._rows) as row:
                place = code.at(row, self._columns, column)
                own = self._memory.get(place)
                before = total.get()
                after = scan.combiner.combined(before, own)
                result = after
                if scan.exclusive:
                    is_first = code.is_equal(row, 0)
                    result = code.builder.select(is_first, scan.combiner.nothing(), before)
                self._memory.set(place, result)
                total.set(after)

    def _result(self, column: ir.Value, start: ir.Value, own: ir.Value) -> ir.Value:
        """Return what the place of an element gets; `start` is the sum before it."""
        scan, code = self._scan, self._code
        if not scan.exclusive:
            return scan.combiner.combined(start, own)
        return code.builder.select(code.is_equal(column, 0), scan.combiner.nothing(), start)

    # -- rows -------------------------------------------------------------------------------------

    def _rows_of_warps(self) -> None:
        """Add along the rows, a warp for each row."""
        code = self._code
        warps = code.threads // WARP_SIZE
        lanes = Lanes(code, whole=True)

        def each() -> None:
            with code.range(lanes.warp, self._rows, warps) as row:
                carry = code.variable(self._scan.combiner.identity())
                with code.range(0, self._columns, WARP_SIZE) as first:
                    self._segment_of_warp(row, first, carry, lanes)

        if code.threads % WARP_SIZE == 0:
            each()
            return
        with code.when(code.is_below(lanes.warp, warps)):
            each()

    def _segment_of_warp(
        self, row: ir.Value, first: ir.Value, carry: Variable, lanes: Lanes
    ) -> None:
        scan, code, builder = self._scan, self._code, self._code.builder
        column = builder.add(first, lanes.lane)
        place = code.at(row, self._columns, column)
        is_inside = code.is_below(column, self._columns)
        own = code.variable(scan.combiner.identity())
        with code.when(is_inside):
            own.set(self._memory.get(place))
        total = scan.met(own.get(), lanes)
        before = scan.shifted(total, lanes)
        with code.when(is_inside):
            start = scan.combiner.combined(carry.get(), before)
            self._memory.set(place, self._result(column, start, own.get()))
        last = lanes.exchanged("idx", total, _I64(WARP_SIZE - 1))
        carry.set(scan.combiner.combined(carry.get(), last))

    def _rows_of_threads(self) -> None:
        """Add along the rows if there is no whole warp, a thread for each row."""
        code = self._code
        sums = code.local(self._scan.kind, min(WARP_SIZE, self._columns))
        with code.range(code.thread, self._rows, code.threads) as row:
            carry = code.variable(self._scan.combiner.identity())
            with code.range(0, self._columns, WARP_SIZE) as first:
                self._segment_of_thread(row, first, carry, sums)

    def _segment_of_thread(
        self, row: ir.Value, first: ir.Value, carry: Variable, sums: Memory
    ) -> None:
        scan, code, builder = self._scan, self._code, self._code.builder
        count = min(WARP_SIZE, self._columns)
        with code.range(0, count) as lane:
            sums.set(lane, scan.combiner.identity())
            column = builder.add(first, lane)
            with code.when(code.is_below(column, self._columns)):
                sums.set(lane, self._memory.get(code.at(row, self._columns, column)))
        for width in WIDTHS:
            with code.range(0, count) as lane:
                half = builder.and_(lane, _I64(width))
                with code.when(builder.icmp_unsigned("!=", half, _I64(0))):
                    start = builder.and_(lane, _I64(-2 * width))
                    source = builder.or_(start, _I64(width - 1))
                    sums.set(lane, scan.combiner.combined(sums.get(source), sums.get(lane)))
        before = code.variable(scan.combiner.combined(carry.get(), scan.combiner.identity()))
        with code.range(0, count) as lane:
            column = builder.add(first, lane)
            with code.when(code.is_below(column, self._columns)):
                place = code.at(row, self._columns, column)
                own = self._memory.get(place)
                self._memory.set(place, self._result(column, before.get(), own))
                before.set(scan.combiner.combined(carry.get(), sums.get(lane)))
        carry.set(scan.combiner.combined(carry.get(), sums.get(_I64(count - 1))))
