"""The arguments of a kernel, read from the launch."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.contract.abi import RECORD_WORD_BYTES
from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.operations import Function
from kerneldsl.language.kinds import ArrayKind, Kind, TupleKind
from targets.cpu.codegen.code import HEADER_BYTES
from targets.cpu.regions.emitter import CpuEmitter

__all__ = ["read_arguments"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def read_arguments(emitter: CpuEmitter, function: Function) -> None:
    """Bind the parameters of a kernel to what the launch has."""
    reader = _Reader(emitter)
    layout = emitter.spec.layout
    for value, name, kind in zip(function.body.arguments, layout.names, layout.kinds, strict=True):
        emitter.values[value] = reader.value(name, kind, value.type)


class _Reader:
    def __init__(self, emitter: CpuEmitter) -> None:
        self.emitter = emitter
        self.offsets = {each.name: each.offset for each in emitter.spec.layout.parameters}

    def field(self, name: str, kind: Any) -> ir.Value:
        """Return a parameter of the launch."""
        builder = self.emitter.builder
        place = builder.gep(self.emitter.launch, [_I32(HEADER_BYTES + self.offsets[name])])
        return builder.load(builder.bitcast(place, kind.as_pointer()))

    def value(self, name: str, kind: Kind, found: Any) -> Any:
        """Return an argument, of a type of Numba's."""
        if isinstance(kind, TupleKind):
            pairs = enumerate(zip(kind.elements, found.types, strict=True))
            return tuple(self.value(f"{name}[{number}]", *each) for number, each in pairs)
        if isinstance(kind, ArrayKind):
            return self.array(name, kind, found)
        context, builder = self.emitter.context, self.emitter.builder
        if isinstance(found, types.Complex):
            number = context.make_complex(builder, found)
            part = context.get_data_type(found.underlying_float)
            number.real = self.field(f"{name}.real", part)
            number.imag = self.field(f"{name}.imag", part)
            return number._getvalue()
        if isinstance(found, types.Record):
            firsts = range(0, kind.element.nbytes, RECORD_WORD_BYTES)
            words = [self.field(f"{name}.bytes[{first}]", _I64) for first in firsts]
            from kerneldsl.lowering.records import record_value

            return record_value(context, builder, found, words)
        stored = self.field(name, context.get_data_type(found))
        return context.data_model_manager[found].from_data(builder, stored)

    def array(self, name: str, kind: ArrayKind, found: Any) -> ArrayParts:
        axes = range(kind.ndim)
        shape = [self.field(f"{name}.shape[{axis}]", _I64) for axis in axes]
        data = self.field(
            f"{name}.data", self.emitter.context.get_data_type(found.dtype).as_pointer()
        )
        strides = None
        if kind.layout == "A":
            strides = [self.field(f"{name}.strides[{axis}]", _I64) for axis in axes]
        return ArrayParts(data, shape, found, strides)
