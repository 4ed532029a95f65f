"""Find which index expressions are never negative.

Python lets a negative index count from an array's end. That costs a comparison and a select at
every access and keeps LLVM from vectorizing, so targets drop it where this analysis proves that the
index cannot be negative: from what thread ids, sizes and ranges are, and from the conditions that
guard an access.

The domain is :mod:`kerneldsl.analysis.transfer`, whose state is an environment of facts about
variables. At a join only what holds on both sides is kept. ``assert`` and
``raise`` prove nothing, because they are compiled out without debug mode.

Signed 64-bit overflow is taken not to happen, as in C. Numba widens the narrower integers to 64
bits before it computes. Nothing is assumed of the types of parameters: a fact that would be wrong
for a float serves only where the expression in question makes the variable an integer, as an index
does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kerneldsl.analysis.bounds import Bounds, Environment
from kerneldsl.analysis.expressions import index_parts, operands
from kerneldsl.analysis.followed_names import followed_names
from kerneldsl.analysis.integers import Integers
from kerneldsl.analysis.linear_forms import LinearForms
from kerneldsl.analysis.transfer import Transfer
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["nonnegative_indices"]


def nonnegative_indices(
    tree_or_unit: ast.FunctionDef | FunctionUnit,
    nonnegative_calls: Callable[[ast.Call], bool] | None = None,
    constants: Mapping[str, Any] | None = None,
    *,
    namespace: Mapping[str, Any] | None = None,
) -> set[ast.expr]:
    """Find the index expressions that cannot be negative.

    Parameters
    ----------
    tree_or_unit : ast.FunctionDef or FunctionUnit
        The function, in normal form. A unit brings its constants and its intrinsics.
    nonnegative_calls : callable, optional
        Says of a call that its result, or each element of a tuple it gives, is an integer that is
        not negative and is the same each time in one thread if the call has no arguments. By
        default the indices and sizes among a unit's intrinsics.
    constants : mapping, optional
        Values of outside names; by default those of the unit.
    namespace : mapping, optional
        Other outside names to their objects; by default those of the unit. A call of what is not
        there, or is no function of Python's or NumPy's, proves nothing.

    Returns
    -------
    set of ast.expr
        Nodes of the tree: an index, or one element of a tuple of indices, inside the brackets of
        an ``ast.Subscript`` of an array. Slices are never among them.
    """
    if isinstance(tree_or_unit, FunctionUnit):
        unit = tree_or_unit
        tree = unit.tree
        if nonnegative_calls is None:
            nonnegative_calls = partial(_is_index_intrinsic, unit)
        if constants is None:
            constants = {name: captured.value for name, captured in unit.constants.items()}
        if namespace is None:
            namespace = unit.namespace
    else:
        tree = tree_or_unit
    integers = Integers(
        tree, nonnegative_calls or (lambda call: False), constants or {}, namespace or {}
    )
    proven = _prove(tree, integers)
    return {node for node, is_proven in proven.items() if is_proven}


def _prove(tree: ast.FunctionDef, integers: Integers) -> dict[ast.expr, bool]:
    """Return which indices are proven.

    Conditions connect most of the variables of a long kernel. They are looked at where something
    cannot be proven without them.
    """
    proven: dict[ast.expr, bool] = {}
    for compared in (False, True):
        bounds = Bounds(LinearForms(integers), followed_names(tree, compared=compared))
        proofs = _Proofs(bounds)
        proofs.block(tree.body, Environment())
        proven = proofs.proven
        if all(proven.values()):
            break
    return proven


def _is_index_intrinsic(unit: FunctionUnit, call: ast.Call) -> bool:
    use = unit.use_of(call)
    return use is not None and use.intrinsic.is_index


class _Proofs(Transfer):
    """Proves indices on the way, each under the conditions of its place."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds)
        self.proven: dict[ast.expr, bool] = {}

    def expression(self, node: ast.expr, env: Environment | None) -> None:
        """Look at every index below an expression, each under the conditions of its place."""
        if env is None:
            return
        match node:
            case ast.IfExp():
                self.expression(node.test, env)
                self.expression(node.body, self.bounds.assume(node.test, True, env))
                self.expression(node.orelse, self.bounds.assume(node.test, False, env))
                return
            case ast.BoolOp():
                reached: Environment | None = env
                for value in node.values:
                    self.expression(value, reached)
                    if reached is not None:
                        truth = isinstance(node.op, ast.And)
                        reached = self.bounds.assume(value, truth, reached)
                return
            case (
                ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp()
            ):
                return
            case ast.Subscript() if not _is_tuple(node.value):
                for part in index_parts(node):
                    if not isinstance(part, ast.Slice):
                        self._prove(part, env)
        for part in operands(node):
            self.expression(part, env)

    def _prove(self, node: ast.expr, env: Environment) -> None:
        is_proven = self.bounds.is_nonnegative_index(node, env)
        self.proven[node] = self.proven.get(node, True) and is_proven


def _is_tuple(node: ast.expr) -> bool:
    """Return whether what is subscripted is plainly no array."""
    return isinstance(node, ast.Tuple) or (
        isinstance(node, ast.Attribute) and node.attr in ("shape", "strides")
    )
