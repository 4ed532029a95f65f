"""A copy of a function's tree in which each node has a line of its own."""

from __future__ import annotations

import ast

from kerneldsl.analysis.expressions import condition_expressions
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.trees import Transformer, copy_tree
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["NumberedTree"]


class NumberedTree:
    """A copy of a function's tree with a line for each node, and names for values of branches."""

    def __init__(self, unit: FunctionUnit, *, is_by_line: bool) -> None:
        self.lines: dict[ast.AST, int] = {}
        #: Expressions of which only the truth is asked for.
        self.tested = condition_expressions(unit.tree)
        #: ``a or b`` as an operand of another ``or`` or ``and``: it has no value of its own.
        self.inner: set[ast.AST] = set()
        for node in ast.walk(unit.tree):
            if isinstance(node, ast.BoolOp):
                self.inner.update(v for v in node.values if isinstance(v, ast.BoolOp))
        copied = copy_tree(unit.tree)
        copies: dict[ast.AST, ast.AST] = {}
        for line, (node, copy) in enumerate(
            zip(ast.walk(unit.tree), ast.walk(copied), strict=True), start=1
        ):
            self.lines[node] = line
            copies[copy] = node
            if is_by_line and hasattr(copy, "lineno"):
                copy.__dict__.update(lineno=line, end_lineno=line, col_offset=0, end_col_offset=0)
        name = FreshNames.for_unit(unit).make("value")
        self.tree: ast.FunctionDef = _Named(self, copies, name).visit(copied)


class _Named(Transformer):
    """Names values of branches; exceptions, which act in debug mode alone, leave their tests."""

    def __init__(self, numbered: NumberedTree, copies: dict[ast.AST, ast.AST], name: str) -> None:
        self._numbered = numbered
        self._copies = copies
        self._name = name

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        return self._named(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return self._named(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        passed = ast.copy_location(ast.Pass(), node)
        return self.generic_visit(ast.copy_location(ast.If(node.test, [passed], []), node))

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    def _named(self, node: ast.BoolOp | ast.IfExp) -> ast.expr:
        original = self._copies[node]
        self.generic_visit(node)
        if original in self._numbered.tested or original in self._numbered.inner:
            return node
        target = ast.copy_location(ast.Name(self._name, ast.Store()), node)
        return ast.copy_location(ast.NamedExpr(target, node), node)
