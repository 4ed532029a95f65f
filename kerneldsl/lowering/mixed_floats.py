"""The variable that holds floats of 16 bits and integers, for which Numba has no type.

Numba asks NumPy for a type that holds both, and NumPy has none, or one that Numba lacks; which of
the two operands comes first decides whether it asks at all.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from kerneldsl.analysis.inferred_types import InferredTypes
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import Kind

__all__ = ["Mixture", "find_mixture"]


class Mixture(NamedTuple):
    """Two types on two paths."""

    #: The variable, or the conditional expression.
    node: ast.expr
    narrow: str
    other: str


def find_mixture(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> Mixture | None:
    """Return the first variable or conditional expression of a float of 16 bits and an integer."""
    inferred = InferredTypes(unit, kinds)
    known: dict[str, list[str | None]] = {
        name: [getattr(kind, "dtype", None)]
        for name, kind in zip(unit.parameters, kinds, strict=False)
    }
    for node in walk_here(unit.tree):
        found: list[str | None] = []
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found = known.setdefault(node.id, [])
            found.append(inferred.of(node))
        elif isinstance(node, ast.IfExp):
            found = [inferred.of(node.body), inferred.of(node.orelse)]
        mixture = _mixture(node, found) if isinstance(node, ast.expr) else None
        if mixture is not None:
            return mixture
    return None


def _mixture(node: ast.expr, found: list[str | None]) -> Mixture | None:
    names = [name for name in found if name is not None]
    narrow = next((name for name in names if ELEMENT_TYPES[name].is_narrow), None)
    whole = next((n for n in names if ELEMENT_TYPES[n].is_integer or n == "bool"), None)
    return Mixture(node, narrow, whole) if narrow is not None and whole is not None else None
