"""Numba's names of the types of what declares an array, for errors of its shape."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
from numba import types

from kerneldsl.frontend.source import find_source
from kerneldsl.frontend.specialized import lookup_of

__all__ = ["types_in_declaration"]


def types_in_declaration(
    function: Any, lineno: int, known: dict[str, Any]
) -> tuple[str, dict[str, str]] | None:
    """Return the memory that an array is declared in, and the types of the call's arguments.

    - `function`, `lineno`: the kernel, and a line of the call.
    - `known`: types of its parameters.
    - returns: ``None`` if the line has no such call, or a type is not known.
    """
    for node in ast.walk(find_source(function).node):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=memory), attr="array")) if (
                node.lineno <= lineno <= (node.end_lineno or 0)
            ):
                given = dict(zip(("shape", "dtype"), node.args, strict=False))
                given |= {each.arg: each.value for each in node.keywords if each.arg}
                shown = {name: _type_of(each, function, known) for name, each in given.items()}
                found = {name: each for name, each in shown.items() if each is not None}
                return (memory, found) if found == shown and "shape" in found else None
    return None


def _type_of(node: ast.expr, function: Any, known: dict[str, Any]) -> str | None:
    """Return Numba's name of the type of a simple expression."""
    match node:
        case ast.Name(id=name) if name in known:
            return str(known[name])
        case ast.Name() | ast.Attribute():
            value = _outside(node, function)
            if isinstance(value, type) and issubclass(value, np.generic):
                value = types.Type(np.dtype(value).name)
            return f"class({value})" if isinstance(value, types.Type) else _literal(value)
        case ast.Constant(value=value):
            return _literal(value)
        case ast.Subscript(value=ast.Name(id=name)) if isinstance(known.get(name), types.Array):
            array = known[name]
            return str(
                array.dtype if array.ndim == 1 else types.Array(array.dtype, array.ndim - 1, "A")
            )
        case ast.Tuple(elts=items):
            shown = [_type_of(each, function, known) for each in items]
            return None if None in shown else f"Tuple({', '.join(map(str, shown))})"
        case ast.List(elts=items):
            names = [_type_of(each, function, known) or "" for each in items]
            values = [each.removeprefix("Literal[int]")[1:-1] for each in names]
            return f"list(int64)<iv=[{', '.join(values)}]>" if all(values) else None
    return None


def _outside(node: ast.expr, function: Any) -> Any:
    """Return what a name from outside the kernel means, ``None`` if it is unknown."""
    if isinstance(node, ast.Attribute):
        return getattr(_outside(node.value, function), node.attr, None)
    return lookup_of(function)(node.id) if isinstance(node, ast.Name) else None


def _literal(value: Any) -> str | None:
    return f"Literal[int]({value})" if type(value) is int else None
