"""Folds of fragments along their rows.

A thread combines its elements of a row from left to right. Then the four lanes with elements of
the row exchange their results, and the warps along the columns after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from targets.cuda.compile.mma.fragments import Fragments
from targets.cuda.compile.tiles.elements import OperationCode
from targets.cuda.compile.tiles.lanes import Lanes

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.folds import Fold
    from targets.cuda.compile.tiles.writer import Storage

__all__ = ["fold_rows"]

_I64 = ir.IntType(64)
_ROW_LANES = (1, 2)


def fold_rows(fold: Fold, target: Storage) -> None:
    """Write a fold along axis 1; each thread gets the results of its rows."""
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
