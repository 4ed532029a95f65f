"""Turn guards on a thread's index into bounds of the loops over threads.

``if i < n:`` around everything that a loop over ``kd_tx`` does, with ``i = kd_bx * 256 + kd_tx``,
becomes the bound ``min(256, n - kd_bx * 256)``: no test is left in the loop, and a block that is
wholly inside runs its full range.

Integers wrap, and ``n`` may be any int64, so that is exact only with care. Loop variables are
small, far below :data:`_SMALL`. A guard ``±v + a < r`` says of integers what it says of int64 as
long as ``a`` is small, because sums wrap alike however they are associated. Then ``r - a``, which
saturates instead of wrapping, is its bound. Where nothing is known of ``a`` (a scalar argument),
the bound holds on the assumption that ``a`` is small, which generated code tests.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import field

from kerneldsl.analysis.expressions import loaded_names
from kerneldsl.frontend.syntax import call
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.passes.magnitudes import magnitude
from targets.cpu.passes.rematerialization import Rematerializable

__all__ = ["LoopBounds", "conjuncts", "narrow", "simplified"]

#: What two of are added, or a loop variable and one, without leaving int64.
_SMALL = 2**62
_GREATEST = 2**63 - 1


@dataclass
class LoopBounds:
    """Extra bounds of the loops over threads."""

    #: Loop variable to expressions; the loop starts at the largest low and ends before the smallest
    #: high.
    low: dict[str, list[ast.expr]] = field(default_factory=dict)
    high: dict[str, list[ast.expr]] = field(default_factory=dict)
    #: Conditions that stay in the loop.
    rest: list[ast.expr] = field(default_factory=list)
    #: Conditions, the same for all threads, without which the bounds do not hold.
    assumptions: list[ast.expr] = field(default_factory=list)


def narrow(
    conditions: list[ast.expr], variables: tuple[str, ...], pure: Rematerializable
) -> LoopBounds:
    """Sort conditions into bounds and the rest.

    All conditions must hold for a thread to run. The variables are those of loops, innermost first:
    a bound of one may only use those further out. Without any, all conditions stay.
    """
    bounds = LoopBounds()
    for condition in conditions:
        for part in conjuncts(condition):
            if not _place(part, variables, pure, bounds):
                bounds.rest.append(part)
    return bounds


def conjuncts(node: ast.expr) -> list[ast.expr]:
    """Return the parts of a condition that must all hold; a chained comparison is split."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [part for value in node.values for part in conjuncts(value)]
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        chain = [node.left, *node.comparators]
        if all(
            isinstance(c, ast.Name | ast.Constant | ast.Attribute | ast.Subscript | ast.BinOp)
            for c in chain
        ):
            return [
                ast.copy_location(ast.Compare(left, [op], [right]), node)
                for left, op, right in zip(chain, node.ops, chain[1:], strict=False)
            ]
    return [node]


def _place(
    part: ast.expr, variables: tuple[str, ...], pure: Rematerializable, bounds: LoopBounds
) -> bool:
    """Record a comparison as a bound of one variable, if it is one."""
    if not isinstance(part, ast.Compare) or len(part.ops) != 1 or not pure.is_steady(part):
        return False
    left, right = pure.expanded(part.left), pure.expanded(part.comparators[0])
    if not (pure.is_integer(left) and pure.is_integer(right)):
        return False
    left, right = pure.as_int64(left), pure.as_int64(right)
    for position, variable in enumerate(variables):
        a, b = pure.affine(left, variable), pure.affine(right, variable)
        if a is None or b is None:
            return False
        coefficient = a.coefficient - b.coefficient
        if coefficient == 0:
            if a.coefficient != 0:
                return False
            continue
        if abs(coefficient) != 1:
            return False
        operator: ast.cmpop = part.ops[0]
        minuend, subtrahend = simplified(b.rest), simplified(a.rest)
        if coefficient == -1:
            minuend, subtrahend = subtrahend, minuend
            operator = _MIRROR.get(type(operator), type(operator))()
        inner = set(variables[:position])
        if loaded_names((minuend, subtrahend)) & inner:
            return False
        assumptions: list[ast.expr] = []
        for side in (a, b):
            if side.coefficient and not _assume_small(side.rest, variables, pure, assumptions):
                return False
        if not _record(operator, variable, _difference(minuend, subtrahend, pure), bounds):
            return False
        bounds.assumptions += assumptions
        return True
    return False


