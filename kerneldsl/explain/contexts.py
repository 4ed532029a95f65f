"""Conditions and loops around a node of a kernel, and statements before it in which lanes left."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from kerneldsl.explain.symbols import Symbols
from kerneldsl.utilities.operators import OPPOSITES

__all__ = ["Context", "Guard", "Leaving", "Round", "after", "comparisons", "has_statement"]

_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_LEAVING = (ast.Return, ast.Break, ast.Continue)


class Guard(NamedTuple):
    """A condition that holds where a node is executed, or that does not."""

    test: ast.expr
    holds: bool
    node: ast.If | ast.IfExp | ast.BoolOp
    symbols: Symbols


class Leaving(NamedTuple):
    """A statement before, in which some lanes left."""

    statement: ast.stmt


class Round(NamedTuple):
    """A loop around a statement."""

    node: ast.For | ast.While
    symbols: Symbols


Context: TypeAlias = tuple["Guard | Leaving | Round", ...]


def comparisons(
    test: ast.expr, holds: bool
) -> list[tuple[ast.expr, type[ast.cmpop], ast.expr]] | None:
    """Return comparisons that all hold where a condition does, or if it does not."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return comparisons(operand, not holds)
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) == holds:
            parts = [comparisons(each, holds) for each in values]
            if any(each is None for each in parts):
                return None
            return [pair for each in parts if each is not None for pair in each]
        case ast.Compare(left=left, ops=ops, comparators=others):
            if not all(isinstance(op, _ORDERS) for op in ops) or (not holds and len(ops) > 1):
                return None
            kinds = [type(op) if holds else OPPOSITES[type(op)] for op in ops]
            return list(zip((left, *others), kinds, others, strict=False))
    return None


def after(branch: ast.If, taken: Guard, other: Guard) -> Context:
    """Return what holds after a branch in which lanes may have left."""
    sides = ((branch.body, other), (branch.orelse, taken))
    leaving = [side for side in sides if has_statement(side[0], *_LEAVING)]
    if not leaving:
        return ()
    (block, stays), *more = leaving
    is_whole = isinstance(block[-1], _LEAVING) and not has_statement(block[:-1], *_LEAVING)
    return (stays,) if is_whole and not more else (Leaving(branch),)


def has_statement(block: Sequence[ast.stmt], *kinds: type[ast.stmt]) -> bool:
    """Return whether statements have some of a kind in them; of loops in them, only returns."""
    for each in block:
        if isinstance(each, kinds):
            return True
        if isinstance(each, ast.If) and has_statement([*each.body, *each.orelse], *kinds):
            return True
        if isinstance(each, ast.For | ast.While) and has_statement(each.body, ast.Return):
            return True
    return False
