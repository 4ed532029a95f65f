"""Test quickly whether a kernel may need a rewrite, without importing the rewrite."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from kerneldsl.frontend.library_names import library_name
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import Kind, leaf_kinds

__all__ = ["REDUCED", "may_have_rows", "may_have_uint64"]

#: Methods of arrays that become loops.
REDUCED = ("sum", "prod", "mean", "max", "min", "argmax", "argmin", "any", "all")
_UINT64 = "uint64"
_names_uint64: WeakKeyDictionary[FunctionUnit, bool] = WeakKeyDictionary()


def may_have_rows(unit: FunctionUnit, rank: int, *, has_tuples: bool) -> bool:
    """Return whether a function has more than elements of arrays with one axis; quickly.

    `rank` is the largest of its arguments, and `has_tuples` says whether some are tuples.
    """
    if rank > 1 or has_tuples:
        return True
    reachable = list(unit.reachable())
    uses = (use for each in reachable for use in each.uses.values())
    if any(len(use.static.get("shape", ())) > 1 for use in uses):
        return True
    return any(
        isinstance(node, ast.Slice)
        or (isinstance(node, ast.Attribute) and node.attr in REDUCED)
        or (isinstance(node, ast.Call) and library_name(node.func, each.namespace) == "numpy.dot")
        for each in reachable
        for node in walk_here(each.tree)
    )


def may_have_uint64(unit: FunctionUnit, kinds: Sequence[Kind]) -> bool:
    """Return whether a kernel may have a uint64 beside what it computes; quickly."""
    return any(_has_uint64(kind.dtype) for kind in leaf_kinds(kinds)) or any(
        map(_makes_uint64, unit.reachable())
    )


def _has_uint64(dtype: str) -> bool:
    """Return whether an element type, or a part of it, is a uint64."""
    fields = ELEMENT_TYPES[dtype].fields
    return dtype == _UINT64 or any(field.dtype == _UINT64 or field.shape for field in fields)


def _makes_uint64(unit: FunctionUnit) -> bool:
    """Return whether a function may have a uint64 that it is not given."""
    known = _names_uint64.get(unit)
    if known is None:
        known = _names_uint64[unit] = (
            any(_is_uint64(each.value) for each in unit.constants.values())
            or any(_is_uint64(value) for value in unit.namespace.values())
            or any(use.static.get("dtype") == _UINT64 for use in unit.uses.values())
            or any(_UINT64 in use.intrinsic.name for use in unit.uses.values())
            or any(_may_be_uint64(node) for node in walk_here(unit.tree))
        )
    return known


def _is_uint64(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_uint64, value))
    if isinstance(value, np.generic | np.ndarray):
        return bool(value.dtype == np.uint64)
    return value is np.uint64 or (isinstance(value, int) and value >= 2**63)


def _may_be_uint64(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name):
            return name in (_UINT64, "uintp", "uint", "ulonglong", "ulong")
        case ast.Constant(value=int(number)):
            return number >= 2**63
    return False
