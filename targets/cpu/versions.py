"""A second version of a loop over threads, for rows of a block that pass every guard.

Tiles at the edge of an array are loaded with guards such as ``a[i] if i < n else 0``. In most
blocks every thread passes them. Where all threads of a row do, which the ends of the row tell, the
row runs a version whose guards are constants, so that LLVM drops them and its accesses are plain
vector loads. The other branch stays in the tree for Numba, which gives the value the type that it
has in both.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from kerneldsl.analysis.expressions import loaded_names
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.syntax import call
from kerneldsl.lowering.trees import copy_tree
from targets.cpu.narrowing import Bounds, conjuncts, narrow
from targets.cpu.purity import PureValues

__all__ = ["ALWAYS", "GuardFree", "without_guards"]

#: Name of an operation that gives a truth value: true, which LLVM knows and Numba does not.
ALWAYS = "kd_always"
#: A longer body is not worth compiling twice.
_MAX_NODES = 600


@dataclass(frozen=True)
class GuardFree:
    """A body whose guards hold, and when it may run."""

    #: The statements.
    body: list[ast.stmt]
    #: The row's first thread must not lie below any low, its end not beyond any high.
    low: list[ast.expr]
    high: list[ast.expr]
    #: Must hold as well.
    conditions: list[ast.expr]


def without_guards(body: list[ast.stmt], variable: str, pure: PureValues) -> GuardFree | None:
    """Make the version of a thread's statements in which its guards hold.

    ``None`` says that there is no guard that the ends of a row can prove.
    """
    if sum(1 for node in body for _ in ast.walk(node)) > _MAX_NODES:
        return None
    proof = _GuardProof(variable, pure)
    new = [proof.visit(node) for node in copy_tree(body)]
    if not proof.proven:
        return None
    bounds = narrow(proof.proven, (variable,), pure)
    conditions = _unlike([*bounds.assumptions, *(pure.expanded(c) for c in bounds.rest)])
    low, high = bounds.low.get(variable, []), bounds.high.get(variable, [])
    return GuardFree(new, _unlike(low), _unlike(high), conditions)


def _unlike(nodes: list[ast.expr]) -> list[ast.expr]:
    """Return each different expression once."""
    return list({ast.dump(node): node for node in nodes}.values())


class _GuardProof(ast.NodeTransformer):
    """Replaces every test that can be proved by one that always holds."""

    def __init__(self, variable: str, pure: PureValues) -> None:
        self.variable = variable
        self.pure = pure
        self.proven: list[ast.expr] = []

    def provable(self, test: ast.expr) -> bool:
        """Return whether the ends of a row, or the row as a whole, can prove a test.

        That its threads all have one index they cannot.
        """
        for part in conjuncts(test):
            bounds: Bounds = narrow([part], (self.variable,), self.pure)
            for rest in bounds.rest:
                depends = self.variable in loaded_names(self.pure.expanded(rest))
                if depends or not self.pure.is_steady(rest):
                    return False
            is_equality = isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Eq)
            if is_equality and self.variable in bounds.low:
                return False
        return True

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if self.prove(node):
            node.body = self.visit(node.body)  # the other branch is there for its type alone
        else:
            self.generic_visit(node)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        if not node.orelse:
            self.prove(node)
        self.generic_visit(node)
        return node

    def prove(self, node: ast.IfExp | ast.If) -> bool:
        """Take a conditional's test as met, if it can be proved."""
        is_provable = self.provable(node.test)
        if is_provable:
            self.proven.append(node.test)
            node.test = place_at(call(ALWAYS), node.test)
        return is_provable

    def visit_While(self, node: ast.While) -> ast.AST:
        return node  # its tests are not asked once

    def visit_For(self, node: ast.For) -> ast.AST:
        return node
