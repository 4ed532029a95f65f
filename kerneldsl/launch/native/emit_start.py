"""Emission of the native code that starts a kernel, by the kind of its entry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from kerneldsl.contract import MemoryType
from kerneldsl.contract.launch_counter import EVERY, LONG_NS, CounterWord
from kerneldsl.launch.native.builder import I32, I64, POINTER, Function
from kerneldsl.launch.native.launch_table import DriverWord, EntryKind, HostWord, Word
from kerneldsl.launch.native.map_records import emit_maps

__all__ = ["emit_start", "emit_timed_start"]

#: Keys of ``cuLaunchKernel``'s `extra` (CUDA Driver API, "Execution Control").
_EXTRA_END, _EXTRA_BUFFER, _EXTRA_SIZE = 0, 1, 2
#: Words of ``CUlaunchAttribute``, and the identifier of
#: ``CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION``.
_ATTRIBUTE_WORDS, _MAY_BE_EARLY = 9, 6


def emit_start(module: ir.Module) -> Any:
    """Emit ``i32 start(ptr table, ptr buffer)``: 1 where the kernel was started, else 0.

    -1 is a kernel that failed; its error is raised.
    """
    maps = emit_maps(module)
    f = Function(module, "start", I32, [POINTER, POINTER], is_internal=True)
    table, buffer = f.args
    bad = f.block("bad")
    _require_default_stream(f, table, bad)
    switch = f.b.switch(f.load(table, 8 * Word.ENTRY), bad)
    f.case(switch, EntryKind.HOST, "host")
    _start_on_host(f, table, buffer, bad)
    f.case(switch, EntryKind.DRIVER, "driver")
    count, go_on, encode = _word(f, table, DriverWord.MAP_COUNT), f.block("mapped"), f.block("maps")
    f.unless(f.equal(count, I64(0)), encode, go_on)
    records, function = (_word(f, table, each) for each in (DriverWord.MAPS, DriverWord.ENCODE))
    encoded = f.b.call(maps, [f.b.inttoptr(records, POINTER), count, function, buffer])
    f.when(f.equal(encoded, I32(1)), go_on, bad)
    _start_by_driver(f, table, buffer, bad)
    return f.refuse(bad)


def emit_timed_start(module: ir.Module, clock: tuple[int, int] | None) -> Any:
    """Emit the same with the time of the kernel's code in the counter, of host entries alone.

    It refuses without a clock, and for a driver's entry: the device times its launches.
    """
    f = Function(module, "start_timed", I32, [POINTER, POINTER], is_internal=True)
    table, buffer = f.args
    bad = f.block("bad")
    if clock is None:
        f.b.branch(bad)
        return f.refuse(bad)
    f.require(f.equal(f.load(table, 8 * Word.ENTRY), I64(EntryKind.HOST)), bad)
    _require_default_stream(f, table, bad)
    _start_on_host(f, table, buffer, bad, _Stopwatch(f, table, *clock))
    return f.refuse(bad)


class _Stopwatch:
    """Reads the clock before and after a kernel's code, and adds the time to the counter.

    What reading it takes is measured each time, and is not in the time.
    """

    def __init__(self, f: Function, table: Any, clock: int, number: int) -> None:
        self._f, self._table = f, table
        self._clock, self._number = clock, number
        self._room = f.b.alloca(I64, size=2)
        self._elapsed = f.b.alloca(I64)

    def begin(self) -> Any:
        """Read the clock twice; returns when the kernel's code may be said to begin."""
        first = self._now()
        second = self._now()
        return self._f.b.sub(self._f.b.add(second, second), first)

    def end(self, began: Any) -> None:
        """Read the clock after the kernel's code."""
        f = self._f
        elapsed = f.b.sub(self._now(), began)
        is_some = f.b.icmp_signed(">", elapsed, I64(0))
        f.store(f.b.select(is_some, elapsed, I64(0)), self._elapsed)

    def add(self) -> None:
        """Add the time, and say which launch is timed next; under the interpreter's lock."""
        f = self._f
        counter = f.load(self._table, 8 * Word.COUNTER, POINTER)
        interval = f.load(counter, 8 * CounterWord.INTERVAL)
        for which, more in (
            (CounterWord.WEIGHTED_NS, f.b.mul(f.load(self._elapsed), interval)),
            (CounterWord.WEIGHT, interval),
        ):
            f.store(f.b.add(f.load(counter, 8 * which), more), counter, 8 * which)
        # Two samples follow each other at once where the clock costs less than a hundredth of them.
        most = f.b.sdiv(I64(LONG_NS), f.b.or_(f.load(self._elapsed), I64(1)))
        following = self._least(f.b.add(interval, interval), self._least(most, I64(EVERY)))
        is_some = f.b.icmp_signed(">", following, I64(0))
        following = f.b.select(is_some, following, I64(1))
        f.store(following, counter, 8 * CounterWord.INTERVAL)
        f.store(following, counter, 8 * CounterWord.LEFT)

    def _least(self, one: Any, other: Any) -> Any:
        return self._f.b.select(self._f.b.icmp_signed("<", one, other), one, other)

    def _now(self) -> Any:
        f = self._f
        f.call(f.pointer(self._clock), I32, I32(self._number), self._room)
        return f.b.add(f.b.mul(f.load(self._room), I64(10**9)), f.load(self._room, 8))


