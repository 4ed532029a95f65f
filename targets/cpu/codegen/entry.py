"""The entry of a kernel, which the driver calls: it unpacks a launch and calls the body.

:mod:`targets.cpu.codegen.code` describes it and its parameters. The function of
:mod:`targets.cpu.runtime.runner_code` runs its units piece by piece. For each piece it calls a
function that is written here, which unpacks the arguments and calls the body.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.contract.abi import RECORD_WORD_BYTES, ParameterLayout
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.launch.native.builder import POINTER
from kerneldsl.lowering.numba_internals.arrays import array_value
from kerneldsl.lowering.records import record_value
from kerneldsl.lowering.types import numba_type
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.codegen.code import HEADER_BYTES, PARTS_WORD, SPACE_WORDS
from targets.cpu.runtime.runner_code import RUNNER_TYPE, write_runner
from targets.cpu.runtime.runner_table import RUNNER, RunnerOption

__all__ = ["EntryBuilder"]

_I64 = ir.IntType(64)
_BYTE = ir.IntType(8)
_BYTES = _BYTE.as_pointer()


@dataclass
class EntryBuilder:
    """Builds the function that the driver calls, and the one that calls the body."""

    context: Any
    module: Any
    result: Any
    layout: ParameterLayout
    scratch_bytes: int
    waits: bool
    options: RunnerOption
    #: Whether the module has its own function that runs pieces, as a library for C has.
    has_runner: bool
    builder: Any = None
    launch: Any = None

    def build(self, name: str) -> None:
        """Write the entry under a name."""
        if self.has_runner:
            runner = write_runner(self.module, is_internal=True)
        else:
            runner = ir.Function(self.module, RUNNER_TYPE, RUNNER)
        piece = self.write_piece(f"{name}.piece")
        kind = ir.FunctionType(ir.VoidType(), [POINTER] * 4)
        entry = ir.Function(self.module, kind, name)
        ranges, counts, _, launch = entry.args
        builder = ir.IRBuilder(entry.append_basic_block("entry"))
        more = (_I64(self.scratch_bytes), _I64(self.options))
        builder.call(runner, [ranges, counts, launch, piece, *more])
        builder.ret_void()

    def write_piece(self, name: str) -> ir.Function:
        """Write ``i64 piece(i64 first, i64 last, ptr scratch, ptr launch)``, which runs the body.

        It returns the address of what is said of an exception, or 0.
        """
        kind = ir.FunctionType(_I64, [_I64, _I64, POINTER, POINTER])
        function = ir.Function(self.module, kind, name)
        function.linkage = "internal"
        first, last, scratch, self.launch = function.args
        self.builder = builder = ir.IRBuilder(function.append_basic_block("entry"))
        start = self.word(PARTS_WORD) if self.waits else builder.ptrtoint(scratch, _I64)
        values = [first, last, *(self.word(2 + i) for i in range(SPACE_WORDS))]
        values += [builder.inttoptr(start, _BYTES), self.word(2 + SPACE_WORDS), *self.arguments()]
        argument_types = self.result.signature.args
        body = ir.Function(
            self.module,
            self.context.call_conv.get_function_type(
                self.result.signature.return_type, argument_types
            ),
            self.result.fndesc.llvm_func_name,
        )
        status, _ = self.context.call_conv.call_function(
            builder, body, self.result.signature.return_type, argument_types, values
        )
        told = builder.ptrtoint(status.excinfoptr, _I64)
        builder.ret(builder.select(status.is_error, told, _I64(0)))
        return function

    def word(self, number: int) -> Any:
        return self.at(8 * number, _I64)

    def at(self, offset: int, kind: Any) -> Any:
        address = self.builder.gep(self.launch, [_I64(offset)], source_etype=_BYTE)
        return self.builder.load(address, typ=kind)

    # -- arguments -------------------------------------------------------------------------------

    def arguments(self) -> list[Any]:
        """Return the kernel's arguments as Numba's values."""
        places = {p.name: p for p in self.layout.parameters}
        values = [
            self.value(name, kind, places)
            for name, kind in zip(self.layout.names, self.layout.kinds, strict=True)
        ]
        if self.layout.debug:
            values.append(self.word(4 + SPACE_WORDS))
        return values

    def field(self, place: Any, kind: Any) -> Any:
        return self.at(HEADER_BYTES + place.offset, kind)

    def value(self, name: str, kind: Kind, places: dict[str, Any]) -> Any:
        context, builder = self.context, self.builder
        found = numba_type(kind)
        if isinstance(kind, ScalarKind):
            if kind.element.is_complex:
                part = context.get_data_type(found.underlying_float)
                number = context.make_complex(builder, found)
                number.real = self.field(places[f"{name}.real"], part)
                number.imag = self.field(places[f"{name}.imag"], part)
                return number._getvalue()
            if kind.element.is_record:
                firsts = range(0, kind.element.nbytes, RECORD_WORD_BYTES)
                words = [self.field(places[f"{name}.bytes[{n}]"], _I64) for n in firsts]
                return record_value(context, builder, found, words)
            stored = self.field(places[name], context.get_data_type(found))
            return context.data_model_manager[found].from_data(builder, stored)
        if isinstance(kind, ArrayKind):
            return self.array(name, kind, found, places)
        parts = [self.value(f"{name}[{i}]", e, places) for i, e in enumerate(kind.elements)]
        return context.make_tuple(builder, found, parts)

    def array(self, name: str, kind: ArrayKind, found: Any, places: dict[str, Any]) -> Any:
        context, builder = self.context, self.builder
        shape = [self.field(places[f"{name}.shape[{i}]"], _I64) for i in range(kind.ndim)]
        strides = None
        if kind.layout == "A":
            strides = [self.field(places[f"{name}.strides[{i}]"], _I64) for i in range(kind.ndim)]
        data = self.field(places[f"{name}.data"], _BYTE.as_pointer())
        return array_value(context, builder, found, data, shape, strides=strides)
