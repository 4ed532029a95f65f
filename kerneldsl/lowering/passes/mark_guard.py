"""Mark the guard around a kernel's work, so that it can be asked about many indices at once.

Which conditions are a guard is found by :mod:`kerneldsl.analysis.guards`. An entry whose threads
work on several indices asks for the corners of a thread's alone, and runs the rest without a test.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from kerneldsl.analysis.guards import find_guard, returns_alone
from kerneldsl.frontend.syntax import call
from kerneldsl.frontend.trees import copy_tree
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["GUARD", "MarkGuard"]

#: What a marked guard is passed through.
GUARD = "kd_guard"


@dataclass(frozen=True)
class MarkGuard:
    """Wrap the guard of a kernel: ``if test:`` becomes ``if kd_guard(test):``.

    Several conditions that follow each other at once become one. A target gives ``kd_guard`` its
    meaning.
    """

    #: The kernel; it tells what its names are.
    unit: FunctionUnit

    def __call__(self, tree: ast.FunctionDef) -> tuple[ast.FunctionDef, bool]:
        """Return the function with its guard marked, and whether there is one."""
        result = copy_tree(tree)
        guard = find_guard(self.unit, result)
        if not guard:
            return tree, False
        first, last = guard[0], guard[-1]
        position = result.body.index(first)
        if returns_alone(first.body):
            passes = [_at(ast.UnaryOp(ast.Not(), each.test), each.test) for each in guard]
            test = _at(ast.UnaryOp(ast.Not(), _marked(passes)), first.test)
            replaced = len(guard)
        else:
            test = _marked([each.test for each in guard])
            replaced = 1
        marked = ast.copy_location(ast.If(test, last.body, []), first)
        result.body[position : position + replaced] = [marked]
        return ast.fix_missing_locations(result), True


def _marked(parts: Sequence[ast.expr]) -> ast.expr:
    first = parts[0]
    test = _at(ast.BoolOp(ast.And(), list(parts)), first) if len(parts) > 1 else first
    return _at(call(GUARD, test), first)


def _at(node: ast.expr, place: ast.expr) -> ast.expr:
    return ast.copy_location(node, place)
