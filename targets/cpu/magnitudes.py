"""Magnitudes of integer expressions."""

from __future__ import annotations

import ast

from kerneldsl.language.kinds import ScalarKind
from targets.cpu.purity import PureValues

__all__ = ["magnitude"]

#: A block has at most 1024 threads along an axis, a grid fewer than 2**31 blocks.
_THREAD, _BLOCK = 2**10, 2**31
#: Any other coordinate: an index, or an extent of a launch.
_INDEX = _THREAD * _BLOCK
_INT64 = 2**63


def magnitude(node: ast.expr, pure: PureValues) -> int | None:
    """Return the largest absolute value that an expression can have.

    The expression is expanded, and `pure.is_integer` holds for it. ``None`` says that nothing is
    known, or that int64 arithmetic may wrap. Of an array's extent nothing is known: with strides of
    0 it may be any.
    """
    match node:
        case ast.Constant(value=int(value)):
            return abs(value)
        case ast.Name(id=name):
            return _magnitude_of_name(name, pure)
        case ast.Attribute(attr="ndim"):
            return 64
        case ast.UnaryOp(operand=operand):
            return magnitude(operand, pure)
        case ast.BinOp():
            return _magnitude_of_operation(node, pure)
        case ast.Call(func=ast.Name(id="kd_unsigned" | "kd_int64"), args=[argument]):
            return magnitude(argument, pure)
        case ast.Call() if pure.called(node.func) in ("min", "max", "abs"):
            found = [magnitude(argument, pure) for argument in node.args]
            known = [each for each in found if each is not None]
            return max(known) if known and len(known) == len(found) else None
        case _:
            return None


def _magnitude_of_name(name: str, pure: PureValues) -> int | None:
    if name in pure.space_names:
        known = {"kd_t": _THREAD, "kd_w": _THREAD, "kd_b": _BLOCK, "kd_g": _BLOCK}
        return known.get(name[:-1], _INDEX)
    if name in pure.unit.constants:
        value = pure.unit.constants[name].value
        return abs(value) if isinstance(value, int) else None
    kind = pure.kinds.get(name)
    if isinstance(kind, ScalarKind) and pure.assignments[name] == 0:
        element = kind.element
        return 2 ** (8 * element.nbytes) if element.is_integer and element.nbytes < 8 else None
    return None


def _magnitude_of_operation(node: ast.BinOp, pure: PureValues) -> int | None:
    left, right = magnitude(node.left, pure), magnitude(node.right, pure)
    if left is None or right is None:
        return None
    match node.op:
        case ast.Add() | ast.Sub():
            found = left + right
        case ast.Mult():
            found = left * right
        case ast.FloorDiv():
            found = left + 1  # rounds towards minus infinity
        case ast.Mod():
            found = right
        case _:
            return None
    return found if found < _INT64 else None
