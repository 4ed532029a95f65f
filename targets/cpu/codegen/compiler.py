"""Compile generated Python with Numba, and give it the entry that the driver calls.

The entry is described in :mod:`targets.cpu.codegen.code`.
"""

from __future__ import annotations

import types as python_types
from contextlib import nullcontext
from functools import partial
from typing import Any

from numba import types

from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind
from kerneldsl.lowering import math_functions as _math_functions  # noqa: F401 - registers
from kerneldsl.lowering import numpy_functions as _numpy_functions  # noqa: F401 - registers
from kerneldsl.lowering.captured_arrays import captured_addresses, offering
from kerneldsl.lowering.numba_internals import compiling
from kerneldsl.lowering.numba_internals.host_code import helpers_of_kernels, host_contexts
from kerneldsl.lowering.types import numba_type
from targets.cpu.codegen.code import SPACE_WORDS, Compiled
from targets.cpu.codegen.entry import EntryBuilder
from targets.cpu.codegen.levels import compiling_for
from targets.cpu.codegen.library import ENTRY_SUFFIX, create_library
from targets.cpu.codegen.symbols import name_symbols
from targets.cpu.runtime.interrupt_code import CAN_LEAVE_CODE
from targets.cpu.runtime.objects import load_object
from targets.cpu.runtime.runner import runner_symbols
from targets.cpu.runtime.runner_table import RunnerOption

__all__ = ["compile_body", "infer_types"]

# -- types alone --------------------------------------------------------------------------------


@compiling.global_compiler_lock
def infer_types(
    function: python_types.FunctionType, words: int, kinds: tuple[Kind, ...], debug: bool
) -> dict[str, Any]:
    """Return Numba's types of a function's variables.

    `function` takes `words` int64, then scratch memory and its dynamic bytes, then arguments of
    `kinds`, and in debug mode one more int64. A variable of several versions has the type of one of
    them, so ask only for names that are assigned once.
    """
    arguments = _argument_types(words, kinds, debug)
    return compiling.infer_types(host_contexts(), function, arguments)


def _argument_types(words: int, kinds: tuple[Kind, ...], debug: bool) -> tuple[Any, ...]:
    return (
        *([types.int64] * words),
        *(types.voidptr, types.int64),
        *(numba_type(kind) for kind in kinds),
        *([types.int64] if debug else []),
    )


# -- machine code -------------------------------------------------------------------------------


@compiling.global_compiler_lock
def compile_body(
    function: python_types.FunctionType,
    layout: ParameterLayout,
    *,
    fastmath: frozenset[str] | bool,
    scratch_bytes: int,
    uses_scratch: bool,
    uses_dynamic: bool,
    waits: bool,
    is_short: bool,
    unit: FunctionUnit,
    level: str | None,
    symbol: str,
) -> Compiled:
    """Compile a generated function and its entry.

    The function is from :mod:`targets.cpu.codegen.generate`; `scratch_bytes` is the scratch memory
    of one call, before dynamic shared memory. Where blocks wait for each other, the launch has it
    for all of them. A kernel that `is_short` is not interrupted within a piece. `unit` is the
    kernel, for the arrays that it captured. Code for a `level` of processors has an entry of the
    name `symbol`, and is not loaded.

    Raises `numba.core.errors.NumbaError` as Numba raises it.
    """
    contexts = host_contexts()
    arguments = _argument_types(2 + SPACE_WORDS, layout.kinds, layout.debug)
    with compiling_for(level) as machine:
        library = create_library(function.__name__, machine)
        flags = compiling.kernel_flags(fastmath=fastmath)
        with helpers_of_kernels(), offering(unit) if library.is_object else nullcontext():
            result = compiling.compile_function(
                contexts, function, arguments, None, flags, library=library
            )
    entry_name = f"{result.fndesc.llvm_func_name}{ENTRY_SUFFIX}"
    module = library.create_ir_module(f"{function.__name__}.entry")
    options = RunnerOption(0)
    if uses_scratch and not waits:
        options |= RunnerOption.SCRATCH | (RunnerOption.DYNAMIC if uses_dynamic else 0)
    if CAN_LEAVE_CODE and not is_short:
        options |= RunnerOption.LEAVE
    builder = EntryBuilder(
        *(contexts.target_context, module, result, layout, scratch_bytes, waits, options),
        has_runner=level is not None or not library.is_object,
    )
    builder.build(entry_name)
    library.add_ir_module(module)
    if level is not None:
        library.finish = partial(name_symbols, old=entry_name, new=symbol)
    library.finalize()
    if level is not None:
        return Compiled(library, 0, symbol)
    if not library.is_object:
        return Compiled(library, library.get_pointer_to_function(entry_name), entry_name)
    symbols = library.outside_symbols() | captured_addresses(unit) | runner_symbols()
    loaded = load_object(library.machine_code, entry_name, symbols)
    return Compiled(library, loaded.address, entry_name, loaded)
