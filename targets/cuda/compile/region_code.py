"""PTX of a kernel's region IR: entry and body are one LLVM function.

The body is written into the entry, at the places where :mod:`targets.cuda.compile.tiling` runs it.
So nothing is called, inlined or linked.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types

from kerneldsl.contract import Specialization
from kerneldsl.contract.options import EntryForm
from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.guard import Guard, find_guard
from kerneldsl.ir.operations import Function, Operation, Region, Value
from kerneldsl.ir.ranges import Interval
from kerneldsl.ir.typing import Typing
from kerneldsl.language.kinds import ArrayKind, Kind, TupleKind
from kerneldsl.lowering.captured_arrays import offering
from kerneldsl.lowering.faults import FaultTable
from kerneldsl.lowering.float_conversions import define_conversions
from kerneldsl.lowering.loop_marks import with_loop_marks
from kerneldsl.lowering.missing import refuse_missing
from kerneldsl.lowering.numba_internals.debug_info import DebugLines, Variables
from kerneldsl.lowering.numba_internals.device_code import DeviceCallConv
from kerneldsl.lowering.numba_internals.llvm_modules import module_text, without_errors
from targets.cuda.architectures import OLDEST, Architecture
from targets.cuda.compile import ptx
from targets.cuda.compile.c_functions import ExportedEntry, linked_emitter
from targets.cuda.compile.calling import (
    GuardAction,
    begin_body,
    end_body,
    end_thread_early,
    is_entry,
    set_fault_record,
    write_check,
    write_fault,
)
from targets.cuda.compile.float_conversions import write_conversion
from targets.cuda.compile.lowered import NO_ADDITIONS, LoweredKernel, linked_symbols, with_bounds
from targets.cuda.compile.math_symbols import rename_math
from targets.cuda.compile.numba_device import descriptor
from targets.cuda.compile.parameters import (
    TENSOR_MAP,
    ParameterReader,
    mark_tensor_maps,
    natural_alignment,
    parameter_types,
)
from targets.cuda.compile.pipeline import Known, Pipeline, Stage, pipeline_of
from targets.cuda.compile.ptx import entry_identifier
from targets.cuda.compile.regions.lane_joins import lane_joins
from targets.cuda.compile.regions.loops import LoopEmitter, conditions
from targets.cuda.compile.regions.narrow_arithmetic import (
    convert_short,
    narrow_arithmetic,
    write_narrow,
)
from targets.cuda.compile.regions.read import compiling, read_kernel
from targets.cuda.compile.regions.unroll_strides import HIDDEN
from targets.cuda.compile.tiles.writer import tile_handlers
from targets.cuda.compile.tiling import emit_body
from targets.cuda.intrinsics.hinted import load_with_hint, store_with_hint
from targets.cuda.intrinsics.memory import (
    dynamic_shared,
    load_pair,
    local_memory,
    static_shared,
    store_pair,
)
from targets.cuda.intrinsics.synchronize import call_nvvm
from targets.cuda.intrinsics.table import EMITTERS
from targets.cuda.intrinsics.values import libdevice_emitter

if TYPE_CHECKING:
    from targets.cuda.compile.mma.warpgroup_plan import WarpgroupPlan

__all__ = ["device_texts", "lower_regions", "optimize"]

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
#: Lowest compute capability, in tenths, on which a kernel may start before the one before it ends.
_EARLY_ARCH = 90


def device_texts(
    specialization: Specialization, name: str, arch: Architecture = OLDEST
) -> tuple[str, ...]:
    """Return the module of a kernel and those that it calls, before LLVM's passes."""
    with compiling(specialization.unit, specialization.kinds):
        function, known = read_kernel(specialization)
        pipeline = pipeline_of(specialization.options)
        text, bodies = _write(function, known, specialization, name, pipeline, arch)
    return text, *bodies


