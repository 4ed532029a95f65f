"""Types of expressions from the types of the variables in them, without Numba."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kerneldsl.analysis.decided import DecidedConditions
from kerneldsl.analysis.expressions import folded, index_parts
from kerneldsl.analysis.library_names import library_name
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.language.promotion import (
    result_of_function,
    result_of_operator,
    result_of_range,
    result_of_unary,
    unified,
)
from kerneldsl.language.records import is_record_name, layout_of_name

__all__ = ["Elements", "ExpressionTypes", "Value", "items_of", "joined", "value_of_kind"]


@dataclass(frozen=True, slots=True)
class Elements:
    """An array, or with `is_range` a range.

    Parameters
    ----------
    dtype : str
        Type of its elements.
    ndim : int
        Rank.
    is_range : bool
        Whether it is ``range(…)``, which has items and nothing else.
    """

    dtype: str
    ndim: int
    is_range: bool = False


#: What is known of a value: the element type of a scalar, an array, a tuple's parts; or nothing.
Value: TypeAlias = "str | Elements | tuple[Value, ...] | None"

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}
_UNARY: dict[type[ast.unaryop], str] = {
    ast.USub: "-",
    ast.UAdd: "+",
    ast.Invert: "~",
    ast.Not: "not",
}


def value_of_kind(kind: Kind) -> Value:
    """Return what is known of an argument of some kind."""
    if isinstance(kind, ScalarKind):
        return kind.dtype
    if isinstance(kind, ArrayKind):
        return Elements(kind.dtype, kind.ndim)
    return tuple(map(value_of_kind, kind.elements))


def joined(one: Value, two: Value, *, may_differ: bool = True) -> Value:
    """Return what is known of a value that is one of two; with `may_differ` of two types."""
    if one == two:
        return one
    if not may_differ:
        return None
    if isinstance(one, str) and isinstance(two, str):
        return unified([one, two])
    if isinstance(one, tuple) and isinstance(two, tuple) and len(one) == len(two):
        return tuple(joined(a, b) for a, b in zip(one, two, strict=True))
    return None


def items_of(value: Value) -> Value:
    """Return what is known of the items of what is looped over."""
    if isinstance(value, Elements):
        return value.dtype if value.ndim == 1 else None
    if isinstance(value, tuple) and value and all(each == value[0] for each in value):
        return value[0]
    return None


class ExpressionTypes(ABC):
    """Types the expressions of one function, and records them.

    Parameters
    ----------
    unit : FunctionUnit
        The function.
    tested : set of ast.expr
        Expressions of which only the truth is asked for.
    """

    decided: DecidedConditions

    def __init__(self, unit: FunctionUnit, tested: set[ast.expr]) -> None:
        self.unit = unit
        self._tested = tested
        #: Expression, or target of an assignment, to what is known of its value.
        self.types: dict[ast.expr, Value] = {}

    @abstractmethod
    def called(self, callee: FunctionUnit, arguments: tuple[Value, ...]) -> Value:
        """Return what a device function returns."""

    def record(self, node: ast.expr, value: Value) -> Value:
        """Store what is known of an expression; return what is known of it in every round."""
        if node in self.types and self.types[node] != value:
            # A loop was walked again. Numba unifies what it has inferred on the way.
            value = value if joined(self.types[node], value) == value else None
        self.types[node] = value
        return value

    def value(self, node: ast.expr, state: Mapping[str, Value]) -> Value:
        """Return what is known of an expression's value."""
        return self.record(node, self._value(node, state))

    def _value(self, node: ast.expr, state: Mapping[str, Value]) -> Value:
        match node:
            case ast.Constant(value=value):
                return _of_constant(value)
            case ast.Name(id=name):
                if name in state:
                    return state[name]
                constant = self.unit.constants.get(name)
                return None if constant is None else _of_constant(constant.value)
            case ast.Attribute():
                return self._attribute(node, self.value(node.value, state))
            case ast.Subscript():
                return self._subscript(node, state)
            case ast.UnaryOp(op=op, operand=operand):
                found = self.value(operand, state)
                if isinstance(op, ast.Not):
                    return "bool"
                if isinstance(operand, ast.Constant) and (literal := folded(node)):
                    return _of_constant(literal.value)
                return result_of_unary(_UNARY[type(op)], found) if isinstance(found, str) else None
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(node, op, self.value(left, state), self.value(right, state))
            case ast.Compare(left=left, comparators=others):
                compared = [self.value(each, state) for each in (left, *others)]
                return "bool" if all(isinstance(each, str) for each in compared) else None
            case ast.BoolOp(values=values):
                parts = [self.value(each, state) for each in values]
                if node in self._tested:
                    return "bool"
                is_one = parts[0] is not None and all(each == parts[0] for each in parts)
                return parts[0] if is_one else None
            case ast.IfExp(test=test, body=body, orelse=other):
                self.value(test, state)
                one, two = self.value(body, state), self.value(other, state)
                if node in self._tested:
                    return "bool"
                return joined(one, two, may_differ=not self.decided.may_be_decided(test))
            case ast.Tuple(elts=elements):
                return tuple(self.value(each, state) for each in elements)
            case ast.Call():
                return self._call(node, state)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, state)
        return None

    def _attribute(self, node: ast.Attribute, owner: Value) -> Value:
        if isinstance(owner, Elements) and not owner.is_range:
            match node.attr:
                case "size" | "ndim" | "nbytes" | "itemsize":
                    return "int64"
                case "shape" | "strides":
                    return ("int64",) * owner.ndim
                case "T":
                    return owner
        if (field := _field_of(owner, node.attr)) is not None:
            return field
        if isinstance(owner, str) and node.attr in ("real", "imag"):
            row = ELEMENT_TYPES[owner]
            return row.arithmetic if row.is_complex else owner
        return None

    def _subscript(self, node: ast.Subscript, state: Mapping[str, Value]) -> Value:
        owner = self.value(node.value, state)
        index = self.value(node.slice, state)
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return _field_of(owner, node.slice.value)
        if isinstance(owner, tuple):
            return self._part(node, owner, index)
        if not isinstance(owner, Elements) or owner.is_range:
            return None
        left = owner.ndim
        for part in index_parts(node):
            if isinstance(part, ast.Slice):
                continue
            found = self.types[part] if part is not node.slice else index
            given = found if isinstance(found, tuple) else (found,)
            if not all(isinstance(each, str) and ELEMENT_TYPES[each].is_integer for each in given):
                return None
            left -= len(given)
        has_slice = any(isinstance(part, ast.Slice) for part in index_parts(node))
        if left == 0 and not has_slice:
            return owner.dtype
        return Elements(owner.dtype, left) if left > 0 else None

    def _part(self, node: ast.Subscript, owner: tuple[Value, ...], index: Value) -> Value:
        """Return what is known of a tuple's part."""
        place: object = None
        if isinstance(node.slice, ast.Name) and node.slice.id in self.unit.constants:
            place = self.unit.constants[node.slice.id].value
        elif self._is_literal(node.slice) and (constant := folded(node.slice)) is not None:
            place = constant.value
        if isinstance(place, int):
            return owner[place] if -len(owner) <= place < len(owner) else None
        is_index = isinstance(index, str) and ELEMENT_TYPES[index].is_integer
        return items_of(owner) if is_index else None

    def _operation(self, node: ast.BinOp, op: ast.operator, left: Value, right: Value) -> Value:
        if not (isinstance(left, str) and isinstance(right, str)) or type(op) not in _BINARY:
            return None
        if self._is_literal(node.left) and self._is_literal(node.right):
            constant = folded(node)
            if constant is not None:
                return _of_constant(constant.value)
        return result_of_operator(_BINARY[type(op)], left, right)

    @staticmethod
    def _is_literal(node: ast.expr) -> bool:
        """Return whether an expression may be one of literals, without looking into all of it."""
        while isinstance(node, ast.BinOp | ast.UnaryOp):
            node = node.left if isinstance(node, ast.BinOp) else node.operand
        return isinstance(node, ast.Constant)

    # ------------------------------------------------------------------------------ calls

    def _call(self, node: ast.Call, state: Mapping[str, Value]) -> Value:
        if isinstance(node.func, ast.Attribute):
            self.value(node.func, state)
        given = tuple(self.value(argument, state) for argument in node.args)
        for keyword in node.keywords:
            self.value(keyword.value, state)
        use, callee = self.unit.use_of(node), self.unit.callee_of(node)
        if use is not None:
            return _of_intrinsic(use, given)
        if node.keywords:
            return None
        if callee is not None:
            return self.called(callee, given)
        name = library_name(node.func, self.unit.namespace)
        if name == "len":
            return "int64" if isinstance(given[0], tuple | Elements) else None
        scalars = [each for each in given if isinstance(each, str)]
        if name is None or len(scalars) != len(given):
            return None
        if name == "range":
            items = result_of_range(scalars)
            return None if items is None else Elements(items, 1, is_range=True)
        return result_of_function(name, scalars)


