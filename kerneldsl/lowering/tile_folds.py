"""Combine two elements of a tile, in LLVM's instructions of every machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from llvmlite import ir

from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.lowering.groups import combination_of

__all__ = ["COMBINATIONS", "FOLD_OF", "Combine", "identity_of"]

#: Writes the combination: (context, builder, Numba's type of both, one, two).
Combine: TypeAlias = Callable[[Any, ir.IRBuilder, Any, ir.Value, ir.Value], ir.Value]


def _combine(
    operation: str, context: Any, builder: ir.IRBuilder, kind: Any, one: ir.Value, two: ir.Value
) -> ir.Value:
    return combination_of(operation, context, kind).combine(builder, one, two)


def _either(
    context: Any, builder: ir.IRBuilder, kind: Any, one: ir.Value, two: ir.Value
) -> ir.Value:
    return builder.or_(one, two)


def _both(context: Any, builder: ir.IRBuilder, kind: Any, one: ir.Value, two: ir.Value) -> ir.Value:
    return builder.and_(one, two)


COMBINATIONS: dict[str, Combine] = {
    "sum": partial(_combine, "sum"),
    "max": partial(_combine, "max"),
    "min": partial(_combine, "min"),
    "any": _either,
    "all": _both,
}
#: Reduction to how it combines.
FOLD_OF = {**{name: name for name in COMBINATIONS}, "mean": "sum"}


def identity_of(fold: str, dtype: str) -> Any:
    """Return the number, as Python's, that changes no other one when they are combined."""
    row = ELEMENT_TYPES[dtype]
    if fold == "sum":
        if row.is_complex:
            return complex(-0.0, -0.0)
        return -0.0 if row.is_float else 0
    if fold in ("any", "all"):
        return fold == "all"
    if row.is_float:
        return float("nan")  # yields to any number
    return row.integer_range[0 if fold == "max" else 1]
