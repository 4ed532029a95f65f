"""The entry of a kernel, which the driver calls: it unpacks a launch and calls the body.

:mod:`targets.cpu.code` describes it and its parameters. It runs its units piece by piece, and
checks between them whether the launch is stopped. A signal may make it leave the body at any
instruction (:mod:`targets.cpu.signals`). So it consists of two functions: ``run`` runs the pieces,
and the outer one has the memory and C's ``setjmp``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.contract.abi import RECORD_WORD_BYTES, ParameterLayout
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.lowering.numba_internals.arrays import array_value
from kerneldsl.lowering.records import record_value
from kerneldsl.lowering.types import numba_type
from targets.cpu.code import (
    BEGAN_WORD,
    ENTER_WORD,
    FAILURE_WORD,
    FIRST_UNITS_WORD,
    HEADER_BYTES,
    OVERRUN,
    PARTS_WORD,
    SPACE_WORDS,
    STOP_WORD,
    STOPPED,
    WATCH_WORD,
)
from targets.cpu.signal_table import FRAME_BYTES, IS_SUPPORTED, FramePlace, RecordPlace
from targets.cpu.storage import ALIGNMENT

__all__ = ["EntryBuilder"]

_I64 = ir.IntType(64)
_I32 = ir.IntType(32)
_I1 = ir.IntType(1)
_BYTE = ir.IntType(8)
_POINTER = _BYTE.as_pointer()
#: Unused bytes after dynamic shared memory, and the number of words of them that are compared with
#: their initial value after a launch. A kernel that writes there uses more memory than the launch
#: has.
_BEYOND_BYTES, _WATCHED_WORDS, _UNTOUCHED = 1 << 16, 8, 0x5EA1ED5EA1ED5EA1
#: After a piece of a launch that takes less time, the next one has this multiple of its units.
#: After one that takes more, it has half. So a launch can stop within 100 ms.
_SHORT_NS, _LONG_NS, _GROWTH = 1_000_000, 10_000_000, 4


@dataclass
class EntryBuilder:
    """Builds the function that unpacks a launch and calls the body."""

    context: Any
    module: Any
    result: Any
    layout: ParameterLayout
    scratch_bytes: int
    uses_scratch: bool
    waits: bool
    #: Whether dynamic shared memory is in the scratch memory that it allocates.
    uses_dynamic: bool
    #: Whether a signal may have it leave the body.
    can_leave: bool
    builder: Any = None
    launch: Any = None

    def build(self, name: str) -> None:
        """Write the entry under a name."""
        words = _I64.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [_POINTER.as_pointer(), words, words, _POINTER])
        entry = ir.Function(self.module, kind, name)
        ranges, counts, _, self.launch = entry.args
        self.builder = builder = ir.IRBuilder(entry.append_basic_block("entry"))
        start = builder.ptrtoint(builder.load(ranges), _I64)
        count = builder.load(counts)
        memory: Any = _POINTER(None)
        if self.uses_scratch:
            memory = self.allocate(self.word(2 + SPACE_WORDS))
        behind = self.words_behind(memory) if self.uses_dynamic else []
        for word in behind:
            builder.store(_I64(_UNTOUCHED), word, align=1)
        run = self.write_run(f"{name}.run")
        values = [start, count, memory, self.launch]
        exception = self.guarded(run, values) if IS_SUPPORTED else builder.call(run, values)
        if self.uses_scratch:
            free = cgutils.get_or_insert_function(
                self.module, ir.FunctionType(ir.VoidType(), [_POINTER]), "free"
            )
            overrun: Any = _I1(0)
            for word in behind:
                found = builder.load(word, align=1)
                overrun = builder.or_(overrun, builder.icmp_unsigned("!=", found, _I64(_UNTOUCHED)))
            with builder.if_else(overrun, likely=False) as (is_beyond, otherwise):
                with is_beyond:  # the heap may be damaged, and is left as it is
                    failure = self.word(FAILURE_WORD)
                    has_none = builder.icmp_signed("==", failure, _I64(0))
                    self.set_word(FAILURE_WORD, builder.select(has_none, _I64(OVERRUN), failure))
                with otherwise:
                    builder.call(free, [memory])
        with builder.if_then(builder.icmp_signed("!=", exception, _I64(0)), likely=False):
            self.set_word(FAILURE_WORD, builder.neg(exception))
        builder.ret_void()

    def guarded(self, run: ir.Function, values: list[Any]) -> Any:
        """Run the pieces within a frame, by which signals find the launch and leave the body.

        Returns the address of what is said of an exception that ended a piece, or 0.
        """
        builder = self.builder
        frame = cgutils.alloca_once(builder, _BYTE, size=FRAME_BYTES)
        frame.align = 16
        address = self.word(ENTER_WORD)

        def at(place: FramePlace, kind: Any = _I64) -> Any:
            return builder.bitcast(builder.gep(frame, [_I32(int(place))]), kind.as_pointer())

        builder.store(self.launch, at(FramePlace.LAUNCH, _POINTER))
        can_leave = builder.icmp_unsigned("!=", address, _I64(0)) if self.can_leave else _I1(0)
        builder.store(builder.zext(can_leave, _I64), at(FramePlace.CAN_LEAVE))
        begin, left, done = (builder.append_basic_block(n) for n in ("begin", "left", "done"))
        if self.can_leave:
            kind = ir.FunctionType(_I32, [_POINTER])
            keep = cgutils.get_or_insert_function(self.module, kind, "_setjmp")
            keep.attributes.add("returns_twice")
            again = builder.call(keep, [at(FramePlace.BUFFER, _BYTE)])
            builder.cbranch(builder.icmp_signed("==", again, _I32(0)), begin, left)
        else:
            builder.branch(begin)
        builder.position_at_end(begin)
        with builder.if_then(builder.icmp_unsigned("!=", address, _I64(0)), likely=True):
            kind = ir.FunctionType(ir.VoidType(), [_POINTER])
            builder.call(builder.inttoptr(address, kind.as_pointer()), [frame])
        exception = builder.call(run, values)
        began = builder.block
        builder.branch(done)
        builder.position_at_end(left)
        self.set_word(FAILURE_WORD, _I64(STOPPED))
        builder.branch(done)
        builder.position_at_end(done)
        found = builder.phi(_I64)
        found.add_incoming(exception, began)
        found.add_incoming(_I64(0), left)
        with builder.if_then(builder.icmp_unsigned("!=", address, _I64(0)), likely=True):
            record = builder.load(at(FramePlace.RECORD, _POINTER))
            current = builder.gep(record, [_I32(int(RecordPlace.FRAME))])
            previous = builder.load(at(FramePlace.PREVIOUS))
            builder.store(previous, builder.bitcast(current, _I64.as_pointer()))
        return found

    def write_run(self, name: str) -> ir.Function:
        """Write ``i64 run(i64 start, i64 count, ptr memory, ptr launch)``, the pieces."""
        outer = self.builder, self.launch
        kind = ir.FunctionType(_I64, [_I64, _I64, _POINTER, _POINTER])
        function = ir.Function(self.module, kind, name)
        function.linkage = "internal"
        # LLVM optimizes less beside `setjmp`.
        function.attributes.add("noinline" if self.can_leave else "alwaysinline")
        start, count, memory, self.launch = function.args
        self.builder = builder = ir.IRBuilder(function.append_basic_block("entry"))
        step, total = self.word(0), self.word(1)
        first = builder.mul(start, step)
        last = self.smaller(builder.mul(builder.add(start, count), step), total)
        scratch = memory
        if self.uses_scratch:
            scratch = self.aligned(memory)
        elif self.waits:
            scratch = builder.inttoptr(self.word(PARTS_WORD), _POINTER)
        values = [self.word(2 + i) for i in range(SPACE_WORDS)]
        values += [scratch, self.word(2 + SPACE_WORDS), *self.arguments()]
        argument_types = self.result.signature.args
        body = ir.Function(
            self.module,
            self.context.call_conv.get_function_type(
                self.result.signature.return_type, argument_types
            ),
            self.result.fndesc.llvm_func_name,
        )

        def run(first: Any, last: Any) -> Any:
            status, _ = self.context.call_conv.call_function(
                builder,
                body,
                self.result.signature.return_type,
                argument_types,
                [first, last, *values],
            )
            told = builder.ptrtoint(status.excinfoptr, _I64)
            return builder.select(status.is_error, told, _I64(0))

        exception = self.in_pieces(start, first, last, run) if IS_SUPPORTED else run(first, last)
        builder.ret(exception)
        self.builder, self.launch = outer
        return function

    def in_pieces(self, step: Any, first: Any, last: Any, run: Callable[[Any, Any], Any]) -> Any:
        """Run units piece by piece, and check between them whether the launch is stopped.

        After a short piece the next one is longer, and after a long one shorter. So the checks take
        little time and are frequent. A long launch calls the watcher. `step` is the first one of
        the range. Returns the address of the description of an exception that ended a piece, or 0.
        """
        builder = self.builder
        loop, late, look, go_on, more, stopped, done = (
            builder.append_basic_block(name)
            for name in ("piece", "late", "look", "go_on", "more", "stopped", "pieces_done")
        )
        first_units = self.word(FIRST_UNITS_WORD)
        began = self.nanoseconds_in(step, first, last)
        before = builder.block
        builder.branch(loop)
        builder.position_at_end(loop)
        at, units, start = (builder.phi(_I64) for _ in range(3))
        since = builder.sub(start, builder.load_atomic(self.word_at(BEGAN_WORD), "monotonic", 8))
        is_late = builder.icmp_signed(">", since, _I64(_SHORT_NS))
        builder.cbranch(is_late, late, look).set_weights([1, 1000])
        builder.position_at_end(late)
        self.watch()
        builder.branch(look)
        builder.position_at_end(look)
        # A signal sets it, so it is read again each time.
        stop = builder.load_atomic(self.word_at(STOP_WORD), "monotonic", 8)
        is_stopped = builder.icmp_signed("!=", stop, _I64(0))
        builder.cbranch(is_stopped, stopped, go_on)
        builder.position_at_end(go_on)
        end = self.smaller(builder.add(at, units), last)
        exception = run(at, end)
        has_failed = builder.icmp_signed("!=", exception, _I64(0))
        is_over = builder.or_(has_failed, builder.icmp_signed(">=", end, last))
        from_piece = builder.block
        builder.cbranch(is_over, done, more)
        builder.position_at_end(stopped)
        self.set_word(FAILURE_WORD, _I64(STOPPED))
        builder.branch(done)
        builder.position_at_end(more)
        now = self.nanoseconds()
        spent = builder.sub(now, start)
        longer = builder.icmp_signed("<", spent, _I64(_SHORT_NS))
        shorter = builder.icmp_signed(">", spent, _I64(_LONG_NS))
        halved = builder.lshr(units, _I64(1))
        fewer = builder.select(builder.icmp_signed(">", halved, _I64(1)), halved, _I64(1))
        following = builder.select(shorter, fewer, units)
        following = builder.select(longer, builder.mul(units, _I64(_GROWTH)), following)
        for phi, initial, later in (
            (at, first, end),
            (units, first_units, following),
            (start, began, now),
        ):
            phi.add_incoming(initial, before)
            phi.add_incoming(later, builder.block)
        builder.branch(loop)
        builder.position_at_end(done)
        found = builder.phi(_I64)
        found.add_incoming(exception, from_piece)
        found.add_incoming(_I64(0), stopped)
        return found

    def watch(self) -> None:
        """Call what watches over the launch, if there is anything."""
        builder, pointer = self.builder, _BYTE.as_pointer()
        address = builder.load_atomic(self.word_at(WATCH_WORD), "monotonic", 8)
        with builder.if_then(builder.icmp_signed("!=", address, _I64(0))):
            kind = ir.FunctionType(ir.VoidType(), [pointer])
            builder.call(builder.inttoptr(address, kind.as_pointer()), [self.launch])

    def nanoseconds_in(self, step: Any, first: Any, last: Any) -> Any:
        """Return the time if there are several pieces, or a step before this one; else 0.

        The first thread that reads it stores the begin of the launch.
        """
        builder = self.builder
        count = builder.sub(last, first)
        has_pieces = builder.icmp_signed(">", count, self.word(FIRST_UNITS_WORD))
        is_later = builder.icmp_signed(">", step, _I64(0))
        before = builder.block
        with builder.if_then(builder.or_(has_pieces, is_later)):
            now = self.nanoseconds()
            began_at = self.word_at(BEGAN_WORD)
            began = builder.load_atomic(began_at, "monotonic", 8)
            began = builder.select(builder.icmp_signed("==", began, _I64(0)), now, began)
            builder.store_atomic(began, began_at, "monotonic", 8)
            timed = builder.block
        found = builder.phi(_I64)
        found.add_incoming(_I64(0), before)
        found.add_incoming(now, timed)
        return found

    def nanoseconds(self) -> Any:
        """Return the time of a clock that never goes back."""
        words = cgutils.alloca_once(self.builder, _I64, size=2)
        clock = cgutils.get_or_insert_function(
            self.module, ir.FunctionType(_I32, [_I32, _I64.as_pointer()]), "clock_gettime"
        )
        self.builder.call(clock, [_I32(time.CLOCK_MONOTONIC), words])
        seconds = self.builder.load(words)
        rest = self.builder.load(self.builder.gep(words, [_I32(1)]))
        return self.builder.add(self.builder.mul(seconds, _I64(1_000_000_000)), rest)

    def word(self, number: int) -> Any:
        return self.builder.load(self.word_at(number))

    def set_word(self, number: int, value: Any) -> None:
        self.builder.store(value, self.word_at(number))

    def word_at(self, number: int) -> Any:
        words = self.builder.bitcast(self.launch, _I64.as_pointer())
        return self.builder.gep(words, [_I32(number)])

    def smaller(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed("<", a, b), a, b)

    def allocate(self, dynamic: Any) -> Any:
        """Return scratch memory of this call, an alignment's worth more than is used.

        If there is too little memory, the entry stores the requested size, and returns.
        """
        pointer = _BYTE.as_pointer()
        malloc = cgutils.get_or_insert_function(
            self.module, ir.FunctionType(pointer, [_I64]), "malloc"
        )
        more = _BEYOND_BYTES if self.uses_dynamic else 0
        size = self.builder.add(dynamic, _I64(self.scratch_bytes + ALIGNMENT + more))
        memory = self.builder.call(malloc, [size])
        is_missing = self.builder.icmp_unsigned("==", memory, pointer(None))
        with self.builder.if_then(is_missing, likely=False):
            self.set_word(FAILURE_WORD, size)
            self.builder.ret_void()
        return memory

    def words_behind(self, memory: Any) -> list[Any]:
        """Return the addresses, of any alignment, of the words after dynamic shared memory."""
        builder = self.builder
        nbytes = builder.add(self.word(2 + SPACE_WORDS), _I64(self.scratch_bytes))
        end = builder.gep(self.aligned(memory), [nbytes])
        words = builder.bitcast(end, _I64.as_pointer())
        return [builder.gep(words, [_I32(n)]) for n in range(_WATCHED_WORDS)]

    def aligned(self, memory: Any) -> Any:
        below = self.builder.neg(self.builder.ptrtoint(memory, _I64))
        return self.builder.gep(memory, [self.builder.and_(below, _I64(ALIGNMENT - 1))])

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
        offset = HEADER_BYTES + place.offset
        pointer = self.builder.gep(self.launch, [_I32(offset)])
        return self.builder.load(self.builder.bitcast(pointer, kind.as_pointer()))

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
