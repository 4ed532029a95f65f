"""Write functions of native code that share the table of signals; call C and Python by name."""

from __future__ import annotations

import signal
from typing import Any

from llvmlite import ir

from kerneldsl.launch.native.builder import I8, I32, I64, POINTER, Function
from targets.cpu.runtime.signal_table import SignalWord

__all__ = ["NULL", "VOID", "Writer"]

VOID = ir.VoidType()
NULL = ir.Constant(POINTER, None)
#: Bytes of ``sigset_t``.
_SIGNALS_BYTES = 128


def _declared(module: ir.Module, name: str, result: Any, *kinds: Any) -> ir.Function:
    known = module.globals.get(name)
    return known or ir.Function(module, ir.FunctionType(result, kinds), name)


class Writer:
    """Writes one function that reads and changes the table."""

    def __init__(
        self, module: ir.Module, where: ir.GlobalVariable, name: str, result: Any, *kinds: Any
    ) -> None:
        self.f = Function(module, name, result, list(kinds), is_internal=True)
        self.b, self._module = self.f.b, module
        self._table = self.f.load(where, 0, POINTER)

    def word_at(self, word: SignalWord) -> Any:
        return self.f.at(self._table, 8 * word)

    def word(self, word: SignalWord, kind: Any = I64) -> Any:
        found = self.b.load_atomic(self.word_at(word), "monotonic", 8, typ=I64)
        return found if kind is I64 else self.b.inttoptr(found, kind)

    def set_word(self, word: SignalWord, value: Any) -> None:
        self.exchange(self.word_at(word), value)

    def exchange(self, address: Any, value: Any) -> Any:
        return self.b.atomic_rmw("xchg", address, value, "seq_cst")

    def call(self, name: str, result: Any, *values: Any) -> Any:
        """Call a function of C or Python by its name."""
        function = _declared(self._module, name, result, *(value.type for value in values))
        return self.b.call(function, values)

    def memory(self, nbytes: int) -> Any:
        with self.b.goto_entry_block():
            words = self.b.alloca(I64, size=nbytes // 8)
        words.align = 16
        # llvmlite holds it for one of int64, and a bitcast for nothing to do.
        return self.b.inttoptr(self.b.ptrtoint(words, I64), POINTER)

    def is_zero(self, value: Any) -> Any:
        return self.f.equal(value, value.type(0))

    def return_unless(self, condition: Any) -> None:
        with self.b.if_then(self.b.not_(condition)):
            self.b.ret_void()

    def text(self, value: bytes) -> Any:
        """Return the address of a constant text, which ends with a zero byte."""
        kind = ir.ArrayType(I8, len(value))
        name = self._module.get_unique_name("text")
        constant = ir.GlobalVariable(self._module, kind, name)
        constant.initializer = ir.Constant(kind, bytearray(value))
        constant.linkage, constant.global_constant = "internal", True
        return self.address(constant)

    def address(self, value: Any) -> Any:
        """Return the address of a function or variable without its type."""
        return self.b.inttoptr(self.b.ptrtoint(value, I64), POINTER)

    def start_thread(self, function: ir.Function) -> None:
        """Start a thread that has all signals blocked: they are for others."""
        blocked, old, identity = (self.memory(n) for n in (_SIGNALS_BYTES, _SIGNALS_BYTES, 16))
        self.call("sigfillset", I32, blocked)
        self.call("pthread_sigmask", I32, I32(int(signal.SIG_SETMASK)), blocked, old)
        start = self.address(function)
        status = self.call("pthread_create", I32, identity, NULL, start, NULL)
        with self.b.if_then(self.is_zero(status)):
            self.call("pthread_detach", I32, self.f.load(identity))
        self.call("pthread_sigmask", I32, I32(int(signal.SIG_SETMASK)), old, NULL)

    def done(self) -> ir.Function:
        self.b.ret_void()
        return self.f.function
