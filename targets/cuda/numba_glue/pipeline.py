"""Numba's passes for a kernel or device function: no object mode, no loop lifting, no parfors."""

from __future__ import annotations

from typing import Any

from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import (
    InlineOverloads,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)

__all__ = ["KernelCompiler"]


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """Bytecode to typed IR to an LLVM module.

    Numba's rewrites after inference only fuse array expressions, which need an allocator, and its
    type annotations are for people: both are left out.
    """

    def define_pipelines(self) -> list[Any]:
        """The one pipeline there is."""
        manager = PassManager("kerneldsl_cuda")
        manager.passes.extend(DefaultPassBuilder.define_untyped_pipeline(self.state).passes)
        manager.add_pass(NopythonTypeInference, "infer types")
        manager.add_pass(PreLowerStripPhis, "remove phi nodes")
        manager.add_pass(InlineOverloads, "inline overloaded functions")
        manager.add_pass(IRLegalization, "ensure the IR is legal")
        manager.add_pass(NativeLowering, "lower to LLVM")
        manager.add_pass(NoPythonBackend, "collect the result")
        manager.finalize()
        return [manager]
