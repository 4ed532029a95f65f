"""From the region IR of a kernel to its PTX: entry and body are one LLVM function.

The body is written into the entry, at the places where :mod:`targets.cuda.compile.tiling` runs it.
So nothing is called, inlined or linked.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any
from weakref import WeakKeyDictionary

from llvmlite import ir
from numba import errors, types

from kerneldsl.contract import Specialization
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.frontend.read import read_function
from kerneldsl.ir.nonnegative import mark_indices
from kerneldsl.ir.operations import Function, Operation, Region, Value
from kerneldsl.ir.ranges import Interval, ranges_of
from kerneldsl.ir.simplify import simplify
from kerneldsl.language.kinds import ArrayKind, Kind, TupleKind
from kerneldsl.lowering import math_functions as _math_functions  # noqa: F401 - registers
from kerneldsl.lowering import numpy_functions as _numpy_functions  # noqa: F401 - registers
from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.faults import FaultTable
from kerneldsl.lowering.float_conversions import define_conversions
from kerneldsl.lowering.loop_marks import with_loop_marks
from kerneldsl.lowering.numba_internals.compiling import (
    collector_paused,
    global_compiler_lock,
    target_override,
)
from kerneldsl.lowering.numba_internals.device_functions import DeviceFunction
from kerneldsl.lowering.numba_internals.device_target import load_array_functions
from kerneldsl.lowering.numba_internals.line_marks import LineMarks
from kerneldsl.lowering.numba_internals.regions import without_errors
from kerneldsl.lowering.numba_internals.text import module_text
from kerneldsl.lowering.types import element_type, numba_types
from targets.cuda.architectures import Architecture, choose_ptx_version, parse_arch
from targets.cuda.compile import ptx
from targets.cuda.compile.addresses.facts import facts_of
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.calling import (
    GUARD_ASKED,
    GUARD_PASSED,
    STATUS_PASSES,
    KernelCallConv,
    begin_body,
    end_body,
    end_thread_early,
    set_fault_record,
)
from targets.cuda.compile.compiler import _linked_symbols, _with_bounds
from targets.cuda.compile.float_conversions import write_conversion
from targets.cuda.compile.linked_calls import linked_emitter
from targets.cuda.compile.math_symbols import rename_math
from targets.cuda.compile.numba_device import TARGET_NAME, descriptor
from targets.cuda.compile.parameters import ParameterReader, parameter_types
from targets.cuda.compile.pipeline import Pipeline
from targets.cuda.compile.ptx import entry_identifier
from targets.cuda.compile.regions.errors import explained_errors
from targets.cuda.compile.regions.loops import LoopEmitter
from targets.cuda.compile.requirements import preferred_ptx
from targets.cuda.compile.tiles.handlers import tile_handlers
from targets.cuda.compile.tiling import emit_body
from targets.cuda.intrinsics.faults import emit_checked, emit_fault
from targets.cuda.intrinsics.hinted import load_with_hint, store_with_hint
from targets.cuda.intrinsics.libdevice import libdevice_emitter
from targets.cuda.intrinsics.memory import dynamic_shared, local_memory, static_shared
from targets.cuda.intrinsics.table import EMITTERS

__all__ = ["compile_regions", "device_texts", "read_as_written", "read_kernel"]

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
_LARGEST = 2**31 - 1
#: Intervals of what operations give.
INTERVALS: dict[str, Interval] = {
    "grid": (0, 2**62),
    "gridsize": (0, 2**62),
    "laneid": (0, 31),
    "warpsize": (32, 32),
    **{f"threadIdx.{axis}": (0, 1023) for axis in "xyz"},
    **{f"blockIdx.{axis}": (0, 2**31 - 2) for axis in "xyz"},
    **{f"blockDim.{axis}": (1, 1024) for axis in "xyz"},
    **{f"gridDim.{axis}": (1, 2**31 - 1) for axis in "xyz"},
}


def read_as_written(specialization: Specialization) -> Function:
    """Return the typed function of a kernel before any pass."""
    contexts = descriptor()
    kinds = numba_types(specialization.kinds)
    for use in specialization.unit.all_uses():
        if "dtype" in use.static:
            element_type(use.static["dtype"])
    # What these types register with Numba is known from here on.
    contexts.typing_context.refresh()
    contexts.target_context.refresh()
    read = partial(
        read_function,
        specialization.unit,
        kinds,
        contexts.typing_context,
        calls_linked=True,
        plain_function=_plain_function,
        debug=specialization.options.debug,
    )
    try:
        return read()
    except errors.NumbaError:
        if not load_array_functions(contexts):
            raise
        return read()


def read_kernel(specialization: Specialization) -> tuple[Function, dict[Value, Interval]]:
    """Return the typed function of a kernel, and the intervals of its integers."""
    function = read_as_written(specialization)
    simplify(function.body)
    known = ranges_of(function, INTERVALS)
    mark_indices(function, INTERVALS, wraparound=specialization.options.wraparound)
    return function, known


_functions: WeakKeyDictionary[Any, DeviceFunction] = WeakKeyDictionary()


def _plain_function(unit: FunctionUnit) -> DeviceFunction:
    """Return a function of Numba's as it is compiled for a device, once in a process."""
    assert unit.function is not None
    known = _functions.get(unit.function)
    if known is None:
        known = _functions.setdefault(unit.function, DeviceFunction(unit.function, descriptor()))
    return known


