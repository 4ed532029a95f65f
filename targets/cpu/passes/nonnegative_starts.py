"""Version loops on a nonnegative start, where their counter indexes arrays.

An index below 0 counts from the end of its axis, which takes three or four instructions at each
access. A counter that goes up is not negative if its loop does not start below 0 ::

    for k in range(starts[i], starts[i + 1]):
        total += values[k]

becomes ::

    start = starts[i]
    stop = starts[i + 1]
    if start >= 0:
        for k in range(start, stop):
            total += values[kd_unsigned(k)]
    else:
        for k in range(start, stop):
            total += values[k]

The pass runs on generated code, so that no other pass meets a loop twice, and on innermost loops
alone, so that code grows by little.
"""

from __future__ import annotations

import ast
from collections.abc import Set

from kerneldsl.analysis.expressions import assigned_names, index_parts
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.lowering.passes.mark_nonnegative_indices import UNSIGNED
from targets.cpu.passes.counted_loops import is_range

__all__ = ["version_loops_on_nonnegative_start"]


def version_loops_on_nonnegative_start(
    body: list[ast.stmt], unit: FunctionUnit, names: FreshNames, arrays: Set[str]
) -> list[ast.stmt]:
    """Return statements with two versions of such loops; `arrays` are unchanged parameters."""
    loops = walk_here(body)
    if not any(_bounds(node, unit) for node in loops):
        return body
    module = ast.Module(copy_tree(body), [])
    _Versions(unit, names, arrays).visit(module)
    return module.body


def _bounds(node: ast.AST, unit: FunctionUnit) -> ast.Call | None:
    """Return the range of a loop over one with two bounds."""
    match node:
        case ast.For(target=ast.Name(), iter=ast.Call(args=[_, _]) as bounds, orelse=[]) if (
            is_range(bounds, unit)
        ):
            return bounds
    return None


class _Versions(Transformer):
    def __init__(self, unit: FunctionUnit, names: FreshNames, arrays: Set[str]) -> None:
        self.unit = unit
        self.names = names
        self.arrays = arrays

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        if any(isinstance(n, ast.For | ast.While) for n in walk_here(node.body)):
            self.generic_visit(node)
            return node
        bounds = _bounds(node, self.unit)
        if bounds is None:
            return node
        assert isinstance(node.target, ast.Name)
        counter = node.target.id
        if counter in assigned_names(node.body):
            return node
        marking = _Marking(counter, self.arrays)
        marked = [marking.visit(statement) for statement in copy_tree(node.body)]
        if not marking.count:
            return node
        names = [self.names.make(stem) for stem in ("start", "stop")]
        named = [assign(name, value) for name, value in zip(names, bounds.args, strict=True)]
        bounds.args = [load(name) for name in names]
        upward = copy_tree(node)
        upward.body = marked
        test = ast.Compare(load(names[0]), [ast.GtE()], [ast.Constant(0)])
        return [place_at(each, node) for each in (*named, ast.If(test, [upward], [node]))]


class _Marking(Transformer):
    """Marks a counter that is an index as one that is not negative."""

    def __init__(self, counter: str, arrays: Set[str]) -> None:
        self.counter = counter
        self.arrays = arrays
        self.count = 0

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if not (isinstance(node.value, ast.Name) and node.value.id in self.arrays):
            return node
        parts = [self._marked(part) for part in index_parts(node)]
        if isinstance(node.slice, ast.Tuple):
            node.slice.elts = parts
        else:
            (node.slice,) = parts
        return node

    def _marked(self, index: ast.expr) -> ast.expr:
        match index:
            case ast.Name(id=self.counter):
                pass
            case ast.BinOp(
                left=ast.Name(id=self.counter), op=ast.Add(), right=ast.Constant(value=int(value))
            ) if value >= 0:
                pass
            case _:
                return index
        self.count += 1
        return place_at(call(UNSIGNED, index), index)
