"""From the region IR of a kernel to machine code of this processor.

The body is one LLVM function, ``body(memory, exception, first, last, launch)``, which
reads its arguments from the launch. It runs a range of blocks, or of pieces of rows.
"""

from __future__ import annotations

import math
import operator
import time
from functools import cache
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions
from numba import types
from numba.core import cgutils

from kerneldsl.analysis.tile_shapes import OF_BLOCK
from kerneldsl.contract import Specialization
from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.emission import Emitter
from kerneldsl.ir.frontend.read import read_function
from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.ir.nonnegative import mark_indices
from kerneldsl.ir.operations import TOGETHER, Function, Operation, Region, Value
from kerneldsl.ir.printer import print_region
from kerneldsl.ir.ranges import Interval
from kerneldsl.ir.rewriter import rewrite
from kerneldsl.ir.simplify import simplify
from kerneldsl.ir.typing import Typing
from kerneldsl.language.kinds import ArrayKind, ScalarKind
from kerneldsl.launch.native.builder import POINTER
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, PARALLEL, mark_loop
from kerneldsl.lowering.numba_internals.arrays import suspend_emission
from kerneldsl.lowering.numba_internals.compiling import collector_paused, global_compiler_lock
from kerneldsl.lowering.numba_internals.host_code import helpers_of_kernels, host_contexts
from kerneldsl.lowering.numba_internals.regions import (
    EXCEPTION_POINTER,
    code_of_intrinsic,
    empty_module,
    relax_floats,
    without_errors,
)
from kerneldsl.lowering.tile_folds import COMBINATIONS
from kerneldsl.lowering.tile_places import tile_place
from kerneldsl.lowering.tile_plan import Layout
from kerneldsl.lowering.tile_types import NumbaTile
from kerneldsl.lowering.types import numba_types
from targets.cpu.codegen.code import HEADER_BYTES, Compiled
from targets.cpu.codegen.functions import numba_flags
from targets.cpu.codegen.library import create_library
from targets.cpu.codegen.orientation import row_axis
from targets.cpu.codegen.storage import STACK_BYTES
from targets.cpu.intrinsics.groups.combine import fold_neighbours
from targets.cpu.intrinsics.table import Atomic, ScalarOperation, lowering_of
from targets.cpu.intrinsics.units import block_place, row_pieces
from targets.cpu.passes.fission import split_at_barriers
from targets.cpu.passes.short_kernels import is_short
from targets.cpu.runtime.artifact import CpuArtifact
from targets.cpu.runtime.interrupt_code import CAN_LEAVE_CODE
from targets.cpu.runtime.objects import load_object
from targets.cpu.runtime.runner import runner_symbols
from targets.cpu.runtime.runner_code import RUNNER_TYPE
from targets.cpu.runtime.runner_table import RUNNER, RunnerOption

__all__ = ["compile_regions", "read_kernel"]

_I1, _I8, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_POINTER = _I8.as_pointer()
#: Words of the launch that describe the space.
_SEGMENT, _NX = 2, 3
_ALIGNMENT = 64
#: ``i32 body(ptr memory, ptr exception, i64 first, i64 last, ptr launch)``. Result and first
#: arguments are those of Numba's calling convention, by which what Numba has written in Python is
#: called and returns an exception.
_BODY = ir.FunctionType(_I32, [_POINTER, EXCEPTION_POINTER.as_pointer(), _I64, _I64, _POINTER])
INTERVALS: dict[str, Interval] = {
    "grid": (0, 2**62),
    **{f"threadIdx.{axis}": (0, 1023) for axis in "xyz"},
    **{f"blockIdx.{axis}": (0, 2**31 - 2) for axis in "xyz"},
    **{f"gridDim.{axis}": (1, 2**31 - 1) for axis in "xyz"},
}


