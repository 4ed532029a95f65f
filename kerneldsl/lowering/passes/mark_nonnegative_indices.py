"""Tell the compiler which indices are never negative."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from kerneldsl.analysis.expressions import index_parts
from kerneldsl.analysis.ranges import nonnegative_indices
from kerneldsl.frontend.syntax import call
from kerneldsl.frontend.trees import Transformer, copy_tree
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.lowering.passes.tuple_names import TupleLengths, tuple_lengths
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["UNSIGNED", "MarkNonnegativeIndices"]

#: What a marked index is passed through.
UNSIGNED = "kd_unsigned"


@dataclass(frozen=True)
class MarkNonnegativeIndices:
    """Wrap proven indices: ``a[i]`` becomes ``a[kd_unsigned(i)]``.

    A target gives ``kd_unsigned`` the meaning of a cast of an integer to an unsigned index, which
    costs nothing and spares the test for a negative index; any other value it returns unchanged.
    Constants are left alone.
    """

    #: False where the user promises that no index is negative: then every index is wrapped that may
    #: be an integer.
    wraparound: bool = True
    #: As in :func:`kerneldsl.analysis.ranges.nonnegative_indices`.
    nonnegative_calls: Callable[[ast.Call], bool] | None = None
    #: Values of outside names.
    constants: Mapping[str, Any] = field(default_factory=dict)
    #: Other outside names to their objects.
    namespace: Mapping[str, Any] = field(default_factory=dict)
    #: Variables that hold tuples (:func:`.tuple_names.tuple_lengths`): what indexes them, and an
    #: index that is one of them, is left alone.
    tuple_names: frozenset[str] = frozenset()

    @classmethod
    def for_unit(
        cls, unit: FunctionUnit, *, wraparound: bool, tuples: TupleLengths | None = None
    ) -> MarkNonnegativeIndices:
        """Return the pass with what a unit tells of its names.

        `tuples` are the parameters that are tuples, with their lengths.
        """

        def is_coordinate(call: ast.Call) -> bool:
            use = unit.use_of(call)
            return use is not None and use.intrinsic.is_index

        return cls(
            wraparound,
            is_coordinate,
            {name: captured.value for name, captured in unit.constants.items()},
            unit.namespace,
            frozenset(tuple_lengths(unit, tuples)),
        )

    def __call__(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        """Return the function with its indices marked."""
        result = copy_tree(tree)
        proven: set[ast.expr] = set()
        if self.wraparound:  # a promise needs no proof, and proofs take long
            proven = nonnegative_indices(
                result, self.nonnegative_calls, self.constants, namespace=self.namespace
            )
        _Marker(proven, self.wraparound, self.tuple_names).visit(result)
        return result


@dataclass
class _Marker(Transformer):
    proven: set[ast.expr]
    wraparound: bool
    tuple_names: frozenset[str]

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if self._is_tuple(node.value):
            self.generic_visit(node)
            return node
        marked = [self._mark(part) for part in index_parts(node)]
        if isinstance(node.slice, ast.Tuple):
            node.slice.elts = marked
        else:
            node.slice = marked[0]
        node.value = self.visit(node.value)
        return node

    def _mark(self, index: ast.expr) -> ast.expr:
        is_marked = index in self.proven if self.wraparound else may_be_integer(index)
        inner: ast.expr = self.visit(index)
        if not is_marked or isinstance(index, ast.Constant) or self._is_tuple(index):
            return inner
        return ast.fix_missing_locations(ast.copy_location(call(UNSIGNED, inner), index))

    def _is_tuple(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in ("shape", "strides")
        is_name = isinstance(node, ast.Name) and node.id in self.tuple_names
        return is_name or isinstance(node, ast.Tuple)


def may_be_integer(node: ast.expr) -> bool:
    """Return whether an index can be an integer by its form: no slice, tuple or constant."""
    match node:
        case ast.Slice() | ast.Tuple() | ast.Constant() | ast.Compare() | ast.Starred():
            return False
        case ast.UnaryOp():
            return not isinstance(node.op, ast.Not) and not isinstance(node.operand, ast.Constant)
        case ast.BinOp():
            return not isinstance(node.op, ast.Div)
    return True