def compile_regions(
    specialization: Specialization, *, arch: str, ptx_version: Any = None
) -> CudaArtifact:
    """Compile a kernel by the region IR.

    Raises :class:`~kerneldsl.ir.frontend.reader.NotReadError` for what its front end does not read,
    and `KernelTypingError` if an operation has no type.
    """
    architecture = parse_arch(arch)
    version = choose_ptx_version(
        architecture,
        ptx_version or specialization.ptx_version or preferred_ptx(specialization, architecture),
    )
    with _compiling(specialization):
        return _compile(specialization, architecture, version)


@contextmanager
def _compiling(specialization: Specialization) -> Iterator[None]:
    """Hold what a compilation needs; raise errors of this project."""
    with (
        collector_paused(),
        global_compiler_lock,
        target_override(TARGET_NAME),
        explained_errors(specialization),
    ):
        yield


def device_texts(specialization: Specialization, name: str) -> tuple[str, ...]:
    """Return the module of a kernel and those that it calls, before LLVM's passes."""
    with _compiling(specialization):
        function, known = read_kernel(specialization)
        text, bodies = _write(function, known, specialization, name)
    return text, *bodies


def _compile(spec: Specialization, arch: Architecture, version: Any) -> CudaArtifact:
    timings = {}
    began = time.process_time()
    function, known = read_kernel(spec)
    timings["read"] = time.process_time() - began
    external = _linked_symbols(spec)
    name = entry_identifier(spec.unit.name, external)
    text, bodies = _write(function, known, spec, name)
    options, pipeline = _with_bounds(spec), Pipeline(spec.options.disabled_passes)
    text = ptx._with_float_flags(define_conversions(text, write_conversion), options)
    text = rename_math(text, fastmath=options.fastmath)
    timings["lower"] = time.process_time() - began - timings["read"]
    linked = ptx.link(text, bodies, name, options, pipeline, external)
    timings["link"] = time.process_time() - began - sum(timings.values())
    traits = spec.traits
    has_shared = traits.static_shared_bytes > 0 or traits.uses_dynamic_shared
    written, llvm = ptx.write_ptx(
        linked,
        name,
        arch,
        version,
        pipeline,
        views_shared=traits.views_vectors and has_shared,
        facts=facts_of(spec),
    )
    if linked.external:
        from targets.cuda.compile.linked_modules import join_linked

        written, version = join_linked(written, spec, linked.external, arch, version, pipeline)
    timings["llvm"] = time.process_time() - began - sum(timings.values())
    return CudaArtifact(
        spec,
        name,
        ptx=written,
        llvm=llvm,
        arch=arch,
        ptx_version=version,
        fault_table=FaultTable(function.fault_sites),
        timings=timings,
        uses_libdevice=bool(linked.libdevice_functions),
        passes=pipeline.remarks(),
    )


