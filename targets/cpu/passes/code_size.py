"""Estimate how much code a statement is: its calls are inlined, and copied with it."""

from __future__ import annotations

import ast

from kerneldsl.analysis.operations import CONVERSIONS, SELECTIONS, called_function
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["size_of"]

#: Statements that a mathematical function comes to.
_FUNCTION = 4
_FREE = CONVERSIONS | SELECTIONS | {"", "len", "range"}


def size_of(node: ast.AST, unit: FunctionUnit, callers: tuple[FunctionUnit, ...] = ()) -> int:
    """Return the statements of a node of a function, those of functions that it calls included.

    A function that calls itself counts once.
    """
    total = 0
    for inner in walk_here(node):
        total += isinstance(inner, ast.stmt)
        if not isinstance(inner, ast.Call) or unit.use_of(inner) is not None:
            continue
        callee = unit.callee_of(inner)
        if callee is None:
            total += 0 if called_function(inner, unit.namespace) in _FREE else _FUNCTION
        elif callee not in callers:
            total += sum(size_of(each, callee, (*callers, callee)) for each in callee.tree.body)
    return total
