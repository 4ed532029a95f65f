"""Magnitudes of integer expressions."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from kerneldsl.analysis.bindings import bindings, unpack_targets
from kerneldsl.frontend.trees import walk_here
from kerneldsl.language.kinds import ScalarKind
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.passes.rematerialization import Rematerializable

__all__ = ["magnitude", "small_integers"]

#: A block has at most 1024 threads along an axis, a grid fewer than 2**31 blocks.
_THREAD, _BLOCK = 2**10, 2**31
#: Any other coordinate: an index, or an extent of a launch.
_INDEX = _THREAD * _BLOCK
_COORDINATES = {"kd_t": _THREAD, "kd_w": _THREAD, "kd_b": _BLOCK, "kd_g": _BLOCK}
_INT32, _INT64 = 2**31, 2**63


def magnitude(node: ast.expr, pure: Rematerializable) -> int | None:
    """Return the largest absolute value that an expression can have.

    The expression is expanded, and `pure.is_integer` holds for it. ``None`` says that nothing is
    known, or that int64 arithmetic may wrap. Of an array's extent nothing is known: with strides of
    0 it may be any.
    """
    return _Magnitudes(pure, {}).of(node)


def small_integers(tree: ast.FunctionDef, pure: Rematerializable) -> frozenset[str]:
    """Return the variables of a kernel that only ever hold integers of 32 bits.

    What follows from values alone is found first. Variables that are given each other's values are
    then taken to hold such, until a value is found that may be another one.
    """
    values: dict[str, list[ast.expr]] = {}
    unknown: set[str] = set()
    for binding in bindings(tree):
        pairs = (
            ((binding.target, binding.value),)
            if binding.is_item
            else unpack_targets(binding.target, binding.value)
        )
        for target, value in pairs:
            if not isinstance(target, ast.Name):
                unknown |= {n.id for n in walk_here(target) if isinstance(n, ast.Name)}
                continue
            held = values.setdefault(target.id, [])
            if not binding.is_item:
                held.append(pure.expanded(value))
            elif isinstance(value, ast.Call) and pure.called(value.func) == "range":
                held += map(pure.expanded, value.args)  # what lies between them
            else:
                unknown.add(target.id)
    found = set(values) - unknown
    known: dict[str, int] = {}
    while more := {
        name: largest
        for name in found - known.keys()
        if (largest := _Magnitudes(pure, known).largest(values[name])) is not None
    }:
        known |= more
    while True:
        magnitudes = _Magnitudes(pure, dict.fromkeys(found, _INT32 - 1) | known)
        largest_of = {name: magnitudes.largest(values[name]) for name in found}
        beyond = {name for name, most in largest_of.items() if most is None or most >= _INT32}
        if not beyond:
            return frozenset(found)
        found -= beyond


@dataclass(frozen=True)
class _Magnitudes:
    pure: Rematerializable
    #: Variables that are, or are assumed to be, integers, to their magnitudes.
    assumed: Mapping[str, int]

    def of(self, node: ast.expr) -> int | None:
        match node:
            case ast.Constant(value=int(value)):
                return abs(value)
            case ast.Name(id=name):
                return self._of_name(name)
            case ast.Attribute(attr="ndim"):
                return 64
            case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
                return self.of(operand)
            case ast.BinOp():
                return self._of_operation(node)
            case ast.IfExp(body=body, orelse=orelse):
                return self.largest([body, orelse])
            case ast.Call(func=ast.Name(id="kd_unsigned" | "kd_int64"), args=[argument]):
                return self.of(argument)
            case ast.Call() if self.pure.called(node.func) in ("min", "max", "abs"):
                return self.largest(node.args)
            case _:
                return None

    def largest(self, nodes: Sequence[ast.expr]) -> int | None:
        found = [self.of(node) for node in nodes]
        known = [each for each in found if each is not None]
        return max(known) if known and len(known) == len(found) else None

    def _of_name(self, name: str) -> int | None:
        pure = self.pure
        if name in self.assumed:
            return self.assumed[name]
        if name in pure.space_names:
            return _COORDINATES.get(name[:-1], _INDEX)
        if name in pure.unit.constants:
            value = pure.unit.constants[name].value
            return abs(value) if isinstance(value, int) else None
        kind = pure.kinds.get(name)
        if isinstance(kind, ScalarKind) and pure.assignments[name] == 0:
            element = kind.element
            return 2 ** (8 * element.nbytes) if element.is_integer and element.nbytes < 8 else None
        return None

    def _of_operation(self, node: ast.BinOp) -> int | None:
        left, right = self.of(node.left), self.of(node.right)
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
