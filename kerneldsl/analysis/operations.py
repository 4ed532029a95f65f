"""Names of what expressions compute: of operators, and of functions of Python's and libraries'."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from kerneldsl.analysis.library_names import library_name
from kerneldsl.language.element_types import REAL_KINDS, names_of
from kerneldsl.utilities.operators import BINARY_OPERATORS

__all__ = ["CONVERSIONS", "OPERATORS", "SELECTIONS", "called_function"]

#: Operators to ``add``, ``sub``, ``mul``, ``div``, ``mod``, ``pow`` and those of bits.
OPERATORS = {node: function.__name__ for node, function in BINARY_OPERATORS.items()} | {
    ast.Div: "div",
    ast.FloorDiv: "div",
}
#: Functions that take one instruction for each two arguments, and no arithmetic on floats.
SELECTIONS = frozenset({"abs", "absolute", "fabs", "max", "maximum", "min", "minimum"})
#: Functions that give a number as another type.
CONVERSIONS = names_of(*REAL_KINDS) | {"bool", "complex", "float", "int"}


def called_function(node: ast.Call, namespace: Mapping[str, Any]) -> str:
    """Return the function of Python's or of a library that is called, without its module.

    It is empty if that is not known.
    """
    return (library_name(node.func, namespace) or "").rpartition(".")[2]
