"""Mark the loops that divide by what they multiply: in full, their divisors are numbers.

The stages of a Fourier transform, or of a sort, divide by a distance that each of them doubles.
Where the loop is unrolled, quotients and remainders become shifts and masks, and quotients of
floats become products.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

from kerneldsl.analysis.expressions import assigned_names, loaded_names
from kerneldsl.contract import Report, ignore_remark
from kerneldsl.frontend.syntax import call
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from targets.cuda.intrinsics.unroll import UNROLL, UNROLL_NAME

__all__ = ["unroll_divisors"]

#: What is written so often in full: statements, and turns.
_MOST_STATEMENTS, _MOST_TURNS = 16, 12
_RELATIONS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_STEPS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_DIVISIONS = (ast.Div, ast.FloorDiv, ast.Mod)
_STATEMENTS = (ast.Assign, ast.AugAssign, ast.Expr, ast.If)


def unroll_divisors(
    unit: FunctionUnit, tree: ast.FunctionDef, report: Report = ignore_remark
) -> tuple[ast.FunctionDef, dict[str, Any]]:
    """Return the tree with marks in such loops, and what they call.

    The variable begins with a number, and is multiplied or divided by a number at the end of each
    turn. The tree is changed.
    """
    count = 0
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                count += _marked(unit, statements)
    report("loop", "unrolled, as it divides by what it multiplies", count)
    return tree, {UNROLL_NAME: UNROLL} if count else {}


def _marked(unit: FunctionUnit, statements: Sequence[ast.stmt]) -> int:
    """Mark the loops in a list of statements; return how many."""
    count = 0
    for place, statement in enumerate(statements):
        match statement:
            case ast.While(
                ast.Compare(ast.Name(variable), [relation], [bound]),
                [*body, ast.AugAssign(ast.Name(target), step, factor)],
                [],
            ) if variable == target and _divides_by(variable, body):
                start = _start(unit, variable, statements[:place])
                numbers = start, unit.literal(bound), unit.literal(factor)
                if _are_few_turns(relation, step, numbers):
                    mark = ast.Expr(call(UNROLL_NAME))
                    ast.fix_missing_locations(ast.copy_location(mark, statement.body[-1]))
                    statement.body.append(mark)
                    count += 1
    return count


def _divides_by(variable: str, body: Sequence[ast.stmt]) -> bool:
    """Return whether a straight body divides by a variable, which it does not change."""
    nodes = list(walk_here(body))
    found = [each for each in nodes if isinstance(each, ast.stmt)]
    if len(found) > _MOST_STATEMENTS or not all(isinstance(each, _STATEMENTS) for each in found):
        return False
    return variable not in assigned_names(body) and any(
        isinstance(each, ast.BinOp)
        and isinstance(each.op, _DIVISIONS)
        and variable in loaded_names([each.right])
        for each in nodes
    )


def _start(unit: FunctionUnit, variable: str, before: Sequence[ast.stmt]) -> int | None:
    """Return the number that a variable has after statements."""
    for statement in reversed(before):
        match statement:
            case ast.Assign([ast.Name(name)], value) if name == variable:
                return unit.literal(value)
        if variable in assigned_names(statement):
            return None
    return None


def _are_few_turns(
    relation: ast.cmpop, step: ast.operator, numbers: tuple[int | None, int | None, int | None]
) -> bool:
    value, bound, factor = numbers
    holds, change = _RELATIONS.get(type(relation)), _STEPS.get(type(step))
    if None in (value, bound, factor) or holds is None or change is None:
        return False
    assert value is not None
    assert bound is not None
    assert factor is not None
    if factor <= 0 or factor > 64:
        return False
    for _ in range(_MOST_TURNS + 1):
        if not holds(value, bound):
            return True
        value = change(value, factor)
    return False
