"""The value that a variable has at a place, where only one can be meant.

It is the last one given to it in the same block of statements, or in a block around that, with
nothing in between that may give it another.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from kerneldsl.analysis.expressions import assigned_names

__all__ = ["Given", "Reaching", "own_nodes"]


class Given(NamedTuple):
    """A value that a variable is given.

    `place` is the variable's place among several that share the value; with `is_item` the value is
    what a loop runs over.
    """

    value: ast.expr
    place: int | None = None
    is_item: bool = False


class _Position(NamedTuple):
    """A statement in its block, and the statement that the block belongs to."""

    block: list[ast.stmt]
    number: int
    owner: ast.stmt | None


class Reaching:
    """The values of one function's variables."""

    def __init__(self, tree: ast.FunctionDef) -> None:
        self._positions: dict[ast.AST, _Position] = {}
        self._statement_of: dict[ast.AST, ast.stmt] = {}
        self._enter(tree.body, None)

    def _enter(self, block: list[ast.stmt], owner: ast.stmt | None) -> None:
        for number, statement in enumerate(block):
            self._positions[statement] = _Position(block, number, owner)
            for inner in _blocks(statement):
                self._enter(inner, statement)
            for node in own_nodes(statement):
                self._statement_of[node] = statement

    def statement_of(self, node: ast.AST) -> ast.stmt | None:
        """Return the statement that a node is in."""
        return self._statement_of.get(node)

    def value_of(self, node: ast.Name) -> Given | None:
        """Return the value of a variable at a read; ``None`` if it may have several.

        A parameter that is not assigned has none either.
        """
        statement = self._statement_of.get(node)
        if statement is None:
            return None
        if isinstance(statement, ast.While) and node.id in assigned_names(statement):
            return None
        return self._before(statement, node.id)

    def _before(self, statement: ast.stmt, name: str) -> Given | None:
        """Return the value that a variable has when a statement begins."""
        position = self._positions[statement]
        for earlier in reversed(position.block[: position.number]):
            if name not in assigned_names(earlier):
                continue
            return _given(earlier, name)
        owner = position.owner
        if owner is None:
            return None
        if isinstance(owner, ast.For) and name in assigned_names(owner.target):
            is_alone = isinstance(owner.target, ast.Name)
            is_changed = any(name in assigned_names(each) for each in owner.body)
            return Given(owner.iter, None, True) if is_alone and not is_changed else None
        if isinstance(owner, ast.For | ast.While) and name in assigned_names(owner):
            return None
        return self._before(owner, name)


def _given(statement: ast.stmt, name: str) -> Given | None:
    """Return the value that one statement gives a variable."""
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return Given(statement.value)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    (target,) = statement.targets
    if isinstance(target, ast.Name):
        return Given(statement.value)
    if isinstance(target, ast.Tuple):
        places = [n for n, each in enumerate(target.elts) if getattr(each, "id", None) == name]
        if len(places) == 1:
            value = statement.value
            if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                return Given(value.elts[places[0]])
            return Given(value, places[0])
    return None


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse"):
        inner = getattr(statement, field, None)
        if inner:
            yield inner


def own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement without those of statements in it."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        yield node
        pending += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt)]
