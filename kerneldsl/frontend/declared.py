"""Device functions with a signature: arguments and result are converted to its types."""

from __future__ import annotations

import ast
from typing import Any, TypeGuard

from kerneldsl.frontend.trees import assign, load, walk_here
from kerneldsl.language.element_types import numpy_dtype
from kerneldsl.language.kinds import Kind, ScalarKind
from kerneldsl.language.reserved import RESERVED_PREFIX

__all__ = ["convert_as_declared", "is_number"]


def convert_as_declared(
    tree: ast.FunctionDef, signature: tuple[Kind | None, tuple[Kind, ...]]
) -> dict[str, Any]:
    """Write the conversions into a function, in place; return the types by their names there.

    Only numbers are converted. An array has the type that it is passed with.
    """
    result, parameters = signature
    types: dict[str, Any] = {}

    def converted(kind: ScalarKind, value: ast.expr) -> ast.expr:
        name = f"{RESERVED_PREFIX}as_{kind.dtype}"
        types[name] = numpy_dtype(kind.dtype).type
        return ast.Call(load(name), [value], [])

    first = [
        assign(parameter.arg, converted(kind, load(parameter.arg)))
        for parameter, kind in zip(tree.args.args, parameters, strict=False)
        if is_number(kind)
    ]
    for node in [node for node in walk_here(tree) if isinstance(node, ast.Return)]:
        if node.value is not None and result is not None and is_number(result):
            node.value = ast.copy_location(converted(result, node.value), node.value)
    for each in first:
        ast.copy_location(each, tree)
    tree.body[:0] = first
    ast.fix_missing_locations(tree)
    return types


def is_number(kind: Kind) -> TypeGuard[ScalarKind]:
    """Return whether a parameter of a kind is converted."""
    return isinstance(kind, ScalarKind) and not kind.element.is_record
