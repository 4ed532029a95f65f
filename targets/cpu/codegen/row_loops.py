"""Loops over the threads of a row: their ends, and the versions of their bodies."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kerneldsl.analysis.expressions import loaded_names
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.frontend.trees import copy_tree
from targets.cpu.passes.butterflies import in_halves
from targets.cpu.passes.liveness import Variables
from targets.cpu.passes.statements import extreme, thread_loop
from targets.cpu.passes.versions import GuardFree, by_last_branch, without_guards

__all__ = [
    "all_of",
    "constant_length",
    "element_loops",
    "guarded",
    "limited",
    "row_loops",
    "within",
]


def row_loops(
    body: list[ast.stmt], low: ast.expr, high: ast.expr, variables: Variables
) -> list[ast.stmt]:
    """Write the loop along x of a block; again where guards hold or halves differ."""
    pure = variables.pure
    halves = None
    if variables.any_order:
        halves = in_halves(body, "kd_tx", low, high, pure, variables.own_arrays)
    if halves is not None:
        test, loops = halves
        return [ast.If(test, loops, [thread_loop("kd_tx", low, high, body)])]
    guard_free = without_guards(body, "kd_tx", pure)
    if guard_free is None:
        return [thread_loop("kd_tx", low, high, body)]
    tests: list[ast.expr] = list(guard_free.conditions)
    tests += within(low, high, guard_free.low, guard_free.high)
    fast = [thread_loop("kd_tx", low, high, guard_free.body)]
    # Elements at clamped indices would be gathered, which takes longer than to load each.
    mark = "kd_keep_scalar" if guard_free.drops_clamps else None
    careful = [thread_loop("kd_tx", copy_tree(low), copy_tree(high), body, mark)]
    every = all_of(tests)
    return fast if every is None else [ast.If(every, fast, careful)]


def element_loops(
    body: list[ast.stmt], low: ast.expr, high: ast.expr, variables: Variables
) -> list[ast.stmt]:
    """Write the loop along a row of elements; its ends apart where something else is done there.

    Between them, where the index of a neighbour is the same sum for all, it reads plain vectors.
    Where all elements take the same branch, it writes them. What all elements of a row decide alike
    is decided before the loop.
    """
    pure, before, last = variables.pure, body[:-1], body[-1]
    if isinstance(last, ast.If) and last.orelse and pure.is_steady(last.test):
        decided = pure.expanded(last.test)
        if "kd_x" not in loaded_names(decided):
            ways = ([*copy_tree(before), *last.body], [*before, *last.orelse])
            return [ast.If(decided, *(element_loops(way, low, high, variables) for way in ways))]
    found = without_guards(body, "kd_x", pure, indices_alone=True)
    if found is not None and found.drops_clamps:
        return _in_parts(found, body, low, high)
    branches = by_last_branch(body, "kd_x", pure)
    if branches is None:
        return [thread_loop("kd_x", low, high, body)]
    parts = _in_parts(branches.inner, branches.outer, low, high)
    known = all_of(branches.assumptions)
    if known is None:
        return parts
    return [ast.If(known, parts, [thread_loop("kd_x", low, high, copy_tree(body))])]


def _in_parts(
    inner: GuardFree, outer: list[ast.stmt], low: ast.expr, high: ast.expr
) -> list[ast.stmt]:
    """Write a row that runs one body between its ends, if that may run, and another one at them."""
    begin, end = load("kd_begin"), load("kd_end")
    row = load("kd_low"), load("kd_high")
    after, until = limited(*row, inner.low, inner.high)
    # An empty middle if it is not known that indices are within the axis.
    middle: list[ast.stmt] = [
        assign("kd_begin", extreme("kd_min", after, row[1])),
        assign("kd_end", extreme("kd_max", until, begin)),
    ]
    test = all_of(inner.conditions)
    if test is not None:
        nothing: list[ast.stmt] = [assign("kd_begin", row[1]), assign("kd_end", row[1])]
        middle = [ast.If(test, middle, nothing)]
    # Both ends are one loop in the code.
    is_left = ast.Compare(load("kd_side"), [ast.Eq()], [ast.Constant(0)])
    ends = thread_loop(
        "kd_x", ast.IfExp(is_left, row[0], end), ast.IfExp(is_left, begin, row[1]), outer
    )
    return [
        assign("kd_low", low),
        assign("kd_high", high),
        *middle,
        thread_loop("kd_x", begin, end, inner.body),
        ast.For(store("kd_side"), call("kd_range", ast.Constant(2)), [ends], []),
    ]


def constant_length(low: ast.expr, high: ast.expr) -> int | None:
    """Return the length of a range that is the same wherever it begins, and not empty."""
    match low, high:
        case ast.Constant(value=int(first)), ast.Constant(value=int(last)) if first < last:
            return last - first
    return None


def limited(
    low: ast.expr, high: ast.expr, lows: Sequence[ast.expr], highs: Sequence[ast.expr]
) -> tuple[ast.expr, ast.expr]:
    """Return a range without what is below or above further limits.

    Its end is never below `low`, since a loop's length is a difference that must not wrap where a
    limit is near the least int64.
    """
    start, end = low, high
    for limit in lows:
        start = extreme("kd_max", start, limit)
    for limit in highs:
        end = extreme("kd_min", end, limit)
    begins_at_zero = not lows and isinstance(low, ast.Constant) and low.value == 0
    return start, extreme("kd_max", end, low) if highs and not begins_at_zero else end


def within(
    low: ast.expr, high: ast.expr, lows: Sequence[ast.expr], highs: Sequence[ast.expr]
) -> list[ast.expr]:
    """Return the tests that a range is within further limits."""
    return [
        *(ast.Compare(limit, [ast.LtE()], [low]) for limit in lows),
        *(ast.Compare(high, [ast.LtE()], [limit]) for limit in highs),
    ]


def all_of(conditions: Sequence[ast.expr]) -> ast.expr | None:
    """Return one test for several, or ``None`` if there is nothing to test."""
    if len(conditions) > 1:
        return ast.BoolOp(ast.And(), list(conditions))
    return conditions[0] if conditions else None


def guarded(conditions: list[ast.expr], body: list[ast.stmt]) -> list[ast.stmt]:
    """Wrap statements into one ``if``."""
    test = all_of(conditions)
    return body if test is None else [ast.If(test, body, [])]
