"""Stores of floats in elements of integer arrays, which cut off the fraction without a word.

NumPy does the same in ``out[i] = 0.5``. If it is meant, a conversion says so: ``int(x)``. Atomic
functions convert what they are given in the same way. Only what is certain is found: the types are
those that are inferred without Numba.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kerneldsl.analysis.inferred_types import InferredTypes
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import Kind

__all__ = ["LossyStore", "lossy_stores"]

#: Functions with results that are floats, and whole numbers.
_ROUNDING = frozenset({"ceil", "fix", "floor", "rint", "round", "round_", "trunc"})


class LossyStore(NamedTuple):
    """A float that is stored in an element of an integer array."""

    #: The function, the kernel's own or one that it calls.
    unit: FunctionUnit
    #: What is stored; of an assignment in place the statement.
    node: ast.expr | ast.AugAssign
    #: Names of the element types.
    value: str
    element: str


def lossy_stores(unit: FunctionUnit, kinds: Sequence[Kind]) -> Iterator[LossyStore]:
    """Yield the stores of a kernel for arguments of given kinds, and of what it calls, once."""
    seen: set[ast.AST] = set()
    for types in InferredTypes(unit, kinds).of_calls():
        seen |= types.may_be_dropped()
        for node, target, stored in types.stores():
            element, value = types.of(target), types.of(stored)
            if target in seen or element is None or value is None or _is_whole(stored, types.unit):
                continue
            if ELEMENT_TYPES[element].is_integer and ELEMENT_TYPES[value].is_float:
                seen.add(target)
                place = node if isinstance(node, ast.AugAssign) else stored
                yield LossyStore(types.unit, place, value, element)
        for stored, element in types.converted():
            value = types.of(stored)
            if stored in seen or value is None or _is_whole(stored, types.unit):
                continue
            if ELEMENT_TYPES[element].is_integer and ELEMENT_TYPES[value].is_float:
                seen.add(stored)
                yield LossyStore(types.unit, stored, value, element)


def _is_whole(node: ast.expr, unit: FunctionUnit) -> bool:
    """Return whether a float certainly is a whole number."""
    match node:
        case ast.Constant(value=float() as number):
            return number.is_integer()
        case ast.Name(id=name) if name in unit.constants:
            number = unit.constants[name].value
            return isinstance(number, float) and number.is_integer()
        case ast.UnaryOp(operand=operand):
            return _is_whole(operand, unit)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_whole(body, unit) and _is_whole(orelse, unit)
        case ast.BinOp(op=ast.FloorDiv()):
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _ROUNDING
    return False
