"""The native functions of the target's own pool of threads, which shares the steps of a launch.

TBB's gives each launch an arena that threads enter for it, and OpenMP's waits for each of its
threads to come. Here a launch rings a bell. Threads that have run one before look for the next one
for some 50 µs, then sleep. Each begins with the steps of a part that is the same from launch to
launch, with its memory in the thread's caches. Then it helps with the others' parts. The thread
that launched works too, and waits only for those that have joined. On a busy machine it runs the
steps of threads that do not wake in time.

One launch is shared at a time; any number of Python threads may launch meanwhile, and run their
launches themselves until the pool is free.
"""

from __future__ import annotations

import platform
import signal
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from kerneldsl.launch.native.builder import I32, I64, POINTER
from targets.cpu.runtime.native_tables import (
    INSTALL_POOL,
    SLOT_BYTES,
    LaunchWord,
    PoolPlace,
    SignalWord,
    SlotPlace,
    WatcherState,
)
from targets.cpu.runtime.native_writer import NULL, VOID, NativeFunction, Writer, compile_module

__all__ = ["compile_pool", "emit_companion"]

#: Rounds in which a thread looks for work, or for others to be done, before it sleeps: some 50 µs.
#: Launches that follow each other within that time wake no thread.
_ROUNDS = 2000
#: Rounds after which it lets others have the processor.
_ROUNDS_A_TURN = 64
_OPEN = 1 << 32
#: ``CLOCK_REALTIME``, which ``sem_timedwait`` reads.
_REALTIME = 0
#: Bytes of ``sigset_t``.
_SIGNALS_BYTES = 128
#: Signals that a thread's own instructions raise, and the one that has it leave a launch.
_OWN_SIGNALS = (
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP),
    signal.SIGURG,
)
#: Nanoseconds that the thread which launches sleeps at a time, while it waits for others.
_SLICE_NS = 20_000_000
#: The intrinsic of LLVM for a processor that waits, by Python's name of the machine.
_PAUSES = {
    "x86_64": ("llvm.x86.sse2.pause", ()),
    "aarch64": ("llvm.aarch64.hint", (1,)),
}


def compile_pool() -> bytes:
    """Compile ``parallel_for`` and what its threads run.

    The object file defines :data:`INSTALL_POOL`, ``void(ptr state)``.
    """
    module = ir.Module("kerneldsl pool")
    where = ir.GlobalVariable(module, POINTER, "state")
    where.initializer, where.linkage = NULL, "internal"
    _emit_work(module)
    _emit_start(module, _emit_worker(module))
    _emit_install(module, where, _emit_parallel_for(module, where))
    return compile_module(module)


def _put(f: NativeFunction, value: Any, address: Any, ordering: str) -> None:
    """Store atomically; llvmlite's own store takes no address without a type."""
    f.b.atomic_rmw("xchg", address, value, ordering)


def _pause(f: NativeFunction) -> None:
    name, values = _PAUSES.get(platform.machine(), ("", ()))
    if name:
        f.named(name, VOID, *map(I32, values))


def _wait(f: NativeFunction, semaphore: Any) -> None:
    """Sleep until this thread is woken; a signal may end that too soon."""
    f.named("sem_wait", I32, semaphore)


def _wait_for_launch(f: NativeFunction, semaphore: Any, until: Any, launch: Any) -> None:
    """Sleep for a slice of time, and have the launch's watch run handlers of signals after it.

    `until` is memory for the end of the slice, a ``struct timespec``.
    """
    f.named("clock_gettime", I32, I32(_REALTIME), until)
    end = f.b.add(f.load(until, 8), I64(_SLICE_NS))
    f.store(f.b.add(f.load(until), f.b.udiv(end, I64(10**9))), until)
    f.store(f.b.urem(end, I64(10**9)), until, 8)
    f.named("sem_timedwait", I32, semaphore, until)
    # The launch is null while the cost of an empty launch is measured.
    with f.b.if_then(f.b.not_(f.is_null(launch))):
        watch = f.load(launch, 8 * LaunchWord.WATCH)
        with f.b.if_then(f.b.icmp_unsigned("!=", watch, I64(0))):
            f.call(watch, VOID, launch)


