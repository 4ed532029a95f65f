"""The native handlers of signals, which run beside a launch, and stop it where one raises.

:mod:`targets.cpu.runtime.signals` says how the functions work together. None of them uses a lock,
or memory that is not there yet, while it interrupts other code.
"""

from __future__ import annotations

import platform
import signal
from collections.abc import Mapping
from typing import Any

from llvmlite import ir

from kerneldsl.launch.native.builder import I8, I32, I64, POINTER
from targets.cpu.runtime.native_tables import (
    ACTION_BYTES,
    INSTALL_HANDLERS,
    RECORD_BYTES,
    STOPPED,
    FramePlace,
    LaunchWord,
    RecordPlace,
    SignalWord,
    WatcherState,
)
from targets.cpu.runtime.native_writer import NULL, VOID, NativeFunction, Writer, compile_module
from targets.cpu.runtime.pool_code import emit_companion

__all__ = ["CAN_LEAVE_CODE", "compile_handlers"]

_STDERR = 2
#: Offset of ``si_code`` in ``siginfo_t``; a signal sent by a process has one that is not positive.
_SI_CODE = 8
#: Bytes for a number's digits.
_NUMBER_BYTES = 24
#: State of the report of a fault: not begun, being written by a thread, written.
_NOBODY, _SOMEBODY, _TOLD = 0, 1, 2


def compile_handlers() -> bytes:
    """Compile ``fault``, the functions that interrupt launches, and what stores their addresses.

    The object file defines :data:`INSTALL_HANDLERS`, ``void(ptr table)``.
    """
    module = ir.Module("kerneldsl signals")
    where = ir.GlobalVariable(module, POINTER, "table")
    where.initializer, where.linkage = ir.Constant(POINTER, None), "internal"
    _emit_number(module)
    fault = _emit_fault(module, where)
    relay = _emit_relay(module, where)
    watch = _emit_watch(module, where, relay)
    companion = emit_companion(module, where)
    rouse = _emit_rouse(module, where, _emit_watcher(module, where, companion))
    functions = {
        SignalWord.FAULT: fault,
        SignalWord.RELAY: relay,
        SignalWord.WATCH: watch,
        SignalWord.POKE: _emit_poke(module, where, watch),
        SignalWord.ENTER: _emit_enter(module, where, _emit_record(module, where), rouse),
        SignalWord.FORGET: _emit_forget(module, where),
    }
    _emit_install(module, where, functions)
    return compile_module(module, level=0)  # in a quarter of the time; few of them ever run


def _emit_install(
    module: ir.Module, where: ir.GlobalVariable, functions: Mapping[SignalWord, ir.Function]
) -> None:
    """Emit ``void install(ptr table)``, which puts the functions' addresses into the table."""
    f = NativeFunction(module, INSTALL_HANDLERS, VOID, [POINTER])
    f.store(f.args[0], where)
    for word, function in functions.items():
        f.store(f.b.ptrtoint(function, I64), f.args[0], 8 * word)
    f.done()


def _emit_number(module: ir.Module) -> None:
    """Emit ``void number(i64 value)``, which writes a number that is not negative."""
    f = NativeFunction(module, "number", VOID, [I64], is_internal=True)
    text = f.b.alloca(I8, _NUMBER_BYTES)
    before, loop, done = f.b.block, f.block("digits"), f.block("done")
    f.leave(loop)
    value, at = f.b.phi(I64), f.b.phi(I64)
    rest, place = f.b.udiv(value, I64(10)), f.b.sub(at, I64(1))
    digit = f.b.trunc(f.b.urem(value, I64(10)), I8)
    f.store(f.b.add(digit, I8(ord("0"))), f.at(text, place))
    for phi, first, later in ((value, f.args[0], rest), (at, I64(_NUMBER_BYTES), place)):
        phi.add_incoming(first, before)
        phi.add_incoming(later, loop)
    f.when(f.equal(rest, I64(0)), done, loop)
    f.named("write", I64, I32(_STDERR), f.at(text, place), f.b.sub(I64(_NUMBER_BYTES), place))
    f.done()