def read_kernel(spec: Specialization) -> tuple[Function, Region]:
    """Return the typed function of a kernel, and the region that runs for a block or an element."""
    if spec.traits.syncs_grid or spec.options.debug:
        raise NotReadError("a barrier of the grid" if spec.traits.syncs_grid else "debug mode")
    typing = host_contexts().typing_context
    function = read_function(spec.unit, numba_types(spec.kinds), typing)
    _refuse_tiles(function)
    if not spec.traits.uses_grid_only:
        assert spec.block_dim is not None
        if spec.mode.is_forall and not spec.traits.uses_block:
            raise NotReadError("an extent of threads")
        if spec.block_dim[1:] != (1, 1):
            raise NotReadError("a block of several axes")
        rewrite(function.body, _id_patterns(Typing.of(typing), spec.block_dim[0]))
    simplify(function.body)
    mark_indices(function, INTERVALS, wraparound=spec.options.wraparound)
    if spec.traits.uses_grid_only:
        return function, function.body
    assert spec.block_dim is not None
    names = {operation.name for operation in function.body.walk()}
    if "leave" in names and function.body.effects() & TOGETHER:
        raise NotReadError("an exit beside a barrier")
    return function, split_at_barriers(function, spec.block_dim[0])


def _refuse_tiles(function: Function) -> None:
    """Refuse operations on tiles that are not written, such as those of several axes."""
    for operation in function.body.walk():
        if not operation.name.startswith("tile."):
            if any(isinstance(value.type, NumbaTile) for value in operation.results):
                raise NotReadError("a tile that a branch or loop assigns")
            continue
        attributes = operation.attributes
        shape = attributes["shape"]
        first = attributes.get("first", len(operation.operands))
        is_read = (
            operation.name in ("tile.load", "tile.map", "tile.fold", "tile.store")
            and len(shape) == 1
            and shape != OF_BLOCK
            and not attributes.get("axes")
            and attributes.get("axis") is None
            and all(tile.type.shape == shape for tile in operation.operands[first:])
            and all(len(region.operations) == 1 for region in operation.regions[1:])
        )
        if not is_read:
            raise NotReadError(operation.name)


def _id_patterns(typing: Typing, width: int) -> dict[str, Any]:
    """Return the rewrites of ids: by the index of the thread and of the block."""
    kind = types.int64

    def constant(value: int) -> Operation:
        return Operation("const", [], (kind,), {"value": value})

    def numba(function: Any, one: Operation, two: Operation) -> Operation:
        signature = typing.operator(function, (kind, kind))
        return Operation(
            "numba",
            [one.result, two.result],
            (signature.return_type,),
            {"function": function, "signature": signature},
        )

    def grid(operation: Operation) -> Any:
        if operation.attributes.get("axis", 0) or operation.attributes["ndim"] != 1:
            raise NotReadError("an index of several axes")
        block, thread = (Operation(f"{n}.x", [], (kind,)) for n in ("blockIdx", "threadIdx"))
        size = constant(width)
        start = numba(operator.mul, block, size)
        index = numba(operator.add, start, thread)
        index.result.name = operation.result.name
        return [block, thread, size, start, index], [index.result]

    def block_dim(operation: Operation) -> Any:
        made = constant(width)
        return [made], [made.result]

    def fold(operation: Operation) -> Any:
        values = []
        for operand in operation.operands:
            made = operand.owner
            is_constant = isinstance(made, Operation) and made.name == "const"
            value = (
                made.attributes["value"] if is_constant and isinstance(made, Operation) else None
            )
            if type(value) is not int:
                return None
            values.append(value)
        function = operation.attributes["function"]
        if len(values) != 2 or function not in _FOLDED or operation.result.type != kind:
            return None
        if values[1] == 0:
            return None
        made = constant(function(*values))
        return [made], [made.result]

    return {"grid": grid, "blockDim.x": block_dim, "numba": fold}


_FOLDED = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)


def compile_regions(spec: Specialization) -> CpuArtifact:
    """Compile a kernel by the region IR.

    Raises :class:`~kerneldsl.ir.frontend.reader.NotReadError` for what its front end does not read.
    """
    with collector_paused(), global_compiler_lock, helpers_of_kernels():
        return _compile(spec)


def _compile(spec: Specialization) -> CpuArtifact:
    timings: dict[str, float] = {}
    began = time.process_time()
    function, region = read_kernel(spec)
    timings["read"] = time.process_time() - began
    library = create_library(spec.unit.name)
    module, entry_name = _lower(spec, function, region, library)
    timings["lower"] = time.process_time() - began - timings["read"]
    library.add_ir_module(module)
    timings["parse"] = time.process_time() - began - sum(timings.values())
    library.finalize()
    timings["llvm"] = time.process_time() - began - sum(timings.values())
    symbols = library.outside_symbols() | runner_symbols()
    loaded = load_object(library.machine_code, entry_name, symbols)
    timings["load"] = time.process_time() - began - sum(timings.values())
    compiled = Compiled(library, loaded.address, entry_name, loaded)
    return CpuArtifact(
        spec,
        entry_name,
        timings,
        print_region(region),
        compiled,
        row_axis(spec) if spec.traits.uses_grid_only else None,
        None,
        None,
    )


