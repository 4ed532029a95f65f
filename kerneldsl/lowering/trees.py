"""Copying ASTs."""

from __future__ import annotations

import ast
from typing import TypeVar, cast

__all__ = ["copy_tree"]

T = TypeVar("T")


def copy_tree(tree: T) -> T:
    """Copy an AST, or a list of nodes, so that a pass may change it.

    Unlike ``copy.deepcopy``, what hangs at a node beside its fields (the unit that an inlined node
    comes from) is shared, not copied.
    """
    return cast(T, _copy(tree))


def _copy(value: object) -> object:
    if isinstance(value, list):
        return [_copy(item) for item in value]
    if not isinstance(value, ast.AST):
        return value
    new = type(value).__new__(type(value))
    new.__dict__.update(value.__dict__)
    for field in value._fields:
        if field in new.__dict__:
            new.__dict__[field] = _copy(new.__dict__[field])
    return new
