"""Python's operators: the node of each in a syntax tree, its symbol, and its function."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

__all__ = [
    "BINARY_OPERATORS",
    "BINARY_SYMBOLS",
    "COMPARISONS",
    "OPPOSITES",
    "UNARY_OPERATORS",
    "UNARY_SYMBOLS",
]

_BINARY: tuple[tuple[type[ast.operator], str, Callable[[Any, Any], Any]], ...] = (
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
_UNARY: tuple[tuple[type[ast.unaryop], str, Callable[[Any], Any]], ...] = (
    (ast.USub, "-", operator.neg),
    (ast.UAdd, "+", operator.pos),
    (ast.Invert, "~", operator.invert),
    (ast.Not, "not", operator.not_),
)

BINARY_OPERATORS = {node: function for node, _, function in _BINARY}
BINARY_SYMBOLS = {node: symbol for node, symbol, _ in _BINARY}
UNARY_OPERATORS = {node: function for node, _, function in _UNARY}
UNARY_SYMBOLS = {node: symbol for node, symbol, _ in _UNARY}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
#: What holds where a comparison does not, unless a NaN is compared.
OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
}
