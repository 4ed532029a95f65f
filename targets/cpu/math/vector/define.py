"""Define mathematical functions in LLVM's intermediate representation, for the calls of a module.

Numba's lowering calls LLVM's intrinsics and C's library by name. Device functions do so, too, when
they are linked to their kernel. If a module declares such a name, the function is defined in the
module, and inlined at each call. A name that is not in the table remains a call for each element.
"""

from __future__ import annotations

import functools
import inspect
from functools import cache
from importlib import import_module
from typing import Any

import llvmlite.binding as llvm

__all__ = ["FUNCTIONS", "calls_math", "calls_powers", "definition", "replace_math"]

_BOTH = ("float", "double")
#: Functions by the modules that write them; a module is imported when one is called.
_MODULES = {
    "exponentials": "cosh erf erfc exp exp2 expm1 sinh tanh",
    "logarithms": "cbrt hypot log log10 log1p log2 pow",
    "trigonometry": "acos asin atan atan2 cos sin tan",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}
#: Functions, and the types for which they are written.
FUNCTIONS: dict[str, tuple[str, ...]] = dict.fromkeys(_HOME, _BOTH)

_ATTRIBUTES = "alwaysinline nofree norecurse nosync nounwind willreturn memory(none)"

_KINDS = {"float": ("f32", "f"), "double": ("f64", "")}
_FMA = """
declare float @llvm.fma.f32(float, float, float)

define float @probe(float %a, float %b, float %c) {
  %result = call float @llvm.fma.f32(float %a, float %b, float %c)
  ret float %result
}
"""


@functools.cache
def definition(symbol: str, name: str, kind: str, has_fma: bool) -> str:
    """Return the text of a module that defines a function under a symbol.

    - `symbol`: name of the function in LLVM.
    - `name`: one of `FUNCTIONS`.
    - `kind`: ``"float"`` or ``"double"``: the type of arguments and result.
    - `has_fma`: whether the processor multiplies and adds with one rounding.
    """
    from targets.cpu.math.vector.expressions import Code, Value

    function = getattr(import_module(f"targets.cpu.math.vector.{_HOME[name]}"), name)
    code = Code(has_fma)
    names = [f"%{each}" for each in inspect.signature(function).parameters]
    result = function(*(Value(code, kind, each) for each in names))
    parameters = ", ".join(f"{kind} {each}" for each in names)
    return "\n".join(
        [
            *sorted(code.declared),
            *code.tables.values(),
            f'define linkonce_odr {kind} @"{symbol}"({parameters}) {_ATTRIBUTES} {{',
            *code.lines,
            f"  ret {kind} {result.name}",
            "}",
            "",
        ]
    )


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

    - `module`: is changed in place. It is not optimized yet, and powers by constants are
      simplified.
    - `machine`: target machine of the module.
    """
    found = [f for f in module.functions if f.is_declaration and f.name in _SYMBOLS]
    if not found:
        return
    from targets.cpu.math.vector.expressions import TABLE_PREFIX

    definitions: dict[str, str] = {}
    for function in found:
        name, kind = _SYMBOLS[function.name]
        # A module may declare a function under both of its names. LLVM would number a second
        # declaration of one symbol, and nothing would define that.
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
