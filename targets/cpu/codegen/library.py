"""Code libraries of kernels and of the functions they call.

Bodies have no reference counts: one full pipeline is enough. It includes the superword vectorizer,
which Numba leaves out. Numba's names contain numbers that depend on what the process has compiled
before. So the names in an object file that is shipped are replaced: they are the same from each
build, and unique among kernels.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from kerneldsl.contract import Specialization
from kerneldsl.frontend.fingerprint import UnidentifiedError, fingerprint
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import format_signature
from kerneldsl.lowering.loop_marks import (
    has_vectors_to_unroll,
    leave_as_it_is,
    unroll_in_full,
    with_loop_marks,
)
from kerneldsl.lowering.numba_internals.host_code import HostLibrary
from kerneldsl.lowering.numba_internals.llvm_modules import (
    module_text,
    run_named_passes,
    run_passes,
)
from targets.cpu.runtime.native_tables import RUNNER
from targets.cpu.runtime.objects import IS_SUPPORTED

__all__ = ["ENTRY_SUFFIX", "create_library", "entry_symbol", "name_symbols"]

#: Suffix of the name of an entry, after that of the body.
ENTRY_SUFFIX = ".entry"

# Many kernels have none of these instructions, and import nothing for them.
_SHIFTS = re.compile(r"= (shl|lshr|ashr) ")
_CONVERSIONS = re.compile(r"= fpto[su]i ")
_DIVISIONS = re.compile(r"= [su](div|rem) ")
_WIDE_VECTOR = re.compile(r" x i(64|128)>")
_VECTOR_CALL = re.compile(r' @"?kerneldsl\.(dot4|prefetch)\.')


def _write(module: ir.Module) -> str:
    text = with_loop_marks(module, module_text)
    if _VECTOR_CALL.search(text) is not None:
        from targets.cpu.codegen.vector_calls import with_variants

        text = with_variants(text)
    if _SHIFTS.search(text) is None:
        return text
    from kerneldsl.lowering.shifts import define_shifts

    return define_shifts(text)


def _with_conversions(module: Any, text: str) -> Any:
    """Return a module in which conversions have a value for every float.

    It is linked with what Numba has in Python, such as ``int``, and not optimized: LLVM would
    leave out what stores a conversion of infinity.
    """
    if _CONVERSIONS.search(text) is None:
        return module
    from kerneldsl.lowering.float_conversions import define_conversions
    from targets.cpu.math.workarounds import write_conversion

    complete = define_conversions(text, write_conversion)
    if complete is text:
        return module
    converted = llvm.parse_assembly(complete)
    converted.name = module.name
    return converted


def _unroll_strips(module: Any, builder: Any) -> Any:
    """Return a module in which strips of several vectors are unrolled, and optimized once more.

    LLVM has unrolled those that it finds short enough. It would unroll the others in its pipeline,
    too, but warn on standard error if that cannot be done.
    """
    text = str(module)
    if not has_vectors_to_unroll(text):
        return module
    unrolled = llvm.parse_assembly(unroll_in_full(text))
    run_named_passes(unrolled, builder, "loop_unroll")
    optimized = llvm.parse_assembly(leave_as_it_is(str(unrolled)))
    optimized.name = module.name
    run_passes(builder.getModulePassManager(), optimized, builder)
    return optimized


def _leave_out_inlined(module: Any) -> None:
    """Let LLVM drop functions without calls: only the entry is called from outside."""
    for function in module.functions:
        is_defined = not function.is_declaration and function.linkage == llvm.Linkage.external
        if is_defined and not function.name.endswith(ENTRY_SUFFIX):
            function.linkage = "linkonce_odr"


def _optimize(module: Any, machine: Any) -> Any:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = True
    options.loop_interleaving = True
    options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    module = _with_conversions(module, str(module))
    # The body is inlined into the function that runs a piece of a launch. LLVM's pipeline would
    # simplify it twice: before and after that. It folds constants, also those that are converted.
    run_named_passes(module, builder, "always_inliner")
    text = str(module)
    module, restore = _with_math(module, machine, text)
    _leave_out_inlined(module)
    run_passes(builder.getModulePassManager(), module, builder)
    restore()
    if has_vectors_to_unroll(text):
        module = _unroll_strips(module, builder)
    if _VECTOR_CALL.search(text) is not None:
        from targets.cpu.codegen.vector_calls import define_calls

        define_calls(module, builder)
    if "kerneldsl.lowering.narrow_floats" in sys.modules:
        from targets.cpu.math.workarounds import add_missing

        add_missing(module, machine)
    if _WIDE_VECTOR.search(str(module)) is None:
        return module
    from targets.cpu.math.workarounds import keep_upper_products

    return keep_upper_products(module)


def _with_math(module: Any, machine: Any, text: str) -> tuple[Any, Callable[[], None]]:
    """Return a module with its mathematical functions and divisions, and what ends the latter.

    For kernels that neither divide nor call such functions this would be time for nothing.
    """
    calls = any(each.is_declaration and each.name != RUNNER for each in module.functions)
    if not calls and _DIVISIONS.search(text) is None:
        return module, lambda: None
    from targets.cpu.math.vector.define import calls_math, calls_powers, replace_math
    from targets.cpu.math.workarounds import (
        Divisions,
        fold_constants,
        has_divisions,
        has_upper_products,
    )

    has_math = calls_math(module)
    if not has_math and not has_divisions(text):
        return module, lambda: None
    simplifies = not has_upper_products(text) or calls_powers(module)
    fold_constants(module, machine, simplifies=simplifies)
    divisions = Divisions(module, machine)
    if has_math:
        replace_math(divisions.module, machine)
    return divisions.module, divisions.restore


def create_library(name: str, machine: Any = None) -> HostLibrary:
    """Return an empty library for a kernel, for this machine or for LLVM's target machine."""
    is_object = IS_SUPPORTED or machine is not None
    return HostLibrary(name, _write, _optimize, is_object=is_object, machine=machine)


