"""Tests of an expression's form, by which the culprit of a compilation error is found."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeAlias

from kerneldsl.frontend.trees import walk_here

__all__ = [
    "Matches",
    "conditions",
    "has_float_index",
    "has_indices",
    "is_attribute",
    "is_call_of",
    "is_name",
    "is_operation",
    "is_read_element",
    "is_stored_element",
    "is_subscript",
    "is_unpacked",
    "needs_memory",
]

Matches: TypeAlias = Callable[[ast.AST], bool]


def is_attribute(name: str) -> Matches:
    return lambda node: isinstance(node, ast.Attribute) and node.attr == name


def is_name(name: str) -> Matches:
    return lambda node: isinstance(node, ast.Name) and node.id == name


def is_call_of(name: str) -> Matches:
    def matches(node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        function = node.func
        called = function.attr if isinstance(function, ast.Attribute) else ""
        return name in (called, getattr(function, "id", None))

    return matches


def is_subscript(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript)


def is_unpacked(node: ast.AST) -> bool:
    """Return whether an expression is a tuple of names that a value is unpacked into."""
    return isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Store)


def is_read_element(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)


def is_stored_element(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)


def has_indices(count: int) -> Matches:
    """Return a test for subscripts of so many indices."""

    def matches(node: ast.AST) -> bool:
        if not isinstance(node, ast.Subscript):
            return False
        return (len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1) == count

    return matches


def has_float_index(node: ast.AST) -> bool:
    """Return whether an expression is a subscript whose index certainly is a float."""
    return isinstance(node, ast.Subscript) and any(
        (isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div))
        or (isinstance(inner, ast.Constant) and isinstance(inner.value, float))
        for inner in walk_here(node.slice)
    )


def is_operation(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare)


def conditions(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions whose truth is asked for."""
    for node in walk_here(tree):
        match node:
            case ast.If() | ast.While() | ast.IfExp() | ast.Assert():
                yield node.test
            case ast.BoolOp():
                yield from node.values
            case ast.UnaryOp(op=ast.Not()):
                yield node.operand


def needs_memory(node: ast.AST) -> bool:
    """Return whether an expression makes or moves a whole array."""
    return isinstance(node, ast.Subscript) and any(
        isinstance(inner, ast.Slice) for inner in walk_here(node.slice)
    )
