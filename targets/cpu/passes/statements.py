"""Statements of generated code, and which of a kernel's statements are left to run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.syntax import call, store
from kerneldsl.frontend.trees import walk_here
from targets.cpu.passes.rematerialization import Rematerializable

__all__ = ["BUILTINS", "extreme", "thread_loop", "without_definitions", "writes_memory"]

#: What generated code calls Python's own functions, whose names a program may use for its own.
BUILTINS: Mapping[str, Any] = {
    "kd_len": len,
    "kd_max": max,
    "kd_min": min,
    "kd_any_range": range,
}


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


def thread_loop(
    name: str, low: ast.expr, high: ast.expr, body: list[ast.stmt], mark: str | None = None
) -> ast.stmt:
    """Return a loop over threads; a short one of constant length is kept for the vectorizer.

    A mark says what else becomes of it.
    """
    start = [] if isinstance(low, ast.Constant) and low.value == 0 else [low]
    is_short = isinstance(high, ast.Constant) and not start
    if name in ("kd_tx", "kd_x", "kd_lane", "kd_member"):
        keep = "kd_keep_lanes" if name == "kd_lane" else "kd_keep_loop"
        mark = mark or (keep if is_short else "kd_end_of_threads")
        body = [*body, ast.Expr(call(mark))]
    return ast.For(store(name), call("kd_range", *start, high), body, [])


def truth_of(test: ast.expr) -> ast.expr:
    """Return whether a value is true, as a truth value."""
    if isinstance(test, ast.Constant):
        return ast.Constant(bool(test.value))
    return ast.IfExp(test, ast.Constant(True), ast.Constant(False))


def extreme(name: str, a: ast.expr, b: ast.expr) -> ast.expr:
    """Return ``kd_min`` or ``kd_max`` of two, computed at once for constants."""
    if (
        isinstance(a, ast.Constant)
        and isinstance(b, ast.Constant)
        and isinstance(a.value, int)
        and isinstance(b.value, int)
    ):
        return ast.Constant(BUILTINS[name](a.value, b.value))
    return call(name, a, b)
