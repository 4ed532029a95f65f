"""The function that runs a kernel's units piece by piece, the same for all kernels.

The entry of a kernel (:mod:`targets.cpu.regions.compile`) calls it with the kernel's own function,
which unpacks the arguments and calls the body. It takes scratch memory, and checks between two
pieces whether the launch is stopped. A signal may make it leave the body at any instruction
(:mod:`targets.cpu.runtime.signals`). So it consists of two functions: one runs the pieces, and the
outer one has the memory and C's ``setjmp``.
"""

from __future__ import annotations

import time
from typing import Any

from llvmlite import ir

from kerneldsl.launch.native.builder import I32, I64, POINTER
from targets.cpu.runtime.native_tables import (
    ALIGNMENT,
    FRAME_BYTES,
    IS_SUPPORTED,
    OVERRUN,
    RUNNER,
    STOPPED,
    FramePlace,
    LaunchWord,
    RecordPlace,
    RunnerOption,
)
from targets.cpu.runtime.native_writer import NULL, VOID, NativeFunction, compile_module

__all__ = ["RUNNER_TYPE", "compile_runner", "write_runner"]

#: ``void(ptr range, ptr count, ptr launch, ptr piece, i64 scratch_bytes, i64 options)``; `piece` is
#: ``i64(i64 first, i64 last, ptr scratch, ptr launch)``, which returns minus what the word
#: `FAILURE` says of an exception, or 0.
RUNNER_TYPE = ir.FunctionType(VOID, [POINTER, POINTER, POINTER, POINTER, I64, I64])
#: Unused bytes after dynamic shared memory, and the number of words of them that are compared with
#: their initial value after a launch. A kernel that writes there uses more memory than the launch
#: has.
_BEYOND_BYTES, _WATCHED_WORDS, _UNTOUCHED = 1 << 16, 8, 0x5EA1ED5EA1ED5EA1
#: Nanoseconds of a short and of a long piece of a launch. After a shorter one, the next one has
#: this multiple of its units, and after a longer one half. So a launch can stop within 100 ms.
_SHORT_NS, _LONG_NS, _GROWTH = 1_000_000, 10_000_000, 4


def compile_runner() -> bytes:
    """Return an object file that defines `RUNNER`, which holds no address of this process."""
    module = ir.Module("kerneldsl runner")
    write_runner(module)
    return compile_module(module, level=2, optimizes=True)


def write_runner(module: ir.Module, *, is_internal: bool = False) -> ir.Function:
    """Write the function into a module; one that `is_internal` is called there alone."""
    pieces = _Pieces(module).write()
    return _Runner(module, pieces, is_internal=is_internal).write()


