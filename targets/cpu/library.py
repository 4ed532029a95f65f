"""Numba's code library with an optimization pipeline for generated bodies.

Numba runs a light pipeline over each function, a cheap and then a full one over the module, which
helps it remove reference counts. Bodies have none: one full pipeline is enough. It includes the
superword vectorizer, which Numba leaves out.

Short loops over the threads of a block have constant trip counts, and LLVM would unroll them before
its loop vectorizer sees them. Generated code marks their ends with :func:`keep_loop`; the mark
becomes loop metadata that forbids unrolling.
"""

from __future__ import annotations

import re
import weakref
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from kerneldsl.lowering.wrapping import let_integers_wrap
from targets.cpu.division import Divisions
from targets.cpu.half_conversions import add_missing

__all__ = ["BodyLibrary", "FunctionCompiler", "create_library", "keep_loop"]

#: How the names of variables begin that hold the address of a function's environment.
_ENVIRONMENT = "_ZN08NumbaEnv"
_MARK = "kerneldsl.loop"
_MARKED = re.compile(r'^!(\d+) = !{ !"kerneldsl\.loop", i32 \d+ }$', re.MULTILINE)


@intrinsic
def keep_loop(typingctx: Any) -> Any:
    """As the last statement of a loop's body: do not unroll this loop."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _marked_blocks(builder.module).append(builder.block)
        return context.get_dummy_value()

    return types.none(), generate


def _marked_blocks(module: Any) -> list[Any]:
    blocks: list[Any] = module.__dict__.setdefault("_kerneldsl_loops", [])
    return blocks


class BodyLibrary(JITCodeLibrary):
    """Code of one kernel for this machine."""

    _final_module: Any

    def add_ir_module(self, ir_module: Any) -> None:
        """Add a module, with its marks turned into loop metadata."""
        self._raise_if_finalized()
        for number, block in enumerate(_marked_blocks(ir_module)):
            mark = ir_module.add_metadata([_MARK, ir.IntType(32)(number)])
            block.terminator.set_metadata("llvm.loop", mark)
        text = let_integers_wrap(cgutils.normalize_ir_text(str(ir_module)))
        # llvmlite cannot write a node that names itself, as a loop's identity must.
        text = _MARKED.sub(r'!\1 = distinct !{ !\1, !{!"llvm.loop.unroll.disable"} }', text)
        module = llvm.parse_assembly(text)
        module.name = ir_module.name
        module.verify()
        self.add_llvm_module(module)

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        machine = self._codegen._tm
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = True
        options.slp_vectorization = True
        options.loop_interleaving = True
        options.loop_unrolling = True
        builder = llvm.create_pass_builder(machine, options)
        divisions = Divisions(self._final_module, machine)
        self._final_module = divisions.module
        builder.getModulePassManager().run(self._final_module, builder)
        divisions.restore()
        add_missing(self._final_module, machine)


class FunctionLibrary(BodyLibrary):
    """Code of one device function, which is optimized and run as a part of its kernels alone."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        # Numba writes the address of a function's environment into this variable, which the
        # kernel's code shares.
        variables = "".join(
            f'@"{variable.name}" = common global ptr null\n'
            for variable in self._final_module.global_variables
            if variable.name.startswith(_ENVIRONMENT)
        )
        environment = llvm.parse_assembly(variables)
        cleanup = self._codegen._add_module(environment)
        if cleanup:
            weakref.finalize(self, cleanup)
        self._codegen._engine.finalize_object()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Give no address: there is no machine code of a device function by itself."""
        self._ensure_finalized()
        return 0


class FunctionCompiler(Compiler):
    """Numba's compiler for functions, with a library of ours."""

    def define_pipelines(self) -> list[Any]:
        """Numba's own pipelines."""
        self.state.library = FunctionLibrary(self.state.targetctx.codegen(), "device function")
        pipelines: list[Any] = super().define_pipelines()
        return pipelines


def create_library(name: str) -> BodyLibrary:
    """An empty library that belongs to Numba's own execution engine."""
    return BodyLibrary(cpu_target.target_context.codegen(), name)