def _write(
    function: Function, known: dict[Value, Interval], spec: Specialization, name: str
) -> tuple[str, tuple[str, ...]]:
    context = _target_context()
    library = context.codegen().create_library(name)
    module = context.create_module(name)
    layout = spec.layout
    entry_type = ir.FunctionType(ir.VoidType(), list(parameter_types(context, layout)))
    entry = ir.Function(module, entry_type, name)
    entry.calling_convention = "ptx_kernel"
    for argument, parameter in zip(entry.args, layout.parameters, strict=True):
        argument.name = parameter.name
        if isinstance(argument.type, ir.PointerType):
            argument.attributes.align = context.get_abi_alignment(argument.type.pointee)
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    lines = LineMarks(context, builder, spec.unit) if spec.options.lineinfo else None
    reader = ParameterReader(context, builder, spec)
    set_fault_record(builder, reader.fault)
    emitter = _CudaEmitter(context, builder, function, known, spec)
    emitter.mark = None if lines is None else lines.mark
    for value, kind in zip(function.body.arguments, spec.kinds, strict=True):
        emitter.values[value] = _parameter(reader, kind, value.type)
    wants_guard = spec.traits.uses_grid_only and not spec.options.debug
    guard = _guard(function) if wants_guard else None
    parameters = dict(emitter.values)

    def run(index: list[ir.Value], size: list[ir.Value], action: int) -> ir.Value:
        emitter.values = dict(parameters)
        emitter.index, emitter.sizes = index, size
        begin_body(builder)
        if action == GUARD_ASKED:
            assert guard is not None
            emitter.operations(function.body.operations[: function.body.operations.index(guard)])
            passes = emitter.get(guard.operands[0])
            return builder.select(passes, _I32(STATUS_PASSES), _I32(0))
        for operation in function.body.operations[:-1]:
            if operation is guard and action == GUARD_PASSED:
                emitter.part_of_control(guard.regions[0])
            else:
                emitter.operations((operation,))
        end_body(builder)
        return _I32(0)

    with context.push_code_library(library):
        emit_body(
            builder, reader.extent, spec.traits, spec.mapping, run, has_guard=guard is not None
        )
    builder.ret_void()
    if lines is not None:
        lines.finish()
    return with_loop_marks(module, module_text), tuple(library.texts())


def _parameter(reader: ParameterReader, kind: Kind, found: Any) -> Any:
    """Return the next argument, of a type of Numba's."""
    if isinstance(kind, ArrayKind):
        array = reader.array(kind)
        return ArrayParts(array.pointer, array.shape, found, array.strides)
    if isinstance(kind, TupleKind):
        pairs = zip(kind.elements, found.types, strict=True)
        return tuple(_parameter(reader, *each) for each in pairs)
    return reader.value(kind, found)


@cache
def _target_context() -> Any:
    """Return the target context, in which a division by zero has a result."""
    context = without_errors(descriptor().target_context)
    context.__dict__["call_conv"] = _EntryCallConv(context)
    return context


class _EntryCallConv(KernelCallConv):
    """Calls what Numba has written in Python from an entry, which has no hidden arguments."""

    def call_function(
        self, builder: ir.IRBuilder, callee: Any, resty: Any, argtys: Any, args: Any
    ) -> tuple[Any, ir.Value]:
        hidden = [ir.Constant(kind, ir.Undefined) for _, kind in self.hidden]
        return self.call_with(builder, callee, resty, argtys, args, hidden=hidden)

    def return_user_exc(
        self,
        builder: ir.IRBuilder,
        exc: Any,
        exc_args: Any = None,
        loc: Any = None,
        func_name: Any = None,
    ) -> None:
        """End the body: a device reports no exception."""
        if isinstance(builder.function.ftype.return_type, ir.VoidType):
            end_thread_early(builder, 0)
        else:
            super().return_user_exc(builder, exc, exc_args, loc, func_name)

    def return_status_propagate(self, builder: ir.IRBuilder, status: Any) -> None:
        """Go on: a device reports no exception."""


def _guard(function: Function) -> Operation | None:
    """Return the branch that an index passes if the first and the last of several do.

    Here: a comparison of the index with what is the same for all threads.
    """
    operations = function.body.operations
    if len(operations) < 2 or operations[-2].name != "if" or operations[-2].results:
        return None
    branch = operations[-2]
    test = branch.operands[0].owner
    if (
        not isinstance(test, Operation)
        or test.name != "numba"
        or len(test.operands) != 2
        or len(branch.regions[1].operations) > 1
    ):
        return None
    one, two = (value.owner for value in test.operands)
    is_index = isinstance(one, Operation) and one.name == "grid"
    is_size = isinstance(two, Operation) and two.name == "array.size"
    is_below = test.attributes["function"] is operator.lt
    return branch if is_index and is_size and is_below else None


