"""Plain statements of a kernel: those that are left to run, and whether one may write memory."""

from __future__ import annotations

import ast

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.trees import walk_here
from targets.cpu.passes.rematerialization import Rematerializable

__all__ = ["without_definitions", "writes_memory"]


def without_definitions(body: list[ast.stmt], pure: Rematerializable) -> list[ast.stmt]:
    """Drop the definitions of pure variables, which are computed wherever they are needed."""
    kept: list[ast.stmt] = []
    for node in body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in pure.definitions
        ):
            continue
        if isinstance(node, ast.If | ast.For | ast.While):
            empty = place_at(ast.Pass(), node)
            node.body = without_definitions(node.body, pure) or [empty]
            node.orelse = without_definitions(node.orelse, pure)
        kept.append(node)
    return kept


def writes_memory(node: ast.stmt) -> bool:
    """Return whether a statement may write memory."""
    for inner in walk_here(node):
        if isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store):
            return True
        if isinstance(inner, ast.Call):
            return True  # an atomic, or a function that may write
    return False