# -- names in an object file that is shipped: the same from each build, and unique among kernels----


_DIGITS = 16


def entry_symbol(specialization: Specialization) -> str:
    """Return the symbol of a shipped entry, which C can name; no other entry has it."""
    unit = specialization.unit
    parts = (
        *(unit.module, unit.qualname, _contents(unit), str(specialization.arch)),
        format_signature(specialization.kinds),
        *(str(specialization.mode), str(specialization.block_dim), str(specialization.options)),
        str(specialization.promises),
    )
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGITS]
    return f"kd_{re.sub(r'[^0-9A-Za-z_]', '_', unit.name)}_{digest}"


def _contents(unit: FunctionUnit) -> str:
    """Return what differs between kernels of one name, such as the values of constants."""
    try:
        return fingerprint(unit)
    except UnidentifiedError:  # such code is not shipped
        return ""


def name_symbols(module: Any, machine: Any, old: str, new: str) -> None:
    """Rename what an optimized module defines, and remove what its entry does not use.

    - `module`: the module, which is changed.
    - `machine`: the machine that it is for.
    - `old`, `new`: name of its entry. Other definitions are numbered, and are local.
    """
    from targets.cpu.math.workarounds import CONVERSIONS

    kept = (old, *CONVERSIONS)
    for each in _defined(module):
        each.linkage = "external" if each.name in kept else "internal"
    options = llvm.create_pipeline_tuning_options()
    builder = llvm.create_pass_builder(machine, options)
    run_named_passes(module, builder, "global_dead_code_eliminate")
    number = 0
    for each in _defined(module):
        if each.name == old:
            each.name = new
            continue
        each.linkage = "internal"
        if each.name not in kept:
            each.name, number = f"{new}.{number}", number + 1


def _defined(module: Any) -> list[Any]:
    every = (*module.functions, *module.global_variables)
    return [each for each in every if not each.is_declaration]
