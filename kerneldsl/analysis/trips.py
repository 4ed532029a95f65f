"""Find how many rounds loops make, and which integers are known, where the source says so."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kerneldsl.analysis.index_forms import IndexForm
from kerneldsl.analysis.library_names import library_name
from kerneldsl.utilities.operators import BINARY_OPERATORS

__all__ = [
    "constant_trips",
    "halving_trips",
    "integer_value",
    "is_range",
    "range_step",
    "range_trips",
]


_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    node: BINARY_OPERATORS[node] for node in (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
}

#: Gives the integer that an expression is, or ``None``.
IntegerOf = Callable[[ast.expr], int | None]


def integer_value(
    node: ast.expr, constants: Mapping[str, Any], values: Mapping[str, IndexForm]
) -> int | None:
    """Return the value of an expression that is a constant of the source.

    Constants are captured ones, by their names in the normal form.
    """
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name) if name in constants:
            value = constants[name].value
            return int(value) if isinstance(value, (int, np.integer)) else None
        case ast.Name(id=name) if name in values:
            form = values[name]
            return form.constant if form.is_uniform else None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            found = integer_value(operand, constants, values)
            return None if found is None else -found
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            first = integer_value(left, constants, values)
            second = integer_value(right, constants, values)
            if first is None or second is None:
                return None
            try:
                return _ARITHMETIC[type(op)](first, second)
            except ZeroDivisionError:
                return None
    return None


def is_range(node: ast.expr, namespace: Mapping[str, Any]) -> bool:
    """Return whether an expression is a call of Python's ``range``, or of Numba's ``prange``."""
    if not isinstance(node, ast.Call):
        return False
    name = library_name(node.func, namespace) or ""
    return name == "range" or (name.startswith("numba.") and name.endswith(".prange"))


def range_trips(
    iterable: ast.Call, integer: IntegerOf, form_of: Callable[[ast.expr], IndexForm]
) -> float | None:
    """Return the rounds of a loop over ``range(…)``, averaged where threads begin apart."""
    bounds = [integer(argument) for argument in iterable.args]
    if len(bounds) == 3 and bounds[0] is None:
        # From each thread's own place on: what the threads of a block share, on average.
        start = form_of(iterable.args[0]).constant
        _, stop, step = bounds
        return max(0.0, (stop - start) / step) if start is not None and stop and step else None
    trips = constant_trips(iterable, integer)
    return None if trips is None else float(trips)


def constant_trips(iterable: ast.Call, integer: IntegerOf) -> int | None:
    """Return the rounds of a loop over ``range(…)`` of known bounds, of a step other than 0."""
    match [integer(argument) for argument in iterable.args]:
        case [int() as stop]:
            start, step = 0, 1
        case [int() as start, int() as stop]:
            step = 1
        case [int() as start, int() as stop, int() as step] if step != 0:
            pass
        case _:
            return None
    # len(range(…)) raises for more rounds than a Py_ssize_t holds.
    return max(0, -((start - stop) // step))


def range_step(iterable: ast.Call, integer: IntegerOf) -> int | None:
    """Return the step by which the variable of a loop over ``range(…)`` grows."""
    if len(iterable.args) < 3:
        return 1
    return integer(iterable.args[2])


def halving_trips(test: ast.expr, body: Sequence[ast.stmt], integer: IntegerOf) -> float | None:
    """Return the rounds of ``while step > 0: … step //= 2``."""
    if not (isinstance(test, ast.Compare) and isinstance(test.left, ast.Name)):
        return None
    start = integer(test.left)
    for statement in body:
        if (
            isinstance(statement, ast.AugAssign)
            and isinstance(statement.target, ast.Name)
            and statement.target.id == test.left.id
            and isinstance(statement.op, ast.FloorDiv | ast.RShift)
            and start is not None
        ):
            return float(max(start, 0).bit_length())
    return None
