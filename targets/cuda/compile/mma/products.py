"""Products of tiles by the instructions of tensor cores."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.tiles.elements import Slot
from targets.cuda.compile.mma.copies import put_element
from targets.cuda.compile.mma.fragments import BLOCK_COLUMNS, BLOCK_ROWS, Fragments
from targets.cuda.compile.mma.layouts import Product
from targets.cuda.compile.mma.operands import Operand, OperandMemory
from targets.cuda.compile.tiles.thread_code import Memory
from targets.cuda.intrinsics.by_architecture import call_by_architecture

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import Storage, TileWriter

__all__ = ["OwnRows", "write_product"]

_VOID, _I32, _I64 = ir.VoidType(), ir.IntType(32), ir.IntType(64)
_WARP = 32


def write_product(writer: TileWriter, operation: Operation, product: Product) -> None:
    """Write a product, with the tile that is added."""
    code, target = writer.code, writer.storage(operation.result)
    own = target.memory if not target.is_shared else _registers(writer, operation, product)
    steps = _Steps(writer, operation, product, own)
    # A factor may be in the registers that get the result.
    _begin(writer, operation, product, own)
    steps.write()
    if any(writer.factors.has_room((operation, number)) for number in range(2)):
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


def _factor(
    writer: TileWriter, operation: Operation, factor: Operand, number: int
) -> ir.Value | None:
    """Return the first byte of a factor in shared memory, ``None`` if it is in registers."""
    value, layouts = operation.operands[number], writer.layouts
    assert layouts is not None
    if layouts.is_factor(value):
        assert isinstance(value.owner, Operation)
        return writer.factors.memory(value.owner)
    if not writer.factors.has_room((operation, number)):
        return None
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


class OwnRows:
    """The first factor in registers, as a product has left it there."""

    def __init__(self, writer: TileWriter, value: Value) -> None:
        assert writer.layouts is not None
        layout = writer.layouts.of_tile(value)
        assert isinstance(layout, Fragments)
        self._code, self._storage, self._layout = writer.code, writer.storage(value), layout
        self._model = writer.emitter.context.data_model_manager[self._storage.kind]

    def rows_of_a(self, block: int, step: int) -> list[ir.Value]:
        """Return four registers: two neighbours in each, of both halves of two fragments."""
        found = []
        for column_block in (2 * step, 2 * step + 1):
            first = self._layout.first(block, column_block)
            found += [self._pair(first), self._pair(first + 2)]
        return found

    def _pair(self, first: int) -> ir.Value:
        builder = self._code.builder
        pair: ir.Value = None
        for place in range(2):
            element = self._element(first + place)
            if pair is None:
                pair = ir.Constant(ir.VectorType(element.type, 2), ir.Undefined)
            pair = builder.insert_element(pair, element, _I32(place))
        return builder.bitcast(pair, _I32)

    def _element(self, number: int) -> ir.Value:
        code, builder, slot = self._code, self._code.builder, _I64(number)
        row, column = self._layout.indices(builder, code.thread, slot)
        own = Slot(code.at(row, self._layout.columns, column), slot)
        return self._model.as_data(builder, self._storage.own(own))


class _Steps:
    """Writes the steps of a warp."""

    def __init__(
        self, writer: TileWriter, operation: Operation, product: Product, own: Memory
    ) -> None:
        code, builder, fragments = writer.code, writer.code.builder, product.fragments
        self._code, self._builder, self._product, self._own = code, builder, product, own
        self._after_first = partial(writer.factors.start_copies, operation)
        self._is_rounded = product.step.dtypes == ("float32", "float32")
        thread = builder.trunc(code.thread, _I32)
        warp, lane = builder.udiv(thread, _I32(_WARP)), builder.urem(thread, _I32(_WARP))
        row = builder.urem(warp, _I32(fragments.row_warps))
        column = builder.udiv(warp, _I32(fragments.row_warps))
        row = builder.mul(row, _I32(BLOCK_ROWS))
        column = builder.mul(column, _I32(BLOCK_COLUMNS * fragments.column_blocks))
        a, b = (_factor(writer, operation, product.factors[n], n) for n in range(2))
        self._a: OperandMemory | OwnRows
        if a is None:
            self._a = OwnRows(writer, operation.operands[0])
        else:
            stride = BLOCK_ROWS * fragments.row_warps
            self._a = OperandMemory(builder, product.a, a, lane, row, stride)
        self._b = OperandMemory(builder, product.b, b, lane, column, BLOCK_COLUMNS)

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
            self._rounded(self._a.rows_of_a(block, step)) for block in range(fragments.row_blocks)
        ]
        columns = self._columns(step)
        if step == 0:
            self._after_first()
        for row_block, a in enumerate(rows):
            for column_block, b in enumerate(columns):
                self._multiply(target, fragments.first(row_block, column_block), [*a, *b])

    def _columns(self, step: int) -> list[list[ir.Value]]:
        found: list[list[ir.Value]] = []
        count = self._product.fragments.column_blocks
        while len(found) < count:
            found += self._b.columns_of_b(len(found), step, min(2, count - len(found)))
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
