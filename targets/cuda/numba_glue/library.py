"""Collects the LLVM modules that Numba lowers; nothing is compiled here.

Modules are kept as text: the floating-point flags and the names of mathematical functions differ
between kernels and are put in when the modules are linked (:mod:`targets.cuda.ptx`), so one
lowering of a device function serves every kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils
from numba.core.codegen import Codegen, CodeLibrary

from kerneldsl.lowering.wrapping import let_integers_wrap

__all__ = ["TRIPLE", "KernelCodegen", "ModuleLibrary", "initialize_nvptx"]

TRIPLE = "nvptx64-nvidia-cuda"


@cache
def initialize_nvptx() -> llvm.Target:
    """Make LLVM's NVPTX back end usable, once, and return it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE)


class ModuleLibrary(CodeLibrary):  # type: ignore[misc]
    """The modules of one function, and the libraries it calls into."""

    def __init__(self, codegen: KernelCodegen, name: str) -> None:
        super().__init__(codegen, name)
        self._texts: list[str] = []
        self._linked: list[ModuleLibrary] = []

    def add_ir_module(self, module: ir.Module) -> None:
        """Keep a module."""
        text = cgutils.normalize_ir_text(str(module))
        self._texts.append(let_integers_wrap(text))

    def add_linking_library(self, library: ModuleLibrary) -> None:
        """Remember a library whose functions this one calls."""
        if library is not self and all(library is not known for known in self._linked):
            self._linked.append(library)

    def texts(self) -> Iterator[str]:
        """Every module this library needs, each once, its own first."""
        seen: set[int] = set()
        pending = [self]
        while pending:
            library = pending.pop(0)
            if id(library) not in seen:
                seen.add(id(library))
                yield from library._texts
                pending.extend(library._linked)

    def finalize(self) -> None:
        """Nothing more will be added."""
        self._finalized = True

    def get_function(self, name: str) -> Any:
        """There are no compiled functions here."""
        raise KeyError(name)

    def get_llvm_str(self) -> str:
        """This library's own modules."""
        return "\n".join(self._texts)

    def get_asm_str(self) -> str:
        """There is no assembly here."""
        return ""


class KernelCodegen(Codegen):  # type: ignore[misc]
    """Makes empty modules with the layout of NVPTX."""

    _library_class = ModuleLibrary

    def __init__(self) -> None:
        machine = initialize_nvptx().create_target_machine(cpu="sm_75", opt=3)
        self._data_layout = str(machine.target_data)
        self._target_data = llvm.create_target_data(self._data_layout)

    def _create_empty_module(self, name: str) -> ir.Module:
        module = ir.Module(cgutils.normalize_ir_text(name))
        module.triple = TRIPLE
        module.data_layout = self._data_layout
        return module

    def _add_module(self, module: Any) -> None:
        raise NotImplementedError("modules of the CUDA target are linked by targets.cuda.ptx")

    def insert_unresolved_ref(self, builder: ir.IRBuilder, fnty: Any, name: str) -> Any:
        """Declare a function that is still being lowered (recursion)."""
        return cgutils.get_or_insert_function(builder.module, fnty, name)

    def magic_tuple(self) -> tuple[str, str]:
        """What compiled code depends on, for Numba's own caches, which are not used."""
        return (TRIPLE, "")