def lower_regions(
    specialization: Specialization,
    arch: Architecture = OLDEST,
    *,
    without: Mapping[str, str] | None = None,
) -> LoweredKernel:
    """Do what depends on the architecture for products of tiles alone.

    Passes do not run that `without` has a reason against, by their names.

    The caller holds Numba's compiler lock, and has made this target the current one.

    Raises :class:`~kerneldsl.ir.frontend.reader.NotReadError` for what its front end does not read.
    Raises Numba's errors for what has no type.
    """
    started = time.perf_counter()
    unit = specialization.unit
    refuse_missing(unit, "cuda", lambda: EMITTERS, "targets/cuda/intrinsics/table.py")
    pipeline = pipeline_of(specialization.options, without)
    with offering(unit):
        function, known = read_kernel(specialization)
        optimize(function, specialization, pipeline)
        plan: WarpgroupPlan | None = None
        if arch.name == "sm_90a" and specialization.traits.uses_products:
            from targets.cuda.compile.mma.passes import split_roles

            plan = split_roles(pipeline, function, specialization, known)
        read = time.perf_counter()
        name = entry_identifier(unit.name, linked_symbols(specialization))
        text, bodies = _write(function, known, specialization, name, pipeline, arch, plan)
    additions = NO_ADDITIONS if plan is None else plan.additions
    if _is_early(specialization, arch):
        additions = replace(additions, is_early=True)
    options = with_bounds(specialization, additions)
    text = ptx.with_float_flags(define_conversions(text, write_conversion), options)
    text = rename_math(text, fastmath=options.fastmath)
    timings = {"prepare": read - started, "numba": time.perf_counter() - read}
    table = FaultTable(function.fault_sites)
    remarks, found = pipeline.remarks(), (function.findings, function.barriers)
    return LoweredKernel(
        specialization, name, text, bodies, table, timings, remarks, *found, additions
    )


def _is_early(specialization: Specialization, arch: Architecture) -> bool:
    """Return whether a kernel waits for the one before it, because a launch may start early.

    PTX ISA, section "griddepcontrol".
    """
    options = specialization.options
    is_launched = options.entry is EntryForm.KERNEL and not options.debug
    return options.early_start and is_launched and arch.number >= _EARLY_ARCH


def _write(
    function: Function,
    known: dict[Value, Interval],
    spec: Specialization,
    name: str,
    pipeline: Pipeline,
    arch: Architecture,
    plan: WarpgroupPlan | None = None,
) -> tuple[str, tuple[str, ...]]:
    context = _target_context()
    library = context.codegen().create_library(name)
    module = context.create_module(name)
    layout = spec.layout
    map_count = 0 if plan is None else len(plan.tensor_maps)
    form = spec.options.entry
    if form is EntryForm.KERNEL:
        given = [*parameter_types(context, layout), *[TENSOR_MAP.as_pointer()] * map_count]
        entry = ir.Function(module, ir.FunctionType(ir.VoidType(), given), name)
        entry.calling_convention = "ptx_kernel"
        count = len(given) - map_count
        maps = mark_tensor_maps(entry.args[count:])
        parameters = entry.args[:count]
        for argument, parameter in zip(parameters, layout.parameters, strict=True):
            argument.name = parameter.name
            if isinstance(argument.type, ir.PointerType):
                argument.attributes.align = natural_alignment(context, argument.type.pointee)
        exported = None
    else:
        exported = ExportedEntry(context, module, name, spec, function.body.arguments)
        entry, maps, parameters = exported.function, [], exported.parameters
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    # Arrays and variables are declared at the end of the first block. LLVM puts them in registers
    # only if it stays the first one, whatever calls are inlined: so this block has no calls.
    builder.branch(start := entry.append_basic_block("start"))
    builder.position_at_end(start)
    lines, variables = _debug_info(context, builder, function, spec)
    if exported is not None:
        parameters = exported.begin(builder)
    if plan is None and _is_early(spec, arch):
        call_nvvm(builder, "griddepcontrol.wait", ir.VoidType(), [])
    reader = ParameterReader(context, builder, spec, pipeline, parameters)
    set_fault_record(builder, reader.fault)
    emitter = _CudaEmitter(context, builder, function, known, spec, arch, pipeline, plan, maps)
    emitter.mark = None if lines is None else lines.mark
    emitter.variables = variables
    for value, kind in zip(function.body.arguments, spec.kinds, strict=True):
        if exported is not None and isinstance(kind, ArrayKind):
            emitter.values[value] = exported.result
        else:
            emitter.values[value] = _parameter(reader, kind, value.type)
    is_plain = spec.options.optimize and not spec.options.debug
    wants_guard = spec.traits.uses_grid_only and is_plain
    guard = find_guard(function) if wants_guard else None
    emitter.joins = lane_joins(function)
    before, deferred = dict(emitter.values), conditions(function, emitter.joins)

    def run(index: list[ir.Value], size: list[ir.Value], action: GuardAction) -> ir.Value:
        emitter.values = dict(before)
        emitter.index, emitter.sizes = index, size
        begin_body(builder)
        if action is GuardAction.ASK:
            assert guard is not None
            emitter.deferred = frozenset()
            return emitter.passes(guard)
        emitter.passed, emitter.deferred = {}, deferred
        if action is GuardAction.PASS:
            assert guard is not None
            pairs = zip(guard.branches, guard.passed, strict=True)
            emitter.passed = {branch: branch.regions[number] for branch, number in pairs}
        emitter.operations(function.body.operations[:-1])
        end_body(builder)
        return _I1(1)

    with context.push_code_library(library):
        emit_body(
            builder, reader.extent, spec.traits, spec.mapping, run, has_guard=guard is not None
        )
    if exported is None:
        builder.ret_void()
    else:
        exported.end(builder)
    return with_loop_marks(module, module_text), tuple(library.texts())


