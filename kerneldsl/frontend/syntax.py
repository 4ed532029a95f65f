"""Nodes of the statements and expressions that passes and targets write."""

from __future__ import annotations

import ast
import types

__all__ = ["LAMBDA_NAME", "assign", "call", "is_lambda", "load", "store"]

#: What a lambda is called where a function has to have a name.
LAMBDA_NAME = "lambda_"


def is_lambda(code: types.CodeType) -> bool:
    """Return whether code is a lambda's."""
    return code.co_name == "<lambda>"


def load(name: str) -> ast.Name:
    """Return a variable's value."""
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    """Return a variable as the target of an assignment."""
    return ast.Name(name, ast.Store())


def assign(name: str, value: ast.expr) -> ast.Assign:
    """Return the assignment of a value to a variable."""
    return ast.Assign([store(name)], value)


def call(name: str, *arguments: ast.expr) -> ast.Call:
    """Return a call of a function by its name."""
    return ast.Call(load(name), list(arguments), [])
