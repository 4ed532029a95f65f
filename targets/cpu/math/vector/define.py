"""Definitions of the mathematical functions as functions of LLVM's intermediate representation."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TypeAlias

from targets.cpu.math.vector import (
    error_functions,
    exponentials,
    hyperbolic,
    inverse_trigonometry,
    logarithms,
    powers,
    trigonometry,
)
from targets.cpu.math.vector.expressions import Code, Value

__all__ = ["FUNCTIONS", "definition"]

Function: TypeAlias = Callable[..., Value]

_BOTH = ("float", "double")
_MODULES = (
    error_functions,
    exponentials,
    hyperbolic,
    inverse_trigonometry,
    logarithms,
    powers,
    trigonometry,
)

#: Functions, and the types for which they are written.
FUNCTIONS: dict[str, tuple[str, ...]] = dict.fromkeys(
    (
        *("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "pow", "cbrt", "hypot"),
        *("sin", "cos", "tan"),
        *("asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "erf", "erfc"),
    ),
    _BOTH,
)
_WRITERS: dict[str, Function] = {
    name: getattr(module, name) for module in _MODULES for name in module.__all__
}

_ATTRIBUTES = "alwaysinline nofree norecurse nosync nounwind willreturn memory(none)"


@functools.cache
def definition(symbol: str, name: str, kind: str, has_fma: bool) -> str:
    """Return the text of a module that defines a function under a symbol.

    Parameters
    ----------
    symbol : str
        What the function is called by in LLVM.
    name : str
        One of `FUNCTIONS`.
    kind : str
        ``"float"`` or ``"double"``: the type of arguments and result.
    has_fma : bool
        Whether the processor multiplies and adds with one rounding.
    """
    function = _WRITERS[name]
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
