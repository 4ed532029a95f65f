"""Native code that has GNU's OpenMP wait without taking a processor beside our threads.

Its threads look for the next region for some milliseconds after one. They take a processor from a
launch that follows, which then has three quarters of its speed on two cores. They look shortly
where their library knows of more threads than processors. So as long as launches are shared, a
thread of kerneldsl, the *companion*, has a team of two there, which does nothing.

References
----------
GNU libgomp, "Environment Variables", OMP_WAIT_POLICY and GOMP_SPINCOUNT.
"""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.launch.native.builder import I32, I64, POINTER
from targets.cpu.runtime.native_tables import SignalWord, WatcherState
from targets.cpu.runtime.native_writer import NULL, VOID, Writer

__all__ = ["emit_companion"]

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
    f, b = w, w.b
    look = f.block("look")
    b.branch(look)
    b.position_at_end(look)
    b.call(tell, [])
    with f.loop(I64(_LOOKS)):
        w.named("poll", I32, NULL, I64(0), I32(_LOOK_MS))
        is_over = b.icmp_unsigned("!=", w.word(SignalWord.WATCHER), I64(WatcherState.AWAKE))
        with b.if_then(is_over):
            w.set_word(SignalWord.COMPANION, I64(0))
            b.ret(NULL)  # the teams end with this thread
    b.branch(look)
    return f.function


def _emit_tell(module: ir.Module, where: ir.GlobalVariable) -> ir.Function:
    """Emit ``void tell()``, which makes the teams, or finds that they are there."""
    found = _emit_found(module, where)
    nothing = Writer(module, where, "nothing", VOID, POINTER).done()
    w = Writer(module, where, "tell", VOID)
    f, b = w, w.b
    names = w.memory(8 * (_COPIES + 1) + 8)
    # A fork while its library has a lock would leave it locked in the child.
    w.set_word(SignalWord.IN_OPENMP, I64(1))
    with b.if_then(w.is_zero(w.word(SignalWord.IS_FORKING))):
        f.store(I64(0), names)
        w.named("dl_iterate_phdr", I32, w.address(found), names)
        with f.loop(f.load(names)) as i:
            name = f.load(f.at(names, b.mul(b.add(i, I64(1)), I64(8))), 0, POINTER)
            library = w.named("dlopen", POINTER, name, I32(_IF_LOADED))
            with b.if_then(b.not_(f.is_null(library))):
                region = w.named("dlsym", POINTER, library, w.text(_REGION))
                with b.if_then(b.not_(f.is_null(region))):
                    f.call(region, VOID, w.address(nothing), NULL, I32(_TEAM), I32(0))
                w.named("dlclose", I32, library)
    w.set_word(SignalWord.IN_OPENMP, I64(0))
    return w.done()


def _emit_found(module: ir.Module, where: ir.GlobalVariable) -> ir.Function:
    """Emit ``i32 found(ptr information, i64 size, ptr names)``, which notes names of libraries."""
    w = Writer(module, where, "found", I32, POINTER, I64, POINTER)
    f, b = w, w.b
    information, _, names = f.args
    name, count = f.load(information, _NAME, POINTER), f.load(names)
    is_one = b.not_(f.is_null(w.named("strstr", POINTER, name, w.text(_LIBRARY))))
    has_room = b.icmp_unsigned("<", count, I64(_COPIES))
    with b.if_then(b.and_(is_one, has_room)):
        following = b.add(count, I64(1))
        f.store(following, names)
        f.store(b.ptrtoint(name, I64), f.at(names, b.mul(following, I64(8))))
    b.ret(I32(0))
    return f.function
