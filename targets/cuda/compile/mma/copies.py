"""Copies of tiles from arrays to shared memory, as factors of products.

A thread copies groups of 16 bytes, if rows of the array begin at multiples of 16 bytes. Elements
beyond the array are zeros there. Otherwise it copies element by element.

References
----------
PTX ISA, section "cp.async".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.ir.tiles.elements import Slot, write_place
from kerneldsl.lowering.calls import join
from targets.cuda.compile.mma.fragments import Fragments
from targets.cuda.compile.mma.functions import GLOBAL
from targets.cuda.compile.mma.operands import GROUP_BYTES, Operand
from targets.cuda.intrinsics.by_architecture import call_by_architecture
from targets.cuda.intrinsics.memory import SHARED_SPACE
from targets.cuda.intrinsics.synchronize import call_nvvm

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import Storage, TileWriter

__all__ = [
    "always_in_groups",
    "copy_factor",
    "copy_groups",
    "is_inside",
    "put_element",
    "read_staged",
    "write_factor",
]

_VOID, _I1, _I8, _I32, _I64 = ir.VoidType(), *(ir.IntType(bits) for bits in (1, 8, 32, 64))
_GLOBAL_SPACE = 1


def write_factor(writer: TileWriter, operation: Operation, factor: Operand) -> None:
    """Write a load of a factor, for which threads wait."""
    if writer.factors.is_early(operation):
        return
    writer.code.wait()
    copy_factor(writer, operation, factor, writer.factors.memory(operation))
    call_by_architecture(writer.code.builder, "matrix_commit", _VOID, [])
    call_by_architecture(writer.code.builder, "matrix_wait_0", _VOID, [])
    writer.code.wait()


def read_staged(writer: TileWriter, operation: Operation, target: Storage) -> None:
    """Read the thread's elements of a tile that an earlier iteration began to copy."""
    code, builder, layouts = writer.code, writer.code.builder, writer.layouts
    assert layouts is not None
    factor, layout = layouts.copied(operation), layouts.of_tile(operation.result)
    assert factor is not None
    assert isinstance(layout, Fragments)
    data = writer.factors.memory(operation)
    model = writer.emitter.context.data_model_manager[target.kind]
    stored = writer.emitter.context.get_data_type(target.kind)
    vector = ir.VectorType(stored, 2)
    for first in range(0, layout.slot_count, 2):  # of neighbours in a row
        row, column = layout.indices(builder, code.thread, _I64(first))
        row, column = (builder.trunc(each, _I32) for each in (row, column))
        place = factor.offset(builder, row, builder.mul(column, _I32(factor.itemsize)))
        at = builder.bitcast(builder.gep(data, [place]), vector.as_pointer(SHARED_SPACE))
        pair = builder.load(at)
        pair.align = 2 * factor.itemsize
        for odd in range(2):
            value = model.from_data(builder, builder.extract_element(pair, _I32(odd)))
            slot = _I64(first + odd)
            target.put(Slot(slot, slot), value)


def copy_factor(
    writer: TileWriter, operation: Operation, factor: Operand, target: ir.Value
) -> None:
    """Write what starts to copy a factor to its first byte in shared memory."""
    _Copy(writer, operation, factor, target).write()


def copy_groups(
    writer: TileWriter,
    operation: Operation,
    factor: Operand,
    target: ir.Value,
    *,
    is_whole: bool,
) -> None:
    """Write the same without branches if :func:`always_in_groups` holds.

    The array has all elements of the tile if `is_whole`.
    """
    _Copy(writer, operation, factor, target).groups(is_whole=is_whole)


def is_inside(writer: TileWriter, operation: Operation, factor: Operand) -> ir.Value:
    """Say whether the array has all elements of a tile."""
    return _Copy(writer, operation, factor, None).is_inside()


def always_in_groups(
    writer: TileWriter, operation: Operation, factor: Operand, loop: Operation
) -> ir.Value | None:
    """Say before a loop whether all its iterations copy a factor in groups of 16 bytes.

    ``None`` says that this is not known before the loop.
    """
    (body,) = loop.regions
    inside = set(body.walk())
    array, other, *at = operation.operands
    start, _, step = map(writer.emitter.get, loop.operands[:3])
    column: Any = at[1].owner
    if isinstance(column, Operation) and column in inside and column.name == "tile.place":
        counter = column.operands[0]
    else:
        counter = at[1]
    places = []
    if counter is body.arguments[0]:
        places = [start, step]
    elif not _is_of_loop(counter, inside, loop):
        places = [writer.emitter.get(counter)]
    if not places or _is_of_loop(array, inside, loop) or not _is_zero(other):
        return None
    return _Copy(writer, operation, factor, None, places).is_aligned()


