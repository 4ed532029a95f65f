"""Guards around the rest of a kernel, as numba.cuda's programs write them before a barrier.

``if i < n: …`` as the last statement is ``if not i < n: return`` before the statements, where one
of these is a barrier. Threads that have returned take no part in it, on every target.
"""

from __future__ import annotations

import ast
import types
from itertools import count

from kerneldsl.frontend.names import last_name
from kerneldsl.frontend.specialized import called_function, lookup_of
from kerneldsl.frontend.trees import Transformer, assign, fill_locations, load, walk_here
from kerneldsl.language.reserved import RESERVED_PREFIX

__all__ = ["leave_at_guards", "write_loop_else_as_if"]


def _is_barrier(name: str | None) -> bool:
    """Return whether a call is of a barrier of the block, or may be of the grid's."""
    return name is not None and (name == "sync" or name.startswith("syncthreads"))


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
            if _is_barrier(last_name(node.func)):
                return True
            name = node.func.id if isinstance(node.func, ast.Name) else None
            callee = None if name is None else called_function(lookup(name))
            if callee is not None and _names_barrier(callee):
                return True
    return False


def _names_barrier(function: types.FunctionType, seen: tuple[types.FunctionType, ...] = ()) -> bool:
    names = function.__code__.co_names
    if any(map(_is_barrier, names)):
        return True
    lookup = lookup_of(function)
    callees = (called_function(lookup(name)) for name in (*names, *function.__code__.co_freevars))
    inner = (each for each in callees if each is not None and each not in (*seen, function))
    return any(_names_barrier(each, (*seen, function)) for each in inner)


# ``else`` after a loop, which runs unless ``break`` has left the loop.


def write_loop_else_as_if(tree: ast.FunctionDef, taken: set[str]) -> None:
    """Replace ``else`` after loops by branches on a flag that ``break`` clears, in place.

    `taken` are the names of the function.
    """
    _Loops(set(taken)).visit(tree)
    fill_locations(tree)


class _Loops(Transformer):
    def __init__(self, taken: set[str]) -> None:
        self._taken = taken

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        return self._loop(node)

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        return self._loop(node)

    def _loop(self, node: ast.For | ast.While) -> list[ast.stmt]:
        self.generic_visit(node)  # a break in the else of an inner loop leaves this one
        last, node.orelse = node.orelse, []
        if not last:
            return [node]
        flag = self._flag()
        breaks = _Breaks(flag)
        node.body = [new for each in node.body for new in breaks.statements(each)]
        if not breaks.found:
            return [node, *last]
        started = ast.copy_location(assign(flag, ast.Constant(True)), node)
        return [started, node, ast.copy_location(ast.If(load(flag), last, []), last[0])]

    def _flag(self) -> str:
        """Return the name of a new variable."""
        numbers = (f"{RESERVED_PREFIX}_ended_{number}" for number in count(1))
        name = next(each for each in numbers if each not in self._taken)
        self._taken.add(name)
        return name


class _Breaks(Transformer):
    """Clears a flag before each ``break`` of one loop."""

    def __init__(self, flag: str) -> None:
        self._flag = flag
        self.found = False

    def statements(self, node: ast.stmt) -> list[ast.stmt]:
        new = self.visit(node)
        return new if isinstance(new, list) else [new]

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        self.found = True
        return [ast.copy_location(assign(self._flag, ast.Constant(False)), node), node]

    def _inner(self, node: ast.stmt) -> ast.stmt:
        return node

    visit_For = visit_While = visit_FunctionDef = _inner
