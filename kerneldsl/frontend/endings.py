"""Refuse the result of a device function that gives a value on one path and none on another.

Numba types such a result as optional, and what a thread does with the missing value depends on
the target: a store of it is skipped without a word. A caller that asks ``is None`` means it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.trees import jumps_of, walk_here
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["refuse_missing_values"]


def refuse_missing_values(
    tree: ast.FunctionDef, callees: Mapping[str, FunctionUnit], reporter: Reporter
) -> None:
    """Raise for the first call with a used result that may be missing.

    - `tree`: a function in normal form.
    - `callees`: name to the unit of a called device function.
    - raises `UnsupportedConstructError` with the place in the device function that gives no value.
    """
    may_miss = {
        name: unit
        for name, unit in callees.items()
        if _gives_a_value(unit.tree) and next(_endings(unit.tree.body, unit.tree), None)
    }
    if not may_miss:
        return
    asked = _compared_with_none(tree)
    fine = {
        id(statement.value)
        for statement in walk_here(tree)
        if isinstance(statement, ast.Assign | ast.Expr) and _is_unused(statement, asked)
    }
    for node in walk_here(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        unit = may_miss.get(node.func.id)
        if unit is not None and id(node) not in fine:
            _refuse(unit, next(_endings(unit.tree.body, unit.tree)), node, reporter)


def _refuse(unit: FunctionUnit, ending: ast.stmt, call: ast.Call, reporter: Reporter) -> None:
    returns = walk_here(unit.tree)
    line = next(n.lineno for n in returns if isinstance(n, ast.Return) and _has_value(n))
    here = "here" if isinstance(ending, ast.Return) else "if it ends after this statement"
    Reporter(unit.filename, unit.qualname).fail(
        ending,
        f"{unit.name} returns a value in line {line}, but none {here}; {reporter.qualname} uses "
        f"the result in line {call.lineno}",
        "Return a value on every path, or compare the result with None in the caller",
    )


def _compared_with_none(tree: ast.FunctionDef) -> set[str]:
    """Find variables that the function compares with ``None``."""
    return {
        node.left.id
        for node in walk_here(tree)
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Name)
        and isinstance(node.ops[0], ast.Is | ast.IsNot)
        and isinstance(node.comparators[0], ast.Constant)
        and node.comparators[0].value is None
    }


def _is_unused(node: ast.Assign | ast.Expr, asked: set[str]) -> bool:
    """Return whether a statement does without the value of its expression."""
    if isinstance(node, ast.Assign):
        return all(isinstance(each, ast.Name) and each.id in asked for each in node.targets)
    return isinstance(node, ast.Expr)


def _gives_a_value(tree: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Return) and _has_value(node) for node in walk_here(tree))


def _has_value(node: ast.Return) -> bool:
    value = node.value
    return value is not None and not (isinstance(value, ast.Constant) and value.value is None)


def _endings(statements: Sequence[ast.stmt], holder: ast.stmt) -> Iterator[ast.stmt]:
    """Find the statements at which a function ends without a value.

    What is after a statement that never goes on is not looked at.
    """
    last: ast.stmt | None = holder
    for statement in statements:
        yield from _bare_returns(statement)
        last = _passed(statement)
        if last is None:
            return
    if last is not None:
        yield last


def _bare_returns(statement: ast.stmt) -> Iterator[ast.stmt]:
    for node in walk_here(statement):
        if isinstance(node, ast.Return) and not _has_value(node):
            yield node


def _passed(statement: ast.stmt) -> ast.stmt | None:
    """Find the innermost statement after which control goes on; ``None`` if it never does."""
    if isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue):
        return None
    if isinstance(statement, ast.Try | ast.With | ast.Match):
        return None  # of Numba's own functions, and Numba's to judge
    if isinstance(statement, ast.For | ast.While) and statement.orelse:
        return None
    if isinstance(statement, ast.While) and _is_true(statement.test):
        return statement if ast.Break in map(type, jumps_of(statement.body)) else None
    if isinstance(statement, ast.If) and statement.orelse:
        for branch in (statement.body, statement.orelse):
            ends = [_passed(each) for each in branch]
            if None not in ends:
                return ends[-1]
        return None
    return statement


def _is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)
