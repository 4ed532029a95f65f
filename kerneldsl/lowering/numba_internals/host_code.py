"""Numba's target of this machine's processor, and code libraries for it with other passes.

Numba runs a light pipeline over each function, a cheap and then a full one over the module, which
helps it remove reference counts. A `HostLibrary` is optimized once, by a function that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.core.typing import Context

from kerneldsl.lowering.captured_arrays import symbol_of
from kerneldsl.lowering.numba_internals.arrays import array_value, import_array_functions
from kerneldsl.lowering.numba_internals.compiling import kernel_flags
from kerneldsl.lowering.numba_internals.integer_typing import IntegerTyping
from kerneldsl.lowering.numba_internals.llvm_modules import drop_instructions, is_of_this_process
from kerneldsl.lowering.numba_internals.moved import overriding
from kerneldsl.lowering.numba_internals.scalar_lowerings import (
    lowered_by,
    operator_lowering,
    ufunc_loops,
)

__all__ = ["HostLibrary", "helpers_of_kernels", "host_contexts", "kernel_typing"]


#: Writes a module that Numba lowered.
Writer: TypeAlias = Callable[[ir.Module], str]
#: Optimizes a linked module for a machine; returns it or a replacement.
Optimizer: TypeAlias = Callable[[llvm.ModuleRef, llvm.TargetMachine], llvm.ModuleRef]


class _KernelTyping(IntegerTyping, Context):
    """Numba's typing context of the processor, with the rules of kernels for integers.

    It shares all that Numba's own knows, which code that is no kernel's keeps using.
    """

    def __init__(self) -> None:
        self.__dict__ = cpu_target.typing_context.__dict__


@cache
def _kernel_target() -> Any:
    """Return Numba's target context of the processor with the typing context of kernels.

    It shares everything with Numba's own, except the helpers that were compiled for that.
    """
    import_array_functions()
    context = copy(cpu_target.target_context)
    context.typing_context = _KernelTyping()
    context.cached_internal_func = {}
    return context


class HostContexts(NamedTuple):
    """The contexts that a kernel is compiled with."""

    typing_context: Any
    target_context: Any


def kernel_typing() -> Any:
    """Return the processor's typing context of kernels, as it was when one was last read."""
    return _kernel_target().typing_context


def host_contexts() -> HostContexts:
    """Return the processor's contexts, which know what was registered so far.

    The caller holds Numba's compiler lock.
    """
    target = _kernel_target()
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    return HostContexts(target.typing_context, target)


