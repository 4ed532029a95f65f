"""The meanings of calls in a kernel: the table of functions, read backwards."""

from __future__ import annotations

from typing import Any

import sympy
from sympy.codegen import cfunctions

from kerneldsl.symbolic.functions import CALLS

__all__ = ["WHOLE_FUNCTIONS", "function_called", "intrinsic_called"]

_OTHERS = {
    "math.sqrt": sympy.sqrt,
    "math.pow": sympy.Pow,
    "math.fabs": sympy.Abs,
    "math.cbrt": cfunctions.Cbrt,
    "math.exp2": lambda x: sympy.Integer(2) ** x,
    "numpy.square": lambda x: x**2,
    "numpy.power": sympy.Pow,
    "numpy.reciprocal": lambda x: 1 / x,
    "numpy.sign": sympy.sign,
    "numpy.absolute": sympy.Abs,
    "numpy.maximum": sympy.Max,
    "numpy.minimum": sympy.Min,
    "numpy.arcsin": sympy.asin,
    "numpy.arccos": sympy.acos,
    "numpy.arctan": sympy.atan,
    "numpy.arctan2": sympy.atan2,
    "numpy.arcsinh": sympy.asinh,
    "numpy.arccosh": sympy.acosh,
    "numpy.arctanh": sympy.atanh,
    "float": lambda x: x,
    "pow": sympy.Pow,
}
_INTRINSICS = {
    "fma": lambda a, b, c: a * b + c,
    "rsqrt": lambda x: 1 / sympy.sqrt(x),
    "cbrt": cfunctions.Cbrt,
    "selp": lambda test, a, b: sympy.Piecewise((a, sympy.Ne(test, 0)), (b, True)),
}
#: Functions that are constant between jumps.
WHOLE_FUNCTIONS = (sympy.floor, sympy.ceiling)


def function_called(name: str) -> Any:
    """Return what a builtin or library function means, by its name; ``None`` for an unknown one.

    Examples
    --------
    >>> function_called("math.sin"), function_called("numpy.maximum"), function_called("open")
    (sin, Max, None)
    """
    if name in _OTHERS:
        return _OTHERS[name]
    library, _, last = name.rpartition(".")
    if library == "numpy":
        name = f"math.{last}"
        if name in _OTHERS:
            return _OTHERS[name]
    for sympys, ours in CALLS.items():
        if ours == name:
            # What the language computes more accurately in a word of its own stays that word.
            return getattr(sympy, sympys, None) or getattr(cfunctions, sympys)
    return None


def intrinsic_called(name: str) -> Any:
    """Return what an intrinsic of numbers means, ``None`` for another one."""
    return _INTRINSICS.get(name)
