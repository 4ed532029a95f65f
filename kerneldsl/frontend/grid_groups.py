"""Write ``kd.grid_group().sync()`` as a call of one name: the group of a grid is no value.

The group may have a name in the function, as numba.cuda's has: ``g = kd.grid_group()`` and
``g.sync()``.
"""

from __future__ import annotations

import ast
from typing import NoReturn

from kerneldsl.frontend.names import GRID_GROUPS, last_name, local_constants
from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.resolve import Namespace
from kerneldsl.frontend.trees import Transformer, copy_tree
from kerneldsl.language.intrinsics.barriers import grid_group

__all__ = ["name_grid_groups"]

_FOREIGN = "cg.this_grid"


def name_grid_groups(tree: ast.FunctionDef, scope: Namespace, reporter: Reporter) -> None:
    """Rewrite calls of a grid's group in place: ``kd.grid_group().sync`` is ``kd.grid_group.sync``.

    A variable that is the group of a grid, and nothing else, is left out.

    Raises `UnsupportedConstructError` where the group is used otherwise.
    """
    _Naming(tree, scope, reporter).visit(tree)


class _Naming(Transformer):
    def __init__(self, tree: ast.FunctionDef, scope: Namespace, reporter: Reporter) -> None:
        self._scope = scope
        self._reporter = reporter
        #: Variables that are the group, to the function that gives it.
        self._named = {
            name: node.func
            for name, node in local_constants(tree).items()
            if isinstance(node, ast.Call) and self._is_group(node)
        }

    def _is_group(self, node: ast.Call) -> bool:
        """Return whether a call gives the group of the grid."""
        if last_name(node.func) not in GRID_GROUPS or not self._scope.is_outside(node.func):
            return False
        found = self._scope.resolve(node.func)
        return found.foreign == _FOREIGN or (found.value is grid_group and not found.rest)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        match node.targets:
            case [ast.Name(id=name)] if name in self._named:
                return ast.copy_location(ast.Pass(), node)
        self.generic_visit(node)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        match node.value:
            case ast.Call(func=ast.Attribute(attr="this_grid")) as call if self._is_group(call):
                # Checks of the group make launches of numba.cuda's programs cooperative.
                self._check(call)
                return ast.copy_location(ast.Pass(), node)
        self.generic_visit(node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        match node.value:
            case ast.Name(id=name) if name in self._named:
                function = copy_tree(self._named[name])
            case ast.Call(func=function) as call if self._is_group(call):
                self._check(call)
            case _:
                self.generic_visit(node)
                return node
        if node.attr != "sync":
            self._fail(node, f"The group of a grid has no {node.attr!r}")
        node.value = ast.copy_location(function, node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        node.args = [self._passed(each) for each in node.args]
        for keyword in node.keywords:
            keyword.value = self._passed(keyword.value)
        if self._is_group(node):
            self._check(node)
            self._fail(node, "The group of a grid is used as a value")
        self.generic_visit(node)
        return node

    def _passed(self, node: ast.expr) -> ast.expr:
        """Return an argument; the group is passed as the function that gives it."""
        match node:
            case ast.Name(id=name) if name in self._named:
                return ast.copy_location(copy_tree(self._named[name]), node)
            case ast.Call(func=function) if self._is_group(node):
                self._check(node)
                return function
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._named:
            self._fail(node, "The group of a grid is used as a value")
        return node

    def _check(self, call: ast.Call) -> None:
        if call.args or call.keywords:
            self._fail(call, "The group of a grid is given arguments")

    def _fail(self, node: ast.AST, what: str) -> NoReturn:
        self._reporter.fail(
            node,
            what,
            "Write kd.grid_group().sync(), or g = kd.grid_group() once, and g.sync()",
            limit="It has the barrier sync(), and is not a value",
        )
