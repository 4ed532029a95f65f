"""Turn guards on a thread's index into bounds of the loops over threads.

``if i < n:`` around everything that a loop over ``kd_tx`` does, with ``i = kd_bx * 256 + kd_tx``,
becomes the bound ``min(256, n - kd_bx * 256)``: no test is left in the loop, and a block that is
wholly inside runs its full range.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field

from targets.cpu.purity import PureValues

__all__ = ["Bounds", "conjuncts", "narrow"]


@dataclass
class Bounds:
    """Extra bounds of the loops over threads.

    Parameters
    ----------
    low, high : dict
        Loop variable to expressions; the loop starts at the largest low and ends before the
        smallest high.
    rest : list of ast.expr
        Conditions that stay in the loop.
    """

    low: dict[str, list[ast.expr]] = field(default_factory=dict)
    high: dict[str, list[ast.expr]] = field(default_factory=dict)
    rest: list[ast.expr] = field(default_factory=list)


def narrow(conditions: list[ast.expr], variables: tuple[str, ...], pure: PureValues) -> Bounds:
    """Sort conditions into bounds and the rest.

    Parameters
    ----------
    conditions : list of ast.expr
        All must hold for a thread to run.
    variables : tuple of str
        Loop variables, innermost first. A bound of one may only use those further out.
    pure : PureValues
        Definitions of the variables in the conditions.
    """
    bounds = Bounds()
    for condition in conditions:
        for part in conjuncts(condition):
            if not _place(part, variables, pure, bounds):
                bounds.rest.append(part)
    return bounds


def conjuncts(node: ast.expr) -> list[ast.expr]:
    """The parts of a condition that must all hold; a chained comparison is taken apart."""
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


def _place(part: ast.expr, variables: tuple[str, ...], pure: PureValues, bounds: Bounds) -> bool:
    """Record a comparison as a bound of one variable, if it is one."""
    if not isinstance(part, ast.Compare) or len(part.ops) != 1 or not pure.is_steady(part):
        return False
    left, right = pure.expanded(part.left), pure.expanded(part.comparators[0])
    if not (pure.is_integer(left) and pure.is_integer(right)):
        return False
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
        limit: ast.expr = ast.BinOp(b.rest, ast.Sub(), a.rest)
        if coefficient == -1:
            limit = ast.BinOp(a.rest, ast.Sub(), b.rest)
            operator = _MIRROR.get(type(operator), type(operator))()
        inner = set(variables[:position])
        if any(isinstance(n, ast.Name) and n.id in inner for n in ast.walk(limit)):
            return False
        return _record(operator, variable, _simplified(limit), bounds)
    return False


_MIRROR: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}


def _record(operator: ast.cmpop, variable: str, limit: ast.expr, bounds: Bounds) -> bool:
    after = _simplified(ast.BinOp(limit, ast.Add(), ast.Constant(1)))
    match operator:
        case ast.Lt():
            bounds.high.setdefault(variable, []).append(limit)
        case ast.LtE():
            bounds.high.setdefault(variable, []).append(after)
        case ast.Gt():
            bounds.low.setdefault(variable, []).append(after)
        case ast.GtE():
            bounds.low.setdefault(variable, []).append(limit)
        case ast.Eq():
            bounds.low.setdefault(variable, []).append(limit)
            bounds.high.setdefault(variable, []).append(copy.deepcopy(after))
        case _:
            return False
    return True


def _simplified(node: ast.expr) -> ast.expr:
    """Fold the zeros and constants that affine forms leave behind."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = _simplified(node.operand)
        if isinstance(operand, ast.Constant):
            return ast.Constant(-operand.value)  # type: ignore[operator]
        return ast.UnaryOp(node.op, operand)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
        return node
    left, right = _simplified(node.left), _simplified(node.right)
    is_sum = isinstance(node.op, ast.Add)
    if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
        a, b = left.value, right.value
        return ast.Constant(a + b if is_sum else a - b)  # type: ignore[operator]
    if isinstance(right, ast.Constant) and right.value == 0:
        return left
    if isinstance(left, ast.Constant) and left.value == 0 and is_sum:
        return right
    return ast.BinOp(left, node.op, right)
