"""Collects the LLVM modules that Numba lowers for a device; nothing is compiled here.

Modules are kept as text. A target adds what differs between kernels when it links them, such as
floating-point flags and the names of mathematical functions. So a device function is lowered once
for all kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils
from numba.core.callconv import CPUCallConv, MinimalCallConv
from numba.core.codegen import Codegen, CodeLibrary, JITCPUCodegen
from numba.core.typing.templates import fold_arguments

from kerneldsl.lowering.loop_marks import with_loop_marks
from kerneldsl.lowering.numba_internals.llvm_modules import drop_instructions, module_text
from kerneldsl.lowering.numba_internals.moved import overriding

__all__ = ["DeviceCallConv", "DeviceCodegen", "ModuleLibrary", "fold_arguments"]


@overriding("texts")
class ModuleLibrary(CodeLibrary):
    """The modules of one function, and the libraries it calls into."""

    def __init__(self, codegen: DeviceCodegen, name: str) -> None:
        super().__init__(codegen, name)
        self._texts: list[str] = []
        self._linked: list[ModuleLibrary] = []

    def add_ir_module(self, ir_module: ir.Module) -> None:
        """Keep the text of a module, which is left without instructions."""
        self._texts.append(with_loop_marks(ir_module, module_text))
        drop_instructions(ir_module)

    def add_linking_library(self, library: ModuleLibrary) -> None:
        """Remember a library with functions that this one calls."""
        if library is not self and all(library is not known for known in self._linked):
            self._linked.append(library)

    def texts(self) -> Iterator[str]:
        """Return every module this library needs, each once, its own first."""
        seen: set[int] = set()
        pending = [self]
        while pending:
            library = pending.pop(0)
            if id(library) not in seen:
                seen.add(id(library))
                yield from library._texts
                pending.extend(library._linked)

    def finalize(self) -> None:
        """Note that nothing more will be added."""
        self._finalized = True

    def get_function(self, name: str) -> Any:
        """Raise `KeyError`: there are no compiled functions here."""
        raise KeyError(name)

    def get_llvm_str(self) -> str:
        return "\n".join(self._texts)

    def get_asm_str(self) -> str:
        """Return nothing: there is no assembly here."""
        return ""


@overriding(beside=JITCPUCodegen)
class DeviceCodegen(Codegen):
    """Makes empty modules for a device."""

    _library_class = ModuleLibrary

    def __init__(self, triple: str, layout: str) -> None:
        self._triple = triple
        self._data_layout = layout
        self._target_data = llvm.create_target_data(layout)

    def _create_empty_module(self, name: str) -> ir.Module:
        module = ir.Module(cgutils.normalize_ir_text(name))
        module.triple = self._triple
        module.data_layout = self._data_layout
        return module

    def _add_module(self, module: Any) -> None:
        raise NotImplementedError("the target links the modules of a device")

    def insert_unresolved_ref(self, builder: ir.IRBuilder, fnty: Any, name: str) -> Any:
        """Declare a function that is still being lowered (recursion)."""
        return cgutils.get_or_insert_function(builder.module, fnty, name)

    def magic_tuple(self) -> tuple[str, str]:
        """Return what compiled code depends on, for Numba's own caches, which are not used."""
        return (self._triple, "")


#: The status of a thread that has recorded a fault and ends.
STATUS_FAULT = 1


@overriding(beside=CPUCallConv)
class DeviceCallConv(MinimalCallConv):
    """Status, result pointer, arguments. A device reports no exception."""

    def decorate_function(
        self, fn: ir.Function, args: Any, fe_argtypes: Any, noalias: bool = False
    ) -> None:
        """Name the arguments."""
        super().decorate_function(fn, args, fe_argtypes, noalias)
        fn.attributes.add("convergent")  # it may hold a barrier; LLVM drops it where none is

    def return_user_exc(self, builder: ir.IRBuilder, *about: Any, **named: Any) -> None:
        """End the thread."""
        self._return_errcode_raw(builder, STATUS_FAULT)

    return_dynamic_user_exc = return_user_exc
