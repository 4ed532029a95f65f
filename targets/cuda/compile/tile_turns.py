"""Tell whether the turns of a loop write a tile to the same places, or to others.

A thread has the same elements of a tile in every turn, so that it writes the same place after
itself. Two turns write an element by two threads where their tiles overlap in part alone.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kerneldsl.analysis.bindings import Binding, bindings
from kerneldsl.analysis.expressions import assigned_names, index_parts, is_extent
from kerneldsl.analysis.integers import SIZES
from kerneldsl.analysis.trips import is_range
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import ArrayKind, Kind

__all__ = ["TileTurns"]

_MAX_DEPTH = 16


class TileTurns:
    """Stores of tiles in the loops of one kernel.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel, whose tile operations are separated.
    kinds : sequence of Kind
        Of its arguments.
    """

    def __init__(self, unit: FunctionUnit, kinds: Sequence[Kind]) -> None:
        self._unit = unit
        self._kinds = dict(zip(unit.parameters, kinds, strict=True))
        self._bound: dict[str, list[Binding]] = {}
        for binding in bindings(unit.tree):
            for node in ast.walk(binding.target):
                if isinstance(node, ast.Name):
                    self._bound.setdefault(node.id, []).append(binding)
        #: Operation to the outermost loop that it stands in.
        self._loops: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(unit.tree):
            if isinstance(node, ast.For | ast.While):
                for inner in ast.walk(node):
                    self._loops.setdefault(inner, node)
        self._changed: set[str] = set()

    def overlap(self, store: ast.Call) -> bool:
        """Return whether a store may write a part of what it wrote in another turn of its loops."""
        loop = self._loops.get(store)
        if loop is None:
            return False
        self._changed = assigned_names(loop)
        use = self._unit.use_of(store)
        assert use is not None
        array, *at, _ = store.args
        shape = use.static["shape"]
        return not (
            self._is_part(array)
            and all(self._is_steady(place, n) for place, n in zip(at, shape, strict=True))
        )

    def is_in_loop(self, node: ast.AST) -> bool:
        """Return whether a node may run several times."""
        return node in self._loops

    def _is_part(self, node: ast.expr, depth: int = 0) -> bool:
        """Return whether an array is the same in each turn, or a row of one.

        Rows are equal or have no element in common, if no two places of the array are one.
        """
        match node:
            case ast.Subscript(value=value):
                parts = index_parts(node)
                return self._is_part(value, depth + 1) and all(map(_leaves_rows, parts))
            case ast.Name(id=name) if name in self._kinds and name not in self._bound:
                kind = self._kinds[name]
                return isinstance(kind, ArrayKind) and kind.layout != "A"
            case ast.Name(id=name) if name not in self._kinds and depth < _MAX_DEPTH:
                given = self._value(node)
                if given is None:
                    return False
                return self._is_declared(given) or self._is_part(given, depth + 1)
        return False

    def _is_declared(self, node: ast.expr) -> bool:
        use = self._unit.use_of(node)
        return use is not None and use.intrinsic.name == "shared.array"

    def _value(self, name: ast.Name) -> ast.expr | None:
        """Return the expression that a variable always holds the value of."""
        found = self._bound.get(name.id, [])
        if len(found) != 1 or found[0].is_item or not isinstance(found[0].target, ast.Name):
            return None
        return None if isinstance(found[0].node, ast.AugAssign) else found[0].value

    def _is_steady(self, node: ast.expr, extent: int, depth: int = 0) -> bool:
        """Return whether an integer is the same in every turn, but for multiples of an extent.

        The extent of a tile of the block's size is 0: the integer is the same.
        """
        if extent == 1:
            return True
        if depth > _MAX_DEPTH:
            return False
        deeper = depth + 1
        match node:
            case ast.Constant():
                return True
            case ast.Name(id=name):
                return name not in self._changed or self._is_steady_variable(node, extent, deeper)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
                return self._is_steady(inner, extent, deeper)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                return all(self._is_steady(each, extent, deeper) for each in (left, right))
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                if any(self._is_multiple(each, extent) for each in (left, right)):
                    return True
                return all(self._is_steady(each, extent, deeper) for each in (left, right))
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name))) if is_extent(node):
                return name not in self._changed and isinstance(node.slice, ast.Constant)
            case ast.Attribute(value=ast.Name(id=name)) if node.attr in SIZES:
                return name not in self._changed
            case ast.Call():
                use = self._unit.use_of(node)
                return use is not None and use.intrinsic.is_index
        return False

    def _is_steady_variable(self, name: ast.Name, extent: int, depth: int) -> bool:
        if name.id in self._kinds:
            return False
        value = self._value(name)
        if value is not None:
            return self._is_steady(value, extent, depth)
        found = self._bound.get(name.id, [])
        if len(found) != 1 or not found[0].is_item or not isinstance(found[0].target, ast.Name):
            return False
        # The first number of a range, and each step from there on.
        iterable = found[0].value
        if not is_range(iterable, self._unit.namespace):
            return False
        assert isinstance(iterable, ast.Call)
        if len(iterable.args) < 3:
            return False
        start, _, step = iterable.args
        return self._is_steady(start, extent, depth) and self._is_multiple(step, extent)

    def _is_multiple(self, node: ast.expr, extent: int) -> bool:
        """Return whether an expression is a multiple of an extent, by a constant in it."""
        match node:
            case ast.Constant(value=value):
                return type(value) is int and _divides(extent, value)
            case ast.Name(id=name) if name in self._unit.constants:
                value = self._unit.constants[name].value
                return type(value) is int and _divides(extent, value)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self._is_multiple(inner, extent)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self._is_multiple(left, extent) or self._is_multiple(right, extent)
        return False


def _leaves_rows(part: ast.expr) -> bool:
    """Return whether an index takes one element along an axis, or all of them."""
    if isinstance(part, ast.Slice):
        return part.lower is None and part.upper is None and part.step is None
    return not (isinstance(part, ast.Constant) and part.value is ...)


def _divides(extent: int, value: int) -> bool:
    return value % extent == 0 if extent else value == 0