class _Runner:
    """Writes the outer function."""

    def __init__(self, module: ir.Module, pieces: ir.Function, *, is_internal: bool) -> None:
        self._module, self._pieces = module, pieces
        kinds = list(RUNNER_TYPE.args)
        self.f = NativeFunction(module, RUNNER, VOID, kinds, is_internal=is_internal)
        _, _, self._launch, _, self._scratch_bytes, self._options = self.f.args

    def write(self) -> ir.Function:
        f, b = self.f, self.f.b
        ranges, counts, launch, piece, *_ = f.args
        start, count = f.load(ranges), f.load(counts)
        memory, scratch = (self._slot(POINTER) for _ in range(2))
        exception = self._slot(I64)
        for slot in (memory, scratch):
            b.store(NULL, slot)
        with b.if_then(self._has(RunnerOption.SCRATCH)):
            self._allocate(memory, scratch)
        values = (start, count, launch, piece)
        if IS_SUPPORTED:
            self._guard(values, scratch, exception)
        else:
            b.store(self._run(values, scratch), exception)
        with b.if_then(self._has(RunnerOption.SCRATCH)):
            self._free(memory, scratch)
        found = b.load(exception, typ=I64)
        with b.if_then(b.icmp_signed("!=", found, I64(0)), likely=False):
            self._set_word(LaunchWord.FAILURE, b.neg(found))
        b.ret_void()
        return f.function

    def _slot(self, kind: Any) -> Any:
        return self.f.memory(8) if kind is POINTER else self.f.b.alloca(kind)

    def _has(self, option: RunnerOption) -> Any:
        chosen = self.f.b.and_(self._options, I64(option))
        return self.f.b.icmp_unsigned("!=", chosen, I64(0))

    def _word(self, number: int) -> Any:
        return self.f.load(self._launch, 8 * number)

    def _set_word(self, number: int, value: Any) -> None:
        self.f.store(value, self._launch, 8 * number)

    def _run(self, values: tuple[Any, ...], scratch: Any) -> Any:
        return self.f.b.call(self._pieces, [*values, self.f.b.load(scratch, typ=POINTER)])

    # Scratch memory

    def _allocate(self, memory: Any, scratch: Any) -> None:
        """Take scratch memory, an alignment's worth more than is used.

        If there is too little memory, the function stores the requested size, and returns.
        """
        f, b = self.f, self.f.b
        has_dynamic = self._has(RunnerOption.DYNAMIC)
        more = b.select(has_dynamic, I64(_BEYOND_BYTES + ALIGNMENT), I64(ALIGNMENT))
        used = b.add(self._word(LaunchWord.SHARED_BYTES), self._scratch_bytes)
        size = b.add(used, more)
        taken = f.named("malloc", POINTER, size)
        with b.if_then(f.is_null(taken), likely=False):
            self._set_word(LaunchWord.FAILURE, size)
            b.ret_void()
        below = b.neg(b.ptrtoint(taken, I64))
        start = f.at(taken, b.and_(below, I64(ALIGNMENT - 1)))
        b.store(taken, memory)
        b.store(start, scratch)
        with b.if_then(has_dynamic):
            for number in range(_WATCHED_WORDS):
                f.store(I64(_UNTOUCHED), f.at(f.at(start, used), 8 * number))

    def _free(self, memory: Any, scratch: Any) -> None:
        """Give the memory back, unless words after it have changed: the heap may be damaged."""
        f, b = self.f, self.f.b
        overrun = self._slot(I64)
        b.store(I64(0), overrun)
        with b.if_then(self._has(RunnerOption.DYNAMIC)):
            used = b.add(self._word(LaunchWord.SHARED_BYTES), self._scratch_bytes)
            after = f.at(b.load(scratch, typ=POINTER), used)
            changed: Any = I64(0)
            for number in range(_WATCHED_WORDS):
                found = f.load(f.at(after, 8 * number))
                changed = b.or_(changed, b.xor(found, I64(_UNTOUCHED)))
            b.store(changed, overrun)
        is_beyond = b.icmp_unsigned("!=", b.load(overrun, typ=I64), I64(0))
        with b.if_else(is_beyond, likely=False) as (then, otherwise):
            with then:
                failure = self._word(LaunchWord.FAILURE)
                has_none = b.icmp_signed("==", failure, I64(0))
                self._set_word(LaunchWord.FAILURE, b.select(has_none, I64(OVERRUN), failure))
            with otherwise:
                f.named("free", VOID, b.load(memory, typ=POINTER))

    # Signals

    def _guard(self, values: tuple[Any, ...], scratch: Any, exception: Any) -> None:
        """Run the pieces within a frame, by which signals find the launch and leave the body.

        `exception` is where the address of what is said of an exception is stored, or 0.
        """
        f, b = self.f, self.f.b
        frame = f.memory(FRAME_BYTES)
        enter = self._word(LaunchWord.ENTER)
        has_frame = b.icmp_unsigned("!=", enter, I64(0))
        may_leave = self._has(RunnerOption.LEAVE)
        f.store(self._launch, frame, FramePlace.LAUNCH)
        can_leave = b.zext(b.and_(may_leave, has_frame), I64)
        f.store(can_leave, frame, FramePlace.CAN_LEAVE)
        keep, begin, left, done = (f.block(n) for n in ("keep", "begin", "left", "done"))
        f.when(may_leave, keep, begin)
        set_jump = f.declared("_setjmp", I32, POINTER)
        set_jump.attributes.add("returns_twice")
        again = b.call(set_jump, [f.at(frame, FramePlace.BUFFER)])
        f.when(b.icmp_signed("==", again, I32(0)), begin, left)
        with b.if_then(has_frame, likely=True):
            f.call(enter, VOID, frame)
        b.store(self._run(values, scratch), exception)
        f.leave(done, left)
        self._set_word(LaunchWord.FAILURE, I64(STOPPED))
        b.store(I64(0), exception)
        f.leave(done)
        with b.if_then(has_frame, likely=True):
            record = f.load(frame, FramePlace.RECORD, POINTER)
            f.store(f.load(frame, FramePlace.PREVIOUS), record, RecordPlace.FRAME)


