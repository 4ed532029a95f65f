"""Products of fragments on architectures without an instruction for them.

Each lane gets the words of its rows and columns from the lanes that have them. It multiplies
element by element, along k in ascending order.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from kerneldsl.lowering.scalars import call_llvm
from targets.cuda.compile.mma.narrow_floats import as_half_pairs
from targets.cuda.intrinsics.shuffles import shuffle
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["multiply_by_lanes"]

_I8, _I16, _I32 = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_FLOAT, _HALF = ir.FloatType(), ir.HalfType()
_ALL_LANES = _I32(0xFFFFFFFF)


def multiply_by_lanes(
    dtypes: tuple[str, str],
    builder: ir.IRBuilder,
    a: Sequence[ir.Value],
    b: Sequence[ir.Value],
    c: Sequence[ir.Value],
) -> list[ir.Value]:
    """Write a step. Lane 4·g + t has the rows g and g + 8 and the columns 2·t and 2·t + 1."""
    lane = call_nvvm(builder, "read.ptx.sreg.laneid", _I32, [])
    row = builder.and_(lane, _I32(28))
    column = builder.shl(builder.and_(lane, _I32(3)), _I32(3))
    found = list(c)

    def word(register: ir.Value, first: ir.Value, place: int) -> ir.Value:
        return shuffle(builder, "idx", _ALL_LANES, register, builder.add(first, _I32(place)))

    for half in range(2):
        for place in range(4):
            rows = [
                _numbers(builder, dtypes[0], word(a[2 * half + other], row, place))
                for other in range(2)
            ]
            columns = [
                _numbers(builder, dtypes[1], word(b[half], column, place + 4 * other))
                for other in range(2)
            ]
            for depth in range(len(rows[0])):
                for number in range(4):
                    pair = rows[number // 2][depth], columns[number % 2][depth]
                    found[number] = _added(builder, *pair, found[number])
    return found


def _added(builder: ir.IRBuilder, x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
    if total.type == _I32:
        return builder.add(total, builder.mul(x, y))
    return call_llvm(builder, "llvm.fma.f32", _FLOAT, [x, y, total])


def _numbers(builder: ir.IRBuilder, dtype: str, word: ir.Value) -> list[ir.Value]:
    """Return the elements in a register, as accumulators are."""

    def bits(number: int, kind: ir.IntType) -> ir.Value:
        return builder.trunc(builder.lshr(word, _I32(number * kind.width)), kind)

    match dtype:
        case "float32":
            return [builder.bitcast(word, _FLOAT)]
        case "float16":
            halves = [builder.bitcast(bits(n, _I16), _HALF) for n in range(2)]
            return [builder.fpext(each, _FLOAT) for each in halves]
        case "bfloat16":
            upper = [builder.shl(word, _I32(16)), builder.and_(word, _I32(0xFFFF0000))]
            return [builder.bitcast(each, _FLOAT) for each in upper]
        case "int8":
            return [builder.sext(bits(n, _I8), _I32) for n in range(4)]
        case "uint8":
            return [builder.zext(bits(n, _I8), _I32) for n in range(4)]
    pairs = as_half_pairs(builder, dtype, word)
    return [each for pair in pairs for each in _numbers(builder, "float16", pair)]
