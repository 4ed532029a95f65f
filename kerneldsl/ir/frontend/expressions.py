"""Operators, comparisons, names, constants and calls."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from numba import types

from kerneldsl.frontend.expressions import folded
from kerneldsl.frontend.library_names import name_of_function
from kerneldsl.frontend.operators import BINARY_OPERATORS, COMPARISONS, OPPOSITES, UNARY_OPERATORS
from kerneldsl.frontend.parts import Part
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.frontend.control import known_test
from kerneldsl.ir.frontend.faults import check_divisor
from kerneldsl.ir.frontend.functions import read_call_of
from kerneldsl.ir.frontend.members import is_typed, packed, settled, unpacked
from kerneldsl.ir.frontend.merging import End, common, fitted, merge
from kerneldsl.ir.frontend.origins import Origin
from kerneldsl.ir.frontend.reader import NotReadError, Reader, constant_of, reads
from kerneldsl.ir.frontend.source_names import CHOSEN
from kerneldsl.ir.operations import Region, Value

__all__ = ["binary", "compared", "read_name", "signed"]

#: Names of functions and methods of arrays that are reductions.
_REDUCTIONS = frozenset(
    (
        *("sum", "prod", "mean", "max", "min", "amax", "amin", "argmax", "argmin", "any", "all"),
        *("dot", "nanmax", "nanmin", "count_nonzero"),
    )
)
_COMPARISONS = {**COMPARISONS, ast.Is: operator.is_, ast.IsNot: operator.is_not}
_FOLDED = frozenset((operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod))


@reads(ast.Constant)
def read_constant(reader: Reader, node: ast.Constant) -> Any:
    return reader.constant(node.value)


@reads(ast.Name)
def read_name(reader: Reader, node: ast.Name) -> Any:
    if node.id in reader.variables:
        value = reader.known(node.id)
        reader.names.read(value, Part(reader.unit, node))
        return value
    if node.id in reader.unit.constants:
        return reader.constant(reader.unit.constants[node.id].value)
    found = reader.outside(node)
    if found is None and node.id not in reader.unit.namespace:
        return reader.missing(node.id)
    return reader.constant(found)


@reads(ast.BinOp)
def read_binary(reader: Reader, node: ast.BinOp) -> Any:
    literal = folded(node)
    if literal is not None:
        return reader.constant(literal.value)
    one, two = reader.value(node.left), reader.value(node.right)
    if reader.faults is not None:
        check_divisor(reader, node, one, two)
    return binary(reader, BINARY_OPERATORS[type(node.op)], one, two)


@reads(ast.UnaryOp)
def read_unary(reader: Reader, node: ast.UnaryOp) -> Any:
    if isinstance(node.op, ast.Not):
        match node.operand:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in OPPOSITES:
                both = [reader.value(left), reader.value(right)]
                if all(isinstance(v, Value) and isinstance(v.type, types.Integer) for v in both):
                    found = reader.numba(COMPARISONS[OPPOSITES[type(op)]], both)
                    reader.note(node.operand, found)
                    return found
                found = compared(reader, op, *both)
                reader.note(node.operand, found)
                return reader.numba(operator.not_, [found])
        condition = reader.truth(reader.value(node.operand), node.operand)
        return reader.numba(operator.not_, [condition])
    literal = folded(node)
    if literal is not None:
        return reader.constant(literal.value)
    return signed(reader, UNARY_OPERATORS[type(node.op)], reader.value(node.operand))


def signed(reader: Reader, function: Any, found: Value) -> Value:
    """Return the result of a sign or ``~``."""
    constant = constant_of(found)
    if function is operator.neg and _is_negated_now(found.type, constant):
        negated: Value = reader.constant(-constant, found.type)
        reader.origins.set(negated, Origin.OTHER)
        return negated
    result = reader.numba(function, [found])
    reader.origins.set_signed(function, found, result)
    return result


def _is_negated_now(kind: Any, constant: Any) -> bool:
    """Return whether a negated constant is a number of its type; that of a small one differs."""
    if type(constant) is int and kind == types.int64:
        return bool(constant != kind.minval)
    return type(constant) is float and isinstance(kind, types.Float)


@reads(ast.Compare)
def read_comparison(reader: Reader, node: ast.Compare) -> Value:
    return comparison(reader, reader.value(node.left), node.ops, node.comparators)


@reads(ast.BoolOp)
def read_both_or_either(reader: Reader, node: ast.BoolOp) -> Value:
    return both_or_either(reader, node.values, is_both=isinstance(node.op, ast.And))


@reads(ast.Tuple)
def read_tuple(reader: Reader, node: ast.Tuple) -> tuple[Any, ...]:
    if any(isinstance(each, ast.Starred) for each in node.elts):
        from kerneldsl.ir.frontend.outside_calls import starred_values  # few tuples have them

        return tuple(value for each in node.elts for value in starred_values(reader, each))
    return tuple(map(reader.value_or_tile, node.elts))


@reads(ast.IfExp)
def read_choice(reader: Reader, node: ast.IfExp) -> Any:
    return choice(reader, node.test, node.body, node.orelse)


def comparison(reader: Reader, left: Value, ops: list[ast.cmpop], rights: list[ast.expr]) -> Value:
    if isinstance(ops[0], ast.In | ast.NotIn):
        right = reader.value(rights[0])
        first = _member(reader, rights[0], left, right, is_in=isinstance(ops[0], ast.In))
    else:
        right = reader.value(rights[0])
        first = compared(reader, ops[0], left, right)
    if len(ops) == 1:
        return first
    rest = partial(comparison, reader, right, ops[1:], rights[1:])
    return either(reader, rights[0], first, rest, is_both=True)


def compared(reader: Reader, op: ast.cmpop, one: Any, two: Any) -> Value:
    return reader.numba(_COMPARISONS[type(op)], [packed(reader, one), packed(reader, two)])


def _member(reader: Reader, node: ast.expr, value: Value, found: Any, *, is_in: bool) -> Value:
    """Return whether a value equals a member of a tuple."""
    result: Value
    if not isinstance(found, tuple):
        result = reader.numba(operator.contains, [found, packed(reader, value)])
        return result if is_in else reader.numba(operator.not_, [result])
    result = reader.constant(False)
    for position, each in enumerate(found):
        equal = partial(compared, reader, ast.Eq(), value, each)
        is_first = position == 0
        result = equal() if is_first else either(reader, node, result, equal, is_both=False)
    return result if is_in else reader.numba(operator.not_, [result])


def both_or_either(reader: Reader, values: list[ast.expr], *, is_both: bool) -> Value:
    first = reader.number(values[0])
    if len(values) == 1:
        return first
    rest = partial(both_or_either, reader, values[1:], is_both=is_both)
    outer, reader.source = reader.source, Part(reader.unit, values[0])  # the test of the branch
    found = either(reader, values[0], first, rest, is_both=is_both)
    reader.source = outer
    return found


def either(
    reader: Reader, node: ast.expr, first: Value, read: Callable[[], Value], *, is_both: bool
) -> Value:
    """Return the first value, of a node, or what is read then, as ``and`` and ``or`` choose."""
    condition = reader.truth(first, node)
    region, other = Region(), Region()
    found: list[Value] = []

    def second() -> None:
        found.append(reader.attempt(read))

    reader.into(region, second)
    both = [first, found[0]]
    kind = common(reader, "", both)
    reader.into(region, lambda: [fitted(reader, found[0], kind, CHOSEN)])
    reader.into(other, lambda: [fitted(reader, first, kind, CHOSEN)])
    regions = [region, other] if is_both else [other, region]
    result = reader.add("if", [condition], (kind,), None, regions).result
    reader.origins.set(result, reader.origins.joined(both))
    return result


def binary(reader: Reader, function: Any, one: Any, two: Any) -> Any:
    """Return the result of an operator; tuples are joined by their members."""
    if isinstance(one, tuple) or isinstance(two, tuple):
        both = isinstance(one, tuple) and isinstance(two, tuple)
        if both and function is operator.add:
            return (*one, *two)
        return unpacked(reader, reader.numba(function, [packed(reader, one), packed(reader, two)]))
    one, two = reader.origins.operands(reader, function, one, two)
    values = constant_of(one), constant_of(two)
    are_known = all(type(value) is int for value in values) and one.type == two.type == types.int64
    divides = function in (operator.floordiv, operator.mod)
    if are_known and function in _FOLDED and (values[1] or not divides):
        folded = function(*values)
        if -(2**63) <= folded < 2**63:
            found: Value = reader.constant(folded, types.int64)
            reader.origins.set_operated(function, one, two, found)
            return found
    result = reader.numba(function, [one, two])
    reader.origins.set_operated(function, one, two, result)
    return result


def choice(reader: Reader, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Any:
    """Read one of two expressions, each in a branch."""
    known = known_test(reader, test)
    if known is not None:
        return reader.value(body if known else orelse)
    condition = reader.truth(reader.value(test), test)
    before, regions, ends = reader.variables, [], []
    for each in (body, orelse):
        region = Region()
        reader.variables = dict(before)

        def read(each: ast.expr = each) -> list[Value]:
            value = reader.attempt(partial(reader.value, each))
            reader.variables[CHOSEN] = value
            return []

        reader.into(region, read)
        regions.append(region)
        ends.append(End(region, reader.variables))
    made = reader.add("if", [condition], (), None, regions)
    found = settled(merge(reader, made, ends, before)[CHOSEN])
    reader.variables = before
    for result in made.results:
        result.name = ""
    if reader.skipped is not None and not is_typed(found):
        raise reader.skipped
    return found


@reads(ast.Call)
def read_value(reader: Reader, node: ast.Call) -> Any:
    found = read_call(reader, node)
    if found is None:
        raise NotReadError(ast.unparse(node))
    return found


def read_call(reader: Reader, node: ast.Call) -> Any:
    use = reader.unit.use_of(node)
    if use is not None:
        if use.intrinsic.is_index:
            return _read_id(reader, node, use)
        from kerneldsl.ir.frontend.intrinsics import read_intrinsic  # many kernels have none

        return read_intrinsic(reader, node, use)
    callee = reader.unit.callee_of(node)
    if callee is not None:
        arguments = [reader.value_or_tile(each) for each in node.args]
        found = read_call_of(reader, callee, arguments)
        if reader.notes is not None:
            reader.notes.add_call(node, reader.notes.of_call(callee, arguments), found)
        return found
    if _may_reduce(reader, node):
        found = _reduced_row(reader, node)
        if found is not None:
            return found
    from kerneldsl.ir.frontend.outside_calls import read_outside_call

    return read_outside_call(reader, node)


def _may_reduce(reader: Reader, node: ast.Call) -> bool:
    """Return whether a call has the name of a reduction of arrays."""
    if node.keywords or reader.unit.is_plain_numba:
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in _REDUCTIONS
    name = getattr(reader.outside(node.func), "__name__", None)
    return name in _REDUCTIONS


def _read_id(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Any:
    name, ndim = use.intrinsic.name, use.static.get("ndim", 1)
    if ndim > 1:
        axes = ({"ndim": 1, "axis": axis} for axis in range(ndim))
        return tuple(reader.add(name, [], (types.int64,), axis).result for axis in axes)
    assert isinstance(node.func, ast.Name)
    about = {"signature": types.int64(), "use": use, "site": (reader.unit, node.func.id)}
    return reader.add(name, [], (types.int64,), {**use.static, **about}).result


def _reduced_row(reader: Reader, node: ast.Call) -> Any:
    """Read the reduction of a row; return ``None`` for any other call."""
    # Many kernels have none.
    from kerneldsl.frontend.rows.reductions import FUNCTIONS, METHODS, counting_unit, reduction_unit

    function, operands = reader.outside(node.func), node.args
    name = FUNCTIONS.get(name_of_function(function) or "")
    if function is None and isinstance(node.func, ast.Attribute):
        name = node.func.attr if node.func.attr in METHODS else None
        operands = [node.func.value, *operands]
    if name is None or len(operands) != 1 + (name == "dot"):
        return None
    rows = [reader.value(each) for each in operands]
    if not all(isinstance(each, Value) and isinstance(each.type, types.Array) for each in rows):
        return None
    if name == "count_nonzero":
        unit = counting_unit(rows[0].type.ndim)
    elif any(each.type.ndim != 1 for each in rows):
        return None
    else:
        unit = reduction_unit(name, *(str(each.type.dtype) for each in rows))
    found = read_call_of(reader, unit, rows)
    if reader.notes is not None:
        reader.notes.add_call(node, reader.notes.of_call(unit, rows), found)
    return found