def _field_of(owner: Value, name: str) -> Value:
    """Return what is known of the field of a record, or of every record of an array."""
    dtype = owner.dtype if isinstance(owner, Elements) else owner
    if not isinstance(dtype, str) or not is_record_name(dtype):
        return None
    for field in layout_of_name(dtype).fields:
        if field.name == name:
            rank = len(field.shape) + (owner.ndim if isinstance(owner, Elements) else 0)
            return Elements(field.dtype, rank) if rank else field.dtype
    return None


def _of_constant(value: object) -> Value:
    """Return what is known of a constant's type."""
    match value:
        case np.generic() | np.ndarray():
            name = value.dtype.name
            if name not in ELEMENT_TYPES:
                return None
            return name if isinstance(value, np.generic) else Elements(name, value.ndim)
        case bool():
            return "bool"
        case int():
            sizes = [n for n in ("int64", "uint64") if value in range(*_limits(n))]
            return sizes[0] if sizes else None
        case float():
            return "float64"
        case complex():
            return "complex128"
        case tuple():
            return tuple(map(_of_constant, value))
    return None


def _limits(name: str) -> tuple[int, int]:
    smallest, largest = ELEMENT_TYPES[name].integer_range
    return smallest, largest + 1


def _float_of(arguments: tuple[Value, ...]) -> Value:
    """Return the type in which a function of floats computes, if all are known."""
    rows = [ELEMENT_TYPES[value] for value in arguments if isinstance(value, str)]
    if len(rows) < len(arguments):
        return None
    return "float32" if all(row.is_float and row.nbytes <= 4 for row in rows) else "float64"