class _CudaEmitter(LoopEmitter):
    def __init__(
        self,
        context: Any,
        builder: Any,
        function: Function,
        known: dict[Value, Interval],
        spec: Specialization,
    ) -> None:
        super().__init__(context, builder)
        self.known = known
        self.fits_32 = self._fits
        #: Shared memory by the place of its call: a function that is called twice has it once.
        self.shared_memory: dict[Any, ir.GlobalVariable] = {}
        self.wraparound = spec.options.wraparound
        self.index: list[ir.Value] = []
        self.sizes: list[ir.Value] = []
        self.handlers |= {
            "grid": self.grid,
            "linked": self.linked,
            "fault": self.fault,
            "fault.check": self.check_index,
            "gridsize": self.gridsize,
            "shared.array": self.shared,
            "local.array": self.local,
        }
        if spec.traits.uses_tiles:
            self.handlers |= tile_handlers(self, function, spec)

    def _fits(self, value: Value) -> bool:
        """Return whether a loop's argument that is divided in it is kept in 32 bits."""
        low, high = self.known.get(value, (-1, 0))
        return (
            value.type == types.int64 and low >= 0 and high <= _LARGEST and self._is_divided(value)
        )

    def _is_divided(self, value: Value) -> bool:
        region = value.owner
        assert isinstance(region, Region)
        position = region.arguments.index(value)
        loop = self._loop_of(region)
        if loop is None:
            return False
        if loop.regions[-1].is_left:
            return False
        made = loop.regions[-1].yielded[position].owner
        return (
            isinstance(made, Operation)
            and made.name == "numba"
            and made.attributes["function"] in (operator.floordiv, operator.ifloordiv)
        )

    def _loop_of(self, region: Region) -> Operation | None:
        return self._loops.get(region)

    _loops: dict[Region, Operation]

    def while_loop(self, operation: Operation) -> None:
        self._loops = dict.fromkeys(operation.regions, operation)
        super().while_loop(operation)

    def for_loop(self, operation: Operation) -> None:
        self._loops = {}
        super().for_loop(operation)

    # -- the language -----------------------------------------------------------------------------

    def intrinsic(self, operation: Operation) -> None:
        emit = EMITTERS.get(operation.name) or libdevice_emitter(operation.name)
        self.call_emitter(operation, emit, operation.attributes["use"].static)

    def linked(self, operation: Operation) -> None:
        self.call_emitter(operation, linked_emitter(operation.attributes["code"]), {})

    def fault(self, operation: Operation) -> None:
        site = _I32(operation.attributes["site"])
        emit_fault(Call(self.context, self.builder, None, (site,), {}))

    def check_index(self, operation: Operation) -> None:
        signature, site = operation.attributes["signature"], _I32(operation.attributes["site"])
        index, indexed, *_ = signature.args
        pairs = zip(operation.operands, (index, indexed), strict=True)
        values = (*(self.converted(value, kind) for value, kind in pairs), site, None)
        static = {"wraparound": self.wraparound}
        emit_checked(Call(self.context, self.builder, signature, values, static))

    def grid(self, operation: Operation) -> None:
        self.set(operation, self.index[operation.attributes.get("axis", 0)])

    def gridsize(self, operation: Operation) -> None:
        self.set(operation, self.sizes[operation.attributes.get("axis", 0)])

    def shared(self, operation: Operation) -> None:
        kind, shape = operation.result.type, operation.attributes["shape"]
        element = self.context.get_data_type(kind.dtype)
        if tuple(shape) == (0,):
            memory, extent = dynamic_shared(self.context, self.builder, element)
            self.set(operation, self._array(kind, memory, [extent]))
            return
        site = operation.attributes["site"]
        if site not in self.shared_memory:
            made = static_shared(self.context, self.builder, element, shape)
            self.shared_memory[site] = made
        self.set(operation, self._array(kind, self.shared_memory[site], map(_I64, shape)))

    def local(self, operation: Operation) -> None:
        kind, shape = operation.result.type, operation.attributes["shape"]
        memory = local_memory(self.builder, self.context.get_data_type(kind.dtype), shape)
        self.set(operation, self._array(kind, memory, map(_I64, shape)))

    def _array(self, kind: Any, memory: ir.Value, shape: Iterable[ir.Value]) -> ArrayParts:
        element = self.context.get_data_type(kind.dtype).as_pointer(memory.type.addrspace)
        return ArrayParts(self.builder.bitcast(memory, element), list(shape), kind)

    def _shared(self, kind: Any, shape: tuple[int, ...]) -> ArrayParts:
        element = self.context.get_data_type(kind.dtype)
        memory = static_shared(self.context, self.builder, element, shape)
        return self._array(kind, memory, map(_I64, shape))

    def load(self, operation: Operation) -> None:
        hint = operation.attributes.get("hint")
        if hint is None:
            super().load(operation)
            return
        array, *indices = operation.operands
        place = self.element(operation, indices)
        load = partial(self.read_element, array.type, place)
        found = load_with_hint(self.context, self.builder, array.type, place, hint, load)
        self.set(operation, found)

    def store(self, operation: Operation) -> None:
        hint = operation.attributes.get("hint")
        if hint is None:
            super().store(operation)
            return
        array, *indices, given = operation.operands
        place, value = self.element(operation, indices), self.get(given)
        store = partial(self.write_element, array.type, value, place)
        store_with_hint(self.context, self.builder, array.type, place, value, hint, store)