def _lower(
    spec: Specialization, function: Function, region: Region, library: Any
) -> tuple[ir.Module, str]:
    """Write the module with the body and its entry."""
    context = _target_context()
    module = empty_module(context, spec.unit.name)
    body_name = f"kerneldsl.{spec.unit.name}.body"
    body = ir.Function(module, _BODY, body_name)
    body.linkage = "internal"
    builder = ir.IRBuilder(body.append_basic_block("entry"))
    emitter = _CpuEmitter(context, builder, spec)
    with context.push_code_library(library):
        emitter.body(function, region)
    flags = numba_flags(spec)
    if flags:
        relax_floats(module, flags)
    entry_name = f"kerneldsl.{spec.unit.name}.entry"
    _write_entry(module, body, entry_name, can_leave=CAN_LEAVE_CODE and not is_short(spec.unit))
    return module, entry_name


@cache
def _target_context() -> Any:
    """Return the target context of kernels, in which a division by zero has a result."""
    return without_errors(host_contexts().target_context)


def _write_entry(module: ir.Module, body: ir.Function, name: str, *, can_leave: bool) -> None:
    """Write the entry, which has the process's runner call the body for each piece of a range."""
    runner = ir.Function(module, RUNNER_TYPE, RUNNER)
    piece = _write_piece(module, body, f"{name}.piece")
    entry = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER] * 4), name)
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    ranges, counts, _, launch = entry.args
    options = RunnerOption.LEAVE if can_leave else RunnerOption(0)
    builder.call(runner, [ranges, counts, launch, piece, _I64(0), _I64(options)])
    builder.ret_void()


def _write_piece(module: ir.Module, body: ir.Function, name: str) -> ir.Function:
    """Write ``i64 piece(i64 first, i64 last, ptr scratch, ptr launch)``, which calls the body."""
    piece = ir.Function(module, ir.FunctionType(_I64, [_I64, _I64, POINTER, POINTER]), name)
    piece.linkage = "internal"
    first, last, _, launch = piece.args
    builder = ir.IRBuilder(piece.append_basic_block("entry"))
    exception = cgutils.alloca_once(builder, EXCEPTION_POINTER)
    launch = builder.bitcast(launch, _POINTER)
    code = builder.call(body, [_POINTER(None), exception, first, last, launch])
    told = builder.ptrtoint(builder.load(exception), _I64)
    builder.ret(builder.select(builder.icmp_signed("!=", code, _I32(0)), told, _I64(0)))
    return piece


