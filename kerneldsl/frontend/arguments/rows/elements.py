"""From an expression over rows to the expression of one element."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kerneldsl.frontend.arguments.known_values import Elements, Value
from kerneldsl.frontend.expressions import index_parts
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.library_names import outside_value
from kerneldsl.frontend.names import local_constants
from kerneldsl.frontend.syntax import assign, load
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["ElementWriter", "RowView", "is_full"]


class RowView(NamedTuple):
    """An array with more axes than indices, as the loops over the rest of it see it.

    Parameters
    ----------
    array : str
        Variable that holds the array.
    indices : tuple of ast.expr or None
        Of each axis its index, ``None`` if it is looped over.
    """

    array: str
    indices: tuple[ast.expr | None, ...]

    @property
    def axes(self) -> list[int]:
        """The axes that are looped over."""
        return [axis for axis, index in enumerate(self.indices) if index is None]

    def extent(self, number: int) -> ast.expr:
        """Return the extent of an axis that is looped over, by its number among those."""
        shape = ast.Attribute(load(self.array), "shape", ast.Load())
        return ast.Subscript(shape, ast.Constant(self.axes[number]), ast.Load())

    def element(self, loops: Sequence[str], context: ast.expr_context) -> ast.Subscript:
        """Return an element; the last axes go with the last loops."""
        inner = iter(loops[len(loops) - len(self.axes) :])
        parts = [load(next(inner)) if each is None else each for each in self.indices]
        index: ast.expr = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
        return ast.Subscript(load(self.array), index, context)


def is_full(part: ast.expr) -> bool:
    """Return whether an index takes its axis whole: ``:``."""
    return isinstance(part, ast.Slice) and not (part.lower or part.upper or part.step)


class ElementWriter:
    """Writes expressions over rows for one element, and what has to be computed before.

    Parameters
    ----------
    unit : FunctionUnit
        The function.
    types : mapping
        What is known of its expressions.
    names : FreshNames
        For variables that are added.
    """

    def __init__(
        self, unit: FunctionUnit, types: Mapping[ast.expr, Value], names: FreshNames
    ) -> None:
        self._unit = unit
        self._types = types
        self._names = names
        self._bound_once = local_constants(unit.tree)
        #: Assignments that come before the loops.
        self.before: list[ast.stmt] = []
        #: The rows that are read.
        self.views: list[RowView] = []

    def bound_once(self, name: str) -> ast.expr | None:
        """Return what a variable is bound to, if that is one expression."""
        return self._bound_once.get(name)

    def array(self, node: ast.expr) -> Elements | None:
        """Return what is known of an array; ``None`` of anything else."""
        found = self._types.get(node)
        return found if isinstance(found, Elements) and not found.is_range else None

    def rank(self, node: ast.expr) -> int:
        """Return the rank of an expression over rows; 0 if it is none."""
        found = self.array(node)
        if found is not None:
            return found.ndim
        return max((self.rank(part) for part in self.parts(node)), default=0)

    def parts(self, node: ast.expr) -> list[ast.expr]:
        """Return the operands of what is computed element by element."""
        match node:
            case ast.BinOp(left=left, right=right):
                return [left, right]
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=operand):
                return [operand]
            case ast.Compare(left=left, comparators=[right]):
                return [left, right]
            case ast.Call(func=func, args=args, keywords=[]):
                function = outside_value(func, self._unit.namespace)
                if isinstance(function, np.ufunc) or function is abs:
                    return args
        return []

    def view(self, node: ast.expr) -> RowView:
        """Return a view for loops; what its indices need is computed before."""
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            whole = self.array(node.value)
            parts = index_parts(node)
            is_plain = all(
                is_full(p)
                or not isinstance(p, ast.Slice | ast.Constant)
                or (isinstance(p, ast.Constant) and type(p.value) is int)
                for p in parts
            )
            if whole is not None and is_plain and self._is_view_of_integers(node, whole, parts):
                indices = [None if is_full(p) else self._once(p) for p in parts]
                indices += [None] * (whole.ndim - len(parts))
                return RowView(node.value.id, tuple(indices))
        found = self.array(node)
        assert found is not None
        if not isinstance(node, ast.Name):
            node = self._bound(node)
        return RowView(node.id, (None,) * found.ndim)

    def _is_view_of_integers(
        self, node: ast.Subscript, whole: Elements, parts: list[ast.expr]
    ) -> bool:
        """Return whether each index takes one axis: none is a tuple or an array."""
        found = self.array(node)
        integers = sum(not is_full(part) for part in parts)
        return found is not None and found.ndim == whole.ndim - integers

    def _once(self, index: ast.expr) -> ast.expr:
        """Return an index that is computed once where loads or calls are in it."""
        if any(isinstance(n, ast.Call | ast.Subscript | ast.Attribute) for n in walk_here(index)):
            return self._bound(index)
        return index

    def _bound(self, node: ast.expr) -> ast.Name:
        if isinstance(node, ast.Subscript):  # maybe a target
            node = ast.copy_location(ast.Subscript(node.value, node.slice, ast.Load()), node)
        name = self._names.make("of_row")
        self.before.append(ast.copy_location(assign(name, node), node))
        return load(name)

    def element(self, node: ast.expr, loops: Sequence[str]) -> ast.expr:
        """Return the expression of one element."""
        if self.array(node) is not None:
            view = self.view(node)
            self.views.append(view)
            return ast.copy_location(view.element(loops, ast.Load()), node)
        if self.rank(node) == 0:
            return node if isinstance(node, ast.Constant | ast.Name) else self._bound(node)
        written = {part: self.element(part, loops) for part in self.parts(node)}
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                made: ast.expr = ast.BinOp(written[left], op, written[right])
            case ast.UnaryOp(op=op, operand=operand):
                made = ast.UnaryOp(op, written[operand])
            case ast.Compare(left=left, ops=ops, comparators=[right]):
                made = ast.Compare(written[left], ops, [written[right]])
            case ast.Call(func=func, args=args):
                made = ast.Call(func, [written[each] for each in args], [])
            case _:
                raise AssertionError(ast.dump(node))
        return ast.copy_location(made, node)