def _emit_fault(module: ir.Module, where: ir.GlobalVariable) -> ir.Function:
    """Emit ``void fault(i32 signal, ptr information, ptr context)``."""
    f = Writer(module, where, "fault", VOID, I32, POINTER, POINTER)
    number, information, _ = f.args
    record = f.named("pthread_getspecific", POINTER, f.b.trunc(f.word(SignalWord.KEY), I32))
    recorded, known, chain = f.block("recorded"), f.block("known"), f.block("chain")
    f.unless(f.is_null(record), recorded, chain)
    frame = f.load(record, RecordPlace.FRAME, POINTER)
    f.unless(f.is_null(frame), known, chain)
    # Pieces of text, of three words each: address, bytes, and where a number is in the launch.
    launch = f.load(frame, FramePlace.LAUNCH, POINTER)
    pieces = f.load(launch, 8 * LaunchWord.DESCRIPTION, POINTER)
    described = f.block("described")
    f.unless(f.is_null(pieces), described, chain)
    # The first of several threads that fault at once reports. Returning ends the process, so others
    # wait.
    telling = ir.GlobalVariable(module, I64, "telling")
    telling.initializer, telling.linkage = I64(_NOBODY), "internal"
    tell, wait = f.block("tell"), f.block("wait")
    won = f.b.cmpxchg(telling, I64(_NOBODY), I64(_SOMEBODY), "acq_rel", "acquire")
    f.unless(f.b.extract_value(won, 1), wait, tell)
    f.named("poll", I32, NULL, I64(0), I32(1))
    is_told = f.equal(f.b.load_atomic(telling, "acquire", 8), I64(_TOLD))
    f.b.cbranch(is_told, chain, wait)
    f.b.position_at_end(tell)
    with f.loop(f.load(pieces)) as i:
        piece = f.at(pieces, f.b.add(I64(8), f.b.mul(i, I64(24))))
        f.named("write", I64, I32(_STDERR), f.load(piece, 0, POINTER), f.load(piece, 8))
        place = f.load(piece, 16)
        show, shown = f.block("show"), f.block("shown")
        f.unless(f.b.icmp_signed("<", place, I64(0)), show, shown)
        f.b.call(module.globals["number"], [f.load(f.at(launch, place))])
        f.leave(shown)
    f.b.store_atomic(I64(_TOLD), telling, "release", 8)

    f.leave(chain)
    is_fault = f.equal(number, I32(int(signal.SIGSEGV)))
    before = f.b.select(
        is_fault,
        f.word(SignalWord.OLD_SEGMENT_FAULT, POINTER),
        f.word(SignalWord.OLD_BUS_ERROR, POINTER),
    )
    f.named("sigaction", I32, number, before, NULL)
    sent, done = f.block("sent"), f.block("done")
    # A signal that a process sent would not recur by itself.
    f.when(f.b.icmp_signed("<=", f.load(information, _SI_CODE, I32), I32(0)), sent, done)
    f.named("raise", I32, number)
    f.leave(done)
    return f.done()


# -- native code that lets handlers of signals run beside a launch, and stops it where one raise----


#: Offset of the next instruction in ``ucontext_t``, and the number of ``tgkill``, by processor.
_PROCESSORS = {"x86_64": (168, 234), "aarch64": (440, 131)}
#: Whether an entry can be interrupted at any instruction on this processor.
CAN_LEAVE_CODE = platform.machine() in _PROCESSORS
_SIGNALS = 65
#: Milliseconds between two checks of a launch, and of the threads of one that is being stopped.
_TICK_MS, _STOPPING_TICK_MS = 10, 1
#: Ticks without a launch after which the watcher sleeps until the next one.
_IDLE_TICKS = 100


def _emit_relay(module: ir.Module, where: ir.GlobalVariable) -> ir.Function:
    """Emit ``void relay(i32 signal)``, which runs before Python's handler."""
    w = Writer(module, where, "relay", VOID, I32)
    w.set_word(SignalWord.IS_PENDING, I64(1))
    w.call(w.word(SignalWord.PYTHON_HANDLER), VOID, w.args[0])
    return w.done()


