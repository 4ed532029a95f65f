"""Evaluate expressions of integers that are known before a kernel runs."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from kerneldsl.frontend.unit import Captured
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.operators import BINARY_OPERATORS, COMPARISONS

__all__ = ["KnownIntegers"]

_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    node: BINARY_OPERATORS[node]
    for node in (
        *(ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod),
        *(ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor),
    )
}
_SIGNS: dict[type[ast.unaryop], Callable[[int], int]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
#: Arithmetic within it is the same in Python and in int64.
_SMALL = 2**31


@dataclass(frozen=True)
class KnownIntegers:
    """Captured constants, and variables with values that are known at an expression."""

    constants: Mapping[str, Captured]
    #: Variables of int64.
    values: Mapping[str, int] = field(default_factory=dict)

    def integer(self, node: ast.expr) -> int | None:
        """Return the value of an expression of int64, or ``None`` if it is not known."""
        found = self._value(node)
        return found if type(found) is int and abs(found) < _SMALL else None

    def _value(self, node: ast.expr) -> Any:
        found: Any = None
        match node:
            case ast.Constant(value=value):
                found = value
            case ast.Name(id=name) if name in self.values:
                found = self.values[name]
            case ast.Name(id=name) if name in self.constants:
                found = self.constants[name].value
            case ast.Call(func=ast.Name(id="kd_int64"), args=[argument]):
                found = self.integer(argument)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _SIGNS:
                inner = self.integer(operand)
                found = None if inner is None else _SIGNS[type(op)](inner)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                found = self._computed(op, self.integer(left), self.integer(right))
        return found

    @staticmethod
    def _computed(op: ast.operator, left: int | None, right: int | None) -> int | None:
        if left is None or right is None:
            return None
        if isinstance(op, ast.FloorDiv | ast.Mod) and right == 0:
            return None
        if isinstance(op, ast.LShift | ast.RShift) and not 0 <= right < 32:
            return None
        return _ARITHMETIC[type(op)](left, right)

    def decide(self, test: ast.expr) -> bool | None:
        """Return what a condition on integers is, or ``None`` if it is not known."""
        match test:
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                values = [self._number(each) for each in (left, *comparators)]
                steps = zip(ops, values, values[1:], strict=False)
                return _all([_compared(op, one, two) for op, one, two in steps])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                decided = self.decide(operand)
                return None if decided is None else not decided
            case ast.BoolOp(op=ast.And(), values=parts):
                return _all([self.decide(each) for each in parts])
            case ast.BoolOp(values=parts):
                found = [self.decide(each) for each in parts]
                opposite = _all([None if each is None else not each for each in found])
                return None if opposite is None else not opposite
        number = self._number(test)
        return None if number is None else bool(number)

    def _number(self, node: ast.expr) -> int | None:
        """Return the value of an integer, which may be a truth value or a member of an enum."""
        value = self._value(node)
        return int(value) if isinstance(value, int) else None


def _compared(op: ast.cmpop, left: int | None, right: int | None) -> bool | None:
    compare = COMPARISONS.get(type(op))
    if compare is None or left is None or right is None:
        return None
    return bool(compare(left, right))


def _all(parts: list[bool | None]) -> bool | None:
    """Return whether all hold; what is after one that is not known is not asked."""
    for part in parts:
        if not part:
            return part
    return True
