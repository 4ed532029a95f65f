"""Load tiles of packed numbers that are inside an array, many numbers at a time.

A vector has the same bytes several times, and each copy is shifted by another number's place. What
is left of each byte then is one number, and the copies are interleaved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.operations import Operation, Region
from kerneldsl.language.packed_numbers import PackedNumbers
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.tiles.writer import Elements, TileCode

__all__ = ["begins_at_a_byte", "packed_load", "write_unpacked"]

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
#: Most numbers of a vector.
_WIDEST = 64


def packed_load(code: TileCode, target: Elements, region: Region) -> Operation | None:
    """Return the load of packed numbers that a region consists of, if rows are read as vectors."""
    if len(region.operations) != 2 or region.operations[0].name != "packed.load":
        return None
    load = region.operations[0]
    view = load.operands[0].type
    is_plain = region.yielded[0] is load.result and target.kind == view.dtype
    return load if is_plain and view.words.layout == "C" and _width(code, view) else None


def _width(code: TileCode, view: Any) -> int:
    """Return the numbers of a vector, 0 if rows do not have whole ones of at least four bytes."""
    found = math.gcd(code.shape[-1], _WIDEST)
    return found if found >= 32 // view.numbers.bits else 0


def begins_at_a_byte(emitter: CpuEmitter, load: Operation) -> ir.Value:
    """Return whether a load reads the first number of a byte."""
    first, numbers = emitter.get(load.operands[-1]), load.operands[0].type.numbers
    rest = emitter.builder.and_(first, first.type(8 // numbers.bits - 1))
    return emitter.builder.icmp_unsigned("==", rest, first.type(0))


def write_unpacked(
    code: TileCode,
    target: Elements,
    load: Operation,
    place: Callable[[Sequence[ir.Value]], object],
) -> None:
    """Write the numbers of a tile; `place` computes the indices of a load for those in the tile.

    Rows are read by bytes, so a row must begin with the first number of one.
    """
    emitter, builder, view = code.emitter, code.builder, load.operands[0]
    numbers, words = view.type.numbers, view.type.words
    parts = ArrayParts.of_structure(
        emitter.context, builder, words, builder.extract_value(emitter.get(view), 0)
    )
    width, (*rows, columns) = _width(code, view.type), code.shape
    bits = numbers.bits.bit_length() - 1
    count = width * numbers.bits // 32
    with code.repeat(0, math.prod(rows)) as row:
        indices = [row, _I64(0)][-len(code.shape) :] if rows else [_I64(0)]
        place(indices)
        *outer, first = (emitter.get(each) for each in load.operands[1:])
        start = builder.bitcast(parts.element(builder, [*outer, _I64(0)]), _I8.as_pointer())
        start = builder.gep(start, [builder.lshr(first, _I64(3 - bits))])
        with code.repeat(0, columns, width) as column:
            byte = builder.gep(start, [builder.lshr(column, _I64(3 - bits))])
            words_at = builder.bitcast(byte, ir.VectorType(_I32, count).as_pointer())
            found = builder.load(words_at)
            found.align = 1
            slot = code.slot([*indices[:-1], column]).index
            address = builder.bitcast(target.place(slot), ir.VectorType(_I8, width).as_pointer())
            builder.store(_unpacked(builder, found, numbers), address).align = 1


def _unpacked(builder: ir.IRBuilder, words: ir.Value, numbers: PackedNumbers) -> ir.Value:
    """Return the numbers in a vector of words, in order."""
    count, bits = words.type.count, numbers.bits
    copies = 8 // bits
    wide = ir.VectorType(_I32, count * copies)
    lanes = wide([lane % count for lane in range(wide.count)])
    repeated = builder.shuffle_vector(words, words.type(ir.Undefined), lanes)
    shifts = wide([bits * (lane // count) for lane in range(wide.count)])
    mask = (1 << bits) - 1
    codes = builder.and_(builder.lshr(repeated, shifts), wide([0x01010101 * mask] * wide.count))
    chars = ir.VectorType(_I8, 4 * wide.count)
    in_bytes = builder.bitcast(codes, chars)
    order = [n % copies * 4 * count + n // copies for n in range(chars.count)]
    places = ir.VectorType(_I32, chars.count)(order)
    found = builder.shuffle_vector(in_bytes, chars(ir.Undefined), places)
    if numbers.smallest == 0:
        return found
    bias = chars([-numbers.smallest] * chars.count)
    if numbers.is_twos_complement:
        found = builder.xor(found, bias)
    return builder.sub(found, bias)
