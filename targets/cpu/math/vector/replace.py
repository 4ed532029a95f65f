"""Replace calls of C's mathematical functions in a module by functions that LLVM vectorizes.

Numba's lowering calls LLVM's intrinsics and C's library by name, as device functions do by the time
that they are linked to their kernel. What a module declares under such a name is defined in it here
(:mod:`targets.cpu.math.vector.define`), to be inlined wherever it is called. A name that is not in
the table stays a call for each element.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm

from targets.cpu.math.vector.define import FUNCTIONS, definition
from targets.cpu.math.vector.expressions import TABLE_PREFIX

__all__ = ["calls_math", "calls_powers", "replace_math"]

_KINDS = {"float": ("f32", "f"), "double": ("f64", "")}
_FMA = """
declare float @llvm.fma.f32(float, float, float)

define float @probe(float %a, float %b, float %c) {
  %result = call float @llvm.fma.f32(float %a, float %b, float %c)
  ret float %result
}
"""


def _table() -> dict[str, tuple[str, str]]:
    """Return function and type by the names that Numba calls functions by."""
    return {
        symbol: (name, kind)
        for name, kinds in FUNCTIONS.items()
        for kind in kinds
        for suffix, letter in [_KINDS[kind]]
        for symbol in (f"llvm.{name}.{suffix}", f"{name}{letter}")
    }


_SYMBOLS = _table()


def calls_math(module: Any) -> bool:
    """Return whether a linked module declares functions that `replace_math` defines."""
    return any(f.is_declaration and f.name in _SYMBOLS for f in module.functions)


def calls_powers(module: Any) -> bool:
    """Return whether LLVM may write a function as less while it knows its name, as ``x**2.0``."""
    return any(_SYMBOLS.get(f.name, ("",))[0] == "pow" for f in module.functions)


def replace_math(module: Any, machine: Any) -> None:
    """Define the mathematical functions that a linked module declares.

    Parameters
    ----------
    module : llvmlite.binding.ModuleRef
        Is changed in place. It is not optimized yet, and powers by constants are simplified.
    machine : llvmlite.binding.TargetMachine
        What the module is compiled for.
    """
    found = [f for f in module.functions if f.is_declaration and f.name in _SYMBOLS]
    definitions: dict[str, str] = {}
    for function in found:
        name, kind = _SYMBOLS[function.name]
        # A module may declare a function under both of its names, and LLVM would number a second
        # declaration of one symbol, which nothing would then define.
        symbol = f"kerneldsl.{function.name}"
        definitions[symbol] = definition(symbol, name, kind, _has_fma(machine))
        function.name = symbol
    for text in definitions.values():
        module.link_in(llvm.parse_assembly(text))
    for variable in module.global_variables:
        # LLVM then knows that no array of the kernel overlaps a table.
        if variable.name.startswith(TABLE_PREFIX):
            variable.linkage = "internal"


@cache
def _has_fma(machine: Any) -> bool:
    """Return whether a processor multiplies and adds with one rounding.

    Others call a function of C's library for it.
    """
    return "fmaf" not in machine.emit_assembly(llvm.parse_assembly(_FMA))
