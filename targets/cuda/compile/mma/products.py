"""Products of tiles by the instructions of tensor cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Value
from targets.cuda.compile.mma.copies import put_element
from targets.cuda.compile.mma.fragments import BLOCK_COLUMNS, BLOCK_ROWS
from targets.cuda.compile.mma.layouts import Product
from targets.cuda.compile.mma.operands import Operand, OperandMemory
from targets.cuda.compile.tiles.thread_code import Memory
from targets.cuda.intrinsics.by_architecture import call_by_architecture

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import Storage, TileWriter

__all__ = ["write_product"]

_VOID, _I32, _I64 = ir.VoidType(), ir.IntType(32), ir.IntType(64)
_WARP = 32


def write_product(writer: TileWriter, operation: Operation, product: Product) -> None:
    """Write a product, with the tile that is added."""
    code, target = writer.code, writer.storage(operation.result)
    own = target.memory if not target.is_shared else _registers(writer, operation, product)
    _begin(writer, operation, product, own)
    places = [
        _factor(writer, operation, value, factor, number)
        for number, (value, factor) in enumerate(
            zip(operation.operands[:2], product.factors, strict=True)
        )
    ]
    _Steps(writer, product, own, places).write()
    if any(not _is_loaded(writer, value) for value in operation.operands[:2]):
        code.wait()  # no thread writes the next factor while another one reads
    if target.is_shared:
        with writer.written(target), code.slots(product.fragments) as slot:
            target.put(slot, own.get(slot.slot))


def _registers(writer: TileWriter, operation: Operation, product: Product) -> Memory:
    return writer.code.local(operation.result.type.dtype, product.fragments.slot_count)


def _begin(writer: TileWriter, operation: Operation, product: Product, own: Memory) -> None:
    """Give the accumulators the tile that is added, or zeros."""
    added: list[Storage] = [writer.storage(each) for each in operation.operands[2:]]
    if added and added[0].memory is own:
        return
    kind = writer.emitter.context.get_value_type(operation.result.type.dtype)
    with writer.code.slots(product.fragments) as slot:
        own.set(slot.slot, added[0].own(slot) if added else ir.Constant(kind, 0))


def _is_loaded(writer: TileWriter, value: Value) -> bool:
    assert writer.layouts is not None
    return writer.layouts.is_factor(value)


def _factor(
    writer: TileWriter, operation: Operation, value: Value, factor: Operand, number: int
) -> ir.Value:
    """Return the first byte of a factor in shared memory."""
    if _is_loaded(writer, value):
        assert isinstance(value.owner, Operation)
        return writer.factors.memory(value.owner)
    code, builder = writer.code, writer.code.builder
    storage = writer.storage(value)
    room = writer.factors.room((operation, number))
    model = writer.emitter.context.data_model_manager[storage.kind]
    columns = storage.place.shape[1]
    with code.slots(writer.layout_of(storage.place)) as slot:
        place = slot.indices or code.line_and_place(slot.index, columns)
        element = model.as_data(builder, storage.own(slot))
        put_element(builder, factor, room, element, place)
    code.wait()
    return room


class _Steps:
    """Writes the steps of a warp."""

    def __init__(
        self, writer: TileWriter, product: Product, own: Memory, places: list[ir.Value]
    ) -> None:
        code = writer.code
        self._code, self._builder, self._product, self._own = code, code.builder, product, own
        thread = code.builder.trunc(code.thread, _I32)
        warp = code.builder.udiv(thread, _I32(_WARP))
        lane = code.builder.urem(thread, _I32(_WARP))
        fragments = product.fragments
        row = code.builder.urem(warp, _I32(fragments.row_warps))
        column = code.builder.udiv(warp, _I32(fragments.row_warps))
        width = BLOCK_COLUMNS * fragments.column_blocks
        self._row = code.builder.mul(row, _I32(BLOCK_ROWS))
        self._column = code.builder.mul(column, _I32(width))
        self._a, self._b = (
            OperandMemory(code.builder, factor, place, lane)
            for factor, place in zip(product.factors, places, strict=True)
        )
        self._is_rounded = product.step.dtypes == ("float32", "float32")

    def write(self) -> None:
        """Write all steps along k."""
        product, fragments = self._product, self._product.fragments
        steps = range(product.a.depth // product.step.depth)
        if not product.promoted:
            for step in steps:
                self._step(step, self._own)
            return
        kind = product.step.register
        for first in steps[:: product.promoted]:
            sums = self._code.local(self._own.kind, fragments.slot_count)
            for slot in range(fragments.slot_count):
                sums.set(_I64(slot), ir.Constant(kind, 0))
            for step in steps[first : first + product.promoted]:
                self._step(step, sums)
            for slot in map(_I64, range(fragments.slot_count)):
                total = self._builder.fadd(self._own.get(slot), sums.get(slot))
                self._own.set(slot, total)

    def _step(self, step: int, target: Memory) -> None:
        fragments = self._product.fragments
        rows = [
            self._rounded(self._a.rows_of_a(self._at(self._row, block, is_row=True), step))
            for block in range(fragments.row_blocks)
        ]
        columns = self._columns(step)
        for row_block, a in enumerate(rows):
            for column_block, b in enumerate(columns):
                self._multiply(target, fragments.first(row_block, column_block), [*a, *b])

    def _at(self, start: ir.Value, block: int, *, is_row: bool) -> ir.Value:
        fragments = self._product.fragments
        stride = BLOCK_ROWS * fragments.row_warps if is_row else BLOCK_COLUMNS
        return self._builder.add(start, _I32(block * stride))

    def _columns(self, step: int) -> list[list[ir.Value]]:
        found: list[list[ir.Value]] = []
        count = self._product.fragments.column_blocks
        while len(found) < count:
            start = self._at(self._column, len(found), is_row=False)
            found += self._b.columns_of_b(start, step, min(2, count - len(found)))
        return [self._rounded(each) for each in found]

    def _rounded(self, words: list[ir.Value]) -> list[ir.Value]:
        if not self._is_rounded:
            return words
        call = call_by_architecture
        return [call(self._builder, "matrix_round", _I32, [word]) for word in words]

    def _multiply(self, target: Memory, first: int, registers: list[ir.Value]) -> None:
        step, builder = self._product.step, self._builder
        place = builder.gep(target.data, [_I64(first)])
        call_by_architecture(builder, step.name, _VOID, [place, *registers])
