"""From a kernel by Python text that Numba types to machine code of this processor."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from kerneldsl.contract import Specialization
from kerneldsl.errors import KernelError
from kerneldsl.lowering.numba_internals.compiling import collector_paused
from kerneldsl.utilities.signal_errors import error_of_handler
from targets.cpu.codegen.code import Compiled
from targets.cpu.codegen.compiler import compile_body, infer_types
from targets.cpu.codegen.functions import numba_flags
from targets.cpu.codegen.generate import Generated, generate
from targets.cpu.codegen.levels import LEVELS
from targets.cpu.codegen.symbols import entry_symbol
from targets.cpu.passes.local_elements import declares_local_arrays
from targets.cpu.passes.short_kernels import is_short
from targets.cpu.runtime.artifact import CpuArtifact

__all__ = ["compile_trees"]


def compile_trees(specialization: Specialization) -> CpuArtifact:
    """Compile in three steps, and time each."""
    level = specialization.arch if specialization.arch in LEVELS else None
    start = time.perf_counter()
    typing_seconds = 0.0

    def infer(function: Any, words: int) -> dict[str, Any]:
        nonlocal typing_seconds
        began = time.perf_counter()
        found: dict[str, Any] = infer_types(
            function, words, specialization.kinds, specialization.options.debug
        )
        typing_seconds += time.perf_counter() - began
        return found

    def write(*, keeps_arrays: bool, opens_slots: bool) -> tuple[Generated, float]:
        generated = generate(
            specialization,
            infer,
            keeps_arrays=keeps_arrays,
            opens_slots=opens_slots,
        )
        return generated, time.perf_counter()

    def compiled_from(generated: Generated) -> Compiled:
        compiled: Compiled = compile_body(
            generated.function,
            specialization.layout,
            fastmath=numba_flags(specialization),
            scratch_bytes=generated.scratch_bytes,
            uses_scratch=generated.uses_scratch,
            uses_dynamic=generated.uses_dynamic,
            waits=generated.waits,
            is_short=is_short(specialization.unit),
            unit=specialization.unit,
            level=level,
            symbol="" if level is None else entry_symbol(specialization),
        )
        return compiled

    def attempt(*, keeps_arrays: bool) -> tuple[Generated, float, Compiled]:
        generated, written = write(keeps_arrays=keeps_arrays, opens_slots=True)
        if generated.has_open_slots:
            # Errors are those of the function with known types of slots.
            with suppress(Exception):
                return generated, written, compiled_from(generated)
            generated, written = write(keeps_arrays=keeps_arrays, opens_slots=False)
        return generated, written, compiled_from(generated)

    try:
        with collector_paused():
            try:
                generated, written, compiled = attempt(keeps_arrays=False)
            except (KernelError, MemoryError):
                raise
            except Exception as error:
                declares = any(map(declares_local_arrays, specialization.unit.reachable()))
                if not declares or error_of_handler(error) is not None:
                    raise
                # A store into an element says more than the conversion of a variable.
                generated, written, compiled = attempt(keeps_arrays=True)
    except (KernelError, MemoryError):
        raise
    except Exception as error:
        from kerneldsl.lowering.errors import translate

        raise translate(error, specialization.unit, specialization.kinds) from error
    done = time.perf_counter()
    return CpuArtifact(
        specialization,
        compiled.entry_name,
        {
            "generate": written - start - typing_seconds,
            "typing": typing_seconds,
            "compile": done - written,
        },
        generated.source,
        compiled,
        generated.rows_along,
        generated.fault_table,
        generated.scratch_bytes if generated.waits else None,
    )
