"""Python's operators: the node of each in a syntax tree, its symbol, and its function."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

__all__ = [
    "BINARY_OPERATORS",
    "COMPARISONS",
    "IN_PLACE",
    "OPPOSITES",
    "SYMBOLS",
    "UNARY_OPERATORS",
    "also_in_place",
]

_Function: TypeAlias = Callable[..., Any]
_BINARY: tuple[tuple[type[ast.operator], str, _Function], ...] = (
    (ast.Add, "+", operator.add),
    (ast.Sub, "-", operator.sub),
    (ast.Mult, "*", operator.mul),
    (ast.Div, "/", operator.truediv),
    (ast.FloorDiv, "//", operator.floordiv),
    (ast.Mod, "%", operator.mod),
    (ast.Pow, "**", operator.pow),
    (ast.LShift, "<<", operator.lshift),
    (ast.RShift, ">>", operator.rshift),
    (ast.BitAnd, "&", operator.and_),
    (ast.BitOr, "|", operator.or_),
    (ast.BitXor, "^", operator.xor),
)
_UNARY: tuple[tuple[type[ast.unaryop], str, _Function], ...] = (
    (ast.USub, "-", operator.neg),
    (ast.UAdd, "+", operator.pos),
    (ast.Invert, "~", operator.invert),
    (ast.Not, "not", operator.not_),
)
_COMPARED: tuple[tuple[type[ast.cmpop], str, _Function, type[ast.cmpop]], ...] = (
    (ast.Eq, "==", operator.eq, ast.NotEq),
    (ast.NotEq, "!=", operator.ne, ast.Eq),
    (ast.Lt, "<", operator.lt, ast.GtE),
    (ast.LtE, "<=", operator.le, ast.Gt),
    (ast.Gt, ">", operator.gt, ast.LtE),
    (ast.GtE, ">=", operator.ge, ast.Lt),
)

BINARY_OPERATORS = {node: function for node, _, function in _BINARY}
UNARY_OPERATORS = {node: function for node, _, function in _UNARY}
COMPARISONS = {node: function for node, _, function, _ in _COMPARED}
#: Comparisons that hold where another one does not, unless a NaN is compared.
OPPOSITES = {node: opposite for node, _, _, opposite in _COMPARED}
#: In-place functions by those of the binary operators: what ``x op= y`` computes.
IN_PLACE: dict[_Function, _Function] = {
    function: getattr(operator, f"i{function.__name__.strip('_')}")
    for function in BINARY_OPERATORS.values()
}
#: Symbols of functions, those in place too.
SYMBOLS: dict[_Function, str] = {
    **{function: symbol for _, symbol, function in (*_BINARY, *_UNARY)},
    **{function: symbol for _, symbol, function, _ in _COMPARED},
    **{IN_PLACE[function]: f"{symbol}=" for _, symbol, function in _BINARY},
}


def also_in_place(functions: Iterable[_Function]) -> list[_Function]:
    """Return the functions of some binary operators, each with the one in place."""
    return [each for function in functions for each in (function, IN_PLACE[function])]
