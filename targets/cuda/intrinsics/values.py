"""Operations on one thread's values, by instructions that LLVM does not find by itself.

References
----------
PTX ISA, sections "prmt", "rsqrt", "mul" and "nanosleep"; LLVM, "User Guide for NVPTX Back-end".
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.language.packed_numbers import PACKED_NUMBERS
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.scalars import call_llvm, signs_of, with_signs
from kerneldsl.lowering.vectors import each_part
from targets.cuda.intrinsics.by_architecture import call_by_architecture
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["EMITTERS", "libdevice_emitter"]

_I32 = ir.IntType(32)
#: Functions for the upper half of a product, by the width of the factors and their signedness.
_UPPER_PRODUCTS = {
    (32, True): "mulhi.i",
    (32, False): "mulhi.ui",
    (64, True): "mulhi.ll",
    (64, False): "mulhi.ull",
}


def _permute_bytes(call: Call) -> ir.Value:
    low, high, selector = call.args
    # The fourth bit of a number would repeat the byte's sign.
    numbers = call.builder.and_(selector, _I32(0x7777))
    return _permuted(call.builder, low, high, numbers)


def _reciprocal_root(call: Call) -> ir.Value:
    (value,) = call.args
    precision = "f" if call.signature.return_type.bitwidth == 32 else "d"
    return call_nvvm(call.builder, f"rsqrt.approx.{precision}", value.type, [value])


def _upper_product(call: Call) -> ir.Value:
    """Multiply by one instruction.

    LLVM computes products of words, and what is computed of their halves, in 64 bits.
    """
    kind, is_signed = call.args[0].type, call.signature.return_type.signed
    return call_nvvm(call.builder, _UPPER_PRODUCTS[kind.width, is_signed], kind, list(call.args))


def _dot(call: Call) -> ir.Value:
    signs = "".join("s" if is_signed else "u" for is_signed in signs_of(call))
    return each_part(
        call.builder,
        call.signature.args,
        call.args,
        lambda args: call_by_architecture(call.builder, f"dot4_{signs}", _I32, args),
    )


def _unpack(call: Call) -> ir.Value:
    """Look numbers of 2 bits up in a table of four bytes, by instructions that permute bytes.

    A selector has 4 bits for each byte of the result, so the numbers with even places are looked up
    first, then those with odd ones; of 4 bits they are bytes at once. Another permutation puts
    them into their order.
    """
    builder, numbers = call.builder, PACKED_NUMBERS[call.static["numbers"]]
    (word,) = call.args
    if numbers.bits == 4:
        halves = [builder.and_(each, _I32(0x0F0F0F0F)) for each in _shifted(builder, word, 4)]
        groups = [tuple(with_signs(builder, each, numbers) for each in halves)]
    else:
        codes = range(4)
        values = [
            (code ^ 2) - 2 if numbers.is_twos_complement and numbers.smallest else code
            for code in codes
        ]
        if not numbers.is_twos_complement:
            values = [code + numbers.smallest for code in codes]
        table = _I32(int.from_bytes(bytes(value & 0xFF for value in values), "little"))
        selectors = [builder.and_(each, _I32(0x33333333)) for each in _shifted(builder, word, 2)]
        groups = []
        for half in (0, 16):
            parts = [builder.lshr(each, _I32(half)) for each in selectors] if half else selectors
            groups.append(tuple(_permuted(builder, table, _I32(0), each) for each in parts))
    parts = [
        _permuted(builder, even, odd, _I32(order))
        for even, odd in groups
        for order in (0x5140, 0x7362)
    ]
    return call.context.make_tuple(builder, call.signature.return_type, parts)


def _shifted(builder: ir.IRBuilder, word: ir.Value, bits: int) -> tuple[ir.Value, ir.Value]:
    return word, builder.lshr(word, _I32(bits))


def _permuted(builder: ir.IRBuilder, low: ir.Value, high: ir.Value, selector: ir.Value) -> ir.Value:
    return call_nvvm(builder, "prmt", _I32, [low, high, selector])


def _sleep(call: Call) -> None:
    call_by_architecture(call.builder, "nanosleep", ir.VoidType(), call.args)


EMITTERS: dict[str, Emitter] = {
    "byte_perm": _permute_bytes,
    "dot4": _dot,
    "mulhi": _upper_product,
    "rsqrt": _reciprocal_root,
    "unpack": _unpack,
    "nanosleep": _sleep,
}


# Calls of NVIDIA's libdevice by its own names, which is linked in when PTX is written.
#
# See NVIDIA, "libdevice User's Guide", section "Function Reference".

#: LLVM asks libdevice's ``sqrtf`` for the approximate square root, ``prec-sqrt=false``.
_OF_LLVM = {"sqrtf": "llvm.sqrt.f32"}


def libdevice_emitter(name: str) -> Emitter:
    """Return what writes a call of a function, such as ``"libdevice.frexp"``."""
    return partial(_call, name.removeprefix("libdevice."))


def _call(name: str, call: Call) -> ir.Value:
    """Call a function; all but its result it writes through pointers after the arguments."""
    builder, context, signature = call.builder, call.context, call.signature
    results = getattr(signature.return_type, "types", (signature.return_type,))
    kinds = [context.get_value_type(each) for each in results]
    written = kinds if "sincos" in name else kinds[1:]
    places = [cgutils.alloca_once(builder, kind) for kind in written]
    returned = ir.VoidType() if len(written) == len(kinds) else kinds[0]
    value = call_llvm(builder, _OF_LLVM.get(name, f"__nv_{name}"), returned, [*call.args, *places])
    values = [*([] if len(written) == len(kinds) else [value]), *map(builder.load, places)]
    if len(values) == 1:
        return values[0]
    return context.make_tuple(builder, signature.return_type, values)
