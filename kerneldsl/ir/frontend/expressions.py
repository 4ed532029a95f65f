"""Operators, comparisons, names and constants."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from numba import types

from kerneldsl.ir.frontend.reader import NotReadError, Reader, constant_of, reads
from kerneldsl.ir.operations import Region, Value

__all__ = ["BINARY", "binary"]

BINARY: dict[type[ast.AST], tuple[Any, Any]] = {
    ast.Add: (operator.add, operator.iadd),
    ast.Sub: (operator.sub, operator.isub),
    ast.Mult: (operator.mul, operator.imul),
    ast.Div: (operator.truediv, operator.itruediv),
    ast.FloorDiv: (operator.floordiv, operator.ifloordiv),
    ast.Mod: (operator.mod, operator.imod),
    ast.Pow: (operator.pow, operator.ipow),
    ast.LShift: (operator.lshift, operator.ilshift),
    ast.RShift: (operator.rshift, operator.irshift),
    ast.BitAnd: (operator.and_, operator.iand),
    ast.BitOr: (operator.or_, operator.ior),
    ast.BitXor: (operator.xor, operator.ixor),
}
UNARY: dict[type[ast.AST], Any] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
COMPARISONS: dict[type[ast.AST], Any] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FOLDED = frozenset((operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod))


@reads(ast.Constant)
def read_constant(reader: Reader, node: ast.Constant) -> Any:
    return reader.constant(node.value)


@reads(ast.Name)
def read_name(reader: Reader, node: ast.Name) -> Any:
    if node.id in reader.variables:
        return reader.variables[node.id]
    found = reader.outside(node)
    if found is None and node.id not in reader.unit.namespace:
        raise NotReadError(f"the name {node.id}")
    return reader.constant(found)


@reads(ast.BinOp)
def read_binary(reader: Reader, node: ast.BinOp) -> Value:
    one, two = reader.number(node.left), reader.number(node.right)
    return binary(reader, BINARY[type(node.op)][0], one, two)


@reads(ast.UnaryOp)
def read_unary(reader: Reader, node: ast.UnaryOp) -> Any:
    if isinstance(node.op, ast.Not):
        condition = reader.truth(reader.value(node.operand))
        return reader.numba(operator.not_, [condition])
    found = reader.value(node.operand)
    constant = constant_of(found)
    if constant is not None and isinstance(node.op, ast.USub):
        return reader.constant(-constant, found.type)
    return reader.numba(UNARY[type(node.op)], [found])


@reads(ast.Compare)
def read_comparison(reader: Reader, node: ast.Compare) -> Value:
    return comparison(reader, reader.number(node.left), node.ops, node.comparators)


@reads(ast.BoolOp)
def read_both_or_either(reader: Reader, node: ast.BoolOp) -> Value:
    return both_or_either(reader, node.values, is_both=isinstance(node.op, ast.And))


@reads(ast.Tuple)
def read_tuple(reader: Reader, node: ast.Tuple) -> tuple[Any, ...]:
    return tuple(map(reader.value, node.elts))


@reads(ast.IfExp)
def read_choice(reader: Reader, node: ast.IfExp) -> Value:
    return choice(reader, node.test, node.body, node.orelse)


def comparison(reader: Reader, left: Value, ops: list[ast.cmpop], rights: list[ast.expr]) -> Value:
    if type(ops[0]) not in COMPARISONS:
        raise NotReadError("a comparison")
    right = reader.number(rights[0])
    first = reader.numba(COMPARISONS[type(ops[0])], [left, right])
    if len(ops) == 1:
        return first
    return either(
        reader, first, lambda: comparison(reader, right, ops[1:], rights[1:]), is_both=True
    )


def both_or_either(reader: Reader, values: list[ast.expr], *, is_both: bool) -> Value:
    first = reader.number(values[0])
    if len(values) == 1:
        return first
    return either(
        reader, first, lambda: both_or_either(reader, values[1:], is_both=is_both), is_both=is_both
    )


def either(reader: Reader, first: Value, read: Callable[[], Value], *, is_both: bool) -> Value:
    """Return the first value or what is read then, as ``and`` and ``or`` choose."""
    condition = reader.truth(first)
    region, other = Region(), Region()
    found: list[Value] = []

    def second() -> None:
        found.append(read())

    reader.into(region, second)
    kind = reader.typing.unify(first.type, found[0].type)
    reader.into(region, lambda: [reader.cast(found[0], kind)])
    reader.into(other, lambda: [reader.cast(first, kind)])
    regions = [region, other] if is_both else [other, region]
    return reader.add("if", [condition], (kind,), None, regions).result


def binary(reader: Reader, function: Any, one: Value, two: Value) -> Value:
    values = constant_of(one), constant_of(two)
    are_known = all(type(value) is int for value in values) and one.type == two.type == types.int64
    divides = function in (operator.floordiv, operator.mod)
    if are_known and function in _FOLDED and (values[1] or not divides):
        folded = function(*values)
        if -(2**63) <= folded < 2**63:
            found: Value = reader.constant(folded, types.int64)
            return found
    return reader.numba(function, [one, two])


def choice(reader: Reader, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Value:
    condition = reader.truth(reader.value(test))
    regions, values = [], []
    for each in (body, orelse):
        region = Region()

        def read(each: ast.expr = each) -> None:
            values.append(reader.value(each))

        reader.into(region, read)
        regions.append(region)
    if not all(isinstance(v, Value) for v in values):
        raise NotReadError("a choice of tuples")
    kind = reader.typing.unify(values[0].type, values[1].type)
    if not isinstance(kind, types.Number | types.Boolean):
        raise NotReadError("a choice of arrays")
    for region, value in zip(regions, values, strict=True):
        reader.into(region, partial(reader.casts, [value], [kind]))
    return reader.add("if", [condition], (kind,), None, regions).result