class _CpuEmitter(Emitter):
    def __init__(self, context: Any, builder: Any, spec: Specialization) -> None:
        super().__init__(context, builder)
        self.spec = spec
        _, _, self.first, self.last, self.launch = builder.function.args
        self.scratch_bytes = 0
        self.stack_bytes = 0
        #: The axes of rows that the axes of ``grid`` are.
        self.axes = ""
        #: Ids of the block and the thread, or of the element.
        self.ids: dict[str, ir.Value] = {}
        #: Branches with a condition that is known to hold.
        self.passed: set[Operation] = set()
        self.group = builder.module.add_metadata(["kerneldsl.accesses"])
        self.threads_count = math.prod(spec.block_dim or (1,))
        self.handlers |= {
            "threads": self.threads,
            "slot": self.slot,
            "slot.load": self.slot_load,
            "slot.store": self.slot_store,
            "lane.down": self.lane_down,
            "shared.array": self.shared,
            "tile.load": self.tile_load,
            "tile.map": self.tile_map,
            "tile.fold": self.tile_fold,
            "tile.store": self.tile_store,
        }

    # -- the body ---------------------------------------------------------------------------------

    def body(self, function: Function, region: Region) -> None:
        """Write the whole body."""
        self.arguments(function)
        if self.spec.traits.uses_grid_only:
            self.elements_of_rows(region)
        else:
            self.blocks(region)
        self.builder.ret(_I32(0))

    def word(self, number: int) -> ir.Value:
        words = self.builder.bitcast(self.launch, _I64.as_pointer())
        return self.builder.load(self.builder.gep(words, [_I32(number)]))

    def arguments(self, function: Function) -> None:
        layout = self.spec.layout
        places = {each.name: each for each in layout.parameters}

        def field(name: str, kind: Any) -> ir.Value:
            offset = HEADER_BYTES + places[name].offset
            pointer = self.builder.gep(self.launch, [_I32(offset)])
            return self.builder.load(self.builder.bitcast(pointer, kind.as_pointer()))

        for value, name, kind in zip(
            function.body.arguments, layout.names, layout.kinds, strict=True
        ):
            if isinstance(kind, ArrayKind):
                element = self.context.get_data_type(value.type.dtype)
                shape = [field(f"{name}.shape[{axis}]", _I64) for axis in range(kind.ndim)]
                data = field(f"{name}.data", element.as_pointer())
                strides = None
                if kind.layout == "A":
                    strides = [field(f"{name}.strides[{axis}]", _I64) for axis in range(kind.ndim)]
                self.values[value] = ArrayParts(data, shape, value.type, strides)
            elif isinstance(kind, ScalarKind) and not kind.element.is_complex:
                stored = field(name, self.context.get_data_type(value.type))
                model = self.context.data_model_manager[value.type]
                self.values[value] = model.from_data(self.builder, stored)
            else:
                raise NotReadError(str(kind))

    def blocks(self, region: Region) -> None:
        """Write the loop over the blocks of a call."""
        builder = self.builder
        for operation in region.operations:
            if operation.name == "slot":
                self.slot(operation)
        for operation in region.walk():
            if operation.name == "shared.array":
                self.shared(operation)
        place = code_of_intrinsic(block_place, *[types.int64] * 4)
        with _loop(builder, self.first, self.last) as block:
            # Read for each block, so that LLVM does not write the loop twice, for grids with and
            # without rows.
            gx, gy, gz = (self.word(2 + axis) for axis in range(3))
            signature = types.UniTuple(types.int64, 3)(*[types.int64] * 4)
            found = place(self.context, builder, signature, (block, gx, gy, gz))
            for number, axis in enumerate("xyz"):
                self.ids[f"blockIdx.{axis}"] = builder.extract_value(found, number)
            self.region(region)

    def elements_of_rows(self, region: Region) -> None:
        """Write the loops over the elements of a call."""
        builder = self.builder
        segment = self.word(_SEGMENT)
        sizes = {axis: self.word(_NX + number) for number, axis in enumerate("xyz")}
        rank = self.spec.mode.forall_ndim
        along = row_axis(self.spec)
        self.axes = "xyz" if rank is None or along == "first" else "xyz"[:rank][::-1]
        self.ids |= {f"gridsize.{axis}": value for axis, value in sizes.items()}
        if rank == 1:
            low = builder.mul(self.first, segment)
            high = self.smaller(builder.mul(self.last, segment), sizes["x"])
            self.ids |= {"grid.y": _I64(0), "grid.z": _I64(0)}
            self.row(region, low, high)
            return
        pieces_of = code_of_intrinsic(row_pieces, *[types.int64] * 5)
        signature = types.UniTuple(types.int64, 6)(*[types.int64] * 5)
        before = builder.block
        head, body, end = (builder.append_basic_block(name) for name in ("rows", "part", "no_rows"))
        builder.branch(head)
        builder.position_at_end(head)
        first = builder.phi(_I64, "first")
        first.add_incoming(self.first, before)
        builder.cbranch(builder.icmp_signed("<", first, self.last), body, end)
        builder.position_at_end(body)
        given = (first, self.last, segment, sizes["x"], sizes["y"])
        found = pieces_of(self.context, builder, signature, given)
        z, first_y, last_y, piece, last_piece, after = (
            builder.extract_value(found, number) for number in range(6)
        )
        self.ids["grid.z"] = z
        with _loop(builder, piece, last_piece) as unit:
            low = builder.mul(unit, segment)
            high = self.smaller(builder.add(low, segment), sizes["x"])
            with _loop(builder, first_y, last_y) as y:
                self.ids["grid.y"] = y
                kept = dict(self.values)
                self.row(region, low, high)
                self.values = kept
        first.add_incoming(after, builder.block)
        builder.branch(head)
        builder.position_at_end(end)

    def row(self, region: Region, low: Any, high: Any) -> None:
        """Write the loop over a part of a row, within the bounds that the guard sets."""
        builder = self.builder
        operations = region.operations[:-1]
        branch = operations[-1] if operations else None
        tests: list[tuple[Operation, Value]] | None = None
        if branch is not None and branch.name == "if" and not branch.results:
            is_alone = len(branch.regions[1].operations) == 1
            tests = _limits_of(branch.operands[0]) if is_alone else None
        if tests is None or branch is None:
            with _loop(builder, low, high, PARALLEL) as index:
                self.ids["grid.x"] = index
                self.operations(operations)
            return
        before = operations[:-1]
        outside = set().union(*(_needed(limit, before) for _, limit in tests))
        self.operations([each for each in before if each in outside])
        passes: Any = None
        for index_of, limit in tests:
            axis = self.axes[index_of.attributes.get("axis", 0)]
            bound = self.get(limit)
            if axis == "x":
                high = self.smaller(high, bound)
            else:
                is_inside = builder.icmp_signed("<", self.ids[f"grid.{axis}"], bound)
                passes = is_inside if passes is None else builder.and_(passes, is_inside)
        if passes is not None:
            high = builder.select(passes, high, low)
        inside = [each for each in before if each not in outside]
        inner = Region()
        inner.operations = [*inside, *branch.regions[0].operations]
        simplify(inner)
        with _loop(builder, low, high, PARALLEL) as index:
            self.ids["grid.x"] = index
            self.operations(inner.operations[:-1])

    def smaller(self, one: Any, two: Any) -> Any:
        if isinstance(one, ir.Constant) and isinstance(two, ir.Constant):
            return one if one.constant < two.constant else two
        return self.builder.select(self.builder.icmp_signed("<", one, two), one, two)

    def larger(self, one: Any, two: Any) -> Any:
        if isinstance(one, ir.Constant) and isinstance(two, ir.Constant):
            return one if one.constant > two.constant else two
        return self.builder.select(self.builder.icmp_signed(">", one, two), one, two)

    # -- loops over threads -----------------------------------------------------------------------

    def threads(self, operation: Operation) -> None:
        builder = self.builder
        (region,) = operation.regions
        low: Any = _I64(operation.attributes.get("low", 0))
        count = operation.attributes["threads"]
        high: Any = _I64(count)
        for value in operation.operands:
            high = self.smaller(self.get(value), high)
        is_constant = not operation.operands
        if is_constant and count == low.constant + 1:
            self.ids["threadIdx.x"] = low
            self.operations(region.operations[:-1])
            return
        wishes = (NOT_UNROLLED, PARALLEL) if is_constant else (PARALLEL,)
        test, branch = self.version(region) if is_constant else (None, None)

        def write() -> None:
            with _loop(builder, low, high, *wishes) as thread:
                self.ids["threadIdx.x"] = thread
                self.operations(region.operations[:-1])

        if test is None or branch is None:
            write()
            return
        with builder.if_else(test) as (whole, part):
            with whole:
                self.passed = {branch}
                write()
                self.passed = set()
            with part:
                write()

    def version(self, region: Region) -> tuple[Any, Any]:
        """Return a test that all threads pass a branch, and the branch, if there is one."""
        for operation in region.operations:
            if operation.name != "if":
                continue
            test = operation.operands[0].owner
            if (
                not isinstance(test, Operation)
                or test.attributes.get("function") is not operator.lt
            ):
                continue
            index, limit = test.operands
            made = index.owner
            if (
                not isinstance(made, Operation)
                or made.attributes.get("function") is not operator.add
            ):
                continue
            start, thread = made.operands
            is_thread = isinstance(thread.owner, Operation) and thread.owner.name == "threadIdx.x"
            if is_thread and start in self.values and limit in self.values:
                # Neither is negative, so the difference does not wrap.
                left = self.builder.sub(self.get(limit), self.get(start))
                return self.builder.icmp_signed(">=", left, _I64(self.threads_count)), operation
        return None, None

    def branch(self, operation: Operation) -> None:
        if operation in self.passed:
            found = self.part_of_control(operation.regions[0])
            if found is not None:
                self.set(operation, *found)
            return
        super().branch(operation)

    def for_each(self, operation: Operation) -> None:
        """Count through a table of the constants."""
        (body,) = operation.regions
        values = operation.attributes.get("values", ())
        if (
            operation.operands
            or not values
            or not any(each.name == "threads" for each in body.walk())
        ):
            super().for_each(operation)
            return
        builder = self.builder
        kind = ir.ArrayType(_I64, len(values))
        module = builder.module
        table = ir.GlobalVariable(module, kind, module.get_unique_name("values"))
        table.linkage, table.global_constant = "internal", True
        table.initializer = ir.Constant(kind, list(values))
        with _loop(builder, _I64(0), _I64(len(values))) as number:
            place = builder.gep(table, [_I64(0), number])
            self.values[body.arguments[0]] = builder.load(place)
            self.operations(body.operations[:-1])

    # -- memory of the block ----------------------------------------------------------------------

    def reserve(self, kind: Any, count: int) -> ir.Value:
        builder = self.builder
        self.stack_bytes += self.context.get_abi_sizeof(kind) * count
        if self.stack_bytes > STACK_BYTES:
            raise NotReadError("storage that is larger than the stack")
        with suspend_emission(builder), builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(kind, count))
            memory.align = _ALIGNMENT
            return builder.bitcast(memory, kind.as_pointer())

    def shared(self, operation: Operation) -> None:
        if operation.result in self.values:
            return
        shape = operation.attributes["shape"]
        if tuple(shape) == (0,):
            raise NotReadError("dynamic shared memory")
        kind = operation.result.type
        data = self.reserve(self.context.get_data_type(kind.dtype), math.prod(shape))
        self.set(operation, ArrayParts(data, [_I64(extent) for extent in shape], kind))

    def slot(self, operation: Operation) -> None:
        if operation.result in self.values:
            return
        kind = self.context.get_data_type(operation.result.type)
        self.set(operation, self.reserve(kind, operation.attributes["threads"]))

    def _slot_place(self, slot: Value, thread: Any) -> Any:
        return self.builder.gep(self.get(slot), [thread], inbounds=True)

    def slot_load(self, operation: Operation) -> None:
        place = self._slot_place(operation.operands[0], self.ids["threadIdx.x"])
        model = self.context.data_model_manager[operation.result.type]
        self.set(operation, model.from_data(self.builder, self.read(place)))

    def slot_store(self, operation: Operation) -> None:
        slot, value = operation.operands
        place = self._slot_place(slot, self.ids["threadIdx.x"])
        model = self.context.data_model_manager[value.type]
        self.write(model.as_data(self.builder, self.get(value)), place)

    def lane_down(self, operation: Operation) -> None:
        """Read what a lane above has posted; the slot has places for a warp more."""
        builder = self.builder
        slot, delta = operation.operands
        thread = self.ids["threadIdx.x"]
        step = builder.and_(builder.zext(self.get(delta), _I64), _I64(31))
        lane = builder.and_(thread, _I64(31))
        is_there = builder.icmp_unsigned("<", builder.add(lane, step), _I64(32))
        own = self.read(self._slot_place(slot, thread))
        other = self.read(self._slot_place(slot, builder.add(thread, step)))
        model = self.context.data_model_manager[operation.result.type]
        self.set(operation, model.from_data(builder, builder.select(is_there, other, own)))

    # -- the language -----------------------------------------------------------------------------

    def intrinsic(self, operation: Operation) -> None:
        name = operation.name
        if name in ("grid", "gridsize") and self.axes:
            name = f"{name}.{self.axes[operation.attributes.get('axis', 0)]}"
        found = self.ids.get(name)
        if found is not None:
            self.set(operation, found)
            return
        use = operation.attributes.get("use")
        if use is None:
            raise NotReadError(operation.name)
        match lowering_of(use.intrinsic):
            case ScalarOperation(emitter=emit) | Atomic(shared=emit):
                self.call_emitter(operation, emit, use.static)
            case _:
                raise NotReadError(operation.name)

    # -- tiles: arrays of the block ---------------------------------------------------------------

    def _tile(self, dtype: Any, count: int) -> ArrayParts:
        data = self.reserve(self.context.get_data_type(dtype), count)
        return ArrayParts(data, [_I64(count)], types.Array(dtype, 1, "C"))

    def _count(self, operation: Operation) -> int:
        (count,) = operation.attributes["shape"]
        return int(count)

    def _place(self, value: Value) -> ir.Value:
        found = self.get(value)
        if isinstance(found, ir.Constant):
            return found
        return tile_place(self.builder, value.type, found)

    def _inside(self, count: int, first: Any, extent: Any) -> tuple[Any, Any]:
        """Return the places of a tile that are inside an array, from one to another."""
        end = _I64(count)
        if isinstance(first, ir.Constant) and first.constant == 0:
            return _I64(0), self.smaller(extent, end)  # an extent is not negative
        low = self.smaller(self.larger(_I64(0), self.builder.neg(first)), end)
        high = self.larger(low, self.smaller(self.builder.sub(extent, first), end))
        return low, high

    def tile_load(self, operation: Operation) -> None:
        array, other, at = operation.operands
        builder, count = self.builder, self._count(operation)
        kind = operation.result.type.dtype
        tile = self._tile(kind, count)
        source, first, rest = self.get(array), self._place(at), self.get(other)
        model = self.context.data_model_manager[kind]
        rest = model.as_data(builder, rest)
        low, high = self._inside(count, first, source.shape[0])
        if not isinstance(low, ir.Constant):
            with _loop(builder, _I64(0), low, NOT_UNROLLED, PARALLEL) as place:
                self.write(rest, builder.gep(tile.data, [place]))
        with _loop(builder, low, high, NOT_UNROLLED, PARALLEL) as place:
            loaded = self.read(builder.gep(source.data, [builder.add(first, place)]))
            if isinstance(loaded.type, ir.IntType | ir.FloatType | ir.DoubleType):
                frozen = instructions.Instruction(builder.block, loaded.type, "freeze", [loaded])
                builder._insert(frozen)
                loaded = frozen
            value = self.context.data_model_manager[array.type.dtype].from_data(builder, loaded)
            value = self.convert(value, array.type.dtype, kind)
            self.write(model.as_data(builder, value), builder.gep(tile.data, [place]))
        with _loop(builder, high, _I64(count), NOT_UNROLLED, PARALLEL) as place:
            self.write(rest, builder.gep(tile.data, [place]))
        self.set(operation, tile)

    def read(self, place: Any) -> Any:
        """Load from memory that threads may access in any order."""
        loaded = self.builder.load(place)
        loaded.set_metadata("llvm.access.group", self.group)
        return loaded

    def write(self, value: Any, place: Any) -> None:
        """Store to memory that threads may access in any order."""
        self.builder.store(value, place).set_metadata("llvm.access.group", self.group)

    def _each(self, operation: Operation, tiles: list[Value], place: Any) -> Any:
        """Write the region of a tile operation for one element."""
        region = operation.regions[0]
        for tile, argument in zip(tiles, region.arguments, strict=True):
            stored = self.read(self.builder.gep(self.get(tile).data, [place]))
            model = self.context.data_model_manager[argument.type]
            self.values[argument] = model.from_data(self.builder, stored)
        (found,) = self.region(region)
        return found

    def _all(self, operation: Operation, tiles: list[Value], dtype: Any) -> ArrayParts:
        """Return a tile of all elements of an expression."""
        region = operation.regions[0]
        if len(region.operations) == 1 and region.yielded == region.arguments:
            found: ArrayParts = self.get(tiles[0])
            return found
        count = self._count(operation)
        tile = self._tile(dtype, count)
        model = self.context.data_model_manager[dtype]
        with _loop(self.builder, _I64(0), _I64(count), NOT_UNROLLED, PARALLEL) as place:
            value = self._each(operation, tiles, place)
            self.write(model.as_data(self.builder, value), self.builder.gep(tile.data, [place]))
        return tile

    def tile_map(self, operation: Operation) -> None:
        dtype = operation.result.type.dtype
        self.set(operation, self._all(operation, operation.operands, dtype))

    def tile_fold(self, operation: Operation) -> None:
        """Combine elements in the order of :mod:`kerneldsl.lowering.tile_plan`."""
        builder, kind = self.builder, operation.result.type
        count = self._count(operation)
        layout = Layout(count, self.threads_count)
        places = min(layout.places, count)
        warp = 32 * layout.group
        if places != count or places % warp:
            raise NotReadError("a fold of several rounds")
        tile = self._all(operation, operation.operands, kind)
        combine = COMBINATIONS[operation.attributes["fold"]]

        def combined(one: Any, two: Any) -> Any:
            return combine(self.context, builder, kind, one, two)

        def met(start: Any) -> Any:
            vector = ir.VectorType(tile.data.type.pointee, warp)
            place = builder.bitcast(builder.gep(tile.data, [start]), vector.as_pointer())
            return fold_neighbours(builder, builder.load(place, align=1), combined)

        total = met(_I64(0))
        if places > warp:
            entry = builder.block
            with _loop(builder, _I64(warp), _I64(places), step=warp) as start:
                phi = builder.phi(total.type, "total")
                phi.add_incoming(total, entry)
                last = combined(phi, met(start))
                phi.add_incoming(last, builder.block)
            total = last
        self.set(operation, total)

    def tile_store(self, operation: Operation) -> None:
        array, at, *tiles = operation.operands
        builder, target, first = self.builder, self.get(array), self._place(at)
        low, high = self._inside(self._count(operation), first, target.shape[0])
        model = self.context.data_model_manager[array.type.dtype]
        with _loop(builder, low, high, NOT_UNROLLED, PARALLEL) as place:
            value = self._each(operation, tiles, place)
            index = builder.add(first, place)
            self.write(model.as_data(builder, value), builder.gep(target.data, [index]))


