"""A second version of a loop over threads, for rows of a block that pass every guard.

Tiles at the edge of an array are loaded with guards such as ``a[i] if i < n else 0``, or with
indices that are clamped, ``a[min(max(i, 0), n - 1)]``. In most blocks every thread passes them.
Where all threads of a row do, which the ends of the row tell, the row runs a version whose guards
are constants and whose indices are what was clamped, so that its accesses are plain vector loads.
The other branch of a guard stays in the tree for Numba, which gives the value the type that it has
in both.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from kerneldsl.analysis.expressions import index_parts, loaded_names
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.syntax import call
from kerneldsl.lowering.trees import copy_tree
from targets.cpu.narrowing import Bounds, conjuncts, narrow
from targets.cpu.purity import PureValues

__all__ = ["ALWAYS", "GuardFree", "without_guards"]

#: Name of an operation that gives a truth value: true, which LLVM knows and Numba does not.
ALWAYS = "kd_always"
#: What ``max(a, b)`` and ``min(a, b)`` are a of.
_RELATIONS: Mapping[str, type[ast.cmpop]] = {"max": ast.GtE, "min": ast.LtE}
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
    #: Whether indices have lost limits.
    drops_clamps: bool


def without_guards(body: list[ast.stmt], variable: str, pure: PureValues) -> GuardFree | None:
    """Make the version of a thread's statements in which its guards hold.

    ``None`` says that there is no guard that the ends of a row can prove.
    """
    if sum(1 for node in body for _ in ast.walk(node)) > _MAX_NODES:
        return None
    proof = _GuardProof(variable, pure, pure.steady_values(body))
    new = [proof.visit(node) for node in copy_tree(body)]
    if not proof.proven:
        return None
    bounds = narrow(proof.proven, (variable,), pure)
    conditions = _unlike([*bounds.assumptions, *(pure.expanded(c) for c in bounds.rest)])
    low, high = bounds.low.get(variable, []), bounds.high.get(variable, [])
    return GuardFree(new, _unlike(low), _unlike(high), conditions, proof.drops_clamps)


def _unlike(nodes: list[ast.expr]) -> list[ast.expr]:
    """Return each different expression once."""
    return list({ast.dump(node): node for node in nodes}.values())


class _GuardProof(ast.NodeTransformer):
    """Replaces every test that can be proved by one that always holds, and clamped indices."""

    def __init__(self, variable: str, pure: PureValues, known: Mapping[str, ast.expr]) -> None:
        self.variable = variable
        self.pure = pure
        #: Variables of the body, with their values.
        self.known = known
        self.proven: list[ast.expr] = []
        self.drops_clamps = False

    def proves(self, test: ast.expr) -> bool:
        """Record a test, if the ends of a row, or the row as a whole, can prove it."""
        test = self.pure.expanded(test, self.known)
        is_provable = self.is_provable(test)
        if is_provable:
            self.proven.append(test)
        return is_provable

    def is_provable(self, test: ast.expr) -> bool:
        """Return whether they can; that all threads of a row have one index they cannot prove."""
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
        is_proven = self.proves(node.test)
        if is_proven:
            node.test = place_at(call(ALWAYS), node.test)
        return is_proven

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node.value = self.visit(node.value)
        new = [self.unclamped(part) for part in index_parts(node)]
        if isinstance(node.slice, ast.Tuple):
            node.slice.elts = new
        else:
            (node.slice,) = new
        return node

    def unclamped(self, index: ast.expr) -> ast.expr:
        """Return an index without the limits that all threads of a row keep."""
        plain, is_unsigned = index, False
        match index:
            case ast.Call(func=ast.Name(id="kd_unsigned"), args=[argument]):
                plain, is_unsigned = argument, True
        found = self.within_limits(plain)
        if found is plain:
            return self.visit(index)  # type: ignore[no-any-return]
        self.drops_clamps = True
        is_positive = ast.Compare(found, [ast.GtE()], [ast.Constant(0)])
        if is_unsigned or self.proves(is_positive):
            return place_at(call("kd_unsigned", found), index)
        return found

    def within_limits(self, node: ast.expr) -> ast.expr:
        """Return the one argument of ``min`` and ``max`` that depends on the thread."""
        match node:
            case ast.Name():
                value = self.pure.expanded(node, self.known)
                inner = value if isinstance(value, ast.Name) else self.within_limits(value)
                return node if inner is value else inner
            case ast.Call(args=[_, _], keywords=[]):
                relation = _RELATIONS.get(self.pure.called(node.func) or "")
            case _:
                return node
        varying = [arg for arg in node.args if self.depends(arg)]
        if relation is None or len(varying) != 1:
            return node
        (limit,) = (arg for arg in node.args if arg is not varying[0])
        inner = self.within_limits(varying[0])
        return inner if self.proves(ast.Compare(inner, [relation()], [limit])) else node

    def depends(self, node: ast.expr) -> bool:
        """Return whether an expression differs between the threads of a row."""
        return self.variable in loaded_names(self.pure.expanded(node, self.known))

    def visit_While(self, node: ast.While) -> ast.AST:
        return node  # its tests are not asked once

    def visit_For(self, node: ast.For) -> ast.AST:
        return node
