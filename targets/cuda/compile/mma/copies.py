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

from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.operations import Operation
from kerneldsl.ir.tiles.elements import write_place
from targets.cuda.compile.mma.functions import GLOBAL
from targets.cuda.compile.mma.operands import GROUP_BYTES, Operand
from targets.cuda.intrinsics.by_architecture import call_by_architecture
from targets.cuda.intrinsics.memory import SHARED_SPACE
from targets.cuda.intrinsics.synchronize import call_nvvm

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["copy_factor", "write_factor"]

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


def copy_factor(
    writer: TileWriter, operation: Operation, factor: Operand, target: ir.Value
) -> None:
    """Write what starts to copy a factor to its first byte in shared memory."""
    _Copy(writer, operation, factor, target).write()


class _Copy:
    def __init__(
        self, writer: TileWriter, operation: Operation, factor: Operand, target: ir.Value
    ) -> None:
        array, other, *at = operation.operands
        emitter = writer.emitter
        self._context, self._builder = emitter.context, emitter.builder
        self._code, self._factor, self._target = writer.code, factor, target
        parts = emitter.get(array)
        if not isinstance(parts, ArrayParts):
            parts = ArrayParts.of_structure(self._context, self._builder, array.type, parts)
        self._parts = parts
        self._strides = parts.byte_strides(self._context, self._builder)
        self._model = self._context.data_model_manager[array.type.dtype]
        self._rest = self._model.as_data(self._builder, emitter.get(other))
        self._starts = [write_place(emitter, place) for place in at]
        self._shape: tuple[int, int] = operation.attributes["shape"]

    def write(self) -> None:
        is_aligned = self._is_aligned()
        if is_aligned is None:
            self._each()
            return
        with self._builder.if_else(is_aligned) as (yes, no):
            with yes, self._builder.if_else(self._is_inside()) as (whole, part):
                with whole:
                    self._groups(is_whole=True)
                with part:
                    if self._is_zero():
                        self._groups(is_whole=False)
                    else:
                        self._each()
            with no:
                self._each()

    # -- what holds -------------------------------------------------------------------------------

    def _is_zero(self) -> bool:
        """Return whether elements beyond the array are zeros."""
        rest = self._rest
        return isinstance(rest, ir.Constant) and rest.constant in (0, 0.0, None)

    def _is_aligned(self) -> ir.Value | None:
        """Say whether groups can be copied; ``None`` if they never can."""
        builder, size = self._builder, self._factor.itemsize
        if self._factor.is_turned or self._parts.data.type.addrspace == SHARED_SPACE:
            return None
        row, column = self._strides
        if self._parts.kind.layout == "F":
            return None
        bits = builder.or_(builder.ptrtoint(self._parts.data, _I64), row)
        bits = builder.or_(bits, builder.mul(self._starts[1], _I64(size)))
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

    def _is_inside(self) -> ir.Value:
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

    def _groups(self, *, is_whole: bool) -> None:
        builder, code, factor = self._builder, self._code, self._factor
        in_row = factor.row_bytes // GROUP_BYTES
        total = factor.rows * in_row
        base = self._first_byte()
        with code.unrolled(-(-total // code.threads)) as turn:
            number = builder.add(builder.mul(turn, _I64(code.threads)), code.thread)
            if total % code.threads == 0:
                self._group(base, number, in_row, is_whole=is_whole)
            else:
                with code.when(code.is_below(number, total)):
                    self._group(base, number, in_row, is_whole=is_whole)

    def _first_byte(self) -> ir.Value:
        """Return the address of the tile's first element."""
        builder = self._builder
        data = self._parts.data
        if data.type.addrspace == 0:
            data = builder.addrspacecast(data, data.type.pointee.as_pointer(_GLOBAL_SPACE))
        row = builder.mul(self._starts[0], self._strides[0])
        column = builder.mul(self._starts[1], _I64(self._factor.itemsize))
        return builder.gep(builder.bitcast(data, GLOBAL), [builder.add(row, column)])

    def _group(self, base: ir.Value, number: ir.Value, in_row: int, *, is_whole: bool) -> None:
        builder, factor, size = self._builder, self._factor, self._factor.itemsize
        row, group = self._code.line_and_place(number, in_row)
        column = builder.mul(group, _I64(GROUP_BYTES))
        place = builder.add(builder.mul(row, self._strides[0]), column)
        source = builder.gep(base, [place])
        offset = factor.offset(builder, builder.trunc(row, _I32), builder.trunc(column, _I32))
        target = builder.gep(self._target, [offset])
        nbytes: ir.Value = _I32(GROUP_BYTES)
        if not is_whole:
            left = builder.sub(self._parts.shape[1], self._starts[1])
            left = builder.sub(builder.mul(left, _I64(size)), column)
            is_there = builder.icmp_signed(">", left, _I64(0))
            first = builder.add(self._starts[1], builder.mul(group, _I64(GROUP_BYTES // size)))
            at = builder.add(self._starts[0], row)
            for test in (
                builder.icmp_signed(">=", first, _I64(0)),
                builder.icmp_signed(">=", at, _I64(0)),
                builder.icmp_signed("<", at, self._parts.shape[0]),
            ):
                is_there = builder.and_(is_there, test)
            most = _I64(GROUP_BYTES)
            left = builder.select(builder.icmp_signed("<", left, most), left, most)
            nbytes = builder.trunc(builder.select(is_there, left, _I64(0)), _I32)
        call_by_architecture(builder, "matrix_copy", _VOID, [target, source, nbytes])

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
            value = builder.phi(found.type)
            value.add_incoming(self._rest, before)
            value.add_incoming(found, inside)
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