def _is_of_loop(value: Value, inside: set[Operation], loop: Operation) -> bool:
    made = value.owner
    if isinstance(made, Region):
        return made in loop.regions or any(made in each.regions for each in inside)
    return made in inside


def _is_zero(value: Value) -> bool:
    """Return whether a value is the number 0."""
    made = value.owner
    if isinstance(made, Operation) and made.name == "cast":
        return _is_zero(made.operands[0])
    if not isinstance(made, Operation) or made.name != "const":
        return False
    return str(made.attributes["value"]) in ("0", "0.0", "False")


class _Copy:
    def __init__(
        self,
        writer: TileWriter,
        operation: Operation,
        factor: Operand,
        target: ir.Value | None,
        columns: Sequence[ir.Value] = (),
    ) -> None:
        array, other, *at = operation.operands
        emitter = writer.emitter
        self._context, self._builder = emitter.context, emitter.builder
        self._code, self._factor, self._target = writer.code, factor, target
        self._parts = parts = emitter.wrapped(emitter.get(array), array.type)
        self._strides = parts.byte_strides(self._context, self._builder)
        self._shape: tuple[int, int] = operation.attributes["shape"]
        #: Column offsets that must be multiples of a group, so that the first column is one.
        self._columns = list(columns)
        if columns:
            return
        model = self._context.data_model_manager[array.type.dtype]
        self._rest = model.as_data(self._builder, emitter.get(other))
        self._starts = [write_place(emitter, place) for place in at]
        self._columns = self._starts[1:]
        self._is_zero = _is_zero(other)

    def write(self) -> None:
        """Write the copy, which tests how it can be done."""
        is_aligned = self.is_aligned()
        if is_aligned is None:
            self._each()
            return
        with self._builder.if_else(is_aligned) as (yes, no):
            with yes, self._builder.if_else(self.is_inside()) as (whole, part):
                with whole:
                    self.groups(is_whole=True)
                with part:
                    if self._is_zero:
                        self.groups(is_whole=False)
                    else:
                        self._each()
            with no:
                self._each()

    # -- what holds -------------------------------------------------------------------------------

    def is_aligned(self) -> ir.Value | None:
        """Say whether groups can be copied; ``None`` if they never can."""
        builder, size = self._builder, self._factor.itemsize
        if self._factor.is_turned or self._parts.data.type.addrspace == SHARED_SPACE:
            return None
        row, column = self._strides
        if self._parts.kind.layout == "F":
            return None
        bits = builder.or_(builder.ptrtoint(self._parts.data, _I64), row)
        for each in self._columns:
            wide = each if each.type == _I64 else builder.sext(each, _I64)
            bits = builder.or_(bits, builder.mul(wide, _I64(size)))
        rest = builder.and_(bits, _I64(GROUP_BYTES - 1))
        found = builder.icmp_unsigned("==", rest, _I64(0))
        if self._parts.kind.layout == "A":
            is_dense = builder.icmp_signed("==", column, _I64(size))
            found = builder.and_(found, is_dense)
        if self._parts.data.type.addrspace == 0:
            data = builder.bitcast(self._parts.data, _I8.as_pointer())
            is_global = call_nvvm(builder, "isspacep.global", _I1, [data])
            found = builder.and_(found, is_global)
        return found

    def is_inside(self) -> ir.Value:
        """Say whether the array has all elements of the tile."""
        builder = self._builder
        found: ir.Value | None = None
        for start, extent, count in zip(self._starts, self._parts.shape, self._shape, strict=True):
            end = builder.add(start, _I64(count))
            for test in (
                builder.icmp_signed(">=", start, _I64(0)),
                builder.icmp_signed("<=", end, extent),
            ):
                found = test if found is None else builder.and_(found, test)
        return found

    # -- groups of 16 bytes -----------------------------------------------------------------------

    def groups(self, *, is_whole: bool) -> None:
        """Copy groups. Elements beyond the array, if it has not the whole tile, are zeros."""
        builder, code, factor = self._builder, self._code, self._factor
        in_row, threads = factor.row_bytes // GROUP_BYTES, code.threads
        total = factor.rows * in_row
        if threads % in_row:
            with code.unrolled(-(-total // threads)) as turn:
                number = builder.add(builder.mul(turn, _I64(threads)), code.thread)
                row, group = code.line_and_place(number, in_row)
                with code.when(code.is_below(number, total)):
                    self._rows(row, group, 1, 1, is_whole)
            return
        row, group = code.line_and_place(code.thread, in_row)
        self._rows(row, group, -(-total // threads), threads // in_row, is_whole)

    def _rows(self, row: ir.Value, group: ir.Value, count: int, step: int, is_whole: bool) -> None:
        """Copy one group of each of several rows, `step` rows apart, at one column."""
        builder, factor = self._builder, self._factor
        column = builder.mul(group, _I64(GROUP_BYTES))
        start = builder.add(builder.mul(row, self._strides[0]), column)
        source = builder.gep(self._first_byte(), [start])
        ahead = builder.mul(self._strides[0], _I64(step))
        column = builder.trunc(column, _I32)
        target = self._place(row, column)
        nbytes = None if is_whole else self._bytes_of_row(group)
        for number in range(count):
            own = row
            if number:
                own = builder.add(row, _I64(number * step))
                source = builder.gep(source, [ahead])
                if factor.is_exchanged_alike(step):
                    target = builder.gep(target, [_I32(step * factor.row_bytes)])
                else:
                    target = self._place(own, column)
            # An instruction without a number of bytes needs no test of it.
            name, args = "matrix_copy_all", [target, source]
            if nbytes is not None:
                name, args = "matrix_copy", [*args, self._in_row(own, nbytes)]
            if (number + 1) * step <= factor.rows:
                call_by_architecture(builder, name, _VOID, args)
                continue
            with builder.if_then(builder.icmp_unsigned("<", own, _I64(factor.rows))):
                call_by_architecture(builder, name, _VOID, args)

    def _place(self, row: ir.Value, column: ir.Value) -> ir.Value:
        offset = self._factor.offset(self._builder, self._builder.trunc(row, _I32), column)
        return self._builder.gep(self._target, [offset])

    def _first_byte(self) -> ir.Value:
        """Return the address of the tile's first element."""
        builder = self._builder
        data = self._parts.data
        if data.type.addrspace == 0:
            data = builder.addrspacecast(data, data.type.pointee.as_pointer(_GLOBAL_SPACE))
        row = builder.mul(self._starts[0], self._strides[0])
        column = builder.mul(self._starts[1], _I64(self._factor.itemsize))
        return builder.gep(builder.bitcast(data, GLOBAL), [builder.add(row, column)])

    def _bytes_of_row(self, group: ir.Value) -> ir.Value:
        """Return how many bytes of a group are in a row of the array."""
        builder, size = self._builder, self._factor.itemsize
        first = builder.add(self._starts[1], builder.mul(group, _I64(GROUP_BYTES // size)))
        left = builder.sub(self._parts.shape[1], first)
        most = _I64(GROUP_BYTES // size)
        left = builder.select(builder.icmp_signed("<", left, most), left, most)
        is_there = builder.and_(
            builder.icmp_signed(">", left, _I64(0)), builder.icmp_signed(">=", first, _I64(0))
        )
        nbytes = builder.select(is_there, builder.mul(left, _I64(size)), _I64(0))
        return builder.trunc(nbytes, _I32)

    def _in_row(self, row: ir.Value, nbytes: ir.Value) -> ir.Value:
        """Return a number of bytes, or 0 if the array has no such row."""
        builder = self._builder
        at = builder.add(self._starts[0], row)
        # An index below 0 is a large number without a sign.
        is_there = builder.icmp_unsigned("<", at, self._parts.shape[0])
        return builder.select(is_there, nbytes, _I32(0))

    # -- elements ---------------------------------------------------------------------------------

    def _each(self) -> None:
        """Copy element by element."""
        builder, code = self._builder, self._code
        rows, columns = self._shape
        with code.range(code.thread, rows * columns, code.threads) as number:
            place = code.line_and_place(number, columns)
            indices = [builder.add(*pair) for pair in zip(self._starts, place, strict=True)]
            is_inside: ir.Value | None = None
            for index, extent in zip(indices, self._parts.shape, strict=True):
                # An index below 0 is a large number without a sign.
                test = builder.icmp_unsigned("<", index, extent)
                is_inside = test if is_inside is None else builder.and_(is_inside, test)
            before = builder.block
            with builder.if_then(is_inside):
                found = builder.load(self._parts.element(builder, indices))
                inside = builder.block
            value = join(builder, (self._rest, before), (found, inside))
            put_element(builder, self._factor, self._target, value, place)


def put_element(
    builder: ir.IRBuilder,
    factor: Operand,
    target: ir.Value,
    value: ir.Value,
    place: Sequence[ir.Value],
) -> None:
    """Store an element of a tile, as it is in memory, at its index in the tile."""
    row, column = (builder.trunc(each, _I32) for each in place[:: -1 if factor.is_turned else 1])
    column = builder.mul(column, _I32(factor.itemsize))
    at: Any = builder.gep(target, [factor.offset(builder, row, column)])
    builder.store(value, builder.bitcast(at, value.type.as_pointer(SHARED_SPACE)))
