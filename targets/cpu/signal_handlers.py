"""The native handlers of signals; :mod:`targets.cpu.signals` says what for."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from llvmlite import ir

from kerneldsl.launch.native.builder import I8, I32, I64, POINTER, Function
from targets.cpu.code import DESCRIPTION_WORD, STOP_WORD

__all__ = ["compile_handlers"]

_STDERR = 2
#: Where ``si_code`` lies in ``siginfo_t``: what a process sent has one that is not positive.
_SI_CODE = 8
#: Bytes for a number's digits.
_NUMBER_BYTES = 24
#: Who writes what a fault says.
_NOBODY, _SOMEBODY, _TOLD = 0, 1, 2


def compile_handlers(key: int, current: int, old: Mapping[int, int]) -> Any:
    """Compile ``fault`` and ``interrupt``.

    Parameters
    ----------
    key : int
        Under which a thread holds the launch that it is running.
    current : int
        Address of an int64: the launch that the main thread waits for, or 0.
    old : mapping
        For each signal, address of the ``struct sigaction`` that was there before.
    """
    from llvmlite import binding as llvm

    module = ir.Module("kerneldsl signals")
    _emit_number(module)
    _emit_fault(module, key, old)
    _emit_interrupt(module, current, old[signal.SIGINT])
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1, jit=True)
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    return engine


def _declared(module: ir.Module, name: str, result: Any, *kinds: Any) -> ir.Function:
    known = module.globals.get(name)
    return known or ir.Function(module, ir.FunctionType(result, kinds), name)


def _emit_number(module: ir.Module) -> None:
    """Emit ``void number(i64 value)``, which writes a number that is not negative."""
    f = Function(module, "number", ir.VoidType(), [I64], is_internal=True)
    text = f.b.alloca(I8, _NUMBER_BYTES)
    before, loop, done = f.b.block, f.block("digits"), f.block("done")
    f.b.branch(loop)
    f.b.position_at_end(loop)
    value, at = f.b.phi(I64), f.b.phi(I64)
    rest, place = f.b.udiv(value, I64(10)), f.b.sub(at, I64(1))
    digit = f.b.trunc(f.b.urem(value, I64(10)), I8)
    f.store(f.b.add(digit, I8(ord("0"))), f.at(text, place))
    for phi, first, later in ((value, f.args[0], rest), (at, I64(_NUMBER_BYTES), place)):
        phi.add_incoming(first, before)
        phi.add_incoming(later, loop)
    f.b.cbranch(f.equal(rest, I64(0)), done, loop)
    f.b.position_at_end(done)
    write = _declared(module, "write", I64, I32, POINTER, I64)
    f.b.call(write, [I32(_STDERR), f.at(text, place), f.b.sub(I64(_NUMBER_BYTES), place)])
    f.b.ret_void()


def _emit_fault(module: ir.Module, key: int, old: Mapping[int, int]) -> None:
    """Emit ``void fault(i32 signal, ptr information, ptr context)``."""
    f = Function(module, "fault", ir.VoidType(), [I32, POINTER, POINTER])
    number, information, _ = f.args
    write = _declared(module, "write", I64, I32, POINTER, I64)
    getter = _declared(module, "pthread_getspecific", POINTER, I64)
    launch = f.b.call(getter, [I64(key)])
    known, chain = f.block("known"), f.block("chain")
    f.b.cbranch(f.is_null(launch), chain, known)
    # Pieces of text, of three words each: address, bytes, and where a number lies in the launch.
    f.b.position_at_end(known)
    pieces = f.load(launch, 8 * DESCRIPTION_WORD, POINTER)
    described = f.block("described")
    f.b.cbranch(f.is_null(pieces), chain, described)
    # Of threads that fault at once the first one tells; returning ends the process, so others wait.
    f.b.position_at_end(described)
    telling = ir.GlobalVariable(module, I64, "telling")
    telling.initializer, telling.linkage = I64(_NOBODY), "internal"
    tell, wait = f.block("tell"), f.block("wait")
    won = f.b.cmpxchg(telling, I64(_NOBODY), I64(_SOMEBODY), "acq_rel", "acquire")
    f.b.cbranch(f.b.extract_value(won, 1), tell, wait)
    f.b.position_at_end(wait)
    poll = _declared(module, "poll", I32, POINTER, I64, I32)
    f.b.call(poll, [ir.Constant(POINTER, None), I64(0), I32(1)])
    is_told = f.equal(f.b.load_atomic(telling, "acquire", 8), I64(_TOLD))
    f.b.cbranch(is_told, chain, wait)
    f.b.position_at_end(tell)
    with f.loop(f.load(pieces)) as i:
        piece = f.at(pieces, f.b.add(I64(8), f.b.mul(i, I64(24))))
        f.b.call(write, [I32(_STDERR), f.load(piece, 0, POINTER), f.load(piece, 8)])
        place = f.load(piece, 16)
        show, shown = f.block("show"), f.block("shown")
        f.b.cbranch(f.b.icmp_signed("<", place, I64(0)), shown, show)
        f.b.position_at_end(show)
        f.b.call(module.globals["number"], [f.load(f.at(launch, place))])
        f.b.branch(shown)
        f.b.position_at_end(shown)
    f.b.store_atomic(I64(_TOLD), telling, "release", 8)
    f.b.branch(chain)

    f.b.position_at_end(chain)
    sigaction = _declared(module, "sigaction", I32, I32, POINTER, POINTER)
    is_fault = f.equal(number, I32(int(signal.SIGSEGV)))
    before = f.b.select(is_fault, f.pointer(old[signal.SIGSEGV]), f.pointer(old[signal.SIGBUS]))
    f.b.call(sigaction, [number, before, ir.Constant(POINTER, None)])
    sent, done = f.block("sent"), f.block("done")
    f.b.cbranch(f.b.icmp_signed("<=", f.load(information, _SI_CODE, I32), I32(0)), sent, done)
    f.b.position_at_end(sent)  # nothing would happen again by itself
    f.b.call(_declared(module, "raise", I32, I32), [number])
    f.b.branch(done)
    f.b.position_at_end(done)
    f.b.ret_void()


def _emit_interrupt(module: ir.Module, current: int, old: int) -> None:
    """Emit ``void interrupt(i32 signal)``."""
    f = Function(module, "interrupt", ir.VoidType(), [I32])
    launch = f.load(f.pointer(current), 0, POINTER)
    mark, chain, call, done = (f.block(n) for n in ("mark", "chain", "call", "done"))
    f.b.cbranch(f.is_null(launch), chain, mark)
    f.b.position_at_end(mark)
    f.store(I64(1), launch, 8 * STOP_WORD)
    f.b.branch(chain)
    f.b.position_at_end(chain)
    handler = f.load(f.pointer(old))
    f.b.cbranch(f.b.icmp_unsigned("<=", handler, I64(1)), done, call)  # the default, or ignored
    f.b.position_at_end(call)
    f.call(handler, ir.VoidType(), f.args[0])
    f.b.branch(done)
    f.b.position_at_end(done)
    f.b.ret_void()
