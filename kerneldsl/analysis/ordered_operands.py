"""Unsigned differences that are certainly not negative."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kerneldsl.analysis.reaching import Reaching
from kerneldsl.analysis.unsigned_bounds import UnsignedBound, number_of
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["OrderedOperands"]

_REDUCES = ast.FloorDiv | ast.Mod | ast.BitAnd | ast.RShift


class OrderedOperands:
    """Compares the operands of differences in one function.

    Parameters
    ----------
    unit : FunctionUnit
        The function.
    reaching : Reaching
        Its reaching definitions.
    bound : UnsignedBound
        Its bounds.
    parents : dict
        The parents of its nodes.
    """

    def __init__(
        self,
        unit: FunctionUnit,
        reaching: Reaching,
        bound: UnsignedBound,
        parents: dict[ast.AST, ast.AST],
    ) -> None:
        self._unit = unit
        self._reaching = reaching
        self._bound = bound
        self._parents = parents

    def are_ordered(self, node: ast.AST, left: ast.expr, right: ast.expr) -> bool:
        """Return whether ``left - right`` at a node is certainly not negative.

        It is where `right` is at most a literal that is `left` or is added to it; where `right` is
        a part of `left`, as ``x - x // 2``; and under a condition that says so.
        """
        least = self._least(left)
        most = self._bound.of(right)
        if most is not None and most <= least:
            return True
        match right:
            case ast.BinOp(left=whole, op=op) if isinstance(op, _REDUCES):
                if self._are_same(whole, left):
                    return True
        return any(self._says(test, left, right, most) for test in self._conditions(node))

    def _least(self, node: ast.expr) -> int:
        number = number_of(node, self._unit)
        if number is not None:
            return number
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return max(self._least(left), self._least(right))
        return 0

    def _conditions(self, node: ast.AST) -> Iterator[ast.expr]:
        """Yield the conditions that hold where a node is evaluated."""
        while (parent := self._parents.get(node)) is not None:
            match parent:
                case ast.If(test=test, body=body) | ast.While(test=test, body=body):
                    if node in body:
                        yield from _conjuncts(test)
                case ast.IfExp(test=test, body=body) if node is body:
                    yield from _conjuncts(test)
                case ast.BoolOp(op=ast.And(), values=values):
                    for each in values[: values.index(node)]:  # type: ignore[arg-type]
                        yield from _conjuncts(each)
            node = parent

    def _says(self, test: ast.expr, left: ast.expr, right: ast.expr, most: int | None) -> bool:
        """Return whether a condition says that an operand is at least the other."""
        one, two, op = _comparison(test)
        if not self._are_same(one, left):
            return False
        if two is None:
            return most is not None and most <= 1  # it is true: not 0
        if self._are_same(two, right) and not isinstance(op, ast.NotEq):
            return True
        least = number_of(two, self._unit)
        if most is None or least is None or (isinstance(op, ast.NotEq) and least != 0):
            return False
        return most <= (least if isinstance(op, ast.GtE) else least + 1)

    def _are_same(self, one: ast.AST, other: ast.AST) -> bool:
        """Return whether two expressions have one value: they read the same assignments."""
        if isinstance(one, ast.Name) and isinstance(other, ast.Name):
            stores = self._reaching.stores
            return one.id == other.id and stores.get(one) == stores.get(other)
        if type(one) is not type(other):
            return False
        parts = [_parts(one), _parts(other)]
        if len(parts[0]) != len(parts[1]):
            return False
        return _shape(one) == _shape(other) and all(map(self._are_same, *parts))


def _comparison(test: ast.expr) -> tuple[ast.expr, ast.expr | None, ast.cmpop | None]:
    """Return the operands of ``one > two`` and the like, the larger first."""
    match test:
        case ast.Compare(left=one, ops=[ast.Gt() | ast.GtE() | ast.NotEq()], comparators=[two]):
            return one, two, test.ops[0]
        case ast.Compare(left=two, ops=[ast.Lt()], comparators=[one]):
            return one, two, ast.Gt()
        case ast.Compare(left=two, ops=[ast.LtE()], comparators=[one]):
            return one, two, ast.GtE()
    return test, None, None


def _conjuncts(test: ast.expr) -> Iterator[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for each in test.values:
            yield from _conjuncts(each)
    else:
        yield test


def _parts(node: ast.AST) -> list[ast.AST]:
    return [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr_context)]


def _shape(node: ast.AST) -> list[object]:
    """Return what a node is, without its parts."""
    return [value for _, value in ast.iter_fields(node) if not isinstance(value, ast.AST | list)]
