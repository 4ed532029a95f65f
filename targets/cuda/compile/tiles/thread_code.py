"""Write what each thread of a block does: loops, variables, barriers, its elements of a tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from llvmlite import ir

from kerneldsl.ir.tiles.elements import Slot, Variable
from kerneldsl.ir.tiles.layout import Layout, TileLayout
from kerneldsl.lowering.loop_marks import FULLY_UNROLLED, repeat
from targets.cuda.intrinsics.ids import read_register
from targets.cuda.intrinsics.memory import static_shared
from targets.cuda.intrinsics.synchronize import call_nvvm

if TYPE_CHECKING:
    from targets.cuda.compile.mma.fragments import Fragments, RowFragments

__all__ = ["Memory", "ThreadCode"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_ALL_LANES = 0xFFFFFFFF
#: Number of the barrier by which the declared threads wait for each other.
_DECLARED = 1
#: Turns of a loop over a thread's elements beyond which it is not unrolled. More elements than
#: half of the 255 registers of a thread (CUDA C++ Programming Guide, "Technical Specifications per
#: Compute Capability") are in local memory anyway. LLVM gives up at some number and warns. Before
#: that it writes code that takes many seconds to compile and to assemble.
_MAX_UNROLLED = 128


class Memory:
    """Elements of a dtype, of one thread or of the block."""

    def __init__(
        self, context: Any, builder: ir.IRBuilder, data: ir.Value, kind: Any, columns: int = 0
    ) -> None:
        self.data = data
        self.kind = kind
        self._builder = builder
        self._model = context.data_model_manager[kind]
        #: Elements after which one is left out, so that each row begins in another bank.
        self._columns = columns

    def _place(self, index: ir.Value) -> ir.Value:
        if self._columns:
            rows = self._builder.udiv(index, _I64(self._columns))
            index = self._builder.add(index, rows)
        return self._builder.gep(self.data, [index], inbounds=True)

    def get(self, index: ir.Value) -> ir.Value:
        stored = self._builder.load(self._place(index))
        return self._model.from_data(self._builder, stored)

    def set(self, index: ir.Value, value: ir.Value) -> None:
        self._builder.store(self._model.as_data(self._builder, value), self._place(index))


class ThreadCode:
    """Writes code of one thread.

    - `context`: the target context.
    - `builder`: builder at the place of the code.
    - `block_dim`: threads of the block along x, y and z.
    """

    def __init__(
        self, context: Any, builder: ir.IRBuilder, block_dim: tuple[int, int, int]
    ) -> None:
        self.context = context
        #: Number of threads that a barrier waits for, if the block has more than the declared ones.
        self.waiting: int | None = None
        #: Emits a barrier of the threads of a tile, if the block has more such threads, with the
        #: same numbers.
        self.meet: Callable[[], None] | None = None
        self.builder = builder
        self.threads = math.prod(block_dim)
        self._block_dim = block_dim
        self._thread: ir.Value | None = None

    @property
    def thread(self) -> ir.Value:
        """Number of the thread in its block."""
        if self._thread is None:
            with self.builder.goto_entry_block():
                self._thread = self._linear_thread()
        return self._thread

    def _linear_thread(self) -> ir.Value:
        builder, (width, height, depth) = self.builder, self._block_dim
        number = read_register(builder, "tid.x")
        if height > 1 or depth > 1:
            row = read_register(builder, "tid.y")
            if depth > 1:
                plane = read_register(builder, "tid.z")
                row = builder.add(builder.mul(plane, _I64(height)), row)
            number = builder.add(builder.mul(row, _I64(width)), number)
        if self.meet is not None:
            number = builder.and_(number, _I64(self.threads - 1))
        return number

    def variable(self, first: ir.Value) -> Variable:
        """Declare a number of the thread."""
        return Variable(self.builder, first)

    # -- memory -----------------------------------------------------------------------------------

    def local(self, kind: Any, count: int) -> Memory:
        """Declare elements of the thread."""
        content = ir.ArrayType(self.context.get_data_type(kind), count)
        with self.builder.goto_entry_block():
            memory = self.builder.alloca(content)
            memory.align = 16
            data = self.builder.bitcast(memory, content.element.as_pointer())
        return Memory(self.context, self.builder, data, kind)

    def shared(self, kind: Any, count: int, *, columns: int = 0) -> Memory:
        """Declare elements of the block; with `columns`, one more after as many."""
        if columns:
            count += count // columns
        element = self.context.get_data_type(kind)
        memory = static_shared(self.context, self.builder, element, (count,))
        data = memory.bitcast(ir.PointerType(element, memory.type.addrspace))
        return Memory(self.context, self.builder, data, kind, columns)

    def wait(self) -> None:
        """Let the threads of the block wait for each other, or those of a tile."""
        if self.meet is None:
            self._barrier("sync", ir.VoidType())
        else:
            self.meet()

    def vote(self, operation: str, condition: ir.Value) -> ir.Value:
        """Combine conditions of the threads of the block, which wait for each other."""
        return self._barrier(f"red.{operation}", condition.type, condition)

    def _barrier(self, operation: str, result: ir.Type, *values: ir.Value) -> ir.Value:
        which, numbers = "all", [_I32(0)]
        if self.waiting is not None:
            which, numbers = "count", [_I32(_DECLARED), _I32(self.waiting)]
        name = f"barrier.cta.{operation}.aligned.{which}"
        return call_nvvm(self.builder, name, result, [*numbers, *values])

    def wait_for_warp(self) -> None:
        """Let the threads of a whole warp wait for each other."""
        call_nvvm(self.builder, "bar.warp.sync", ir.VoidType(), [_I32(_ALL_LANES)])

    # -- loops ------------------------------------------------------------------------------------

    @contextmanager
    def unrolled(self, count: int) -> Iterator[ir.Value]:
        """Repeat code for each number below a count, in a loop that is unrolled if it is short."""
        if count == 1:
            yield _I64(0)
            return
        wishes = (FULLY_UNROLLED,) if count <= _MAX_UNROLLED else ()
        with repeat(self.builder, count, *wishes) as (number, *_):
            yield number

    @contextmanager
    def counted(self, start: ir.Value, stop: ir.Value, step: int) -> Iterator[ir.Value]:
        """Repeat code for each number of a range."""
        builder, before = self.builder, self.builder.block
        head, body, end = (
            builder.append_basic_block(f"range.{each}") for each in ("head", "body", "end")
        )
        builder.branch(head)
        builder.position_at_end(head)
        number = builder.phi(_I64)
        number.add_incoming(start, before)
        builder.cbranch(builder.icmp_signed("<", number, stop), body, end)
        builder.position_at_end(body)
        yield number
        following = builder.add(number, _I64(step), flags=("nuw", "nsw"))
        number.add_incoming(following, builder.block)
        builder.branch(head)
        builder.position_at_end(end)

    def range(self, start: ir.Value | int, stop: int, step: int = 1) -> Any:
        """Repeat code for each number of a range that ends at a constant."""
        first = _I64(start) if isinstance(start, int) else start
        return self.counted(first, _I64(stop), step)

    @contextmanager
    def slots(self, layout: TileLayout, *, has_all: bool = False) -> Iterator[Slot]:
        """Repeat code for each of the thread's elements of a tile.

        With `has_all`, also for slots that have no element, of a tile that is not even.
        """
        builder = self.builder
        with self.unrolled(layout.slot_count) as slot:
            if not isinstance(layout, Layout):
                fragments = cast("Fragments | RowFragments", layout)
                row, column = fragments.indices(builder, self.thread, slot)
                index = self.at(row, fragments.columns, column)
                yield Slot(index, slot, indices=(row, column))
                return
            turn = builder.lshr(slot, _I64(layout.group.bit_length() - 1))
            place = builder.and_(slot, _I64(layout.group - 1))
            group = builder.add(builder.mul(turn, _I64(layout.threads)), self.thread)
            index = builder.add(builder.mul(group, _I64(layout.group)), place)
            found = Slot(index, slot, place)
            if layout.is_even or has_all:
                yield found
                return
            with builder.if_then(builder.icmp_unsigned("<", index, _I64(layout.count))):
                yield found

    def when(self, condition: ir.Value) -> Any:
        """Run code if a condition holds."""
        return self.builder.if_then(condition)

    # -- integers ---------------------------------------------------------------------------------

    def line_and_place(self, index: ir.Value, columns: int) -> tuple[ir.Value, ir.Value]:
        """Return the row of an element, and its place in the row."""
        builder = self.builder
        return builder.udiv(index, _I64(columns)), builder.urem(index, _I64(columns))

    def at(self, line: ir.Value, columns: int, place: ir.Value) -> ir.Value:
        """Return the number of an element."""
        return self.builder.add(self.builder.mul(line, _I64(columns)), place)

    def is_below(self, one: ir.Value, limit: int | ir.Value) -> ir.Value:
        """Compare two integers that are not negative."""
        limit = one.type(limit) if isinstance(limit, int) else limit
        return self.builder.icmp_unsigned("<", one, limit)

    def is_equal(self, one: ir.Value, two: int | ir.Value) -> ir.Value:
        """Compare two integers."""
        two = one.type(two) if isinstance(two, int) else two
        return self.builder.icmp_unsigned("==", one, two)
