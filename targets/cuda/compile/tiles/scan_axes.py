"""Sums up to each element along an axis of a tile in shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from kerneldsl.ir.tiles.elements import Variable
from targets.cuda.compile.tiles.lanes import Lanes
from targets.cuda.compile.tiles.thread_code import Memory
from targets.cuda.intrinsics.groups.lanes import WARP_SIZE, WIDTHS

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.scans import Scan

__all__ = ["AxisScan"]

_I64 = ir.IntType(64)


class AxisScan:
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