def _emit_watch(module: ir.Module, where: ir.GlobalVariable, relay: ir.Function) -> ir.Function:
    """Emit ``void watch(ptr launch)``, in which the main thread runs handlers of signals.

    The thread that calls it runs the launch. In others than the main thread it does nothing.
    """
    w = Writer(module, where, "watch", VOID, POINTER)
    b = w.b
    (launch,) = w.args
    action = w.memory(-(-ACTION_BYTES // 16) * 16)
    value, kind, traceback = (w.memory(16) for _ in range(3))
    is_due, is_pending = w.word(SignalWord.IS_DUE), w.word(SignalWord.IS_PENDING)
    w.return_unless(b.icmp_unsigned("!=", b.or_(is_due, is_pending), I64(0)))
    this = w.named("PyThread_get_thread_ident", I64)
    w.return_unless(w.equal(this, w.word(SignalWord.MAIN_THREAD)))
    w.return_unless(w.is_zero(w.load(launch, 8 * LaunchWord.STOP)))
    w.set_word(SignalWord.IS_DUE, I64(0))
    # A program may set handlers, and take them back, between two launches.
    pythons, ours = w.word(SignalWord.PYTHON_HANDLER), b.ptrtoint(relay, I64)
    with w.loop(I64(_SIGNALS)) as i:
        number = b.trunc(i, I32)
        status = w.named("sigaction", I32, number, NULL, action)
        is_pythons = b.and_(w.is_zero(status), w.equal(w.load(action), pythons))
        with b.if_then(is_pythons):
            w.store(ours, action)
            w.named("sigaction", I32, number, action, NULL)
            w.set_word(SignalWord.IS_PENDING, I64(1))  # it may have come before this
    was_pending = w.exchange(w.word_at(SignalWord.IS_PENDING), I64(0))
    w.return_unless(b.icmp_unsigned("!=", was_pending, I64(0)))

    state = w.named("PyGILState_Ensure", I32)
    with b.if_then(w.is_zero(w.named("PyErr_CheckSignals", I32))):
        answer = w.named("PyObject_CallNoArgs", POINTER, w.word(SignalWord.AFTER_HANDLERS, POINTER))
        w.named("Py_DecRef", VOID, answer)  # which may be null
    with b.if_then(b.not_(w.is_null(w.named("PyErr_Occurred", POINTER)))):
        w.named("PyErr_Fetch", VOID, kind, value, traceback)
        w.named("PyErr_NormalizeException", VOID, kind, value, traceback)
        raised, trace = w.load(value, 0, POINTER), w.load(traceback, 0, POINTER)
        with b.if_then(b.not_(w.is_null(trace))):
            w.named("PyException_SetTraceback", I32, raised, trace)
        w.named("Py_DecRef", VOID, trace)
        w.named("Py_DecRef", VOID, w.load(kind, 0, POINTER))
        w.set_word(SignalWord.RAISED, b.ptrtoint(raised, I64))
        w.store(I64(STOPPED), launch, 8 * LaunchWord.FAILURE)
        w.exchange(w.at(launch, 8 * LaunchWord.STOP), I64(1))
        w.set_word(SignalWord.IS_STOPPING, I64(1))
    w.named("PyGILState_Release", VOID, state)
    return w.done()


def _emit_poke(module: ir.Module, where: ir.GlobalVariable, watch: ir.Function) -> ir.Function:
    """Emit ``void poke(i32 signal, ptr information, ptr context)``, a handler of signals.

    It does something only if it interrupts an instruction of the kernel itself. There no lock is
    held, and nothing is half done except what the kernel does with its arrays.
    """
    w = Writer(module, where, "poke", VOID, I32, POINTER, POINTER)
    b = w.b
    record = w.named("pthread_getspecific", POINTER, b.trunc(w.word(SignalWord.KEY), I32))
    w.return_unless(b.not_(w.is_null(record)))
    frame = w.load(record, RecordPlace.FRAME, POINTER)
    w.return_unless(b.not_(w.is_null(frame)))
    launch = w.load(frame, FramePlace.LAUNCH, POINTER)
    code = w.load(launch, 8 * LaunchWord.CODE, POINTER)
    w.return_unless(b.not_(w.is_null(code)))
    at = w.load(w.args[2], _PROCESSORS.get(platform.machine(), (0, 0))[0])
    w.return_unless(b.icmp_unsigned(">=", at, w.load(code)))
    w.return_unless(b.icmp_unsigned("<", at, w.load(code, 8)))
    b.call(watch, [launch])
    stop = b.load_atomic(w.at(launch, 8 * LaunchWord.STOP), "acquire", 8, typ=I64)
    w.return_unless(b.not_(w.is_zero(stop)))
    w.return_unless(b.not_(w.is_zero(w.load(frame, FramePlace.CAN_LEAVE))))
    w.named("longjmp", VOID, w.at(frame, FramePlace.BUFFER), I32(1))
    return w.done()


# -- threads that run launches --------------------------------------------------------------------


def _emit_record(module: ir.Module, where: ir.GlobalVariable) -> ir.Function:
    """Emit ``ptr record()``, which makes the record of this thread, or takes that of an ended one.

    Without memory it is never looked for.
    """
    w = Writer(module, where, "record", POINTER)
    b = w.b
    nowhere = ir.GlobalVariable(module, ir.ArrayType(I64, RECORD_BYTES // 8), "nowhere")
    nowhere.initializer, nowhere.linkage = ir.Constant(nowhere.value_type, None), "internal"
    this = w.named("PyThread_get_thread_native_id", I64)
    key = b.trunc(w.word(SignalWord.KEY), I32)
    head, look, new, found = (w.block(name) for name in ("head", "look", "new", "found"))
    place = w.memory(16)
    w.store(w.word(SignalWord.RECORDS), place)
    w.leave(head)
    record = w.load(place, 0, POINTER)
    w.unless(w.is_null(record), look, new)
    w.store(w.load(record, RecordPlace.NEXT), place)
    taken = b.cmpxchg(w.at(record, RecordPlace.THREAD_ID), I64(0), this, "seq_cst", "seq_cst")
    with b.if_then(b.extract_value(taken, 1)):
        w.store(b.ptrtoint(record, I64), place)
        b.branch(found)
    w.leave(head, new)
    made = w.named("calloc", POINTER, I64(1), I64(RECORD_BYTES))
    with b.if_then(w.is_null(made)):
        b.ret(b.inttoptr(b.ptrtoint(nowhere, I64), POINTER))
    w.store(this, made, RecordPlace.THREAD_ID)
    w.store(b.ptrtoint(made, I64), place)
    push = w.block("push")
    w.leave(push)
    newest = w.word(SignalWord.RECORDS)
    w.store(newest, made, RecordPlace.NEXT)
    pushed = b.cmpxchg(
        w.word_at(SignalWord.RECORDS), newest, b.ptrtoint(made, I64), "seq_cst", "seq_cst"
    )
    w.when(b.extract_value(pushed, 1), found, push)
    record = w.load(place, 0, POINTER)
    thread = w.named("PyThread_get_thread_ident", I64)
    with b.if_then(w.equal(thread, w.word(SignalWord.MAIN_THREAD))):
        w.set_word(SignalWord.MAIN_RECORD, b.ptrtoint(record, I64))
    w.named("pthread_setspecific", I32, key, record)
    b.ret(record)
    return w.function


def _emit_enter(
    module: ir.Module, where: ir.GlobalVariable, make: ir.Function, rouse: ir.Function
) -> ir.Function:
    """Emit ``void enter(ptr frame)``, which an entry calls before it runs the kernel."""
    w = Writer(module, where, "enter", VOID, POINTER)
    b = w.b
    (frame,) = w.args
    known = w.named("pthread_getspecific", POINTER, b.trunc(w.word(SignalWord.KEY), I32))
    before = b.block
    with b.if_then(w.is_null(known), likely=False):
        made = b.call(make, [])
        making = b.block
    record = w.join(POINTER, (known, before), (made, making))
    w.store(w.load(record, RecordPlace.FRAME), frame, FramePlace.PREVIOUS)
    w.store(b.ptrtoint(record, I64), frame, FramePlace.RECORD)
    w.store(b.ptrtoint(frame, I64), record, RecordPlace.FRAME)
    is_awake = w.equal(w.word(SignalWord.WATCHER), I64(WatcherState.AWAKE))
    with b.if_then(b.not_(is_awake), likely=False):
        b.call(rouse, [])
    return w.done()


def _emit_forget(module: ir.Module, where: ir.GlobalVariable) -> ir.Function:
    """Emit ``void forget(ptr record)``, which is called where a thread with a record ends."""
    w = Writer(module, where, "forget", VOID, POINTER)
    w.exchange(w.at(w.args[0], RecordPlace.FRAME), I64(0))
    w.exchange(w.at(w.args[0], RecordPlace.THREAD_ID), I64(0))
    return w.done()


# -- the thread that watches ----------------------------------------------------------------------


def _poke(w: Writer, thread: Any) -> None:
    """Send a thread the signal that :func:`_emit_poke` handles; nothing if it has ended."""
    kind = ir.FunctionType(I64, [I64], var_arg=True)
    module = w.function.module
    known = module.globals.get("syscall")
    system_call = known or ir.Function(module, kind, "syscall")
    number = _PROCESSORS.get(platform.machine(), (0, -1))[1]
    process = w.b.sext(w.named("getpid", I32), I64)
    w.b.call(system_call, [I64(number), process, thread, I64(int(signal.SIGURG))])


def _is_launching(w: Writer) -> Any:
    """Return whether the main thread runs a launch, or waits for threads that do."""
    b = w.b
    record = w.word(SignalWord.MAIN_RECORD, POINTER)
    before = b.block
    with b.if_then(b.not_(w.is_null(record))):
        running = w.load(record, RecordPlace.FRAME)
        known = b.block
    frame = w.join(I64, (I64(0), before), (running, known))
    return b.icmp_unsigned("!=", b.or_(frame, w.word(SignalWord.CURRENT)), I64(0))


def _emit_watcher(
    module: ir.Module, where: ir.GlobalVariable, companion: ir.Function
) -> ir.Function:
    """Emit ``ptr watcher(ptr nothing)``, which a thread runs permanently."""
    w = Writer(module, where, "watcher", POINTER, POINTER)
    b = w.b
    idle, place, heard = w.memory(16), w.memory(16), w.memory(16)
    w.store(I64(0), idle)
    w.store(I64(0), heard)
    tick, watched, quiet, sleep, wait = (
        w.block(name) for name in ("tick", "watched", "quiet", "sleep", "wait")
    )

    def pause(ms: Any) -> None:
        w.named("poll", I32, NULL, I64(0), ms)

    w.leave(tick)
    is_stopping = b.icmp_unsigned("!=", w.word(SignalWord.IS_STOPPING), I64(0))
    pause(b.select(is_stopping, I32(_STOPPING_TICK_MS), I32(_TICK_MS)))

    w.when(_is_launching(w), watched, quiet)
    w.store(I64(0), idle)
    is_stopping = b.icmp_unsigned("!=", w.word(SignalWord.IS_STOPPING), I64(0))
    with b.if_else(is_stopping) as (stop, go_on):
        with stop:
            _poke_running(w, place)
        with go_on:
            w.set_word(SignalWord.IS_DUE, I64(1))
            _poke(w, w.word(SignalWord.MAIN_THREAD_ID))
    bell = w.word(SignalWord.BELL, POINTER)
    with b.if_then(b.not_(w.is_null(bell))):
        rung = w.load(bell)
        with b.if_then(b.icmp_unsigned("!=", rung, w.load(heard))):
            w.store(rung, heard)
            before = w.exchange(w.word_at(SignalWord.COMPANION), I64(1))
            with b.if_then(w.is_zero(before)):
                w.start_thread(companion)

    w.leave(tick, quiet)
    w.set_word(SignalWord.IS_STOPPING, I64(0))
    ticks = b.add(w.load(idle), I64(1))
    w.store(ticks, idle)
    w.when(b.icmp_signed(">", ticks, I64(_IDLE_TICKS)), sleep, tick)
    w.store(I64(0), idle)
    w.set_word(SignalWord.WATCHER, I64(WatcherState.ASLEEP))
    # A launch that has begun by now may not have seen it, and is seen here after a while.
    pause(I32(_TICK_MS))
    with b.if_then(_is_launching(w)):
        before = w.exchange(w.word_at(SignalWord.WATCHER), I64(WatcherState.AWAKE))
        b.cbranch(w.equal(before, I64(WatcherState.ASLEEP)), tick, wait)
    w.leave(wait)
    woken = w.named("sem_wait", I32, w.word_at(SignalWord.SEMAPHORE))
    b.cbranch(w.is_zero(woken), tick, wait)
    return w.function


def _poke_running(w: Writer, place: Any) -> None:
    """Poke all threads that run a launch; those of others go on. `place` is memory for a word."""
    b = w.b
    head, look, done = w.block("head"), w.block("look"), w.block("looked")
    w.store(w.word(SignalWord.RECORDS), place)
    w.leave(head)
    record = w.load(place, 0, POINTER)
    w.unless(w.is_null(record), look, done)
    w.store(w.load(record, RecordPlace.NEXT), place)
    with b.if_then(b.not_(w.is_zero(w.load(record, RecordPlace.FRAME)))):
        _poke(w, w.load(record, RecordPlace.THREAD_ID))
    w.leave(head, done)


def _emit_rouse(module: ir.Module, where: ir.GlobalVariable, watcher: ir.Function) -> ir.Function:
    """Emit ``void rouse()``, which starts or wakes the watcher where the main thread launches."""
    w = Writer(module, where, "rouse", VOID)
    b = w.b
    w.return_unless(_is_launching(w))
    semaphore = w.word_at(SignalWord.SEMAPHORE)
    before = w.exchange(w.word_at(SignalWord.WATCHER), I64(WatcherState.AWAKE))
    with b.if_then(w.equal(before, I64(WatcherState.ASLEEP))):
        w.named("sem_post", I32, semaphore)
    with b.if_then(w.equal(before, I64(WatcherState.NOT_STARTED))):
        w.named("sem_init", I32, semaphore, I32(0), I32(0))
        w.start_thread(watcher)
    return w.done()
