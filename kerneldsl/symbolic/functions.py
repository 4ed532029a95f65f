"""The functions that SymPy and the language of kernels have in common, as data, without SymPy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kerneldsl.kernels.decorators import func

__all__ = ["CALLS", "NAMES_IN_TEXT", "WHOLE", "sign"]


@func
def sign(x: Any, one: Any) -> Any:
    """Return `one` with the sign of a number; 0, -0 and NaN themselves.

    Examples
    --------
    >>> sign(-2.0, 1.0), sign(0.0, 1.0)
    (-1.0, 0.0)
    """
    if x > 0:
        return one
    if x < 0:
        return -one
    return x


#: Functions that SymPy and :mod:`math` call by the same name.
_OF_MATH = (
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "hypot"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "expm1"),
    *("log", "log1p", "log2", "log10", "erf", "erfc", "gamma"),
)
#: Name of a class of SymPy to what a kernel calls, for those whose arguments are the same.
CALLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{name: f"math.{name}" for name in _OF_MATH},
        "loggamma": "math.lgamma",
        "floor": "math.floor",
        "ceiling": "math.ceil",
        "Abs": "abs",
        "Max": "max",
        "Min": "min",
        "Cbrt": "kd.cbrt",
        "fma": "kd.fma",
    }
)
#: Of those, what gives integers for integers.
WHOLE: Final = frozenset({"floor", "ceiling", "Abs", "Max", "Min"})
#: Names that a text may use beside those of its own.
NAMES_IN_TEXT: Final = frozenset(
    {"abs", "dtype", "kd", "math", "max", "min", "mirror", "reflect", "sign", "wrap"}
)
