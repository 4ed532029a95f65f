"""Folds of tiles, in the order of :mod:`kerneldsl.ir.tiles.layout`.

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
from kerneldsl.ir.tiles.elements import write_region
from kerneldsl.ir.tiles.folds import Combiner
from kerneldsl.ir.tiles.layout import TileLayout
from targets.cuda.compile.tiles.elements import OperationCode
from targets.cuda.compile.tiles.fold_rows import RowFold
from targets.cuda.compile.tiles.lanes import Lanes
from targets.cuda.compile.tiles.thread_code import Memory
from targets.cuda.intrinsics.groups.lanes import WARP_SIZE

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["write_fold"]

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)


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
        #: Type of what is combined.
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
            from targets.cuda.compile.mma.row_folds import fold_rows

            fold_rows(self, target)
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
            RowFold(self, target, room).by_warps()
        else:
            RowFold(self, target, room).by_threads()

    def _columns(self, target: Memory, room: Memory) -> None:
        """Combine each column, one row after the other, by a thread."""
        code, (rows, columns) = self.code, self.shape
        with code.range(code.thread, columns, code.threads) as line:
            total = code.variable(room.get(line))
            with code.range(1, rows) as row:
                element = room.get(code.at(row, columns, line))
                total.set(self.combiner.combined(total.get(), element))
            target.set(line, self.finished(total.get(), rows))
