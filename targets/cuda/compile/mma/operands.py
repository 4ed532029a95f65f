"""Factors of products in shared memory, from which a warp loads its fragments.

A factor is stored by rows of the tile that was loaded. Groups of 16 bytes are exchanged within
blocks of 128 bytes, so that eight rows at the same column are in different banks. This is also the
128-byte swizzle of tensor maps for rows of 128 bytes.

References
----------
PTX ISA, sections "ldmatrix" and "Swizzling Modes".
"""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.mma.instructions import STEP_BYTES
from targets.cuda.intrinsics.by_architecture import call_by_architecture
from targets.cuda.intrinsics.memory import SHARED_SPACE

__all__ = ["GROUP_BYTES", "Operand", "OperandMemory"]

_VOID, _I32, _DOUBLE = ir.VoidType(), ir.IntType(32), ir.DoubleType()
#: Bytes that stay together.
GROUP_BYTES = 16
#: Bytes of all banks, and the groups in them.
_LINE_BYTES = 128
_GROUPS = _LINE_BYTES // GROUP_BYTES


@dataclass(frozen=True)
class Operand:
    """One factor in shared memory.

    Parameters
    ----------
    extent : int
        Elements along m or n.
    depth : int
        Elements along k.
    itemsize : int
        Bytes of an element.
    is_along_k : bool
        Whether neighbours in memory are neighbours along k.
    is_turned : bool
        Whether the axes of the tile are exchanged in memory.
    """

    extent: int
    depth: int
    itemsize: int
    is_along_k: bool
    is_turned: bool = False

    @property
    def rows(self) -> int:
        """Rows in memory."""
        return self.extent if self.is_along_k else self.depth

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in memory."""
        return (self.depth if self.is_along_k else self.extent) * self.itemsize

    @property
    def memory(self) -> tuple[int, int, bool]:
        """Rows, bytes of a row, and order of axes; factors with equal ones are one in memory."""
        return self.rows, self.row_bytes, self.is_turned

    @property
    def nbytes(self) -> int:
        """Bytes of all, up to the end of a line."""
        return -(-self.rows * self.row_bytes // _LINE_BYTES) * _LINE_BYTES

    @property
    def is_loadable(self) -> bool:
        """True if its fragments can be loaded without another copy.

        Matrices have elements of 16 bits, or neighbours along k. Elements of 64 bits are loaded
        one by one.
        """
        is_possible = self.is_along_k or self.itemsize in (2, 8)
        return self.row_bytes % GROUP_BYTES == 0 and is_possible

    def is_exchanged_alike(self, rows: int) -> bool:
        """Return whether groups are exchanged in the same way some rows later."""
        lines = rows if self.row_bytes % _LINE_BYTES == 0 else rows * self.row_bytes / _LINE_BYTES
        return lines % _GROUPS == 0

    def offset(self, builder: ir.IRBuilder, row: ir.Value, column: ir.Value) -> ir.Value:
        """Return where a byte of a row is, as 32 bits."""
        start = builder.mul(row, _I32(self.row_bytes))

        def exchanged(place: ir.Value, line: ir.Value) -> ir.Value:
            key = builder.and_(line, _I32(_GROUPS - 1))
            return builder.xor(place, builder.shl(key, _I32(GROUP_BYTES.bit_length() - 1)))

        if self.row_bytes % _LINE_BYTES == 0:
            return builder.add(start, exchanged(column, row))
        start = builder.add(start, column)
        return exchanged(start, builder.lshr(start, _I32(_LINE_BYTES.bit_length() - 1)))


class OperandMemory:
    """Writes how a warp loads the fragments of one factor.

    Parameters
    ----------
    builder : ir.IRBuilder
        Where the code goes.
    operand : Operand
        The factor.
    data : ir.Value
        Its first byte in shared memory.
    lane : ir.Value
        The number of the thread in its warp, as 32 bits.
    start : ir.Value
        The first row or column of the warp, along m or n.
    stride : int
        Rows or columns from one block of the warp to the next.
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        operand: Operand,
        data: ir.Value,
        lane: ir.Value,
        start: ir.Value,
        stride: int,
    ) -> None:
        self._start, self._stride = start, stride
        self._builder = builder
        self._operand = operand
        self._data = data
        self._lane = lane

    def place(self, row: ir.Value, column: ir.Value) -> ir.Value:
        """Return the address of a byte of a row; both are of 32 bits."""
        builder = self._builder
        return builder.gep(self._data, [self._operand.offset(builder, row, column)])

    @cached_property
    def _words(self) -> ir.Value:
        with self._builder.goto_entry_block():
            return self._builder.alloca(ir.ArrayType(_I32, 4))

    def _of_block(self, block: int) -> ir.Value:
        return self._builder.add(self._start, _I32(block * self._stride))

    def rows_of_a(self, block: int, step: int) -> list[ir.Value]:
        """Load the 16 rows of a block, at a step along k: four registers, or two elements."""
        lane, builder, start = self._lane, self._builder, self._of_block(block)
        if self._operand.itemsize == 8:
            return [self._element(builder.add(start, _I32(half)), step) for half in (0, 8)]
        low, high = builder.and_(lane, _I32(15)), builder.lshr(lane, _I32(4))
        if self._operand.is_along_k:
            return self._load(start, step, low, high, 4)
        _, odd = self._halves()
        along = builder.add(builder.and_(lane, _I32(7)), builder.shl(high, _I32(3)))
        return self._load(start, step, along, odd, 4)

    def columns_of_b(self, block: int, step: int, count: int) -> list[list[ir.Value]]:
        """Load the columns of one or two blocks of 8, at a step along k.

        Each has two registers, or one element.
        """
        lane, builder, start = self._lane, self._builder, self._of_block(block)
        if self._operand.itemsize == 8:
            starts = [builder.add(start, _I32(8 * number)) for number in range(count)]
            return [[self._element(each, step)] for each in starts]
        half, odd = self._halves()
        if self._operand.is_along_k:
            along = builder.add(builder.and_(lane, _I32(7)), builder.shl(half, _I32(3)))
            found = self._load(start, step, along, odd, 2 * count)
        else:
            low = builder.and_(lane, _I32(15))
            found = self._load(start, step, low, half, 2 * count)
        return [found[2 * number : 2 * number + 2] for number in range(count)]

    def _element(self, start: ir.Value, step: int) -> ir.Value:
        """Load the element of 64 bits of lane 4·g + t: at start + g along m or n, t along k."""
        builder, operand = self._builder, self._operand
        along = builder.add(start, builder.lshr(self._lane, _I32(2)))
        depth = builder.add(builder.and_(self._lane, _I32(3)), _I32(step * STEP_BYTES // 8))
        row, column = (along, depth) if operand.is_along_k else (depth, along)
        place = self.place(row, builder.mul(column, _I32(8)))
        return builder.load(builder.bitcast(place, _DOUBLE.as_pointer(SHARED_SPACE)))

    def _halves(self) -> tuple[ir.Value, ir.Value]:
        """Return the bits of the lane that choose the last two of four matrices, and odd ones."""
        builder, lane = self._builder, self._lane
        odd = builder.and_(builder.lshr(lane, _I32(3)), _I32(1))
        return builder.lshr(lane, _I32(4)), odd

    def _load(
        self, start: ir.Value, step: int, row: ir.Value, group: ir.Value, count: int
    ) -> list[ir.Value]:
        """Load matrices; a lane has the address of a row, at a group of 16 bytes."""
        builder, operand = self._builder, self._operand
        column = builder.shl(group, _I32(GROUP_BYTES.bit_length() - 1))
        if operand.is_along_k:
            row = builder.add(row, start)
            column = builder.add(column, _I32(step * STEP_BYTES))
        else:
            row = builder.add(row, _I32(step * STEP_BYTES // operand.itemsize))
            column = builder.add(column, builder.mul(start, _I32(operand.itemsize)))
        name = f"matrix_load_{count}" + ("" if operand.is_along_k else "_trans")
        words = builder.gep(self._words, [_I32(0), _I32(0)])
        call_by_architecture(builder, name, _VOID, [words, self.place(row, column)])
        return [builder.load(builder.gep(words, [_I32(number)])) for number in range(count)]
