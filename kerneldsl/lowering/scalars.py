"""Intrinsics that compute a number from numbers, in LLVM's instructions of every machine.

If a machine has an instruction that LLVM does not find, its target uses its own emitter.

References
----------
LLVM Language Reference, sections "Bit Manipulation Intrinsics" and "llvm.fma.* Intrinsic".
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.language.packed_numbers import PACKED_NUMBERS, PackedNumbers
from kerneldsl.lowering import vectors
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.vectors import each_part, item_of

__all__ = ["EMITTERS", "byte_dot", "call_llvm", "signs_of", "with_signs"]

_I1, _I32 = ir.IntType(1), ir.IntType(32)


def call_llvm(builder: ir.IRBuilder, name: str, result: ir.Type, args: list[ir.Value]) -> ir.Value:
    """Call a function that LLVM or the machine's library has under a name."""
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def _same(call: Call) -> ir.Value:
    return call.args[0]


def _packed(call: Call) -> ir.Value:
    return cgutils.pack_struct(call.builder, [call.args[0]])


def _nothing(call: Call) -> None:
    """Write nothing."""


# -- bits -------------------------------------------------------------------------------------


def _population_count(call: Call) -> ir.Value:
    return call.builder.ctpop(call.args[0])


def _leading_zeros(call: Call) -> ir.Value:
    return call.builder.ctlz(call.args[0], _I1(0))


def _first_set(call: Call) -> ir.Value:
    builder, value = call.builder, call.args[0]
    zero = value.type(0)
    position = builder.add(builder.cttz(value, _I1(1)), value.type(1))
    found = builder.select(builder.icmp_unsigned("==", value, zero), zero, position)
    return _resized(builder, found, _I32)


def _resized(builder: ir.IRBuilder, value: ir.Value, kind: ir.IntType) -> ir.Value:
    if value.type.width == kind.width:
        return value
    change = builder.zext if value.type.width < kind.width else builder.trunc
    return change(value, kind)


def _reverse(call: Call) -> ir.Value:
    (value,) = call.args
    return call_llvm(call.builder, f"llvm.bitreverse.{value.type}", value.type, [value])


def _permute_bytes(call: Call) -> ir.Value:
    """Pick bytes one by one (PTX ISA, "prmt", its default mode without the sign)."""
    builder = call.builder
    low, high, selector = call.args
    i64 = ir.IntType(64)
    pair = builder.or_(builder.zext(low, i64), builder.shl(builder.zext(high, i64), i64(32)))
    result = _I32(0)
    for byte in range(4):
        number = builder.and_(builder.lshr(selector, _I32(4 * byte)), _I32(7))
        shift = builder.zext(builder.shl(number, _I32(3)), i64)
        found = builder.and_(builder.trunc(builder.lshr(pair, shift), _I32), _I32(0xFF))
        result = builder.or_(result, builder.shl(found, _I32(8 * byte)))
    return result


def _funnel_shift(direction: str, is_clamped: bool, call: Call) -> ir.Value:
    builder = call.builder
    low, high, shift = call.args
    kind = low.type
    shifted = call_llvm(builder, f"llvm.fsh{direction}.{kind}", kind, [high, low, shift])
    if not is_clamped:
        return shifted
    is_all = builder.icmp_unsigned(">=", shift, kind(kind.width))
    return builder.select(is_all, low if direction == "l" else high, shifted)


# -- arithmetic -------------------------------------------------------------------------------


def _upper_product(call: Call) -> ir.Value:
    builder, kind = call.builder, call.args[0].type
    wide = ir.IntType(2 * kind.width)
    extend = builder.sext if call.signature.return_type.signed else builder.zext
    product = builder.mul(*(extend(value, wide) for value in call.args))
    return builder.trunc(builder.lshr(product, wide(kind.width)), kind)


def byte_dot(
    builder: ir.IRBuilder, args: tuple[ir.Value, ...], signs: tuple[bool, bool]
) -> ir.Value:
    """Add the products of four bytes each of two words to a third; `signs` says which have one."""
    *words, total = args

    def byte(word: ir.Value, number: int, is_signed: bool) -> ir.Value:
        upper = builder.shl(word, _I32(24 - 8 * number))
        return (builder.ashr if is_signed else builder.lshr)(upper, _I32(24))

    for number in range(4):
        parts = (byte(word, number, sign) for word, sign in zip(words, signs, strict=True))
        total = builder.add(total, builder.mul(*parts))
    return total


def signs_of(call: Call) -> tuple[bool, bool]:
    """Return whether the bytes of both factors of ``kd.dot4`` have a sign."""
    first, second, _ = map(item_of, call.signature.args)
    return first.signed, second.signed


