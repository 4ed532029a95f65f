"""Compilation of a kernel by the region IR to machine code of this processor.

The body is one LLVM function, ``body(memory, exception, first, last, launch)``, which
reads its arguments from the launch. It runs a range of blocks, or of pieces of rows.
"""

from __future__ import annotations

import itertools
import operator
import time
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.analysis.operations import CONVERSIONS, SELECTIONS
from kerneldsl.contract import Specialization
from kerneldsl.contract.abi import RECORD_WORD_BYTES
from kerneldsl.errors import KernelError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.explained_errors import explained_errors, translate
from kerneldsl.ir.frontend.read import argument_types, read_function, type_unit
from kerneldsl.ir.frontend.reader import Reader
from kerneldsl.ir.operations import Function, Operation, Region
from kerneldsl.ir.printer import print_function
from kerneldsl.ir.recognize import OPERATORS, operands_of, operator_of
from kerneldsl.language.intrinsics.intrinsic import Effect, Typing
from kerneldsl.language.kinds import ArrayKind, Kind, TupleKind
from kerneldsl.launch.native.builder import POINTER
from kerneldsl.lowering import math_functions as _math_functions  # noqa: F401 - registers
from kerneldsl.lowering import numpy_functions as _numpy_functions  # noqa: F401 - registers
from kerneldsl.lowering.captured_arrays import captured_addresses, offering
from kerneldsl.lowering.numba_internals.compiling import collector_paused, global_compiler_lock
from kerneldsl.lowering.numba_internals.host_code import helpers_of_kernels, host_contexts
from kerneldsl.lowering.numba_internals.llvm_modules import (
    EXCEPTION_POINTER,
    empty_module,
    relax_floats,
    without_errors,
)
from kerneldsl.utilities.formatting import ascii_identifier
from targets.cpu.codegen.levels import LEVELS, compiling_for
from targets.cpu.codegen.library import ENTRY_SUFFIX, create_library, entry_symbol, name_symbols
from targets.cpu.codegen.storage import LocalScopes
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.loop_writer import HANDLERS as ARITHMETIC
from targets.cpu.regions.read import read_kernel
from targets.cpu.regions.rows import HANDLERS as ROWS
from targets.cpu.regions.rows import row_axis, write_rows
from targets.cpu.runtime.artifact import Compiled, CpuArtifact
from targets.cpu.runtime.native_tables import HEADER_BYTES, RUNNER, RunnerOption
from targets.cpu.runtime.objects import load_object, runner_symbols
from targets.cpu.runtime.runner_code import RUNNER_TYPE, write_runner
from targets.cpu.runtime.signal_handlers import CAN_LEAVE_CODE

if TYPE_CHECKING:
    from kerneldsl.frontend.typed_unit import TypedUnit
    from kerneldsl.lowering.faults import FaultTable

__all__ = ["compile_kernel", "is_short", "typed_regions", "typed_unit"]

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_POINTER = _I8.as_pointer()


def compile_kernel(spec: Specialization) -> CpuArtifact:
    """Compile a kernel by the region IR, and raise errors of this project.

    The specialization has a block if the kernel needs one.
    """
    level = spec.arch if spec.arch in LEVELS else None
    try:
        with (
            collector_paused(),
            global_compiler_lock,
            nullcontext() if level is None else compiling_for(level) as machine,
        ):
            library = create_library(spec.unit.name, machine)
            with helpers_of_kernels(), offering(spec.unit) if library.is_object else nullcontext():
                return _compile(spec, library, level)
    except (KernelError, MemoryError):
        raise
    except Exception as error:
        raise translate(error, spec.unit, spec.kinds, where="on a CPU") from error


