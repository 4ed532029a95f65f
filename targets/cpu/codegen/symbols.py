"""Names in an object file that is shipped: the same from each build, and unique among kernels.

Numba's names contain numbers that depend on what the process has compiled before.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import llvmlite.binding as llvm

from kerneldsl.contract import Specialization
from kerneldsl.frontend.fingerprint import UnidentifiedError, fingerprint
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import format_signature
from kerneldsl.lowering.numba_internals.regions import run_passes
from targets.cpu.math.float_conversions import CONVERSIONS

__all__ = ["entry_symbol", "name_symbols"]

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

    Parameters
    ----------
    module : llvmlite.binding.ModuleRef
        The module, which is changed.
    machine : llvmlite.binding.TargetMachine
        The machine that it is for.
    old, new : str
        Name of its entry. Other definitions are numbered, and are local.
    """
    kept = (old, *CONVERSIONS)
    for each in _defined(module):
        each.linkage = "external" if each.name in kept else "internal"
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    options = llvm.create_pipeline_tuning_options()
    run_passes(manager, module, llvm.create_pass_builder(machine, options))
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
