"""Write the regions of a kernel as machine code of this processor."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.contract import Specialization
from kerneldsl.errors import ResourceLimitError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.emission import Emitter
from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.ir.ranges import Interval, ranges_of_region
from kerneldsl.ir.recognize import operands_of, operator_of
from kerneldsl.lowering.loop_marks import ITS_OWN, mark_loop
from kerneldsl.lowering.numba_extremes import numba_print
from kerneldsl.lowering.numba_internals.arrays import suspend_emission
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.formatting import format_bytes
from targets.cpu.codegen.storage import LocalScopes, StaticArray, is_of_block
from targets.cpu.runtime.native_tables import ALIGNMENT

__all__ = ["SCRATCH_LIMIT_BYTES", "CountedLoop", "CpuEmitter", "write_apart"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
#: Operators that may compute in float32 what is rounded to it, if operands are numbers of float32.
#: A float64 has more than twice their digits. Integers below the next number are such operands.
_EXACT = {
    operator.add: "fadd",
    operator.sub: "fsub",
    operator.mul: "fmul",
}
_EXACT_INTEGERS = 2**24
#: Bytes of a block's storage that are taken from the worker's stack; what is beyond goes to
#: scratch memory. Workers of a thread pool may have as little as half a megabyte of stack.
_STACK_BYTES = 64 * 1024
#: Most bytes of scratch memory; every thread of the pool allocates as many.
SCRATCH_LIMIT_BYTES = 2**30


class CountedLoop:
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
        is_constant = isinstance(self.low, ir.Constant) and isinstance(self.high, ir.Constant)
        if is_constant and self.low.constant < self.high.constant:
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
        mark_loop(builder, *(self.wishes or (ITS_OWN,)))
        builder.cbranch(builder.icmp_signed("<", following, self.high), self.body, self.end)
        builder.position_at_end(self.end)


class _Storage:
    """Places the storage of a block as it is requested: on the worker's stack, or in scratch."""

    def __init__(self, *, most_stack_bytes: int) -> None:
        #: Taken from the stack.
        self.stack_bytes = 0
        self._most_stack_bytes = most_stack_bytes
        #: Bytes of scratch memory so far; dynamic shared memory of a launch follows.
        self.scratch_bytes = 0
        self._largest: StaticArray | None = None

    def place(self, nbytes: int) -> int | None:
        """Reserve bytes; return their offset in scratch memory, or ``None`` for the stack."""
        rounded = -(-nbytes // ALIGNMENT) * ALIGNMENT
        if self.stack_bytes + rounded <= self._most_stack_bytes:
            self.stack_bytes += rounded
            return None
        offset = self.scratch_bytes
        self.scratch_bytes += rounded
        return offset

    def place_array(self, array: StaticArray) -> int | None:
        """Reserve the bytes of an array, as :meth:`place` does."""
        if self._largest is None or array.nbytes > self._largest.nbytes:
            self._largest = array
        return self.place(array.nbytes)

    def check(self, unit: FunctionUnit) -> None:
        """Refuse a kernel with more storage than a thread of the pool should allocate.

        Raises `ResourceLimitError` naming its largest array.
        """
        if self.scratch_bytes <= SCRATCH_LIMIT_BYTES:
            return
        what = f"{unit.qualname} needs {format_bytes(self.scratch_bytes)} of memory for a block"
        array = self._largest
        if array is not None:
            what += f", {format_bytes(array.nbytes)} of them for {array}"
            if array.copies > 1:
                what += f", which each of {array.copies} threads keeps across a barrier"
        raise ResourceLimitError(
            what,
            where=array.where if array is not None else unit.locate(unit.tree),
            value=self.scratch_bytes,
            limit=f"A block on the CPU can have {format_bytes(SCRATCH_LIMIT_BYTES)} of it",
            remedy="Use smaller arrays or smaller blocks, or pass an array as an argument",
        )


class CpuEmitter(Emitter):
    """Writes the regions of a kernel; modules add the handlers of their operations."""

    def __init__(self, context: Any, builder: Any, spec: Specialization, body: Region) -> None:
        super().__init__(context, builder)
        self.spec, self.body = spec, body
        self.memory, _, self.first, self.last, self.launch = builder.function.args
        # The state of a block that waits for others is not on the stack.
        most_stack_bytes = 0 if spec.traits.syncs_grid else _STACK_BYTES
        self.storage = _Storage(most_stack_bytes=most_stack_bytes)
        #: Basic block for allocations: the first one of the function, or of the code run for each
        #: block.
        self.start = builder.block
        #: Code at which blocks continue after barriers of the grid.
        self.passes: Any = None
        #: The axes of rows that the axes of ``grid`` are.
        self.axes = ""
        #: Ids of the block and the thread, or of the element.
        self.ids: dict[str, ir.Value] = {}
        #: Memory that one operation after the other uses, by type, number of elements and use.
        self._buffers: dict[tuple[str, int, int], ir.Value] = {}
        self.group = builder.module.add_metadata(["kerneldsl.accesses"])
        #: Marks accesses to arrays, if there are local ones.
        self.scopes: LocalScopes | None = None
        #: The array that is accessed, and whether each element is read once.
        self._accessed: Value | None = None
        self._streams = False
        #: The arguments of the kernel.
        self.parameters: Collection[Value] = ()
        #: Copies of arrays in which atomic operations are gathered.
        self.gathered: dict[Value, Any] = {}
        #: The memory of local arrays, by the names of it.
        self.local_memory: dict[Operation, ir.Value] = {}
        self.handlers["unpack.check"] = self.check_length
        #: Threads that run together, along x, y and z, and how many.
        self.extents = spec.block_dim or (1, 1, 1)
        self.threads_count = math.prod(self.extents)

    def register(self, handlers: Mapping[str, Callable[[CpuEmitter, Operation], None]]) -> None:
        """Add functions that write operations, by the operations' names."""
        for name, handler in handlers.items():
            self.handlers[name] = partial(handler, self)

    def word(self, number: int) -> ir.Value:
        words = self.builder.bitcast(self.launch, _I64.as_pointer())
        return self.builder.load(self.builder.gep(words, [_I32(number)]))

    def smaller(self, one: Any, two: Any) -> Any:
        """Return the smaller of two signed integers."""
        if isinstance(one, ir.Constant) and isinstance(two, ir.Constant):
            return one if one.constant < two.constant else two
        return self.builder.select(self.builder.icmp_signed("<", one, two), one, two)

    def larger(self, one: Any, two: Any) -> Any:
        """Return the larger of two signed integers."""
        if isinstance(one, ir.Constant) and isinstance(two, ir.Constant):
            return one if one.constant > two.constant else two
        return self.builder.select(self.builder.icmp_signed(">", one, two), one, two)

    def reserve(self, kind: Any, count: int, array: StaticArray | None = None) -> ir.Value:
        """Return the address of memory that one worker has while it runs the body.

        It is on the stack, or in scratch memory. `array` is what it is for, for errors.
        """
        builder = self.builder
        nbytes = self.context.get_abi_sizeof(kind) * count
        offset = self.storage.place(nbytes) if array is None else self.storage.place_array(array)
        with self.at_start():
            if offset is None:
                memory = builder.alloca(ir.ArrayType(kind, max(count, 1)))
                memory.align = ALIGNMENT
            else:
                memory = builder.gep(self.memory, [_I64(offset)], inbounds=True)
            return builder.bitcast(memory, kind.as_pointer())

    @contextmanager
    def at_start(self) -> Iterator[None]:
        """Write at the end of the block that runs before all others."""
        with suspend_emission(self.builder), self.builder.goto_block(self.start):
            yield

    def scratch_bytes(self) -> ir.Value:
        """Return the address of the size of scratch memory, a constant that is known at the end."""
        name = "kerneldsl.scratch"
        known = self.builder.module.globals.get(name)
        if known is None:
            known = ir.GlobalVariable(self.builder.module, _I64, name)
            known.linkage, known.global_constant = "internal", True
        return known

    def finish(self) -> None:
        """Check the storage, and set its size."""
        self.storage.check(self.spec.unit)
        if "kerneldsl.scratch" in self.builder.module.globals:
            self.scratch_bytes().initializer = _I64(self.storage.scratch_bytes)

    def thread_number(self) -> ir.Value:
        """Return the index of the thread among those that run together."""
        builder = self.builder
        found = self.ids["threadIdx.x"]
        width, height, depth = self.extents
        for axis, extent, step in (("y", height, width), ("z", depth, width * height)):
            if extent > 1:
                place = builder.mul(self.ids[f"threadIdx.{axis}"], _I64(step), flags=["nsw"])
                found = builder.add(place, found, flags=["nsw"])
        return found

    def reserve_again(self, kind: Any, count: int, use: int) -> ir.Value:
        """Return the address of memory for one operation, which others get again.

        An operation has different memory for each `use`.
        """
        key = (str(kind), count, use)
        found = self._buffers.get(key)
        if found is None:
            found = self._buffers[key] = self.reserve(kind, count)
        return found

    def load(self, operation: Operation) -> None:
        self._streams = operation.attributes.get("hint") == "streaming"
        with self._accessing(operation.operands[0]):
            super().load(operation)
        self._streams = False

    def store(self, operation: Operation) -> None:
        with self._accessing(operation.operands[0]):
            super().store(operation)

    @contextmanager
    def _accessing(self, array: Value) -> Iterator[None]:
        self._accessed = array
        yield
        self._accessed = None

    def read(self, place: Any) -> Any:
        """Load from memory that threads may access in any order."""
        if self._streams:
            from targets.cpu.codegen.vector_calls import prefetch_after  # few kernels have one

            size = self.context.get_abi_sizeof(place.type.pointee)
            prefetch_after(self.builder, place, size)
        return self._marked(self.builder.load(place))

    def write(self, value: Any, place: Any) -> None:
        """Store to memory that threads may access in any order."""
        self._marked(self.builder.store(value, place))

    def _marked(self, access: Any) -> Any:
        access.set_metadata("llvm.access.group", self.group)
        if self.scopes is not None and self._accessed is not None:
            self.scopes.mark(access, self._accessed)
        return access

    # -- numbers ----------------------------------------------------------------------------------

    def cast(self, operation: Operation) -> None:
        (value,) = operation.operands
        made = value.owner
        is_rounded = value.type == types.float64 and operation.result.type == types.float32
        if is_rounded and isinstance(made, Operation) and operator_of(made) in _EXACT:
            found = [self._as_single(each) for each in operands_of(made)]
            if None not in found:
                write = getattr(self.builder, _EXACT[operator_of(made)])
                # Without any flag, LLVM might contract it with another operation.
                self.set(operation, write(*found, flags=("arcp",)))
                return
        super().cast(operation)

    def _as_single(self, value: Value) -> ir.Value | None:
        """Write a number as a float32, if it is known to be one."""
        if value.type == types.float32:
            return self.get(value)
        if not isinstance(value.type, types.Integer):
            return None
        low, high = self.ranges.get(value, (_EXACT_INTEGERS, _EXACT_INTEGERS))
        if not -_EXACT_INTEGERS < low <= high < _EXACT_INTEGERS:
            return None
        found = self.get(value)
        short = found if found.type.width <= 32 else self.builder.trunc(found, _I32)
        convert = self.builder.sitofp if value.type.signed else self.builder.uitofp
        return convert(short, ir.FloatType())

    @cached_property
    def ranges(self) -> dict[Value, Interval]:
        """Intervals of the integers of the kernel."""
        return ranges_of_region(self.body)

    # -- exceptions, which the launch raises -------------------------------------------------------

    def for_loop(self, operation: Operation) -> None:
        step = self.get(operation.operands[2])
        if not isinstance(step, ir.Constant) or step.constant == 0:
            is_zero = self.builder.icmp_signed("==", step, step.type(0))
            self._raise_if(is_zero, "range() arg 3 must not be zero")
        super().for_loop(operation)

    def end_of_body(self, operation: Operation) -> None:
        """Mark a loop of a thread: its iterations may depend on each other.

        LLVM may move the mark of the loop over threads to a loop in it that has none, if one thread
        alone is left.
        """
        mark_loop(self.builder, ITS_OWN)

    def check_length(self, operation: Operation) -> None:
        """Compare the length of an array with the number of names that take its elements."""
        extent, *_ = self.shape(operation.operands[0])
        count = operation.attributes["count"]
        is_other = self.builder.icmp_signed("!=", extent, _I64(count))
        self._raise_if(is_other, f"an array that is unpacked must have the length {count}")

    def _raise_if(self, condition: ir.Value, text: str) -> None:
        with self.builder.if_then(condition, likely=False):
            self.context.call_conv.return_user_exc(self.builder, ValueError, (text,))

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
        from targets.cpu.intrinsics.table import (  # kernels with ids alone do without
            Atomic,
            Refused,
            ScalarOperation,
            lowering_of,
            refuse,
        )

        match lowering_of(use.intrinsic):
            case ScalarOperation(emitter=emit):
                self.call_emitter(operation, emit, use.static)
            case Atomic(shared=shared, private=private):
                is_private = is_of_block(operation.operands[0])
                self.call_emitter(operation, private if is_private else shared, use.static)
            case Refused(reason=reason):
                unit, name = operation.attributes["site"]
                refuse(unit.locate_use(name), use.intrinsic, reason)
            case _:
                raise NotReadError(operation.name)

    def numba(self, operation: Operation) -> None:
        function = operation.attributes["function"]
        if function in (print, numba_print):
            from targets.cpu.intrinsics.printing import write_print

            kinds = [value.type for value in operation.operands]
            values = [self.plain(self.get(value), value.type) for value in operation.operands]
            of_numba = function is numba_print
            write_print(self.context, self.builder, kinds, values, of_numba=of_numba)
        else:
            super().numba(operation)


def write_apart(emitter: CpuEmitter, one: Value, two: Value) -> ir.Value:
    """Return whether two arrays lie in ranges of memory that have no byte in common."""
    first, second = (_ends(emitter, each) for each in (one, two))
    builder = emitter.builder
    is_before = builder.icmp_unsigned("<=", first[1], second[0])
    return builder.or_(is_before, builder.icmp_unsigned("<=", second[1], first[0]))


def _ends(emitter: CpuEmitter, value: Value) -> tuple[Any, Any]:
    """Return the addresses of an array's first byte and after its last one; equal if it has none.

    A stride may be negative, or 0.
    """
    context, builder = emitter.context, emitter.builder
    array = emitter.wrapped(emitter.get(value), value.type)
    low = high = builder.ptrtoint(array.data, _I64)
    is_empty: Any = ir.IntType(1)(0)
    for extent, stride in zip(array.shape, array.byte_strides(context, builder), strict=True):
        is_empty = builder.or_(is_empty, builder.icmp_signed("==", extent, _I64(0)))
        span = builder.mul(builder.sub(extent, _I64(1)), stride)
        low = builder.add(low, emitter.smaller(span, _I64(0)))
        high = builder.add(high, emitter.larger(span, _I64(0)))
    size = _I64(context.get_abi_sizeof(context.get_data_type(value.type.dtype)))
    return low, builder.select(is_empty, low, builder.add(high, size))
