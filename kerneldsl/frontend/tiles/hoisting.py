"""Move calls out of expressions into statements before them, keeping the order of evaluation.

Two passes need it: inlining (a call becomes statements) and the CPU target (a barrier that gives a
value must be alone). What they share is here: which subexpressions must be saved so that they
are still evaluated before the call, and which places cannot be moved at all because they are only
sometimes evaluated.
"""

from __future__ import annotations

import ast
import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TypeVar

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.expressions import sometimes_evaluated
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.library_names import outside_value
from kerneldsl.frontend.syntax import assign, load, store
from kerneldsl.frontend.trees import copy_origin, walk_here
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["CallHoister", "place_at"]

N = TypeVar("N", bound=ast.AST)


class CallHoister(ABC):
    """Rewrites a list of statements in place of their calls."""

    def __init__(self, unit: FunctionUnit, names: FreshNames) -> None:
        self.unit = unit
        self.names = names

    @abstractmethod
    def wants(self, node: ast.Call) -> bool:
        """Return whether this call has to move."""

    @abstractmethod
    def take(self, node: ast.Call, before: list[ast.stmt]) -> ast.expr:
        """Append what the call does to `before`; return what its value became."""

    # -- statements ---------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Rewrite a list of statements."""
        return [new for old in statements for new in self.statement(old)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """Rewrite one statement into one or more."""
        before: list[ast.stmt] = []
        match node:
            case ast.If():
                node.test = self.hoist(node.test, before)
                node.body = self.block(node.body)
                node.orelse = self.block(node.orelse)
            case ast.For():
                node.iter = self.hoist(node.iter, before)
                node.body = self.block(node.body)
            case ast.While():
                node.body = self.block(node.body)
                in_test: list[ast.stmt] = []
                node.test = self.hoist(node.test, in_test)
                if in_test:
                    leave = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
                    node.body = [*in_test, place_at(leave, node.test), *node.body]
                    node.test = place_at(ast.Constant(True), node.test)
            case ast.Expr(value=ast.Call() as call) if self.wants(call):
                self.arguments(call, before)
                self.take(call, before)
                return before
            case ast.Assign():
                self.assignment(node, before)
            case ast.AugAssign(target=ast.Subscript() as target) if self.contains(node):
                return self.augmented(node, target)
            case _:
                for name, value in ast.iter_fields(node):
                    if isinstance(value, ast.expr):
                        setattr(node, name, self.hoist(value, before))
        return [*before, node]

    def assignment(self, node: ast.Assign, before: list[ast.stmt]) -> None:
        """Rewrite an assignment: its value is evaluated first, then its targets from the left.

        References
        ----------
        Python Language Reference, section 7.2, "Assignment statements".
        """
        node.value = self.hoist(node.value, before)
        if not any(self.contains(target) for target in node.targets):
            return
        if not isinstance(node.value, ast.Name | ast.Constant):
            node.value = self.save(node.value, before)
        for target in node.targets:
            self.arguments(target, before)

    def augmented(self, node: ast.AugAssign, target: ast.Subscript) -> list[ast.stmt]:
        """Rewrite ``s[t] += f(…)``, which loads ``s[t]`` before it evaluates ``f(…)``.

        References
        ----------
        Python Language Reference, section 7.2.1, "Augmented assignment statements".
        """
        before: list[ast.stmt] = []
        for name, position, child in list(_expressions(target)):
            new = self.hoist(child, before)
            if not isinstance(new, ast.Name | ast.Constant):
                new = self.save(new, before)
            _replace_child(target, name, position, new)
        load = copy.deepcopy(target)
        load.ctx = ast.Load()
        loaded = self.save(load, before)
        operand = self.hoist(node.value, before)
        variable = place_at(store(loaded.id), node)
        before.append(place_at(ast.AugAssign(variable, node.op, operand), node))
        return [*before, place_at(ast.Assign([target], copy.copy(loaded)), node)]

    # -- expressions --------------------------------------------------------------------------

    def contains(self, node: ast.AST) -> bool:
        """Return whether a wanted call is somewhere below."""
        return any(isinstance(n, ast.Call) and self.wants(n) for n in walk_here(node))

    def hoist(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Move wanted calls out of one expression."""
        if not self.contains(node):
            return node
        self.refuse_conditional(node)
        self.arguments(node, before)
        if isinstance(node, ast.Call) and self.wants(node):
            return self.take(node, before)
        return node

    def arguments(self, node: ast.expr, before: list[ast.stmt]) -> None:
        """Move wanted calls out of the parts of an expression, saving what comes before them."""
        children = list(_expressions(node))
        calling = [i for i, (_, _, child) in enumerate(children) if self.contains(child)]
        if not calling:
            return
        for index, (name, position, child) in enumerate(children[: calling[-1] + 1]):
            new = self.hoist(child, before)
            if index < calling[-1] and not self.is_fixed(new):
                new = self.save(new, before)
            _replace_child(node, name, position, new)

    def is_fixed(self, node: ast.expr) -> bool:
        """Return whether an expression needs no variable: a name, a constant, ``np.int64``."""
        if isinstance(node, ast.Attribute):
            return outside_value(node, self.unit.namespace) is not None
        return isinstance(node, ast.Name | ast.Constant)

    def refuse_conditional(self, node: ast.expr) -> None:
        """Raise where a wanted call is after ``and``, ``or``, or in a conditional."""
        for child in sometimes_evaluated(node):
            if self.contains(child):
                raise UnsupportedConstructError(
                    "a barrier, an exchange between threads, or a device function with one or "
                    "with a shared array, is in an expression that is evaluated conditionally",
                    where=self.unit.locate(child),
                    remedy="Assign its result to a variable in a separate statement",
                )

    def save(self, value: ast.expr, before: list[ast.stmt]) -> ast.Name:
        """Assign a value to a new variable, so that it is evaluated now."""
        name = self.names.make("saved")
        before.append(place_at(assign(name, value), value))
        return place_at(load(name), value)


def _expressions(node: ast.expr) -> Iterator[tuple[str, int | None, ast.expr]]:
    """Return child expressions in the order of evaluation, with their places in the node."""
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.expr):
            yield name, None, value
        elif isinstance(value, list):
            for position, item in enumerate(value):
                if isinstance(item, ast.expr):
                    yield name, position, item
                elif isinstance(item, ast.keyword):
                    yield name, position, item.value


def _replace_child(node: ast.expr, name: str, position: int | None, new: ast.expr) -> None:
    """Put an expression in the place that :func:`_expressions` gave."""
    if position is None:
        setattr(node, name, new)
        return
    children = getattr(node, name)
    if isinstance(children[position], ast.keyword):
        children[position].value = new
    else:
        children[position] = new


def place_at(node: N, place: ast.AST) -> N:
    """Give a new node, and all below it without a place, the place of another."""
    for inner in walk_here(node):
        if "lineno" not in inner.__dict__ and isinstance(inner, ast.expr | ast.stmt):
            ast.copy_location(inner, place)
            copy_origin(inner, place)
    return node