def _require_default_stream(f: Function, table: Any, bad: Any) -> None:
    """Go on where other libraries, if they have a say, work in the default stream now."""
    failed = f.block("no_stream")
    current_stream = _word(f, table, Word.CURRENT_STREAM)
    ask, known = f.block("ask_for_stream"), f.block("stream_known")
    f.unless(f.equal(current_stream, I64(0)), ask, known)
    stream = f.variable(I64(-1))
    device = f.b.trunc(_word(f, table, Word.DEVICE_INDEX), I32)
    status = f.call(current_stream, I32, I32(MemoryType.CUDA), device, stream)
    f.require(f.equal(status, I32(0)), failed)

    f.when(f.equal(f.load(stream), I64(0)), known, bad)
    getter = f.load(table, 8 * Word.STREAM_GETTER, POINTER)
    call, go_on = f.block("call_for_stream"), f.block("streams_known")
    f.unless(f.is_null(getter), call, go_on)
    found = f.python("PyObject_CallNoArgs", POINTER, getter)
    f.require(f.b.not_(f.is_null(found)), failed)
    name = f.load(table, 8 * Word.STREAM_HANDLE, POINTER)
    handle = f.python("PyObject_GetAttr", POINTER, found, name)
    f.python("Py_DecRef", ir.VoidType(), found)
    f.require(f.b.not_(f.is_null(handle)), failed)
    # The value of an int; anything else is an error, and -1.
    number = f.python("PyLong_AsLongLong", I64, handle)
    f.python("Py_DecRef", ir.VoidType(), handle)
    f.unless(f.equal(number, I64(0)), failed, go_on)
    f.python("PyErr_Clear", ir.VoidType())
    f.leave(bad, go_on)


def _word(f: Function, table: Any, which: int) -> Any:
    return f.load(table, 8 * which)


def _start_on_host(
    f: Function, table: Any, buffer: Any, bad: Any, stopwatch: _Stopwatch | None = None
) -> None:
    """Run the entry; others may run Python meanwhile."""
    base = f.variable(I64(0))
    count = f.variable(_word(f, table, HostWord.RANGE))
    step = f.variable(I64(1))
    address = _word(f, table, HostWord.ADDRESS)
    parallel_for = _word(f, table, HostWord.PARALLEL_FOR)
    threads = f.b.trunc(_word(f, table, HostWord.THREADS), I32)
    running = f.load(table, 8 * HostWord.RUNNING, POINTER)
    alone, shared, finished = f.block("alone"), f.block("shared"), f.block("finished")

    f.when(f.equal(parallel_for, I64(0)), alone, shared)
    with _without_lock(f, table, buffer, stopwatch):
        f.call(address, ir.VoidType(), base, count, step, buffer)

    f.leave(finished, shared)
    f.store(f.b.add(f.load(running), I64(1)), running)
    with _without_lock(f, table, buffer, stopwatch):
        function = f.b.inttoptr(address, POINTER)
        share = (function, base, count, step, buffer, I64(0), I64(1), threads)
        f.call(parallel_for, ir.VoidType(), *share)
    f.store(f.b.sub(f.load(running), I64(1)), running)

    f.leave(finished)
    fail = f.load(table, 8 * HostWord.FAIL, POINTER)
    good, asked, failed = f.block("good"), f.block("asked"), f.block("failed")
    f.unless(f.is_null(fail), asked, good)
    told = f.load(f.at(buffer, _word(f, table, HostWord.FAILURE)))
    f.unless(f.equal(told, I64(0)), failed, good).set_weights([1000, 1])
    value = f.python("PyLong_FromLongLong", POINTER, told)
    f.python("PyObject_CallOneArg", POINTER, fail, value)
    f.python("Py_DecRef", ir.VoidType(), value)
    f.b.ret(I32(-1))
    f.b.position_at_end(good)
    if stopwatch is not None:
        stopwatch.add()
    f.b.ret(I32(1))