def _wake(f: NativeFunction, is_asleep: Any, semaphore: Any) -> None:
    """Wake a thread if it sleeps, or is about to."""
    before = f.b.atomic_rmw("xchg", is_asleep, I64(0), "seq_cst")
    with f.b.if_then(f.b.icmp_signed("!=", before, I64(0))):
        f.named("sem_post", I32, semaphore)


def _slot(f: NativeFunction, state: Any, number: Any) -> Any:
    return f.at(f.at(state, PoolPlace.SLOTS), f.b.mul(number, I64(SLOT_BYTES)))


def _until(
    f: NativeFunction,
    address: Any,
    wanted: Any,
    is_asleep: Any,
    semaphore: Any,
    wait: Callable[[NativeFunction, Any], None] = _wait,
) -> None:
    """Wait until a word is, or is no longer, as `wanted` says of it; sleep if that takes long.

    The thread that changes the word then wakes this thread, which sleeps by `wait`.
    """
    before, look, again, sleep, asleep, done = (
        f.b.block,
        *(f.block(name) for name in ("look", "again", "sleep", "asleep", "waited")),
    )
    f.leave(look)
    rounds = f.b.phi(I64)
    f.unless(wanted(f.b.load_atomic(address, "acquire", 8, typ=I64)), again, done)
    _pause(f)
    following = f.b.add(rounds, I64(1))
    # Yield, since another thread of the pool may have been given the same processor.
    with f.b.if_then(f.equal(f.b.and_(following, I64(_ROUNDS_A_TURN - 1)), I64(0))):
        f.named("sched_yield", I32)
    turned = f.b.block
    f.unless(f.b.icmp_signed("<", following, I64(_ROUNDS)), sleep, look)
    # Sequential consistency: one of the two sees the other's write. Either this thread sees the
    # word, or the other one sees that this thread sleeps.
    _put(f, I64(1), is_asleep, "seq_cst")
    now = f.b.load_atomic(address, "seq_cst", 8, typ=I64)
    awake = f.block("awake")
    f.unless(wanted(now), asleep, awake)
    wait(f, semaphore)
    f.leave(awake)
    _put(f, I64(0), is_asleep, "monotonic")
    f.b.branch(look)
    for block, value in ((before, I64(0)), (turned, following), (awake, I64(0))):
        rounds.add_incoming(value, block)
    f.b.position_at_end(done)


def _emit_work(module: ir.Module) -> None:
    """Emit ``void work(ptr state, i64 number)``, which takes steps until there are none left.

    A thread takes the steps of one part first, which is the same memory from launch to launch. It
    takes a quarter of what is left, again and again. Then it takes single steps of other parts. No
    other thread runs what a thread has taken while another program has its processor.
    """
    f = NativeFunction(module, "work", VOID, [POINTER, I64], is_internal=True)
    state, number = f.args
    start, count, one = (f.b.alloca(I64) for _ in range(3))
    f.store(I64(1), one)
    entry = f.load(state, PoolPlace.ENTRY, POINTER)
    launch = f.load(state, PoolPlace.LAUNCH, POINTER)
    parts = f.load(state, PoolPlace.PARTS)
    with f.loop(parts) as i:
        slot = _slot(f, state, f.b.urem(f.b.add(number, i), parts))
        take, left, run, done = (f.block(name) for name in ("take", "left", "run", "part_done"))
        end, following = f.load(slot, SlotPlace.END), f.at(slot, SlotPlace.NEXT)
        is_own = f.equal(i, I64(0))
        f.leave(take)
        seen = f.b.load_atomic(following, "monotonic", 8, typ=I64)
        f.when(f.b.icmp_signed("<", seen, end), left, done)
        share = f.b.lshr(f.b.sub(end, seen), I64(2))
        is_many = f.b.and_(is_own, f.b.icmp_signed(">", share, I64(0)))
        steps = f.b.select(is_many, share, I64(1))
        taken = f.b.cmpxchg(following, seen, f.b.add(seen, steps), "monotonic", "monotonic")
        f.when(f.b.extract_value(taken, 1), run, take)
        f.store(seen, start)
        f.store(steps, count)
        f.call(entry, VOID, start, count, one, launch)
        f.leave(take, done)
    f.done()