def _limits_of(condition: Value) -> list[tuple[Operation, Value]] | None:
    """Return the indices of an element that a condition compares, and their limits."""
    test = condition.owner
    if not isinstance(test, Operation):
        return None
    if test.name == "if" and len(test.results) == 1:
        yes, no = test.regions
        (second,), (otherwise,) = yes.yielded, no.yielded
        if otherwise is not test.operands[0]:
            return None
        parts = [_limits_of(test.operands[0]), _limits_of(second)]
        if None in parts:
            return None
        inner = {result for each in yes.walk() for result in each.results}
        found = [pair for part in parts if part is not None for pair in part]
        return None if any(limit in inner for _, limit in found) else found
    if test.attributes.get("function") is not operator.lt:
        return None
    index, limit = test.operands
    made, size = index.owner, limit.owner
    is_index = isinstance(made, Operation) and made.name == "grid"
    is_size = isinstance(size, Operation) and size.name in ("array.size", "array.extent")
    return [(made, limit)] if is_index and is_size and isinstance(made, Operation) else None


def _needed(value: Value, operations: list[Operation]) -> set[Operation]:
    found: set[Operation] = set()
    pending = [value]
    while pending:
        made = pending.pop().owner
        if isinstance(made, Operation) and made in operations and made not in found:
            found.add(made)
            pending += made.operands
    return found


