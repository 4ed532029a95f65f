"""Numba's compiler with the passes that a function of a kernel needs, and its lock."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.target_extension import target_override
from numba.core.typed_passes import (
    InlineOverloads,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)

from kerneldsl.lowering.numba_internals.moved import overriding
from kerneldsl.utilities.locks import no_fork

__all__ = [
    "FunctionCompiler",
    "collector_paused",
    "global_compiler_lock",
    "kernel_flags",
    "set_common_flags",
    "target_override",
]


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
        manager.add_pass(NopythonTypeInference, "infer types")
        manager.add_pass(PreLowerStripPhis, "remove phi nodes")
        manager.add_pass(InlineOverloads, "inline overloaded functions")
        manager.add_pass(NativeLowering, "lower to LLVM")
        manager.add_pass(NoPythonBackend, "collect the result")
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


def kernel_flags() -> Flags:
    """Return Numba's flags of a helper that a kernel calls."""
    flags = Flags()
    set_common_flags(flags)
    flags.dbg_directives_only = flags.debuginfo = False
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


# A child that is forked while another thread compiles would wait for Numba's lock forever. So fork
# waits for the compilation.
no_fork.take_also(global_compiler_lock)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pauses.forget)