def _of_intrinsic(use: IntrinsicUse, arguments: tuple[Value, ...]) -> Value:
    """Return what is known of an intrinsic's result."""
    first = arguments[0] if arguments else None
    match use.intrinsic.typing:
        case Typing.INDEX:
            return "int64"
        case Typing.INDEX_TUPLE:
            count = use.static["ndim"]
            return "int64" if count == 1 else ("int64",) * count
        case Typing.VOTE | Typing.BALLOT | Typing.MATCH_ANY:
            return "int32"
        case Typing.MATCH_ALL:
            return ("int32", "bool")
        case Typing.WARP_VOTE | Typing.TRUTH:
            return "bool"
        case Typing.ARRAY:
            return Elements(use.static["dtype"], len(use.static["shape"]))
        case Typing.ATOMIC | Typing.ATOMIC_CAS:
            return first.dtype if isinstance(first, Elements) else None
        case Typing.BITS | Typing.VALUE | Typing.WIDE_INTEGERS | Typing.EXTREME:
            return first
        case Typing.CHOICE:
            return arguments[1]
        case Typing.CAST:
            return str(use.static["dtype"])
        case Typing.BIT_POSITION | Typing.WORDS | Typing.LANE_MASK:
            return "uint32"
        case Typing.BIT_STRING if isinstance(first, str):
            return "uint64" if ELEMENT_TYPES[first].nbytes == 8 else "uint32"
        case Typing.DOT if None not in arguments[:2]:
            return "uint32" if arguments[:2] == ("uint32", "uint32") else "int32"
        case Typing.FLOATS:
            return _float_of(arguments)
        case Typing.REDUCE | Typing.EXCHANGE:
            return first
        case Typing.SUM | Typing.SCAN if isinstance(first, str):
            row = ELEMENT_TYPES[first]
            if row.nbytes >= 4 or row.is_float:
                return first
            if use.intrinsic.typing is Typing.SCAN:
                return None  # of an operation they stay as they are, and are widened without one
            return "uint32" if row.is_unsigned else "int32"
        case Typing.SHUFFLE | Typing.REDUCTION | Typing.INTEGER_REDUCTION:
            value = arguments[1]
            if not isinstance(value, str):
                return None
            row = ELEMENT_TYPES[value]
            return "int32" if row.nbytes < 4 and not row.is_float else value
    return None
