"""Numba's compiler, with the passes that a kernel needs and no more, and its lock.

Numba's own pipeline looks for closures, object-mode blocks, literals to unroll, array expressions
to fuse and loops to parallelize. A kernel has none of these (the front end has refused them), and
every pass walks the whole function.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.compiler import (
    CompilerBase,
    DefaultPassBuilder,
    Flags,
    _EarlyPipelineCompletion,
)
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import AnalysisPass, PassManager, register_pass
from numba.core.target_extension import target_override
from numba.core.typed_passes import (
    InlineOverloads,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    RewriteSemanticConstants,
    TranslateByteCode,
)

from kerneldsl.lowering.numba_internals.moved import overriding
from kerneldsl.lowering.numba_internals.slot_lowering import LowerToLLVM
from kerneldsl.utilities.locks import no_fork

__all__ = [
    "FunctionCompiler",
    "collector_paused",
    "global_compiler_lock",
    "kernel_flags",
    "set_common_flags",
    "target_override",
]


def _add_untyped(manager: Any) -> None:
    manager.add_pass(TranslateByteCode, "bytecode to IR")
    manager.add_pass(FixupArgs, "fix up arguments")
    manager.add_pass(IRProcessing, "process IR")
    # A kernel may choose by a captured constant or by an array's rank between branches of which
    # only one can be typed.
    manager.add_pass(RewriteSemanticConstants, "ranks and lengths are constants")
    manager.add_pass(DeadBranchPrune, "drop branches that constants rule out")
    manager.add_pass(GenericRewrites, "constant indices, prints")
    manager.add_pass(ReconstructSSA, "static single assignment")


def _add_typed(manager: Any) -> None:
    manager.add_pass(NopythonTypeInference, "infer types")
    manager.add_pass(PreLowerStripPhis, "remove phi nodes")
    manager.add_pass(InlineOverloads, "inline overloaded functions")
    manager.add_pass(LowerToLLVM, "lower to LLVM")
    manager.add_pass(NoPythonBackend, "collect the result")
    manager.finalize()


@overriding()
class FunctionCompiler(CompilerBase):
    """Bytecode to an LLVM module, for a function of Numba's.

    Left out are the rewrites after inference, which only fuse array expressions and need an
    allocator, and type annotations, which are for people.
    """

    def define_pipelines(self) -> list[Any]:
        """Return the one pipeline there is."""
        manager = PassManager("kerneldsl_function")
        manager.passes.extend(DefaultPassBuilder.define_untyped_pipeline(self.state).passes)
        _add_typed(manager)
        return [manager]


@register_pass(mutates_CFG=False, analysis_only=True)
class _Stop(AnalysisPass):
    """Ends a pipeline after inference."""

    _name = "kerneldsl_stop"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Leave with the types."""
        state.cr = state.typemap  # what the pipeline is run for
        raise _EarlyPipelineCompletion(state.cr)


@overriding()
class InferenceOnly(CompilerBase):
    """Bytecode to types, which are in ``state.typemap``."""

    def define_pipelines(self) -> list[Any]:
        """Return the one pipeline there is."""
        manager = PassManager("kerneldsl_inference")
        _add_untyped(manager)
        manager.add_pass(NopythonTypeInference, "infer types")
        manager.add_pass(_Stop, "stop")
        manager.finalize()
        return [manager]


def set_common_flags(flags: Any) -> None:
    """Set flags for no Python, no allocator, NumPy's division, and no wrappers."""
    flags.nrt = False
    flags.enable_pyobject = False
    flags.force_pyobject = False
    flags.enable_looplift = False
    flags.release_gil = False
    flags.boundscheck = False
    flags.error_model = "numpy"
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.fastmath = False
    flags.auto_parallel = False


def kernel_flags(*, lineinfo: bool = False, fastmath: frozenset[str] | bool = False) -> Flags:
    """Return Numba's flags of a kernel.

    `fastmath` are LLVM's floating-point flags, where they are put in by Numba.
    """
    flags = Flags()
    set_common_flags(flags)
    flags.dbg_directives_only = flags.debuginfo = lineinfo
    flags.fastmath = fastmath if isinstance(fastmath, bool) else set(fastmath)
    return flags


class _Pauses:
    """Count of the compilations that hold the garbage collector."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.was_enabled = False

    def forget(self) -> None:
        """Forget, in a forked child, the threads that held the collector: they are not there."""
        if self.count and self.was_enabled:
            gc.enable()
        self.lock = threading.Lock()
        self.count = 0


_pauses = _Pauses()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Hold Python's cyclic garbage collector while a kernel compiles.

    Compiling makes many small objects that nearly all live until its end, so the collector would
    scan them again and again for nothing. Nested and concurrent uses are counted;
    the last one restores what was.
    """
    with _pauses.lock:
        if _pauses.count == 0:
            _pauses.was_enabled = gc.isenabled()
            gc.disable()
        _pauses.count += 1
    try:
        yield
    finally:
        with _pauses.lock:
            _pauses.count -= 1
            if _pauses.count == 0 and _pauses.was_enabled:
                gc.enable()


# A child forked while another thread compiles would find Numba's lock taken for ever, and LLVM
# half-way: so fork waits for the compilation.
no_fork.take_also(global_compiler_lock)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pauses.forget)
