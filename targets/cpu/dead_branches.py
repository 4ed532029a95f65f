"""Leave out branches that constants rule out, before anything is made of what stands in them.

A kernel with compile-time parameters says ``if width > 1:`` where a member has a width of 1. Numba
drops such a branch, but only after the loops over threads are chosen, and a local array or a second
assignment in it would keep threads from being lanes.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.unit import Captured, FunctionUnit
from kerneldsl.lowering.trees import copy_tree

__all__ = ["without_dead_branches"]

_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def without_dead_branches(unit: FunctionUnit) -> FunctionUnit:
    """Return a function whose conditions on integers that are constants are decided."""
    pruning = _Pruning(unit.constants)
    tree = pruning.visit(copy_tree(unit.tree))
    if not pruning.has_pruned:
        return unit
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.For | ast.While | ast.FunctionDef) and not node.body:
            node.body = [place_at(ast.Pass(), node)]
    left = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    uses = {name: use for name, use in unit.uses.items() if name in left}
    return replace(unit, tree=tree, uses=uses)


class _Pruning(ast.NodeTransformer):
    def __init__(self, constants: Mapping[str, Captured]) -> None:
        self.constants = constants
        self.has_pruned = False

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        decided = self.decide(node.test)
        if decided is None:
            return node
        self.has_pruned = True
        return node.body if decided else node.orelse

    def decide(self, test: ast.expr) -> bool | None:
        """Return what a condition is, where no kernel needs to run to know."""
        match test:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                compare = _COMPARISONS.get(type(op))
                one, two = self.integer(left), self.integer(right)
                if compare is None or one is None or two is None:
                    return None
                return compare(one, two)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                decided = self.decide(operand)
                return None if decided is None else not decided
        number = self.integer(test)
        return None if number is None else bool(number)

    def integer(self, node: ast.expr) -> int | None:
        match node:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name) if name in self.constants:
                value = self.constants[name].value
                return value if isinstance(value, int) else None
        return None