@contextmanager
def _without_lock(
    f: Function, table: Any, buffer: Any, stopwatch: _Stopwatch | None
) -> Iterator[None]:
    """Write the body of a stretch in which others may run Python; it is timed by a stopwatch."""
    state = f.python("PyEval_SaveThread", POINTER)
    told, before = _tell(f, table, buffer)
    began = None if stopwatch is None else stopwatch.begin()
    yield
    if stopwatch is not None:
        stopwatch.end(began)
    f.store(before, told)
    f.python("PyEval_RestoreThread", ir.VoidType(), state)


def _tell(f: Function, table: Any, buffer: Any) -> tuple[Any, Any]:
    """Store the place at which the main thread waits for the launch.

    Returns the address of that place, and its former value: a handler of a signal may launch while
    its thread waits for another launch.
    """
    nowhere = f.variable(I64(0))
    address = _word(f, table, HostWord.CURRENT)
    before, ask, known = f.b.block, f.block("which_thread"), f.block("thread_known")
    f.unless(f.equal(address, I64(0)), ask, known)
    this = f.python("PyThread_get_thread_ident", I64)
    is_main = f.equal(this, f.load(f.load(table, 8 * HostWord.MAIN_THREAD, POINTER)))
    found = f.b.select(is_main, f.b.inttoptr(address, POINTER), nowhere)
    f.leave(known)
    told = f.join(POINTER, (nowhere, before), (found, ask))
    earlier = f.load(told)
    f.store(f.b.ptrtoint(buffer, I64), told)
    return told, earlier


