"""Instructions of PTX that are written out: the user's, and those of ``kd.nv``.

Operands are registers whose kind follows from their type: 16 bits for numbers of 8 and 16 bits, 32
for truth values.

References
----------
NVIDIA, "Inline PTX Assembly in CUDA", section "Constraints"; LLVM Language Reference, section
"Inline Assembler Expressions".
"""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.lowering.calls import Call, Emitter
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["EMITTERS", "write_instructions"]

_I16, _I32 = ir.IntType(16), ir.IntType(32)


def _inline(call: Call) -> ir.Value:
    return write_instructions(call, call.static["text"], is_pure=call.static["pure"])


def write_instructions(call: Call, text: str, *, is_pure: bool) -> ir.Value:
    """Write instructions with a call's arguments as operands, after its results."""
    builder, result = call.builder, call.signature.return_type
    kinds = [] if result == types.void else list(getattr(result, "types", (result,)))
    values = [
        _into_register(call, kind, value)
        for kind, value in zip(call.signature.args, call.args, strict=True)
    ]
    registers = [_register(call, kind) for kind in kinds]
    constraints = [f"={_LETTERS[str(each)]}" for each in registers]
    constraints += [_LETTERS[str(value.type)] for value in values]
    if not is_pure:
        constraints.append("~{memory}")
    returned: ir.Type = ir.VoidType()
    if registers:
        returned = registers[0] if len(registers) == 1 else ir.LiteralStructType(registers)
    given = builder.asm(
        ir.FunctionType(returned, [value.type for value in values]),
        _quoted(text),
        ",".join(constraints),
        values,
        side_effect=not is_pure,
    )
    if not kinds:
        return call.context.get_dummy_value()
    if len(kinds) == 1:
        return _from_register(call, kinds[0], given)
    parts = [
        _from_register(call, kind, builder.extract_value(given, number))
        for number, kind in enumerate(kinds)
    ]
    return call.context.make_tuple(builder, result, parts)


#: Constraint of a register's type.
_LETTERS = {"i16": "h", "i32": "r", "i64": "l", "float": "f", "double": "d"}


def _quoted(text: str) -> str:
    """Return a text as LLVM's assembly has it between quotation marks."""
    return "".join(c if c.isprintable() and c not in '"\\' else f"\\{ord(c):02X}" for c in text)


def _register(call: Call, kind: Any) -> ir.Type:
    """Return the type of the register that holds a number."""
    if isinstance(kind, types.Float) and kind.bitwidth >= 32:
        return call.context.get_value_type(kind)
    return ir.IntType(max(16, kind.bitwidth))


def _into_register(call: Call, kind: Any, value: ir.Value) -> ir.Value:
    builder = call.builder
    if isinstance(kind, types.Boolean):
        return builder.zext(call.context.is_true(builder, kind, value), _I32)
    if isinstance(kind, types.Float):
        if kind.bitwidth >= 32:
            return value
        data = call.context.data_model_manager[kind].as_data(builder, value)
        return _widened(builder, builder.bitcast(data, ir.IntType(kind.bitwidth)), False)
    return _widened(builder, value, kind.signed)


def _widened(builder: ir.IRBuilder, value: ir.Value, is_signed: bool) -> ir.Value:
    if value.type.width >= 16:
        return value
    return (builder.sext if is_signed else builder.zext)(value, _I16)


def _from_register(call: Call, kind: Any, value: ir.Value) -> ir.Value:
    builder = call.builder
    if isinstance(kind, types.Float) and kind.bitwidth >= 32:
        return value
    bits = value if value.type.width == kind.bitwidth else builder.trunc(value, ir.IntType(8))
    if isinstance(kind, types.Integer):
        return bits
    model = call.context.data_model_manager[kind]
    return model.from_data(builder, builder.bitcast(bits, model.get_data_type()))


# -- PTX's own names --------------------------------------------------------------------------


def _word(text: str, call: Call) -> ir.Value:
    return write_instructions(call, text, is_pure=True)


def _lookup(call: Call) -> ir.Value:
    return _word(f"lop3.b32 $0, $1, $2, $3, {call.static['lut']};", call)


def _special_register(name: str, call: Call) -> ir.Value:
    kind = call.context.get_value_type(call.signature.return_type)
    return call_nvvm(call.builder, f"read.ptx.sreg.{name}", kind, [])


_TEXTS = {
    "prmt": "prmt.b32 $0, $1, $2, $3;",
    **{f"bfe_{kind}": f"bfe.{kind} $0, $1, $2, $3;" for kind in ("u32", "s32", "u64", "s64")},
    **{f"bfi_{kind}": f"bfi.{kind} $0, $1, $2, $3, $4;" for kind in ("b32", "b64")},
    **{f"bfind_{kind}": f"bfind.{kind} $0, $1;" for kind in ("u32", "s32", "u64", "s64")},
    **{f"{name}_approx_f32": f"{name}.approx.f32 $0, $1;" for name in ("ex2", "lg2", "rcp")},
    "tanh_approx_f32": "tanh.approx.f32 $0, $1;",
}
EMITTERS: dict[str, Emitter] = {
    "ptx": _inline,
    "nv.lop3": _lookup,
    **{f"nv.{name}": partial(_word, text) for name, text in _TEXTS.items()},
    **{f"nv.{name}": partial(_special_register, name) for name in ("clock64", "globaltimer")},
    "nv.smid": partial(_special_register, "smid"),
}
