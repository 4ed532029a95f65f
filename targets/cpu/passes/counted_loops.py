"""A loop over a range, written as one with a test; all its variables can be kept and masked.

``for i in range(a, b): body`` becomes ::

    low = a
    high = b
    count = len(range(low, high))
    step = 0
    while step < count:
        i = the item of range(low, high) with the number step
        step = step + 1
        body
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import NamedTuple

from kerneldsl.analysis.library_names import library_name
from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["CountedLoop", "counted", "is_range"]


class CountedLoop(NamedTuple):
    """The statements of such a loop; they have no place in the source yet."""

    #: What is computed before it.
    before: list[ast.stmt]
    #: Whether there is another iteration.
    test: ast.expr
    #: What an iteration begins with.
    head: list[ast.stmt]


def is_range(iterable: ast.expr, unit: FunctionUnit) -> bool:
    """Return whether an expression is a range with bounds that are written out."""
    return (
        isinstance(iterable, ast.Call)
        and library_name(iterable.func, unit.namespace) == "range"
        and not any(isinstance(argument, ast.Starred) for argument in iterable.args)
    )


def counted(node: ast.For, variable: Callable[[str], str]) -> CountedLoop:
    """Return a loop over a range with a test; `variable` makes a name for a new variable."""
    assert isinstance(node.iter, ast.Call)
    before: list[ast.stmt] = []
    bounds: list[ast.expr] = []
    for argument in node.iter.args:
        name = variable("bound")
        before.append(assign(name, argument))
        bounds.append(load(name))
    step, count = variable("step"), variable("count")
    before.append(assign(count, call("kd_len", call("kd_any_range", *bounds))))
    before.append(assign(step, ast.Constant(0)))
    item = call("kd_range_item", load(step), *copy.deepcopy(bounds))
    following = ast.BinOp(load(step), ast.Add(), ast.Constant(1))
    head: list[ast.stmt] = [ast.Assign([node.target], item), assign(step, following)]
    return CountedLoop(before, ast.Compare(load(step), [ast.Lt()], [load(count)]), head)