def _dot(call: Call) -> ir.Value:
    signs = signs_of(call)
    return each_part(
        call.builder,
        call.signature.args,
        call.args,
        lambda args: byte_dot(call.builder, args, signs),
    )


def _unpacked_bytes(
    builder: ir.IRBuilder, word: ir.Value, numbers: PackedNumbers
) -> list[ir.Value]:
    """Return the numbers in a word of 32 bits, four to a word, as bytes with their signs."""
    parts = []
    bits = 4 * numbers.bits  # of a part
    for part in range(8 // numbers.bits):
        found = builder.and_(builder.lshr(word, _I32(bits * part)), _I32((1 << bits) - 1))
        # The upper half of the numbers goes to the upper half of the word, and so on.
        for step in (16, 8):
            moved = builder.shl(found, _I32(step - step * numbers.bits // 8))
            low = (1 << (step * numbers.bits // 8)) - 1
            mask = sum(low << at for at in range(0, 32, step))
            found = builder.and_(builder.or_(found, moved), _I32(mask))
        parts.append(with_signs(builder, found, numbers))
    return parts


def with_signs(builder: ir.IRBuilder, codes: ir.Value, numbers: PackedNumbers) -> ir.Value:
    """Return the values of four numbers. Their bits are the lowest of a word's bytes."""
    if numbers.smallest == 0:
        return codes
    bias = _I32(0x01010101 * -numbers.smallest)
    # The highest bit of each byte keeps what is borrowed within it.
    high = _I32(0x80808080)
    if numbers.is_twos_complement:
        codes = builder.xor(codes, bias)
    return builder.xor(builder.sub(builder.or_(codes, high), bias), high)


def _unpack(call: Call) -> ir.Value:
    numbers = PACKED_NUMBERS[call.static["numbers"]]
    parts = _unpacked_bytes(call.builder, call.args[0], numbers)
    return call.context.make_tuple(call.builder, call.signature.return_type, parts)


def _fused(call: Call) -> ir.Value:
    return call.builder.fma(*call.args)


def _reciprocal_root(call: Call) -> ir.Value:
    builder, (value,) = call.builder, call.args
    name = f"llvm.sqrt.f{call.signature.return_type.bitwidth}"
    root = call_llvm(builder, name, value.type, [value])
    return builder.fdiv(ir.Constant(value.type, 1.0), root)


def _cube_root(call: Call) -> ir.Value:
    (value,) = call.args
    is_single = call.signature.return_type == types.float32
    return call_llvm(call.builder, "cbrtf" if is_single else "cbrt", value.type, [value])


def _saturated(call: Call) -> ir.Value:
    builder, (value,) = call.builder, call.args
    zero, one = (ir.Constant(value.type, number) for number in (0.0, 1.0))
    value = builder.select(builder.fcmp_ordered(">", value, zero), value, zero)
    return builder.select(builder.fcmp_ordered("<", value, one), value, one)


# -- choices and conversions ------------------------------------------------------------------


def _select(call: Call) -> ir.Value:
    condition = call.context.is_true(call.builder, call.signature.args[0], call.args[0])
    return call.builder.select(condition, *call.args[1:])


def _bit_cast(call: Call) -> ir.Value:
    builder = call.builder
    given, wanted = (
        call.context.data_model_manager[kind]
        for kind in (call.signature.args[0], call.signature.return_type)
    )
    bits = ir.IntType(call.signature.return_type.bitwidth)
    stored = builder.bitcast(given.as_data(builder, call.args[0]), bits)
    return wanted.from_data(builder, builder.bitcast(stored, wanted.get_data_type()))


EMITTERS: dict[str, Emitter] = {
    **vectors.EMITTERS,
    "popc": _population_count,
    "clz": _leading_zeros,
    "ffs": _first_set,
    "brev": _reverse,
    "byte_perm": _permute_bytes,
    "funnelshift_l": partial(_funnel_shift, "l", False),
    "funnelshift_lc": partial(_funnel_shift, "l", True),
    "funnelshift_r": partial(_funnel_shift, "r", False),
    "funnelshift_rc": partial(_funnel_shift, "r", True),
    "mulhi": _upper_product,
    "dot4": _dot,
    "unpack": _unpack,
    "packed": _packed,
    "fma": _fused,
    "rsqrt": _reciprocal_root,
    "cbrt": _cube_root,
    "saturate": _saturated,
    "selp": _select,
    "bitcast": _bit_cast,
    "nanosleep": _nothing,
    "uniform": _same,  # the promise was for the analysis
    **dict.fromkeys(("load", "store"), _same),  # a target that has hints takes the access with it
}
