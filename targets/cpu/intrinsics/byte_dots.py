"""Products of bytes, by the instruction for them where the processor has it.

It multiplies bytes without a sign with bytes that have one, for four words at a time, and its sums
wrap around. Numbers of the other kind become those by 128, which their highest bit stands for; what
that adds is subtracted. For one word LLVM writes a vector of many threads instead.

References
----------
Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 2, "VPDPBUSD".
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering import scalars
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.vectors import VectorType
from targets.cpu.codegen.levels import features_in_use

__all__ = ["EMITTERS"]

_I32 = ir.IntType(32)
_WORDS, _BYTES = ir.VectorType(_I32, 4), ir.VectorType(ir.IntType(8), 16)
_INSTRUCTION = "llvm.x86.avx512.vpdpbusd.128"
#: LLVM's names of the extensions that have it: all of one of these.
_EXTENSIONS = (frozenset({"avx512vnni", "avx512vl"}), frozenset({"avxvnni"}))
#: The highest bit of each byte.
_HIGHEST = 0x80808080


def _has_instruction() -> bool:
    return any(each <= features_in_use() for each in _EXTENSIONS)


def _dot(call: Call) -> ir.Value:
    kind = call.signature.return_type
    if not (isinstance(kind, VectorType) and len(kind.fields) == 4 and _has_instruction()):
        return scalars.EMITTERS["dot4"](call)
    builder = call.builder
    first, second, total = (_words(builder, arg) for arg in call.args)
    signs = scalars.signs_of(call)
    flip = _WORDS([_HIGHEST] * 4)
    if signs == (True, False):
        first, second = second, first
    found = _products(
        builder,
        total,
        builder.xor(first, flip) if all(signs) else first,
        second if any(signs) else builder.xor(second, flip),
    )
    if all(signs):
        found = builder.sub(found, _products(builder, _WORDS([0] * 4), flip, second))
    elif not any(signs):
        found = builder.sub(found, _products(builder, _WORDS([0] * 4), first, flip))
    parts = [builder.extract_element(found, _I32(n)) for n in range(4)]
    return cgutils.pack_struct(builder, parts)


def _products(
    builder: ir.IRBuilder, total: ir.Value, unsigned: ir.Value, signed: ir.Value
) -> ir.Value:
    """Add the products of bytes without and with a sign to four words."""
    kind = ir.FunctionType(_WORDS, [_WORDS, _BYTES, _BYTES])
    instruction = cgutils.get_or_insert_function(builder.module, kind, _INSTRUCTION)
    factors = [builder.bitcast(each, _BYTES) for each in (unsigned, signed)]
    return builder.call(instruction, [total, *factors])


def _words(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return a vector of the language, or a word that counts for each part, as one of LLVM."""
    found = _WORDS(ir.Undefined)
    for number in range(4):
        is_word = isinstance(value.type, ir.IntType)
        part = value if is_word else builder.extract_value(value, number)
        found = builder.insert_element(found, part, _I32(number))
    return found


#: Of the language's operations.
EMITTERS: dict[str, Emitter] = {"dot4": _dot}