def _debug_info(
    context: Any, builder: ir.IRBuilder, function: Function, spec: Specialization
) -> tuple[DebugLines | None, Variables | None]:
    """Begin the information of a function for profilers and debuggers."""
    options = spec.options
    is_made = options.entry is not EntryForm.KERNEL
    lines = variables = None
    if options.has_lines:
        lines = DebugLines(builder, spec.unit, is_made=is_made, has_variables=options.variables)
    if not options.optimize:
        described = lines if options.variables else None
        assigned = [each for each in function.body.walk() if each.name == "variable"]
        if is_made:  # the variables are those of the function that is called
            assigned = [each for each in assigned if each.place.unit is not spec.unit]
        variables = Variables(context, builder, assigned, described)
    if lines is not None:
        lines.begin([] if variables is None else variables.parameters())
    return lines, variables


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


class _EntryCallConv(DeviceCallConv):
    """The convention in an entry, which returns nothing."""

    def return_user_exc(self, builder: ir.IRBuilder, *about: Any, **named: Any) -> None:
        """End the body: a device reports no exception."""
        if is_entry(builder):
            end_thread_early(builder)
        else:
            super().return_user_exc(builder, *about, **named)

    def return_status_propagate(self, builder: ir.IRBuilder, status: Any) -> None:
        """Go on: a device reports no exception."""


