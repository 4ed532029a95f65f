"""Tests with a result that is known when a kernel is compiled. The other branch has no types.

The rules are those of Numba, which drops branches before it finds types. It knows tests of a
constant, and comparisons of two. A constant is a literal, a captured value, the rank of an array or
the length of a tuple. A variable that is assigned one of these and nothing else is a constant, too.
A comparison with ``None`` is known if an argument is ``None``.
"""

from __future__ import annotations

import ast
import operator
from typing import Any

from numba import types

from kerneldsl.frontend.library_names import outside_value
from kerneldsl.frontend.trees import walk_here
from kerneldsl.ir.frontend.reader import Reader, constant_of
from kerneldsl.ir.operations import Value
from kerneldsl.utilities.operators import COMPARISONS

__all__ = ["known_test"]

_UNKNOWN: Any = object()
_COMPARISONS: dict[type[ast.cmpop], Any] = {
    **COMPARISONS,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, two: one in two,
    ast.NotIn: lambda one, two: one not in two,
}


def known_test(reader: Reader, node: ast.expr) -> bool | None:
    """Return the result of a test that is known now, else ``None``."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = known_test(reader, operand)
            return None if found is None else not found
        case ast.BoolOp(op=op, values=values):
            first = known_test(reader, values[0])
            if first is None:
                return None
            if first is isinstance(op, ast.Or):
                return first
            rest = values[1:]
            return known_test(reader, rest[0] if len(rest) == 1 else ast.BoolOp(op, rest))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            one, two = _constant(reader, left), _constant(reader, right)
            if one is _UNKNOWN or two is _UNKNOWN:
                return None
            try:
                return bool(_COMPARISONS[type(op)](one, two))
            except TypeError:
                return None
    found = _constant(reader, node)
    return None if found is _UNKNOWN else bool(found)


def _constant(reader: Reader, node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in reader.variables:
            if _count(reader, name) + (name in reader.unit.parameters) > 1:
                return _UNKNOWN
            value = reader.known(name)
            if not isinstance(value, Value):
                return _UNKNOWN
            if value.type == types.none:
                return None
            if name in reader.unit.parameters:
                return _UNKNOWN
            return _assigned(reader, name, value)
        case ast.Name(id=name) if name in reader.unit.constants:
            return reader.unit.constants[name].value
        case ast.Name() | ast.Attribute(value=ast.Name()) | ast.Attribute(value=ast.Attribute()):
            if isinstance(node, ast.Attribute) and node.attr == "ndim":
                array = reader.value(node.value)
                if isinstance(array, Value) and isinstance(array.type, types.Array):
                    return array.type.ndim
            found = outside_value(node, reader.unit.namespace)
            return found if isinstance(found, int | float) else _UNKNOWN
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
            found = reader.known(name)
            return len(found) if isinstance(found, tuple) else _UNKNOWN
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
    return _UNKNOWN


def _assigned(reader: Reader, name: str, value: Value) -> Any:
    """Return the constant that the only assignment of a variable names, if it names one."""
    for node in walk_here(reader.unit.tree):
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == name for target in node.targets
        ):
            # Python itself computes with literals, and calls nothing.
            leaves = [each for each in ast.walk(node.value) if isinstance(each, ast.expr)]
            if all(isinstance(each, ast.Constant | ast.BinOp | ast.UnaryOp) for each in leaves):
                found = constant_of(value)
                return _UNKNOWN if found is None else found
            return _constant(reader, node.value)
    return _UNKNOWN


def _count(reader: Reader, name: str) -> int:
    nodes = walk_here(reader.unit.tree)
    return sum(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)
        for each in nodes
    )
