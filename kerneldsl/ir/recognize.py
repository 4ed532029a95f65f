"""Recognize what made a value: constants, Numba's operators and Python's functions."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

from numba import types

from kerneldsl.frontend.operators import BINARY_OPERATORS
from kerneldsl.ir.operations import Operation, Value

__all__ = ["constant_number", "is_false", "operands_of", "operator_of", "plain_operator"]


def constant_number(value: Value) -> int | None:
    """Return the number of an integer constant, also of one that was converted."""
    made, kinds = value.owner, [value.type]
    while isinstance(made, Operation) and made.name == "cast":
        (source,) = made.operands
        kinds.append(source.type)
        made = source.owner
    if isinstance(made, Operation) and made.name == "const":
        number = made.attributes["value"]
        is_integer = type(number) is int or (hasattr(number, "dtype") and number.dtype.kind in "iu")
        if is_integer and all(map(partial(_holds, int(number)), kinds)):
            return int(number)
    return None


def _holds(number: int, kind: Any) -> bool:
    return isinstance(kind, types.Integer) and bool(kind.minval <= number <= kind.maxval)


def is_false(value: Value) -> bool:
    """Return whether a value is the constant ``False``."""
    made = value.owner
    return (
        isinstance(made, Operation) and made.name == "const" and made.attributes["value"] is False
    )


def operator_of(operation: Operation) -> Any:
    """Return the operator or function that an operation of Numba's applies, else ``None``."""
    if operation.name != "numba":
        return None
    function = operation.attributes["function"]
    key = getattr(function, "typing_key", function)
    return _FUNCTIONS.get(key, key) if isinstance(key, str) else key


def plain_operator(function: Any) -> Any:
    """Return an operator of two operands, also of one in place, else ``None``."""
    return _PLAIN.get(function)


def operands_of(operation: Operation) -> list[Value]:
    """Return the operands of an operator or function, also if it takes them as one tuple."""
    operands = operation.operands
    if len(operands) == 1:
        made = operands[0].owner
        if isinstance(made, Operation) and made.name == "tuple.make":
            return made.operands
    return operands


#: Functions that the lowering types by its own rules, by the names that it gives them.
_FUNCTIONS = {
    "kerneldsl.min": min,
    "kerneldsl.max": max,
    "kerneldsl.sum": sum,
    **{f"kerneldsl.{name}": getattr(operator, name) for name in ("lt", "le", "gt", "ge")},
    **{f"kerneldsl.{name}": getattr(operator, name) for name in ("eq", "ne")},
}
#: Operators of two operands, also by those in place.
_PLAIN = {
    each: function
    for function in BINARY_OPERATORS.values()
    for each in (function, getattr(operator, f"i{function.__name__.strip('_')}"))
}
