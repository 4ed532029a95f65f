"""Elements that all threads of a row load are loaded once, before the loop over the row.

``distance[i, k] + distance[k, j]`` in a loop over ``j`` loads its first element for each vector:
LLVM cannot see that no thread writes to it. Between two barriers threads may take turns after any
instruction, so all of them may load it before the first one writes ::

    for kd_x in kd_range(a, b):
        through = distance[i, k] + distance[k, kd_x]

becomes ::

    low = a
    high = b
    if low < high:
        loaded = distance[i, k]
        for kd_x in kd_range(low, high):
            through = loaded + distance[k, kd_x]

It is done with what is generated, to what each thread evaluates before anything that it writes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set

from kerneldsl.analysis.expressions import assigned_names, index_parts
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.analysis.library_names import library_name
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.lowering.passes.mark_nonnegative_indices import UNSIGNED

__all__ = ["load_once_for_rows"]

#: Calls of generated code that only compute.
_FUNCTIONS = frozenset({UNSIGNED, "kd_load", "kd_min", "kd_max", "kd_int64", "kd_int32"})
#: Variables of loops over rows of threads.
_ROWS = frozenset({"kd_x", "kd_tx"})


def load_once_for_rows(
    body: list[ast.stmt],
    unit: FunctionUnit,
    names: FreshNames,
    arrays: Mapping[str, tuple[str, int]],
) -> list[ast.stmt]:
    """Return a copy in which rows load such elements once.

    `arrays` are the arguments that always hold one array, with its dtype and rank. A record is no
    value, but a place in memory.
    """
    ranks = {n: rank for n, (dtype, rank) in arrays.items() if not ELEMENT_TYPES[dtype].is_record}
    module = ast.Module(copy_tree(body), [])
    _Rows(unit, names, ranks).visit(module)
    return module.body


class _Rows(Transformer):
    def __init__(self, unit: FunctionUnit, names: FreshNames, ranks: Mapping[str, int]) -> None:
        self.unit = unit
        self.names = names
        self.ranks = ranks

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        match node:
            case ast.For(
                target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="kd_range"), args=bounds)
            ) if name in _ROWS and len(bounds) <= 2:
                return self._row(node, [ast.Constant(0), *bounds][-2:])
            case _:
                self.generic_visit(node)
                return node

    def _row(self, node: ast.For, bounds: list[ast.expr]) -> ast.stmt | list[ast.stmt]:
        varying = assigned_names([node])
        loads: dict[str, tuple[str, ast.Subscript]] = {}
        replaced: dict[ast.Subscript, str] = {}
        for each in self._first_evaluated(node.body):
            if self._is_shared(each, varying):
                text = ast.dump(each)
                if text not in loads:
                    loads[text] = self.names.make("loaded"), each
                replaced[each] = loads[text][0]
        if not loads:
            return node
        made = [assign(name, copy_tree(each)) for name, each in loads.values()]
        _Replacing(replaced).visit(node)
        if all(isinstance(bound, ast.Constant) for bound in bounds):
            return [place_at(each, node) for each in (*made, node)]
        ends = [self.names.make(stem) for stem in ("low", "high")]
        named = [assign(name, bound) for name, bound in zip(ends, bounds, strict=True)]
        node.iter = place_at(call("kd_range", *map(load, ends)), node)
        test = ast.Compare(load(ends[0]), [ast.Lt()], [load(ends[1])])
        return [place_at(each, node) for each in (*named, ast.If(test, [*made, node], []))]

    def _is_shared(self, node: ast.Subscript, varying: Set[str]) -> bool:
        parts = index_parts(node)
        is_element = isinstance(node.value, ast.Name) and (
            self.ranks.get(node.value.id) == len(parts)
        )
        return is_element and all(_is_steady(part, varying) for part in parts)

    def _first_evaluated(self, body: list[ast.stmt]) -> Iterator[ast.Subscript]:
        """Return what each thread loads in any case, before it writes or leaves."""
        for statement in body:
            match statement:
                case (
                    ast.Assign(targets=[target], value=value)
                    | ast.AugAssign(target=target, value=value)
                ):
                    evaluated, goes_on = value, isinstance(target, ast.Name)
                case ast.If(test=test):
                    evaluated, goes_on = test, False
                case _:
                    return
            if not self._only_computes(evaluated):
                return
            yield from _always_evaluated(evaluated)
            if not goes_on:
                return

    def _only_computes(self, node: ast.expr) -> bool:
        """Return whether nothing that is called may write to an array."""
        calls = (inner for inner in walk_here(node) if isinstance(inner, ast.Call))
        return all(map(self._is_function, calls))

    def _is_function(self, node: ast.Call) -> bool:
        if isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            return True
        use = self.unit.use_of(node)
        if use is not None:
            return use.intrinsic.effect is Effect.NONE and not use.intrinsic.is_barrier
        return library_name(node.func, self.unit.namespace) is not None


def _is_steady(index: ast.expr, varying: Set[str]) -> bool:
    """Return whether an index is a sum or product of numbers that a row does not change."""
    match index:
        case ast.Name(id=name):
            return name not in varying
        case ast.Constant(value=value):
            return isinstance(value, int)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right):
            return _is_steady(left, varying) and _is_steady(right, varying)
        case ast.Call(func=ast.Name(id=name), args=[argument]) if name == UNSIGNED:
            return _is_steady(argument, varying)
        case _:
            return False


def _always_evaluated(node: ast.expr) -> Iterator[ast.Subscript]:
    """Return the subscripts of an expression that are evaluated whenever it is."""
    match node:
        case ast.BoolOp(values=[first, *_]):
            yield from _always_evaluated(first)
        case ast.IfExp(test=test):
            yield from _always_evaluated(test)
        case ast.Compare(ops=[_], left=left, comparators=[right]):
            yield from _always_evaluated(left)
            yield from _always_evaluated(right)
        case ast.BinOp(left=left, right=right):
            yield from _always_evaluated(left)
            yield from _always_evaluated(right)
        case ast.UnaryOp(operand=operand):
            yield from _always_evaluated(operand)
        case ast.Subscript():
            yield node
            for part in index_parts(node):
                yield from _always_evaluated(part)
        case ast.Call(args=arguments):
            for each in arguments:
                yield from _always_evaluated(each)


class _Replacing(Transformer):
    def __init__(self, replaced: dict[ast.Subscript, str]) -> None:
        self.replaced = replaced

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if node in self.replaced:
            return place_at(load(self.replaced[node]), node)
        self.generic_visit(node)
        return node
