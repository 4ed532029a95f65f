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
from kerneldsl.ir.tiles.elements import Slot
from kerneldsl.ir.tiles.folds import Combiner
from kerneldsl.ir.tiles.layout import TileLayout
from targets.cuda.compile.tiles.lanes import Lanes
from targets.cuda.compile.tiles.scan_axes import AxisScan
from targets.cuda.compile.tiles.thread_code import Memory
from targets.cuda.intrinsics.groups.lanes import WARP_SIZE, WIDTHS

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
        AxisScan(scan).write(axis)


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
        # One loop, not two: LLVM forgets to unroll the outer one.
        with code.unrolled(layout.rounds * warps) as number:
            turn, warp = code.line_and_place(number, warps)
            with code.when(code.is_equal(warp, lanes.warp)):
                before.set(turn, self.combiner.combined(total.get(), before.get(turn)))
            total.set(self.combiner.combined(total.get(), room.get(number)))
