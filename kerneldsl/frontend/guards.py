"""Guards around the rest of a kernel, as numba.cuda's programs write them before a barrier.

``if i < n: …`` as the last statement is ``if not i < n: return`` before the statements, where one
of these is a barrier. Threads that have returned take no part in it, on every target.
"""

from __future__ import annotations

import ast
import types

from kerneldsl.frontend.names import last_name
from kerneldsl.frontend.specialized import called_function, lookup_of
from kerneldsl.frontend.trees import walk_here

__all__ = ["leave_at_guards"]

_BARRIER = "syncthreads"


def leave_at_guards(tree: ast.FunctionDef, function: types.FunctionType) -> None:
    """Let a kernel's threads return at a guard around its last statements, in place."""
    tree.body = _opened(tree.body, function)


def _opened(body: list[ast.stmt], function: types.FunctionType) -> list[ast.stmt]:
    if not body or not isinstance(body[-1], ast.If):
        return body
    guard = body[-1]
    waits = [_waits(part, function) for part in (guard.body, guard.orelse)]
    if waits[0] == waits[1]:
        return body
    inside, outside = guard.body, guard.orelse
    test: ast.expr = ast.UnaryOp(ast.Not(), guard.test)
    if waits[1]:
        inside, outside, test = outside, inside, guard.test
    left = ast.If(test, [*outside, ast.Return()], [])
    at = ast.fix_missing_locations(ast.copy_location(left, guard))
    return [*body[:-1], at, *_opened(inside, function)]


def _waits(body: list[ast.stmt], function: types.FunctionType) -> bool:
    """Return whether statements, or a function that they call, may have a barrier."""
    lookup = lookup_of(function)
    for statement in body:
        for node in walk_here(statement):
            if not isinstance(node, ast.Call):
                continue
            if (last_name(node.func) or "").startswith(_BARRIER):
                return True
            name = node.func.id if isinstance(node.func, ast.Name) else None
            callee = None if name is None else called_function(lookup(name))
            if callee is not None and _names_barrier(callee):
                return True
    return False


def _names_barrier(function: types.FunctionType, seen: tuple[types.FunctionType, ...] = ()) -> bool:
    names = function.__code__.co_names
    if any(name.startswith(_BARRIER) for name in names):
        return True
    lookup = lookup_of(function)
    callees = (called_function(lookup(name)) for name in (*names, *function.__code__.co_freevars))
    inner = (each for each in callees if each is not None and each not in (*seen, function))
    return any(_names_barrier(each, (*seen, function)) for each in inner)