class _Pieces:
    """Writes ``i64 pieces(i64 start, i64 count, ptr launch, ptr piece, ptr scratch)``.

    After a short piece the next one is longer, and after a long one shorter. So the checks take
    little time and are frequent. A long launch calls the watcher. The function returns the address
    of the description of an exception that ended a piece, or 0.
    """

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        kinds = [I64, I64, POINTER, POINTER, POINTER]
        self.f = NativeFunction(module, f"{RUNNER}_pieces", I64, kinds, is_internal=True)
        # LLVM optimizes less beside `setjmp`.
        self.f.function.attributes.add("noinline")
        self._start, self._count, self._launch, self._piece, self._scratch = self.f.args

    def write(self) -> ir.Function:
        f, b = self.f, self.f.b
        step, total = f.load(self._launch), f.load(self._launch, 8)
        first = b.mul(self._start, step)
        last = self._smaller(b.mul(b.add(self._start, self._count), step), total)
        b.ret(self._in_pieces(first, last) if IS_SUPPORTED else self._run(first, last))
        return f.function

    def _run(self, first: Any, last: Any) -> Any:
        return self.f.call(self._piece, I64, first, last, self._scratch, self._launch)

    def _in_pieces(self, first: Any, last: Any) -> Any:
        f, b = self.f, self.f.b
        loop, late, look, go_on, more, stopped, done = (
            f.block(name)
            for name in ("piece", "late", "look", "go_on", "more", "stopped", "pieces_done")
        )
        first_units = f.load(self._launch, 8 * LaunchWord.FIRST_UNITS)
        began = self._nanoseconds_in(first, last, first_units)
        before = b.block
        f.leave(loop)
        at, units, start = (b.phi(I64) for _ in range(3))
        since = b.sub(start, self._atomic(LaunchWord.BEGAN))
        is_late = b.icmp_signed(">", since, I64(_SHORT_NS))
        f.when(is_late, late, look).set_weights([1, 1000])
        watch = self._atomic(LaunchWord.WATCH)
        with b.if_then(b.icmp_signed("!=", watch, I64(0))):
            f.call(watch, VOID, self._launch)
        f.leave(look)
        # A signal sets it, so it is read again each time.
        is_stopped = b.icmp_signed("!=", self._atomic(LaunchWord.STOP), I64(0))
        f.unless(is_stopped, go_on, stopped)
        end = self._smaller(b.add(at, units), last)
        exception = self._run(at, end)
        has_failed = b.icmp_signed("!=", exception, I64(0))
        is_over = b.or_(has_failed, b.icmp_signed(">=", end, last))
        from_piece = b.block
        b.cbranch(is_over, done, more)
        b.position_at_end(stopped)
        f.store(I64(STOPPED), self._launch, 8 * LaunchWord.FAILURE)
        f.leave(done, more)
        now = self._nanoseconds()
        spent = b.sub(now, start)
        longer = b.icmp_signed("<", spent, I64(_SHORT_NS))
        shorter = b.icmp_signed(">", spent, I64(_LONG_NS))
        halved = b.lshr(units, I64(1))
        fewer = b.select(b.icmp_signed(">", halved, I64(1)), halved, I64(1))
        following = b.select(shorter, fewer, units)
        following = b.select(longer, b.mul(units, I64(_GROWTH)), following)
        for phi, initial, later in (
            (at, first, end),
            (units, first_units, following),
            (start, began, now),
        ):
            phi.add_incoming(initial, before)
            phi.add_incoming(later, b.block)
        f.leave(loop, done)
        return f.join(I64, (exception, from_piece), (I64(0), stopped))

    def _nanoseconds_in(self, first: Any, last: Any, first_units: Any) -> Any:
        """Return the time if there are several pieces, or a step before this one; else 0.

        The first thread that reads it stores the begin of the launch.
        """
        b = self.f.b
        has_pieces = b.icmp_signed(">", b.sub(last, first), first_units)
        is_later = b.icmp_signed(">", self._start, I64(0))
        before = b.block
        with b.if_then(b.or_(has_pieces, is_later)):
            now = self._nanoseconds()
            began = self._atomic(LaunchWord.BEGAN)
            began = b.select(b.icmp_signed("==", began, I64(0)), now, began)
            number = b.ptrtoint(self._atomic_at(LaunchWord.BEGAN), I64)
            # llvmlite stores atomically at an address with a type alone.
            b.store_atomic(began, b.inttoptr(number, I64.as_pointer()), "monotonic", 8)
            timed = b.block
        return self.f.join(I64, (I64(0), before), (now, timed))

    def _nanoseconds(self) -> Any:
        """Return the time of a clock that never goes back."""
        f, b = self.f, self.f.b
        with b.goto_entry_block():
            words = f.address(b.alloca(I64, size=2))
        f.named("clock_gettime", I32, I32(time.CLOCK_MONOTONIC), words)
        return b.add(b.mul(f.load(words), I64(1_000_000_000)), f.load(words, 8))

    def _atomic_at(self, number: int) -> Any:
        return self.f.at(self._launch, 8 * number)

    def _atomic(self, number: int) -> Any:
        return self.f.b.load_atomic(self._atomic_at(number), "monotonic", 8, typ=I64)

    def _smaller(self, a: Any, b: Any) -> Any:
        return self.f.b.select(self.f.b.icmp_signed("<", a, b), a, b)