def _emit_worker(module: ir.Module) -> ir.Function:
    """Emit ``ptr worker(ptr slot)``, which a thread runs permanently."""
    f = NativeFunction(module, "worker", POINTER, [POINTER], is_internal=True)
    (slot,) = f.args
    state, number = f.load(slot, SlotPlace.STATE, POINTER), f.load(slot, SlotPlace.NUMBER)
    bell, gate = f.at(state, PoolPlace.BELL), f.at(state, PoolPlace.GATE)
    is_asleep, semaphore = f.at(slot, SlotPlace.IS_ASLEEP), f.at(slot, SlotPlace.SEMAPHORE)
    seen = f.variable(I64(0))
    rest, knock, enter, inside, last = (
        f.block(name) for name in ("rest", "knock", "enter", "inside", "last")
    )
    f.leave(rest)
    old = f.load(seen)
    _until(f, bell, lambda now: f.b.icmp_signed("!=", now, old), is_asleep, semaphore)
    f.store(f.b.load_atomic(bell, "acquire", 8, typ=I64), seen)
    f.b.branch(knock)
    # The launch waits for threads that join; those that come too late find the gate closed.
    f.b.position_at_end(knock)
    found = f.b.load_atomic(gate, "acquire", 8, typ=I64)
    f.when(f.b.icmp_signed(">=", found, I64(_OPEN)), enter, rest)
    joined = f.b.cmpxchg(gate, found, f.b.add(found, I64(1)), "acq_rel", "acquire")
    f.when(f.b.extract_value(joined, 1), inside, knock)
    f.b.call(module.globals["work"], [state, number])
    before = f.b.atomic_rmw("sub", gate, I64(1), "seq_cst")
    f.when(f.equal(before, I64(1)), last, rest)
    _wake(f, f.at(state, PoolPlace.IS_ASLEEP), f.at(state, PoolPlace.SEMAPHORE))
    f.b.branch(rest)
    return f.function


