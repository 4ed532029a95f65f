"""Write functions of native code: those that call C and Python by name, and share a table."""

from __future__ import annotations

import signal
from typing import Any

from llvmlite import ir

from kerneldsl.launch.native.builder import I8, I32, I64, POINTER, Function
from targets.cpu.runtime.native_tables import SignalWord

__all__ = ["NULL", "VOID", "NativeFunction", "Writer", "compile_module"]

VOID = ir.VoidType()
NULL = ir.Constant(POINTER, None)
#: Bytes of ``sigset_t``.
_SIGNALS_BYTES = 128


def compile_module(module: ir.Module, *, level: int = 1, optimizes: bool = False) -> bytes:
    """Return the object file of a module, which holds no address of this process."""
    from llvmlite import binding as llvm

    from kerneldsl.lowering.numba_internals.llvm_modules import run_passes

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(opt=level, reloc="pic", jit=True)
    if optimizes:
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        builder = llvm.create_pass_builder(machine, options)
        run_passes(builder.getModulePassManager(), parsed, builder)
    return bytes(machine.emit_object(parsed))


class NativeFunction(Function):
    """A function that calls those of C and Python by their names."""

    def declared(self, name: str, result: Any, *kinds: Any) -> ir.Function:
        """Return a function of C or Python."""
        module = self.function.module
        return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, kinds), name)

    def named(self, name: str, result: Any, *values: Any) -> Any:
        """Call a function of C or Python."""
        return self.b.call(self.declared(name, result, *(each.type for each in values)), values)

    def memory(self, nbytes: int) -> Any:
        """Return the address of memory on the stack, aligned to 16 bytes."""
        with self.b.goto_entry_block():
            words = self.b.alloca(I64, size=nbytes // 8)
        words.align = 16
        return self.address(words)

    def address(self, value: Any) -> Any:
        """Return the address of memory or of a function without its type.

        llvmlite holds a bitcast for nothing to do.
        """
        return self.b.inttoptr(self.b.ptrtoint(value, I64), POINTER)

    def is_zero(self, value: Any) -> Any:
        return self.equal(value, value.type(0))

    def done(self) -> ir.Function:
        """Return, and give the function, which is complete."""
        self.b.ret_void()
        return self.function


class Writer(NativeFunction):
    """Writes one function that reads and changes the table."""

    def __init__(
        self, module: ir.Module, where: ir.GlobalVariable, name: str, result: Any, *kinds: Any
    ) -> None:
        super().__init__(module, name, result, list(kinds), is_internal=True)
        self._table = self.load(where, 0, POINTER)

    def word_at(self, word: SignalWord) -> Any:
        return self.at(self._table, 8 * word)

    def word(self, word: SignalWord, kind: Any = I64) -> Any:
        found = self.b.load_atomic(self.word_at(word), "monotonic", 8, typ=I64)
        return found if kind is I64 else self.b.inttoptr(found, kind)

    def set_word(self, word: SignalWord, value: Any) -> None:
        self.exchange(self.word_at(word), value)

    def exchange(self, address: Any, value: Any) -> Any:
        return self.b.atomic_rmw("xchg", address, value, "seq_cst")

    def return_unless(self, condition: Any) -> None:
        with self.b.if_then(self.b.not_(condition)):
            self.b.ret_void()

    def text(self, value: bytes) -> Any:
        """Return the address of a constant text, which ends with a zero byte."""
        kind = ir.ArrayType(I8, len(value))
        module = self.function.module
        constant = ir.GlobalVariable(module, kind, module.get_unique_name("text"))
        constant.initializer = ir.Constant(kind, bytearray(value))
        constant.linkage, constant.global_constant = "internal", True
        return self.address(constant)

    def start_thread(self, function: ir.Function) -> None:
        """Start a thread that has all signals blocked: they are for others."""
        blocked, old, identity = (self.memory(n) for n in (_SIGNALS_BYTES, _SIGNALS_BYTES, 16))
        self.named("sigfillset", I32, blocked)
        self.named("pthread_sigmask", I32, I32(int(signal.SIG_SETMASK)), blocked, old)
        start = self.address(function)
        status = self.named("pthread_create", I32, identity, NULL, start, NULL)
        with self.b.if_then(self.is_zero(status)):
            self.named("pthread_detach", I32, self.load(identity))
        self.named("pthread_sigmask", I32, I32(int(signal.SIG_SETMASK)), old, NULL)