def typed_unit(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> TypedUnit:
    """Return a kernel with the types of its values, by the rules that it is compiled by."""
    with global_compiler_lock, explained_errors(unit, kinds, where="on a CPU"):
        arguments = argument_types(unit, kinds)
        return type_unit(unit, arguments, host_contexts().typing_context)


def typed_regions(unit: FunctionUnit, kinds: tuple[Kind, ...], made_by: type[Reader]) -> Function:
    """Return the typed function of a kernel before any pass; `made_by` is its reader's class."""
    with global_compiler_lock, explained_errors(unit, kinds, where="on a CPU"):
        arguments = argument_types(unit, kinds)
        return read_function(unit, arguments, host_contexts().typing_context, made_by=made_by)


def _compile(spec: Specialization, library: Any, level: str | None) -> CpuArtifact:
    began = time.perf_counter()
    function, region = read_kernel(spec)
    read = time.perf_counter()
    entry_name = _entry_name(spec, library)
    module, part_bytes = _lower(spec, function, region, library, entry_name)
    lowered = time.perf_counter()
    library.add_ir_module(module)
    if level is not None:
        symbol = entry_symbol(spec)
        library.finish = partial(name_symbols, old=entry_name, new=symbol)
        library.finalize()
        compiled = Compiled(library, 0, symbol)
    else:
        library.finalize()
        compiled = _loaded(spec, library, entry_name)
    timings = {
        "read": read - began,
        "lower": lowered - read,
        "compile": time.perf_counter() - lowered,
    }
    return CpuArtifact(
        spec,
        compiled.entry_name,
        timings,
        print_function(function, region),
        compiled,
        row_axis(spec, function.work) if spec.traits.uses_grid_only else None,
        _fault_table(function) if spec.options.debug else None,
        part_bytes if spec.traits.syncs_grid else None,
        function.findings,
        function.barriers,
        function.work,
        0 if function.has_loops else spec.unit.straight_nodes(),
    )


def _fault_table(function: Function) -> FaultTable:
    from kerneldsl.lowering.faults import FaultTable

    return FaultTable(function.fault_sites)


_numbers = itertools.count()


def _entry_name(spec: Specialization, library: Any) -> str:
    """Return the name of the entry; Numba's engine has all kernels, and needs different names."""
    name = spec.unit.name
    if not name.isascii():  # llvmlite writes modules in Latin-1
        name = ascii_identifier(name)
    number = "" if library.is_object else f".{next(_numbers)}"
    return f"{name}{number}{ENTRY_SUFFIX}"


def _loaded(spec: Specialization, library: Any, entry_name: str) -> Compiled:
    """Return the code in this process."""
    if not library.is_object:
        return Compiled(library, library.get_pointer_to_function(entry_name), entry_name)
    symbols = library.outside_symbols() | captured_addresses(spec.unit) | runner_symbols()
    loaded = load_object(library.machine_code, entry_name, symbols)
    return Compiled(library, loaded.address, entry_name, loaded)


def _lower(
    spec: Specialization, function: Function, region: Region, library: Any, entry_name: str
) -> tuple[ir.Module, int]:
    """Write the module with the body and its entry; return also how much memory a block has."""
    context = _target_context()
    module = empty_module(context, spec.unit.name)
    body = ir.Function(module, _BODY, f"{entry_name.removesuffix(ENTRY_SUFFIX)}.body")
    body.linkage = "internal"
    names = {each.name for each in region.walk()}
    if "while" not in names:  # strides that are halved take two rounds of LLVM to be unrolled
        body.attributes.add("alwaysinline")
    builder = ir.IRBuilder(body.append_basic_block("entry"))
    emitter = CpuEmitter(context, builder, spec, region)
    with context.push_code_library(library):
        _register(emitter, names)
        _read_arguments(emitter, function)
        if "local.array" in names:
            emitter.scopes = LocalScopes(module, function.body.arguments)
        with _gathering(emitter, function, region):
            if spec.traits.uses_grid_only:
                write_rows(emitter, region, function.work)
            else:
                from targets.cpu.regions.block_kernels import (
                    write_blocks,  # elements do without these
                )

                write_blocks(emitter, region)
        builder.ret(_I32(0))
        emitter.finish()
    flags = _float_flags(spec)
    if flags:
        relax_floats(module, flags)
    scratch_bytes = emitter.storage.scratch_bytes
    options = _options(spec, region, uses_scratch=scratch_bytes > 0)
    has_runner = not library.is_object or spec.arch in LEVELS
    _write_entry(module, body, entry_name, scratch_bytes, options, has_runner=has_runner)
    return module, scratch_bytes


def _register(emitter: CpuEmitter, names: set[str]) -> None:
    """Add the handlers of operations that element kernels may have, for those in a region.

    Operations that only blocks have are registered where blocks are written.
    """
    emitter.register(ARITHMETIC | ROWS)
    if any(name.startswith(("lane.", "array.disjoint")) for name in names):
        from targets.cpu.regions.lanes import rows, slots

        emitter.register(slots.HANDLERS | rows.HANDLERS)
    if "local.array" in names:
        from targets.cpu.regions import memory

        emitter.register(memory.HANDLERS)
    if emitter.spec.options.debug:
        from targets.cpu.regions import faults

        emitter.register(faults.HANDLERS)


def _gathering(
    emitter: CpuEmitter, function: Function, region: Region
) -> AbstractContextManager[None]:
    """Return the context manager in which a region is written."""
    uses = emitter.spec.unit.all_uses()
    if not any(Effect.ATOMIC in use.intrinsic.effect for use in uses):
        return nullcontext()
    from targets.cpu.regions.gathered_atomics import gathering

    return gathering(emitter, function, region)


def _options(spec: Specialization, region: Region, *, uses_scratch: bool) -> RunnerOption:
    """Return what the body needs of the function that runs its pieces."""
    options = RunnerOption(0)
    if spec.traits.syncs_grid:
        pass  # the launch has the memory of all blocks
    elif spec.traits.uses_dynamic_shared:
        options |= RunnerOption.SCRATCH | RunnerOption.DYNAMIC
    elif uses_scratch:
        options |= RunnerOption.SCRATCH
    if CAN_LEAVE_CODE and not is_short(region):
        options |= RunnerOption.LEAVE
    return options


def _float_flags(spec: Specialization) -> frozenset[str] | bool:
    """Return LLVM's flags of operations on floats: all of them, some, or none."""
    if spec.options.fastmath:
        return True
    return frozenset({"contract"}) if spec.options.contract else False


@cache
def _target_context() -> Any:
    """Return the target context of kernels, in which a division by zero has a result."""
    return without_errors(host_contexts().target_context)


_LOOPS = ("while", "for_each", "array.view")
_PLACES = (Typing.INDEX, Typing.INDEX_TUPLE)
_SHORT_FUNCTIONS = CONVERSIONS | SELECTIONS | {"len", "sqrt", "exp", "log", "sin", "cos", "tanh"}
_OPERATORS = OPERATORS - {operator.matmul, operator.imatmul, operator.contains}


def is_short(region: Region) -> bool:
    """Return whether a thread of a kernel runs each operation of its region at most once.

    It is then never interrupted. Loops, views, operations of all threads, and functions of a
    library that may have a loop, such as ``y.mean()``, count as long.
    """
    return all(map(_runs_at_most_once, region.walk()))


def _runs_at_most_once(operation: Operation) -> bool:
    name = operation.name
    if name == "for":
        return "sides" in operation.attributes  # of a row, not of a thread
    if name in _LOOPS or name.startswith(("tile.", "exchange.", "linked")):
        return False
    use = operation.attributes.get("use")
    if use is not None:
        return use.intrinsic.typing in _PLACES
    if name != "numba":
        return True
    kinds = (each.type for each in operands_of(operation))
    are_numbers = all(isinstance(kind, types.Number | types.Boolean) for kind in kinds)
    function = operator_of(operation)
    is_known = function in _OPERATORS or getattr(function, "__name__", "") in _SHORT_FUNCTIONS
    return are_numbers and is_known


# -- the entry -------------------------------------------------------------------------------------


#: ``i32 body(ptr memory, ptr exception, i64 first, i64 last, ptr launch)``. Result and first
#: arguments are those of Numba's calling convention, by which what Numba has written in Python is
#: called and returns an exception.
_BODY = ir.FunctionType(_I32, [_POINTER, EXCEPTION_POINTER.as_pointer(), _I64, _I64, _POINTER])


def _write_entry(
    module: ir.Module,
    body: ir.Function,
    name: str,
    scratch_bytes: int,
    options: RunnerOption,
    *,
    has_runner: bool,
) -> None:
    """Write the entry, which has a runner call the body for each piece of a range.

    A module that `has_runner` has its own, as a library for C has.
    """
    if has_runner:
        runner = write_runner(module, is_internal=True)
    else:
        runner = ir.Function(module, RUNNER_TYPE, RUNNER)
    piece = _write_piece(module, body, f"{name}.piece")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER] * 4), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    ranges, counts, _, launch = function.args
    more = (_I64(scratch_bytes), _I64(options))
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


def _read_arguments(emitter: CpuEmitter, function: Function) -> None:
    """Bind the parameters of a kernel to what the launch has."""
    reader = _Reader(emitter)
    layout = emitter.spec.layout
    emitter.parameters = function.body.arguments
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