def _emit_start(module: ir.Module, worker: ir.Function) -> None:
    """Emit ``void start(ptr state, i64 threads)``, which starts all but the calling thread.

    They have signals blocked that are for the process: threads of Python take those. A thread that
    cannot be started is no loss, since the others take its steps.
    """
    f = NativeFunction(module, "start", VOID, [POINTER, I64], is_internal=True)
    state, threads = f.args
    identity = f.b.alloca(I64)
    blocked, old = (f.address(f.b.alloca(I64, size=_SIGNALS_BYTES // 8)) for _ in range(2))
    f.named("sem_init", I32, f.at(state, PoolPlace.SEMAPHORE), I32(0), I32(0))
    f.named("sigfillset", I32, blocked)
    for each in _OWN_SIGNALS:
        f.named("sigdelset", I32, blocked, I32(int(each)))
    f.named("pthread_sigmask", I32, I32(int(signal.SIG_SETMASK)), blocked, old)
    with f.loop(f.b.sub(threads, I64(1))) as i:
        number = f.b.add(i, I64(1))
        slot = _slot(f, state, number)
        f.store(number, slot, SlotPlace.NUMBER)
        f.store(state, slot, SlotPlace.STATE)
        f.named("sem_init", I32, f.at(slot, SlotPlace.SEMAPHORE), I32(0), I32(0))
        where, function = f.address(identity), f.address(worker)
        status = f.named("pthread_create", I32, where, NULL, function, slot)
        with f.b.if_then(f.is_zero(status)):
            f.named("pthread_detach", I32, f.load(identity))
    f.named("pthread_sigmask", I32, I32(int(signal.SIG_SETMASK)), old, NULL)
    f.done()


def _emit_parallel_for(module: ir.Module, where: ir.GlobalVariable) -> ir.Function:
    """Emit the function that shares a launch, with the signature of Numba's.

    While another thread shares one, it runs step by step by itself, and then shares what is left.
    """
    kinds = [POINTER, POINTER, POINTER, POINTER, POINTER, I64, I64, I32]
    f = NativeFunction(module, "parallel_for", VOID, kinds, is_internal=True)
    entry, _, counts, _, launch, _, _, count = f.args
    start, one = f.b.alloca(I64), f.b.alloca(I64)
    until = f.address(f.b.alloca(I64, size=2))
    f.store(I64(0), start)
    f.store(I64(1), one)
    state, total = f.load(where, 0, POINTER), f.load(counts)
    threads = f.b.sext(count, I64)
    is_busy = f.at(state, PoolPlace.IS_BUSY)
    ask, alone, share, done = (f.block(name) for name in ("ask", "alone", "share", "done"))
    f.leave(ask)
    taken = f.b.cmpxchg(is_busy, I64(0), I64(1), "acq_rel", "monotonic")
    f.unless(f.b.extract_value(taken, 1), alone, share)
    f.call(entry, VOID, start, one, one, launch)
    following = f.b.add(f.load(start), I64(1))
    f.store(following, start)
    f.b.cbranch(f.b.icmp_signed("<", following, total), ask, done)

    f.b.position_at_end(share)
    is_started = f.at(state, PoolPlace.IS_STARTED)
    with f.b.if_then(f.equal(f.load(is_started), I64(0)), likely=False):
        f.b.call(module.globals["start"], [state, threads])
        f.store(I64(1), is_started)
    first = f.load(start)
    left = f.b.sub(total, first)
    parts = f.b.select(f.b.icmp_signed("<", left, threads), left, threads)
    with f.loop(parts) as i:
        slot = _slot(f, state, i)
        low = f.b.udiv(f.b.mul(left, i), parts)
        high = f.b.udiv(f.b.mul(left, f.b.add(i, I64(1))), parts)
        f.store(f.b.add(first, high), slot, SlotPlace.END)
        following = f.at(slot, SlotPlace.NEXT)
        _put(f, f.b.add(first, low), following, "monotonic")
    f.store(entry, state, PoolPlace.ENTRY)
    f.store(launch, state, PoolPlace.LAUNCH)
    f.store(parts, state, PoolPlace.PARTS)
    gate = f.at(state, PoolPlace.GATE)
    _put(f, I64(_OPEN), gate, "release")
    f.b.atomic_rmw("add", f.at(state, PoolPlace.BELL), I64(1), "seq_cst")
    with f.loop(f.b.sub(parts, I64(1))) as i:
        slot = _slot(f, state, f.b.add(i, I64(1)))
        _wake(f, f.at(slot, SlotPlace.IS_ASLEEP), f.at(slot, SlotPlace.SEMAPHORE))
    f.b.call(module.globals["work"], [state, I64(0)])
    f.b.atomic_rmw("sub", gate, I64(_OPEN), "seq_cst")
    is_asleep, semaphore = f.at(state, PoolPlace.IS_ASLEEP), f.at(state, PoolPlace.SEMAPHORE)
    _until(
        *(f, gate, lambda now: f.equal(now, I64(0)), is_asleep, semaphore),
        wait=lambda f, semaphore: _wait_for_launch(f, semaphore, until, launch),
    )
    _put(f, I64(0), is_busy, "release")
    f.leave(done)
    return f.done()


def _emit_install(module: ir.Module, where: ir.GlobalVariable, parallel_for: ir.Function) -> None:
    """Emit ``void install_pool(ptr state)``, which stores the address of ``parallel_for``."""
    f = NativeFunction(module, INSTALL_POOL, VOID, [POINTER])
    f.store(f.args[0], where)
    f.store(f.b.ptrtoint(parallel_for, I64), f.args[0], PoolPlace.PARALLEL_FOR)
    f.done()


# Native code that has GNU's OpenMP wait without taking a processor beside our threads.
#
# Its threads look for the next region for some milliseconds after one. They take a processor from a
# launch that follows, which then has three quarters of its speed on two cores. They look shortly
# where their library knows of more threads than processors. So as long as launches are shared, a
# thread of kerneldsl, the *companion*, has a team of two there, which does nothing.
#
# See GNU libgomp, "Environment Variables", OMP_WAIT_POLICY and GOMP_SPINCOUNT.

#: Part of the library's name, wherever it comes from: wheels have their own copies.
_LIBRARY, _REGION = b"libgomp\0", b"GOMP_parallel\0"
#: Copies of the library that are looked for, at most.
_COPIES = 8
#: ``struct dl_phdr_info``: where the name is.
_NAME = 8
#: ``RTLD_LAZY | RTLD_NOLOAD``.
_IF_LOADED = 1 | 4
_TEAM = 2
#: Milliseconds between two looks at whether launches are still watched, and looks between two
#: searches for libraries.
_LOOK_MS, _LOOKS = 100, 10


def emit_companion(module: ir.Module, where: ir.GlobalVariable) -> ir.Function:
    """Emit ``ptr companion(ptr nothing)``, which a thread runs while launches are watched."""
    tell = _emit_tell(module, where)
    w = Writer(module, where, "companion", POINTER, POINTER)
    b = w.b
    look = w.block("look")
    w.leave(look)
    b.call(tell, [])
    with w.loop(I64(_LOOKS)):
        w.named("poll", I32, NULL, I64(0), I32(_LOOK_MS))
        is_over = b.icmp_unsigned("!=", w.word(SignalWord.WATCHER), I64(WatcherState.AWAKE))
        with b.if_then(is_over):
            w.set_word(SignalWord.COMPANION, I64(0))
            b.ret(NULL)  # the teams end with this thread
    b.branch(look)
    return w.function


def _emit_tell(module: ir.Module, where: ir.GlobalVariable) -> ir.Function:
    """Emit ``void tell()``, which makes the teams, or finds that they are there."""
    found = _emit_found(module, where)
    nothing = Writer(module, where, "nothing", VOID, POINTER).done()
    w = Writer(module, where, "tell", VOID)
    b = w.b
    names = w.memory(8 * (_COPIES + 1) + 8)
    # A fork while its library has a lock would leave it locked in the child.
    w.set_word(SignalWord.IN_OPENMP, I64(1))
    with b.if_then(w.is_zero(w.word(SignalWord.IS_FORKING))):
        w.store(I64(0), names)
        w.named("dl_iterate_phdr", I32, w.address(found), names)
        with w.loop(w.load(names)) as i:
            name = w.load(w.at(names, b.mul(b.add(i, I64(1)), I64(8))), 0, POINTER)
            library = w.named("dlopen", POINTER, name, I32(_IF_LOADED))
            with b.if_then(b.not_(w.is_null(library))):
                region = w.named("dlsym", POINTER, library, w.text(_REGION))
                with b.if_then(b.not_(w.is_null(region))):
                    w.call(region, VOID, w.address(nothing), NULL, I32(_TEAM), I32(0))
                w.named("dlclose", I32, library)
    w.set_word(SignalWord.IN_OPENMP, I64(0))
    return w.done()


def _emit_found(module: ir.Module, where: ir.GlobalVariable) -> ir.Function:
    """Emit ``i32 found(ptr information, i64 size, ptr names)``, which notes names of libraries."""
    w = Writer(module, where, "found", I32, POINTER, I64, POINTER)
    b = w.b
    information, _, names = w.args
    name, count = w.load(information, _NAME, POINTER), w.load(names)
    is_one = b.not_(w.is_null(w.named("strstr", POINTER, name, w.text(_LIBRARY))))
    has_room = b.icmp_unsigned("<", count, I64(_COPIES))
    with b.if_then(b.and_(is_one, has_room)):
        following = b.add(count, I64(1))
        w.store(following, names)
        w.store(b.ptrtoint(name, I64), w.at(names, b.mul(following, I64(8))))
    b.ret(I32(0))
    return w.function
