"""Loads and stores of elements with PTX's cache operators.

They are inline PTX, as LLVM has no such instructions. What is not in global memory, or does not lie
at a multiple of its size, is accessed as without a hint; LLVM finds the address space of the arrays
that are arguments, so that no test is left of it.

References
----------
PTX ISA, sections "Cache Operators", "ld" and "st"; LLVM, "User Guide for NVPTX Back-end",
"llvm.nvvm.isspacep.*".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.lowering.calls import join
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["load_with_hint", "store_with_hint"]

_I1, _I8, _I16, _I64 = (ir.IntType(width) for width in (1, 8, 16, 64))
_GLOBAL_SPACE = 1
#: The language's words to PTX's operators.
_LOADS = {"all": "ca", "global": "cg", "streaming": "cs", "last_use": "lu", "again": "cv"}
_STORES = {"all": "wb", "global": "cg", "streaming": "cs", "through": "wt"}
#: Width of a register to the letter of inline assembly.
_REGISTERS = {8: "h", 16: "h", 32: "r", 64: "l"}


@dataclass(frozen=True)
class _Form:
    """An element as one access has it: so many parts of so many bits."""

    count: int
    width: int

    @property
    def nbytes(self) -> int:
        """Size in bytes; the address must be a multiple of it."""
        return self.count * self.width // 8

    @property
    def suffix(self) -> str:
        """The end of the instruction's name."""
        return f"{f'.v{self.count}' * (self.count > 1)}.b{self.width}"

    @property
    def bits(self) -> ir.IntType:
        """A part, as bits."""
        return ir.IntType(self.width)

    @property
    def register(self) -> ir.IntType:
        """A part in a register; one of 16 bits holds a byte, too."""
        return _I16 if self.width == 8 else self.bits

    def text(self, first: int) -> str:
        """Return operands from a number on, as PTX writes a part or a vector."""
        parts = ", ".join(f"${first + number}" for number in range(self.count))
        return f"{{{parts}}}" if self.count > 1 else parts


def _form(context: Any, array: Any) -> _Form | None:
    """Return how an array's element is accessed, or ``None`` where only LLVM knows."""
    if not isinstance(array, types.Array) or not array.aligned:
        return None
    kind = context.data_model_manager[array.dtype].get_data_type()
    parts = kind.elements if isinstance(kind, ir.BaseStructType) else (kind,)
    width = _width(parts[0])
    if len(set(parts)) > 1 or len(parts) not in (1, 2, 4) or width not in _REGISTERS:
        return None
    form = _Form(len(parts), width)
    return form if form.nbytes <= 16 else None


def _width(kind: ir.Type) -> int:
    if isinstance(kind, ir.IntType):
        return int(kind.width)
    widths = {ir.HalfType(): 16, ir.FloatType(): 32, ir.DoubleType(): 64}
    return widths.get(kind, 0)


def _takes_hint(builder: ir.IRBuilder, pointer: ir.Value, form: _Form) -> ir.Value:
    """Return whether an address is of global memory, and one that the access may have."""
    space = pointer.type.addrspace
    is_global: ir.Value = _I1(space == _GLOBAL_SPACE)
    if not space:
        address = builder.bitcast(pointer, _I8.as_pointer())
        is_global = call_nvvm(builder, "isspacep.global", _I1, [address])
    if form.count == 1:
        return is_global
    low = builder.and_(builder.ptrtoint(pointer, _I64), _I64(form.nbytes - 1))
    return builder.and_(is_global, builder.icmp_unsigned("==", low, _I64(0)))


def _global(builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    kind = ir.PointerType(pointer.type.pointee, _GLOBAL_SPACE)
    return builder.addrspacecast(pointer, kind)


def load_with_hint(
    context: Any,
    builder: ir.IRBuilder,
    array: Any,
    pointer: ir.Value,
    hint: str,
    load: Callable[[], ir.Value],
) -> ir.Value:
    """Load an element of an array of a type, at an address; `load` does so without a hint."""
    form = _form(context, array)
    if form is None:
        return load()
    with builder.if_else(_takes_hint(builder, pointer, form)) as (hinted, plain):
        with hinted:
            one = _hinted_load(context, builder, array.dtype, pointer, form, hint)
            from_one = builder.block
        with plain:
            other = load()
            from_other = builder.block
    return join(builder, (one, from_one), (other, from_other))


def _hinted_load(
    context: Any, builder: ir.IRBuilder, element: Any, pointer: ir.Value, form: _Form, hint: str
) -> ir.Value:
    model = context.data_model_manager[element]
    at = _global(builder, pointer)
    result = form.register
    if form.count > 1:
        result = ir.LiteralStructType([form.register] * form.count)
    letter = _REGISTERS[form.width]
    text = f"ld.global.{_LOADS[hint]}{form.suffix} {form.text(0)}, [${form.count}];"
    constraint = ",".join([f"={letter}"] * form.count + ["l"])
    found = builder.asm(
        ir.FunctionType(result, [at.type]), text, constraint, [at], side_effect=True
    )
    if hint != "again":
        # The load only reads memory: LLVM moves no store across it, but may move other
        # instructions.
        found.attributes.add("readonly")
    found.attributes.add("nounwind")
    kind = model.get_data_type()
    if form.count == 1:
        return model.from_data(builder, _of_bits(builder, found, form, kind))
    data: ir.Value = ir.Constant(kind, ir.Undefined)
    for number, part in enumerate(kind.elements):
        bits = builder.extract_value(found, number)
        data = builder.insert_value(data, _of_bits(builder, bits, form, part), number)
    return model.from_data(builder, data)


def _of_bits(builder: ir.IRBuilder, value: ir.Value, form: _Form, kind: ir.Type) -> ir.Value:
    if form.register != form.bits:
        value = builder.trunc(value, form.bits)
    return builder.bitcast(value, kind)


def store_with_hint(
    context: Any,
    builder: ir.IRBuilder,
    array: Any,
    pointer: ir.Value,
    value: ir.Value,
    hint: str,
    store: Callable[[], None],
) -> None:
    """Store an element of an array of a type, at an address; `store` does so without a hint."""
    form = _form(context, array)
    if form is None:
        store()
        return
    with builder.if_else(_takes_hint(builder, pointer, form)) as (hinted, plain):
        with hinted:
            data = context.data_model_manager[array.dtype].as_data(builder, value)
            _hinted_store(builder, data, pointer, form, hint)
        with plain:
            store()


def _hinted_store(
    builder: ir.IRBuilder, data: ir.Value, pointer: ir.Value, form: _Form, hint: str
) -> None:
    parts = [data]
    if form.count > 1:
        parts = [builder.extract_value(data, number) for number in range(form.count)]
    words = [builder.bitcast(part, form.bits) for part in parts]
    if form.register != form.bits:
        words = [builder.zext(word, form.register) for word in words]
    at = _global(builder, pointer)
    text = f"st.global.{_STORES[hint]}{form.suffix} [$0], {form.text(1)};"
    constraint = ",".join(["l", *[_REGISTERS[form.width]] * form.count, "~{memory}"])
    kind = ir.FunctionType(ir.VoidType(), [at.type, *[form.register] * form.count])
    builder.asm(kind, text, constraint, [at, *words], side_effect=True)
