"""Kernels with threads as short as their statements: no thread needs to be interrupted.

What is not known to be short counts as long: a loop, a view, an operation of all threads. So does
a function of a library that may have a loop, such as ``y.mean()``.
"""

from __future__ import annotations

import operator

from numba import types

from kerneldsl.analysis.operations import CONVERSIONS, SELECTIONS
from kerneldsl.ir.operations import Operation, Region
from kerneldsl.ir.recognize import operands_of, operator_of
from kerneldsl.language.intrinsics.intrinsic import Typing

__all__ = ["is_short"]

_LOOPS = ("while", "for_each", "array.view")
_PLACES = (Typing.INDEX, Typing.INDEX_TUPLE)
_SHORT_FUNCTIONS = CONVERSIONS | SELECTIONS | {"len", "sqrt", "exp", "log", "sin", "cos", "tanh"}
_OPERATORS = frozenset(value for value in vars(operator).values() if callable(value)) - {
    operator.matmul,
    operator.imatmul,
    operator.contains,
}


def is_short(region: Region) -> bool:
    """Return whether a thread of a kernel runs each operation of its region at most once."""
    return all(map(_is_short, region.walk()))


def _is_short(operation: Operation) -> bool:
    name = operation.name
    if name == "for":
        return "sides" in operation.attributes  # of a row, not of a thread
    if name in _LOOPS or name.startswith(("tile.", "exchange.", "linked")):
        return False
    use = operation.attributes.get("use")
    if use is not None:
        return use.intrinsic.typing in _PLACES
    if name != "numba":
        return True
    kinds = (each.type for each in operands_of(operation))
    are_numbers = all(isinstance(kind, types.Number | types.Boolean) for kind in kinds)
    function = operator_of(operation)
    is_known = function in _OPERATORS or getattr(function, "__name__", "") in _SHORT_FUNCTIONS
    return are_numbers and is_known
