"""Remove ``assert`` and ``raise``, which act in debug mode alone."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["DropExceptions"]


@dataclass(frozen=True, slots=True)
class DropExceptions:
    """Remove ``assert`` and ``raise`` statements.

    An ``if`` whose branches hold nothing any more is removed as well, unless its test has a call,
    which may do something.
    """

    def __call__(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        """Return the function without them."""
        result = copy_tree(tree)
        _Dropper().visit(result)
        result.body = result.body or [_pass_at(tree)]
        return result


class _Dropper(Transformer):
    def visit_Assert(self, node: ast.Assert) -> None:
        return None

    def visit_Raise(self, node: ast.Raise) -> None:
        return None

    def visit_If(self, node: ast.If) -> ast.stmt | None:
        had_pass_alone = _does_nothing(node.body) and _does_nothing(node.orelse)
        self.generic_visit(node)
        has_call = any(isinstance(n, ast.Call) for n in walk_here(node.test))
        if (
            _does_nothing(node.body)
            and _does_nothing(node.orelse)
            and not has_call
            and not had_pass_alone
        ):
            return None
        node.body = node.body or [_pass_at(node)]
        return node

    def visit_For(self, node: ast.For) -> ast.stmt:
        return self._visit_loop(node)

    def visit_While(self, node: ast.While) -> ast.stmt:
        return self._visit_loop(node)

    def _visit_loop(self, node: ast.For | ast.While) -> ast.stmt:
        self.generic_visit(node)
        node.body = node.body or [_pass_at(node)]
        return node


def _pass_at(node: ast.stmt) -> ast.stmt:
    return ast.copy_location(ast.Pass(), node)


def _does_nothing(body: Iterable[ast.stmt]) -> bool:
    """Return whether statements are all ``pass``, or there are none."""
    return all(isinstance(statement, ast.Pass) for statement in body)
