"""The entry of a kernel, which has the process's runner call the body; and the body's arguments."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.contract.abi import RECORD_WORD_BYTES
from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.operations import Function
from kerneldsl.language.kinds import ArrayKind, Kind, TupleKind
from kerneldsl.launch.native.builder import POINTER
from kerneldsl.lowering.numba_internals.llvm_modules import (
    EXCEPTION_POINTER,
)
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.codegen.code import HEADER_BYTES
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.runtime.native_tables import RUNNER, RunnerOption
from targets.cpu.runtime.runner_code import RUNNER_TYPE, write_runner

__all__ = ["BODY", "Entry", "read_arguments", "write_entry"]

_I8, _I32, _I64 = (ir.IntType(bits) for bits in (8, 32, 64))
_POINTER = _I8.as_pointer()

#: ``i32 body(ptr memory, ptr exception, i64 first, i64 last, ptr launch)``. Result and first
#: arguments are those of Numba's calling convention, by which what Numba has written in Python is
#: called and returns an exception.
BODY = ir.FunctionType(_I32, [_POINTER, EXCEPTION_POINTER.as_pointer(), _I64, _I64, _POINTER])


@dataclass(frozen=True)
class Entry:
    """Options of an entry beside the body."""

    scratch_bytes: int
    options: RunnerOption
    #: Whether the module has its own function that runs pieces, as a library for C has.
    has_runner: bool


def write_entry(module: ir.Module, body: ir.Function, name: str, entry: Entry) -> None:
    """Write the entry, which has a runner call the body for each piece of a range."""
    if entry.has_runner:
        runner = write_runner(module, is_internal=True)
    else:
        runner = ir.Function(module, RUNNER_TYPE, RUNNER)
    piece = _write_piece(module, body, f"{name}.piece")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER] * 4), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    ranges, counts, _, launch = function.args
    more = (_I64(entry.scratch_bytes), _I64(entry.options))
    builder.call(runner, [ranges, counts, launch, piece, *more])
    builder.ret_void()


def _write_piece(module: ir.Module, body: ir.Function, name: str) -> ir.Function:
    """Write ``i64 piece(i64 first, i64 last, ptr scratch, ptr launch)``, which calls the body."""
    piece = ir.Function(module, ir.FunctionType(_I64, [_I64, _I64, POINTER, POINTER]), name)
    piece.linkage = "internal"
    first, last, scratch, launch = piece.args
    builder = ir.IRBuilder(piece.append_basic_block("entry"))
    exception = cgutils.alloca_once(builder, EXCEPTION_POINTER)
    scratch, launch = (builder.bitcast(each, _POINTER) for each in (scratch, launch))
    code = builder.call(body, [scratch, exception, first, last, launch])
    told = builder.ptrtoint(builder.load(exception), _I64)
    builder.ret(builder.select(builder.icmp_signed("!=", code, _I32(0)), told, _I64(0)))
    return piece


# -- arguments, read from the launch --------------------------------------------------------------


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
