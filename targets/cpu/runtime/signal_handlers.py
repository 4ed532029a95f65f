"""The native handlers of signals; :mod:`targets.cpu.runtime.signals` says what for."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from llvmlite import ir

from kerneldsl.launch.native.builder import I8, I32, I64, POINTER, Function
from targets.cpu.codegen.code import DESCRIPTION_WORD
from targets.cpu.runtime.interrupt_code import emit_interrupts
from targets.cpu.runtime.signal_table import INSTALL, FramePlace, RecordPlace, SignalWord

__all__ = ["compile_handlers"]

_STDERR = 2
#: Where ``si_code`` is in ``siginfo_t``: what a process sent has one that is not positive.
_SI_CODE = 8
#: Bytes for a number's digits.
_NUMBER_BYTES = 24
#: Who writes what a fault says.
_NOBODY, _SOMEBODY, _TOLD = 0, 1, 2


def compile_handlers() -> bytes:
    """Compile ``fault``, the functions that interrupt launches, and what tells the table of them.

    Returns
    -------
    bytes
        An object file that defines :data:`~targets.cpu.runtime.signal_table.INSTALL`, ``void(ptr
        table)``. It holds no address of this process.
    """
    from llvmlite import binding as llvm

    module = ir.Module("kerneldsl signals")
    where = ir.GlobalVariable(module, POINTER, "table")
    where.initializer, where.linkage = ir.Constant(POINTER, None), "internal"
    _emit_number(module)
    functions = {SignalWord.FAULT: _emit_fault(module, where), **emit_interrupts(module, where)}
    _emit_install(module, where, functions)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(opt=1, reloc="pic", jit=True)
    return bytes(machine.emit_object(parsed))


class _Table:
    """The table, as a function reads it."""

    def __init__(self, f: Function, where: ir.GlobalVariable) -> None:
        self._f = f
        self._table = f.load(where, 0, POINTER)

    def __call__(self, word: SignalWord, kind: Any = I64) -> Any:
        return self._f.load(self._table, 8 * word, kind)


def _declared(module: ir.Module, name: str, result: Any, *kinds: Any) -> ir.Function:
    known = module.globals.get(name)
    return known or ir.Function(module, ir.FunctionType(result, kinds), name)


def _emit_install(
    module: ir.Module, where: ir.GlobalVariable, functions: Mapping[SignalWord, ir.Function]
) -> None:
    """Emit ``void install(ptr table)``, which puts the functions' addresses into the table."""
    f = Function(module, INSTALL, ir.VoidType(), [POINTER])
    f.store(f.args[0], where)
    for word, function in functions.items():
        f.store(f.b.ptrtoint(function, I64), f.args[0], 8 * word)
    f.b.ret_void()


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


def _emit_fault(module: ir.Module, where: ir.GlobalVariable) -> ir.Function:
    """Emit ``void fault(i32 signal, ptr information, ptr context)``."""
    f = Function(module, "fault", ir.VoidType(), [I32, POINTER, POINTER], is_internal=True)
    table = _Table(f, where)
    number, information, _ = f.args
    write = _declared(module, "write", I64, I32, POINTER, I64)
    getter = _declared(module, "pthread_getspecific", POINTER, I32)
    record = f.b.call(getter, [f.b.trunc(table(SignalWord.KEY), I32)])
    recorded, known, chain = f.block("recorded"), f.block("known"), f.block("chain")
    f.b.cbranch(f.is_null(record), chain, recorded)
    f.b.position_at_end(recorded)
    frame = f.load(record, RecordPlace.FRAME, POINTER)
    f.b.cbranch(f.is_null(frame), chain, known)
    # Pieces of text, of three words each: address, bytes, and where a number is in the launch.
    f.b.position_at_end(known)
    launch = f.load(frame, FramePlace.LAUNCH, POINTER)
    pieces = f.load(launch, 8 * DESCRIPTION_WORD, POINTER)
    described = f.block("described")
    f.b.cbranch(f.is_null(pieces), chain, described)
    # Of threads that fault at once the first one reports; returning ends the process, so others
    # wait.
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
    before = f.b.select(
        is_fault,
        table(SignalWord.OLD_SEGMENT_FAULT, POINTER),
        table(SignalWord.OLD_BUS_ERROR, POINTER),
    )
    f.b.call(sigaction, [number, before, ir.Constant(POINTER, None)])
    sent, done = f.block("sent"), f.block("done")
    f.b.cbranch(f.b.icmp_signed("<=", f.load(information, _SI_CODE, I32), I32(0)), sent, done)
    f.b.position_at_end(sent)  # nothing would happen again by itself
    f.b.call(_declared(module, "raise", I32, I32), [number])
    f.b.branch(done)
    f.b.position_at_end(done)
    f.b.ret_void()
    return f.function