def _start_by_driver(f: Function, table: Any, buffer: Any, bad: Any) -> None:
    """Call the driver in the device's context, and put back what was current before.

    The interpreter's lock is given up meanwhile: where the device's queue is full the driver waits,
    perhaps for a callback that needs the lock.
    """
    current = f.variable(I64(0))
    size = f.variable(_word(f, table, Word.PARAMETER_BYTES))
    extra = f.b.alloca(I64, size=5)
    address = f.b.ptrtoint(f.at(buffer, _word(f, table, Word.PARAMETERS)), I64)
    for i, value in enumerate(
        (I64(_EXTRA_BUFFER), address, I64(_EXTRA_SIZE), f.b.ptrtoint(size, I64), I64(_EXTRA_END))
    ):
        f.store(value, extra, 8 * i)
    addresses, are_alone = _addresses(f, table, address)
    has_no_buffer = f.b.or_(f.equal(f.load(size), I64(0)), are_alone)
    extra_or_null = f.b.select(has_no_buffer, I64(0), f.b.ptrtoint(extra, I64))
    state = f.python("PyEval_SaveThread", POINTER)
    wanted = _word(f, table, DriverWord.CONTEXT)
    failed = f.call(_word(f, table, DriverWord.GET_CONTEXT), I32, current)
    failure, switched, ready = f.block("failure"), f.block("switch_context"), f.block("ready")
    f.require(f.equal(failed, I32(0)), failure)
    before = f.load(current)
    f.unless(f.equal(before, wanted), switched, ready)
    failed = f.call(_word(f, table, DriverWord.SET_CONTEXT), I32, wanted)
    f.require(f.equal(failed, I32(0)), failure)

    f.leave(ready)
    shape = [
        f.b.trunc(_word(f, table, which + i), I32)
        for which in (DriverWord.GRID, DriverWord.BLOCK)
        for i in range(3)
    ]
    shape.append(f.b.trunc(_word(f, table, DriverWord.SHARED_BYTES), I32))
    launch, function, stream = (
        _word(f, table, each)
        for each in (DriverWord.LAUNCH, DriverWord.FUNCTION, DriverWord.STREAM)
    )
    early, usual, launched = f.block("early"), f.block("usual"), f.block("launched")
    f.unless(f.equal(_word(f, table, DriverWord.IS_EARLY), I64(0)), early, usual)
    config = _early_config(f, shape, stream)
    one = f.call(launch, I32, config, function, addresses, extra_or_null)
    f.leave(launched, usual)
    other = f.call(launch, I32, function, *shape, stream, addresses, extra_or_null)
    f.leave(launched)
    status = f.join(I32, (one, early), (other, usual))
    is_other = f.b.icmp_unsigned("!=", before, wanted)
    had_one = f.b.icmp_unsigned("!=", before, I64(0))
    must_go = f.equal(_word(f, table, DriverWord.MAY_STAY), I64(0))
    with f.b.if_then(f.b.and_(is_other, f.b.or_(had_one, must_go))):
        f.call(_word(f, table, DriverWord.SET_CONTEXT), I32, before)
    f.python("PyEval_RestoreThread", ir.VoidType(), state)
    f.require(f.equal(status, I32(0)), bad)
    owner, noted = (
        f.load(table, 8 * which, POINTER) for which in (DriverWord.NOTE_OWNER, DriverWord.NOTED)
    )
    _drop(f, f.call(_word(f, table, DriverWord.NOTE), POINTER, owner, noted))
    f.b.ret(I32(1))

    f.b.position_at_end(failure)
    f.python("PyEval_RestoreThread", ir.VoidType(), state)
    f.b.branch(bad)


def _early_config(f: Function, shape: list[Any], stream: Any) -> Any:
    """Write the configuration of a launch that may begin before the one before it ends."""
    attribute = f.b.alloca(I64, size=_ATTRIBUTE_WORDS)
    for number, value in enumerate((_MAY_BE_EARLY, 1)):
        f.store(I64(value), attribute, 8 * number)
    halves = [f.b.zext(each, I64) for each in shape] + [I64(0)]
    pairs = zip(halves[::2], halves[1::2], strict=True)
    words = [f.b.or_(low, f.b.shl(high, I64(32))) for low, high in pairs]
    words += [stream, f.b.ptrtoint(attribute, I64), I64(1)]
    config = f.b.alloca(I64, size=len(words))
    for number, word in enumerate(words):
        f.store(word, config, 8 * number)
    return config


def _addresses(f: Function, table: Any, buffer: Any) -> tuple[Any, Any]:
    """List the addresses of the parameters, if the entry has their offsets.

    Returns the address of the list, or 0 if the driver is given the whole buffer, and which it is.
    """
    count = _word(f, table, DriverWord.PARAMETER_COUNT)
    offsets = f.load(table, 8 * DriverWord.OFFSETS, POINTER)
    found = f.b.alloca(I64, size=count)
    with f.loop(count) as i:
        at = f.b.mul(i, I64(8))
        f.store(f.b.add(buffer, f.load(offsets, at)), found, at)
    are_there = f.b.icmp_unsigned("!=", count, I64(0))
    return f.b.select(are_there, f.b.ptrtoint(found, I64), I64(0)), are_there


def _drop(f: Function, result: Any) -> None:
    """Let go of a result, or of the error in its place: the kernel was started anyway."""
    none, some, done = f.block("no_result"), f.block("result"), f.block("dropped")
    f.when(f.is_null(result), none, some)
    f.python("PyErr_Clear", ir.VoidType())
    f.leave(done, some)
    f.python("Py_DecRef", ir.VoidType(), result)
    f.leave(done)
