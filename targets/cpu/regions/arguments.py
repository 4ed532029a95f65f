"""The arguments of a kernel, read from the launch."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.ir.operations import Function
from kerneldsl.language.kinds import ArrayKind, ScalarKind
from targets.cpu.codegen.code import HEADER_BYTES
from targets.cpu.regions.emitter import CpuEmitter

__all__ = ["read_arguments"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def read_arguments(emitter: CpuEmitter, function: Function) -> None:
    """Bind the parameters of a kernel to what the launch has."""
    layout = emitter.spec.layout
    places = {each.name: each for each in layout.parameters}

    def field(name: str, kind: Any) -> ir.Value:
        offset = HEADER_BYTES + places[name].offset
        pointer = emitter.builder.gep(emitter.launch, [_I32(offset)])
        return emitter.builder.load(emitter.builder.bitcast(pointer, kind.as_pointer()))

    for value, name, kind in zip(function.body.arguments, layout.names, layout.kinds, strict=True):
        if isinstance(kind, ArrayKind):
            element = emitter.context.get_data_type(value.type.dtype)
            shape = [field(f"{name}.shape[{axis}]", _I64) for axis in range(kind.ndim)]
            data = field(f"{name}.data", element.as_pointer())
            strides = None
            if kind.layout == "A":
                strides = [field(f"{name}.strides[{axis}]", _I64) for axis in range(kind.ndim)]
            emitter.values[value] = ArrayParts(data, shape, value.type, strides)
        elif isinstance(kind, ScalarKind) and not kind.element.is_complex:
            stored = field(name, emitter.context.get_data_type(value.type))
            model = emitter.context.data_model_manager[value.type]
            emitter.values[value] = model.from_data(emitter.builder, stored)
        else:
            raise NotReadError(str(kind))
