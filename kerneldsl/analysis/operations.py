"""Names of what is counted: of operators, and of functions of Python's and libraries'."""

from __future__ import annotations

import operator

from kerneldsl.frontend.operators import BINARY_OPERATORS
from kerneldsl.language.element_types import REAL_KINDS, names_of

__all__ = ["CONVERSIONS", "OPERATORS", "SELECTIONS"]

#: Operators to ``add``, ``sub``, ``mul``, ``div``, ``mod``, ``pow`` and those of bits.
OPERATORS = {function: function.__name__ for function in BINARY_OPERATORS.values()} | {
    operator.truediv: "div",
    operator.floordiv: "div",
}
#: Functions that take one instruction for each two arguments, and no arithmetic on floats.
SELECTIONS = frozenset({"abs", "absolute", "fabs", "max", "maximum", "min", "minimum"})
#: Functions that give a number as another type.
CONVERSIONS = names_of(*REAL_KINDS) | {"bool", "complex", "float", "int"}
