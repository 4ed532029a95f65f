"""The entry around a kernel's body: lean parameters in, Numba's values out, one index or many.

The parameters are exactly those of :class:`kerneldsl.contract.abi.ParameterLayout`. Whatever
Numba's array structures hold beyond them (item size, contiguous strides, number of elements) is
computed here, and mostly vanishes when the body is inlined.

Which indices a thread runs the body for is written by :mod:`targets.cuda.compile.tiling`; what the
launch has checked of the arguments is told to LLVM here, as attributes of pointers, and by using
one value where two are known to be equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.contract import Specialization
from targets.cuda.compile.lower import Lowered
from targets.cuda.compile.parameters import ParameterReader, parameter_types
from targets.cuda.compile.tiling import emit_body

__all__ = ["build_entry"]

_i8 = ir.IntType(8)
_i32 = ir.IntType(32)


def build_entry(lowered: Lowered, name: str, specialization: Specialization) -> ir.Module:
    """Write the module with a kernel's entry.

    Its traits and its mapping decide which indices a thread runs.
    """
    kinds, layout = specialization.kinds, specialization.layout
    context, fndesc = lowered.context, lowered.fndesc
    module = context.create_module(name)
    entry_type = ir.FunctionType(ir.VoidType(), list(parameter_types(context, layout)))
    entry = ir.Function(module, entry_type, name)
    entry.calling_convention = "ptx_kernel"
    for argument, parameter in zip(entry.args, layout.parameters, strict=True):
        argument.name = parameter.name
        if isinstance(argument.type, ir.PointerType):
            argument.attributes.align = context.get_abi_alignment(argument.type.pointee)
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    with _line_information(context, builder, fndesc, specialization):
        reader = ParameterReader(context, builder, specialization)
        values = [
            reader.value(kind, numba_type)
            for kind, numba_type in zip(kinds, fndesc.argtypes, strict=True)
        ]
        fault = ir.Constant(_i8.as_pointer(), None)
        if reader.fault is not None:
            fault = builder.addrspacecast(reader.fault, _i8.as_pointer())
        body = context.declare_function(module, fndesc)

        def run(index: list[ir.Value], size: list[ir.Value], guard: int) -> ir.Value:
            hidden = [fault, *index, *size, _i32(guard)]
            status, _ = context.call_conv.call_with(
                builder, body, types.void, fndesc.argtypes, values, hidden=hidden
            )
            return status.code

        traits, mapping = specialization.traits, specialization.mapping
        has_guard = lowered.has_guard
        emit_body(builder, reader.extent, traits, mapping, run, has_guard=has_guard)
        builder.ret_void()
    return module


@contextmanager
def _line_information(
    context: Any, builder: ir.IRBuilder, fndesc: Any, specialization: Specialization
) -> Iterator[None]:
    """Place the entry at the kernel's ``def``; lines of what is inlined hang on it."""
    if not specialization.options.lineinfo:
        yield
        return
    unit = specialization.unit
    lines = context.DIBuilder(builder.module, unit.filename, context, directives_only=True)
    lines.mark_subprogram(builder.function, unit.qualname, (), (), unit.first_line)
    lines.mark_location(builder, unit.first_line)
    yield
    lines.finalize()