class _CudaEmitter(LoopEmitter):
    def __init__(
        self,
        context: Any,
        builder: Any,
        function: Function,
        known: dict[Value, Interval],
        spec: Specialization,
        arch: Architecture,
        pipeline: Pipeline,
        plan: WarpgroupPlan | None,
        maps: Sequence[ir.Value],
    ) -> None:
        super().__init__(context, builder)
        self.known = known
        #: The region of a branch that runs without its test.
        self.passed: dict[Operation, Region] = {}
        #: Shared memory by the place of its call: a function that is called twice has it once.
        self.shared_memory: dict[Any, ir.GlobalVariable] = {}
        self.wraparound = spec.options.wraparound
        self.narrow_operations = narrow_arithmetic(function, known)
        #: Keeps variables for debuggers.
        self.variables: Variables | None = None
        self.index: list[ir.Value] = []
        self.sizes: list[ir.Value] = []
        self.handlers |= {
            "grid": self.grid,
            "linked": self.linked,
            "fault": self.fault,
            "fault.check": self.check_index,
            "gridsize": self.gridsize,
            "shared.array": self.shared,
            HIDDEN: self.hide,
            "local.array": self.local,
            "variable": self.variable,
        }
        if spec.traits.uses_tiles:
            self.handlers |= tile_handlers(self, function, spec, arch, pipeline, plan, maps)

    def passes(self, guard: Guard) -> ir.Value:
        """Return whether the index passes a guard."""
        found: ir.Value = _I1(1)
        for before, branch, number in zip(guard.before, guard.branches, guard.passed, strict=True):
            self.operations(before)
            condition = self.get(branch.operands[0])
            if number:
                condition = self.builder.not_(condition)
            found = self.builder.and_(found, condition)
        return found

    def branch(self, operation: Operation) -> None:
        region = self.passed.get(operation)
        if region is None:
            super().branch(operation)
        else:
            self.part_of_control(region)

    def numba(self, operation: Operation) -> None:
        if operation not in self.narrow_operations:
            super().numba(operation)

    def cast(self, operation: Operation) -> None:
        (value,) = operation.operands
        if value.owner in self.narrow_operations:
            self.set(operation, write_narrow(self, value, self.narrow_operations))
            return
        found = convert_short(self, value, operation.result.type, self.known)
        if found is None:
            super().cast(operation)
        else:
            self.set(operation, found)

    def converted(self, value: Value, kind: Any) -> Any:
        found = convert_short(self, value, kind, self.known)
        return super().converted(value, kind) if found is None else found

    def hide(self, operation: Operation) -> None:
        """Write a copy of an int64 that LLVM cannot look into."""
        (value,) = (self.get(each) for each in operation.operands)
        kind = ir.FunctionType(value.type, [value.type])
        self.set(operation, self.builder.asm(kind, "mov.b64 $0, $1;", "=l,l", [value], False))

    # -- the language -----------------------------------------------------------------------------

    def intrinsic(self, operation: Operation) -> None:
        emit = EMITTERS.get(operation.name) or libdevice_emitter(operation.name)
        self.call_emitter(operation, emit, operation.attributes["use"].static)

    def linked(self, operation: Operation) -> None:
        self.call_emitter(operation, linked_emitter(operation.attributes["code"]), {})

    def fault(self, operation: Operation) -> None:
        write_fault(self.builder, operation.attributes["site"])

    def check_index(self, operation: Operation) -> None:
        index, bound = operation.operands
        site, axis = operation.attributes["site"], operation.attributes["axis"]
        wraps = index.type.signed and self.wraparound
        values = self.get(index), self.get(bound)
        write_check(self.builder, (site, axis), *values, wraps=wraps)

    def variable(self, operation: Operation) -> None:
        assert self.variables is not None
        (value,) = operation.operands
        self.variables.assign(operation, lambda: self.plain(self.get(value), value.type))

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
            made.align = max(made.align, operation.attributes.get("alignment", 0))
            self.shared_memory[site] = made
        self.set(operation, self._array(kind, self.shared_memory[site], map(_I64, shape)))

    def local(self, operation: Operation) -> None:
        kind, shape = operation.result.type, operation.attributes["shape"]
        memory = local_memory(self.builder, self.context.get_data_type(kind.dtype), shape)
        memory.align = max(memory.align, operation.attributes.get("alignment", 0))
        self.set(operation, self._array(kind, memory, map(_I64, shape)))

    def _array(self, kind: Any, memory: ir.Value, shape: Iterable[ir.Value]) -> ArrayParts:
        element = self.context.get_data_type(kind.dtype).as_pointer(memory.type.addrspace)
        return ArrayParts(self.builder.bitcast(memory, element), list(shape), kind)

    def load(self, operation: Operation) -> None:
        hint = operation.attributes.get("hint")
        array, *indices = operation.operands
        if hint is None and not _has_pairs(array):
            super().load(operation)
            return
        place = self.element(operation, indices)
        if hint is None:
            self.set(operation, load_pair(self.builder, place))
            return
        load = partial(self.read_element, array.type, place)
        found = load_with_hint(self.context, self.builder, array.type, place, hint, load)
        self.set(operation, found)

    def store(self, operation: Operation) -> None:
        hint = operation.attributes.get("hint")
        array, *indices, given = operation.operands
        if hint is None and not _has_pairs(array):
            super().store(operation)
            return
        place, value = self.element(operation, indices), self.get(given)
        if hint is None:
            store_pair(self.builder, place, value)
            return
        store = partial(self.write_element, array.type, value, place)
        store_with_hint(self.context, self.builder, array.type, place, value, hint, store)


def _has_pairs(array: Value) -> bool:
    """Return whether an array is of complex numbers in memory of the kernel, so aligned whole."""
    is_own = getattr(array.owner, "name", "") in ("const", "local.array", "shared.array")
    return is_own and isinstance(array.type.dtype, types.Complex)


def optimize(function: Function, specialization: Specialization, pipeline: Pipeline) -> None:
    """Run the passes of the pipeline on a kernel."""
    if specialization.options.debug:
        return
    typing = Typing.of(descriptor().typing_context)
    known = Known(typing, has_tiles=specialization.traits.uses_tiles)
    pipeline.run(Stage.REGION, function, known)