def _assume_small(
    node: ast.expr, variables: tuple[str, ...], pure: Rematerializable, assumptions: list[ast.expr]
) -> bool:
    """Add what must hold for a sum to be small; False if that differs between threads."""
    if _is_surely_small(node, pure, _SMALL):
        return True
    terms = _terms(node)
    own = [term for term in terms if loaded_names(term) & set(variables)]
    others = [term for term in terms if term not in own]
    if not _is_surely_small(_sum(own), pure, _SMALL // 2):
        return False
    most = _SMALL // 2
    comparators: list[ast.expr] = [_sum(others), ast.Constant(most)]
    assumptions.append(ast.Compare(ast.Constant(-most), [ast.LtE(), ast.LtE()], comparators))
    return True


def _is_surely_small(node: ast.expr, pure: Rematerializable, most: int) -> bool:
    largest = magnitude(node, pure)
    return largest is not None and largest <= most


def _terms(node: ast.expr) -> list[ast.expr]:
    """Return the terms of a sum."""
    match node:
        case ast.BinOp(op=ast.Add()):
            return [*_terms(node.left), *_terms(node.right)]
        case ast.BinOp(op=ast.Sub()):
            negated: list[ast.expr] = [ast.UnaryOp(ast.USub(), t) for t in _terms(node.right)]
            return [*_terms(node.left), *negated]
        case _:
            return [node]


def _sum(terms: list[ast.expr]) -> ast.expr:
    total: ast.expr = ast.Constant(0)
    for term in terms:
        total = ast.BinOp(total, ast.Add(), copy.deepcopy(term))
    return simplified(total)


def _difference(left: ast.expr, right: ast.expr, pure: Rematerializable) -> ast.expr:
    """Return ``left - right``, or the end of int64 that is nearest to it."""
    found = simplified(ast.BinOp(left, ast.Sub(), right))
    if found is left or _is_surely_small(found, pure, _SMALL):
        return found
    return call("kd_saturating_sub", left, right)


def _next(limit: ast.expr) -> ast.expr:
    """Return ``limit + 1``, or the greatest int64."""
    if isinstance(limit, ast.Constant) and isinstance(limit.value, int):
        return ast.Constant(min(limit.value + 1, _GREATEST))
    one = ast.Constant(1)
    return call("kd_saturating_add", copy.deepcopy(limit), one)


_MIRROR: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}


def _record(operator: ast.cmpop, variable: str, limit: ast.expr, bounds: LoopBounds) -> bool:
    low, high = bounds.low.setdefault(variable, []), bounds.high.setdefault(variable, [])
    match operator:
        case ast.Lt():
            high.append(limit)
        case ast.LtE():
            high.append(_next(limit))
        case ast.Gt():
            low.append(_next(limit))
        case ast.GtE():
            low.append(limit)
        case ast.Eq():
            low.append(limit)
            high.append(_next(limit))
        case _:
            return False
    return True


def simplified(node: ast.expr) -> ast.expr:
    """Fold the zeros and constants that affine forms leave behind."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = simplified(node.operand)
        if isinstance(operand, ast.Constant):
            return ast.Constant(-operand.value)  # type: ignore[operator]
        return ast.UnaryOp(node.op, operand)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
        return node
    left, right = simplified(node.left), simplified(node.right)
    is_sum = isinstance(node.op, ast.Add)
    if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
        a, b = left.value, right.value
        return ast.Constant(a + b if is_sum else a - b)  # type: ignore[operator]
    if isinstance(right, ast.Constant) and right.value == 0:
        return left
    if isinstance(left, ast.Constant) and left.value == 0 and is_sum:
        return right
    return ast.BinOp(left, node.op, right)
