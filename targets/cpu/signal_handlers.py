"""The native handlers of signals; :mod:`targets.cpu.signals` says what for."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from llvmlite import ir

from kerneldsl.launch.native.builder import I8, I32, I64, POINTER, Function
from targets.cpu.code import DESCRIPTION_WORD, STOP_WORD, WATCH_WORD
from targets.cpu.signal_table import ACTION_BYTES, ACTION_FLAGS, INSTALL, ON_STACK, SignalWord

__all__ = ["compile_handlers"]

_STDERR = 2
#: Where ``si_code`` lies in ``siginfo_t``: what a process sent has one that is not positive.
_SI_CODE = 8
#: Bytes for a number's digits.
_NUMBER_BYTES = 24
#: Who writes what a fault says.
_NOBODY, _SOMEBODY, _TOLD = 0, 1, 2


def compile_handlers() -> bytes:
    """Compile ``fault``, ``interrupt`` and ``watch``, and what puts them into the table.

    Returns
    -------
    bytes
        An object file that defines :data:`~targets.cpu.signal_table.INSTALL`, ``void(ptr table)``.
        It holds no address of this process.
    """
    from llvmlite import binding as llvm

    module = ir.Module("kerneldsl signals")
    where = ir.GlobalVariable(module, POINTER, "table")
    where.initializer, where.linkage = ir.Constant(POINTER, None), "internal"
    _emit_number(module)
    functions = {
        SignalWord.FAULT: _emit_fault(module, where),
        SignalWord.INTERRUPT: _emit_interrupt(module, where),
    }
    functions[SignalWord.WATCH] = _emit_watch(module, where, functions[SignalWord.INTERRUPT])
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
    launch = f.b.call(getter, [f.b.trunc(table(SignalWord.KEY), I32)])
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


def _emit_interrupt(module: ir.Module, where: ir.GlobalVariable) -> ir.Function:
    """Emit ``void interrupt(i32 signal)``."""
    f = Function(module, "interrupt", ir.VoidType(), [I32], is_internal=True)
    table = _Table(f, where)
    launch = table(SignalWord.CURRENT, POINTER)
    mark, chain, call, done = (f.block(n) for n in ("mark", "chain", "call", "done"))
    f.b.cbranch(f.is_null(launch), chain, mark)
    f.b.position_at_end(mark)
    f.store(I64(1), launch, 8 * STOP_WORD)
    f.b.branch(chain)
    f.b.position_at_end(chain)
    handler = f.load(table(SignalWord.OLD_INTERRUPT, POINTER))
    f.b.cbranch(f.b.icmp_unsigned("<=", handler, I64(1)), done, call)  # the default, or ignored
    f.b.position_at_end(call)
    f.call(handler, ir.VoidType(), f.args[0])
    f.b.branch(done)
    f.b.position_at_end(done)
    f.b.ret_void()
    return f.function


def _emit_watch(module: ir.Module, where: ir.GlobalVariable, interrupt: ir.Function) -> ir.Function:
    """Emit ``void watch(ptr launch)``, which a thread that runs a launch calls when it takes long.

    The main thread, if it waits for this launch, puts ``interrupt`` before Python's handler where a
    program has put that in its place; and stops the launch if Python has been interrupted already.
    Python's handler calls functions of Python's, so this one must know which they are, under the
    interpreter's lock. It runs no bytecode, which might raise `KeyboardInterrupt` here.
    """
    f = Function(module, "watch", ir.VoidType(), [POINTER], is_internal=True)
    table = _Table(f, where)
    (launch,) = f.args
    done, taken, pending = f.block("done"), f.block("taken"), f.block("pending")
    words = f.b.alloca(I64, size=ACTION_BYTES // 8)
    words.align = 16
    # llvmlite holds it for one of int64, and a bitcast for nothing to do.
    action = f.b.inttoptr(f.b.ptrtoint(words, I64), POINTER)
    this = f.b.call(_declared(module, "PyThread_get_thread_ident", I64), [])
    f.require(f.equal(this, table(SignalWord.MAIN_THREAD)), done)
    f.store(I64(0), launch, 8 * WATCH_WORD)  # once in a launch
    f.require(f.equal(f.b.ptrtoint(launch, I64), table(SignalWord.CURRENT)), done)
    sigaction = _declared(module, "sigaction", I32, I32, POINTER, POINTER)
    number, nothing = I32(int(signal.SIGINT)), ir.Constant(POINTER, None)
    f.require(f.equal(f.b.call(sigaction, [number, nothing, action]), I32(0)), done)
    ours = f.b.ptrtoint(interrupt, I64)
    f.require(f.b.icmp_unsigned("!=", f.load(action), ours), done)

    state = f.b.call(_declared(module, "PyGILState_Ensure", I32), [])
    getsignal, argument = table(SignalWord.GETSIGNAL, POINTER), table(SignalWord.SIGINT, POINTER)
    call = _declared(module, "PyObject_CallOneArg", POINTER, POINTER, POINTER)
    handler = f.b.call(call, [getsignal, argument])
    answered, failed = f.block("answered"), f.block("failed")
    f.b.cbranch(f.is_null(handler), failed, answered)
    f.b.position_at_end(failed)
    f.b.call(_declared(module, "PyErr_Clear", ir.VoidType()), [])
    f.b.branch(taken)
    f.b.position_at_end(answered)
    f.b.call(_declared(module, "Py_DecRef", ir.VoidType(), POINTER), [handler])
    is_pythons = f.equal(f.b.ptrtoint(handler, I64), table(SignalWord.DEFAULT_HANDLER))
    f.require(is_pythons, taken)
    f.copy_words(table(SignalWord.OLD_INTERRUPT, POINTER), action, I64(ACTION_BYTES // 8))
    f.store(ours, action)
    f.store(I32(ON_STACK), action, ACTION_FLAGS)
    f.b.call(sigaction, [number, action, nothing])
    occurred = f.b.call(_declared(module, "PyOS_InterruptOccurred", I32), [])
    f.b.cbranch(f.equal(occurred, I32(0)), taken, pending)
    f.b.position_at_end(pending)
    f.store(I64(1), launch, 8 * STOP_WORD)
    f.b.branch(taken)
    f.b.position_at_end(taken)
    f.b.call(_declared(module, "PyGILState_Release", ir.VoidType(), I32), [state])
    f.b.branch(done)
    f.b.position_at_end(done)
    f.b.ret_void()
    return f.function