class _loop:
    """A loop over int64, tested at its end; what is written inside is its body."""

    def __init__(self, builder: Any, low: Any, high: Any, *wishes: str, step: int = 1) -> None:
        self.builder, self.low, self.high = builder, low, high
        self.wishes, self.step = wishes, step

    def __enter__(self) -> Any:
        builder = self.builder
        before = builder.block
        name = f"{len(builder.function.blocks)}"
        self.body = builder.append_basic_block(f"loop{name}")
        self.end = builder.append_basic_block(f"end{name}")
        if isinstance(self.low, ir.Constant) and isinstance(self.high, ir.Constant):
            assert self.low.constant < self.high.constant
            builder.branch(self.body)
        else:
            builder.cbranch(builder.icmp_signed("<", self.low, self.high), self.body, self.end)
        builder.position_at_end(self.body)
        self.index = builder.phi(_I64, "i")
        self.index.add_incoming(self.low, before)
        return self.index

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None:
            return
        builder = self.builder
        following = builder.add(self.index, _I64(self.step), flags=["nuw", "nsw"])
        self.index.add_incoming(following, builder.block)
        if self.wishes:
            mark_loop(builder, *self.wishes)
        builder.cbranch(builder.icmp_signed("<", following, self.high), self.body, self.end)
        builder.position_at_end(self.end)
