"""``else`` after a loop, which runs unless ``break`` has left the loop."""

from __future__ import annotations

import ast
from itertools import count

from kerneldsl.frontend.trees import Transformer, assign, fill_locations, load, walk_here
from kerneldsl.language.reserved import RESERVED_PREFIX

__all__ = ["has_loop_else", "write_loop_else_as_if"]


def has_loop_else(tree: ast.FunctionDef) -> bool:
    """Return whether a loop of a function has an ``else``."""
    return any(isinstance(node, ast.For | ast.While) and node.orelse for node in walk_here(tree))


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