@contextmanager
def helpers_of_kernels() -> Iterator[None]:
    """Compile what Numba has written in Python, such as powers, with a kernel's flags.

    By its own ``0.0 ** -1`` is an exception, and not infinity. Operators and NumPy's functions have
    NumPy's results (:mod:`kerneldsl.lowering.numba_internals.scalar_lowerings`). The caller holds
    Numba's compiler lock, so that no other code is compiled meanwhile.
    """
    kind = type(cpu_target.target_context)
    compile_subroutine, get_ufunc_info = kind.compile_subroutine, kind.get_ufunc_info
    get_function = kind.get_function

    def compile_helper(self: Any, *given: Any, flags: Any = None, **named: Any) -> Any:
        return compile_subroutine(self, *given, flags=flags or kernel_flags(), **named)

    def find_lowering(self: Any, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        ours = operator_lowering(fn, sig)
        return (
            get_function(self, fn, sig, _firstcall) if ours is None else lowered_by(ours, self, sig)
        )

    kind.compile_subroutine, kind.get_function = compile_helper, find_lowering

    def make_constant_array(self: Any, builder: Any, typ: Any, ary: Any) -> Any:
        symbol = symbol_of(ary) if typ.layout in "CF" else None
        if symbol is None:
            return make_constant(self, builder, typ, ary)
        return _array_at(self, builder, symbol, typ, ary)

    make_constant = kind.make_constant_array
    kind.make_constant_array = make_constant_array
    kind.get_ufunc_info = lambda self, ufunc_key: ufunc_loops(ufunc_key)
    try:
        # Functions that are compiled when a call of them is typed inherit these flags.
        with ConfigStack().enter(kernel_flags()):
            yield
    finally:
        kind.compile_subroutine, kind.get_ufunc_info = compile_subroutine, get_ufunc_info
        kind.get_function = get_function
        kind.make_constant_array = make_constant


def _array_at(context: Any, builder: Any, symbol: str, kind: Any, values: Any) -> ir.Value:
    """Return an array with its elements at the address that the linker gets for the symbol."""
    memory = builder.module.globals.get(symbol)
    if memory is None:
        element = ir.ArrayType(ir.IntType(8), values.nbytes)
        memory = ir.GlobalVariable(builder.module, element, symbol)
        memory.global_constant = True
        memory.align = context.get_abi_alignment(context.get_data_type(kind.dtype))
    shape = [ir.Constant(ir.IntType(64), extent) for extent in values.shape]
    return array_value(context, builder, kind, memory, shape)


@overriding("object_code", "outside_symbols", "_for_machine")
class HostLibrary(JITCodeLibrary):
    """Code as an object file, or in Numba's own execution engine.

    It is for this machine, or an object file for another one, `machine`. `write` gives the text of
    a module; `optimize`, if there is any, optimizes the linked module. Numba's engine never gives
    code back; an object file is for a linker that does.
    """

    _final_module: Any

    def __init__(
        self,
        name: str,
        write: Writer,
        optimize: Optimizer | None = None,
        *,
        is_object: bool = False,
        machine: llvm.TargetMachine | None = None,
    ) -> None:
        super().__init__(cpu_target.target_context.codegen(), name)
        self._machine = self._codegen._tm if machine is None else machine
        self._write = write
        self._optimize = optimize
        self.is_object = is_object
        #: Changes the optimized module.
        self.finish: Callable[[llvm.ModuleRef, llvm.TargetMachine], None] | None = None
        #: The object file, once it is made.
        self.machine_code = b""

    def add_ir_module(self, ir_module: ir.Module) -> None:
        """Add a module, which is left without instructions."""
        self._raise_if_finalized()
        module = llvm.parse_assembly(self._write(ir_module))
        drop_instructions(ir_module)
        module.name = ir_module.name
        module.verify()
        self.add_llvm_module(module)

    def _optimize_functions(self, ll_module: llvm.ModuleRef) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        if self._optimize is not None:
            self._final_module = self._optimize(self._for_machine(), self._machine)
        if self.finish is not None:
            self.finish(self._final_module, self._machine)

    def _finalize_final_module(self) -> None:
        if not self.is_object:
            super()._finalize_final_module()
            return
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self.machine_code = bytes(self._machine.emit_object(self._final_module))
        self._finalized = True

    def get_asm_str(self) -> str:
        """Return the assembly."""
        return str(self._machine.emit_assembly(self._final_module))

    def _for_machine(self) -> llvm.ModuleRef:
        """Return the linked module, as one of the machine that the code is for."""
        module, machine = self._final_module, self._machine
        layout = str(machine.target_data)
        if module.triple != machine.triple or module.data_layout != layout:
            module.triple, module.data_layout = machine.triple, layout
        return module

    def object_code(self) -> bytes | None:
        """Return the object file; ``None`` if it is of this process alone, or not made."""
        is_bound = self.has_dynamic_globals or is_of_this_process(self._final_module)
        return None if is_bound or not self.is_object else self.machine_code

    def outside_symbols(self) -> dict[str, int]:
        """Return the addresses of functions that the code calls, Numba's own among them."""
        declared = (f.name for f in self._final_module.functions if f.is_declaration)
        found = {name: llvm.address_of_symbol(name) for name in declared}
        return {name: address for name, address in found.items() if address is not None}
