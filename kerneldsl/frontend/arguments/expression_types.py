"""Types of expressions from the types of the variables in them, without Numba."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Mapping

from kerneldsl.frontend.arguments.decided import DecidedConditions
from kerneldsl.frontend.arguments.intrinsic_types import value_of_intrinsic
from kerneldsl.frontend.arguments.known_values import (
    Elements,
    Value,
    field_of,
    items_of,
    joined,
    value_of_constant,
)
from kerneldsl.frontend.expressions import folded, index_parts
from kerneldsl.frontend.library_names import library_name
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.promotion import (
    result_of_function,
    result_of_operator,
    result_of_range,
    result_of_unary,
)
from kerneldsl.utilities.operators import BINARY_SYMBOLS, UNARY_SYMBOLS

__all__ = ["ExpressionTypes"]


class ExpressionTypes(ABC):
    """Types the expressions of one function, and records them.

    Parameters
    ----------
    unit : FunctionUnit
        The function.
    tested : set of ast.expr
        Expressions that are only tested for truth.
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
                return value_of_constant(value)
            case ast.Name(id=name):
                if name in state:
                    return state[name]
                constant = self.unit.constants.get(name)
                return None if constant is None else value_of_constant(constant.value)
            case ast.Attribute():
                return self._attribute(node, self.value(node.value, state))
            case ast.Subscript():
                return self._subscript(node, state)
            case ast.UnaryOp(op=op, operand=operand):
                found = self.value(operand, state)
                if isinstance(op, ast.Not):
                    return "bool"
                if isinstance(operand, ast.Constant) and (literal := folded(node)):
                    return value_of_constant(literal.value)
                return (
                    result_of_unary(UNARY_SYMBOLS[type(op)], found)
                    if isinstance(found, str)
                    else None
                )
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
        if (field := field_of(owner, node.attr)) is not None:
            return field
        if isinstance(owner, str) and node.attr in ("real", "imag"):
            row = ELEMENT_TYPES[owner]
            return row.arithmetic if row.is_complex else owner
        return None

    def _subscript(self, node: ast.Subscript, state: Mapping[str, Value]) -> Value:
        owner = self.value(node.value, state)
        index = self.value(node.slice, state)
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return field_of(owner, node.slice.value)
        if isinstance(owner, tuple):
            return self._part(node, owner, index)
        if isinstance(owner, str) and ELEMENT_TYPES[owner].is_vector:
            is_index = isinstance(index, str) and ELEMENT_TYPES[index].is_integer
            return ELEMENT_TYPES[owner].fields[0].dtype if is_index else None
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
        if not (isinstance(left, str) and isinstance(right, str)) or type(op) not in BINARY_SYMBOLS:
            return None
        if self._is_literal(node.left) and self._is_literal(node.right):
            constant = folded(node)
            if constant is not None:
                return value_of_constant(constant.value)
        return result_of_operator(BINARY_SYMBOLS[type(op)], left, right)

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
            return value_of_intrinsic(use, given)
        if node.keywords:
            return None
        if callee is not None:
            return self.called(callee, given)
        name = library_name(node.func, self.unit.namespace)
        # Only the type of the items is known of what a loop goes over.
        if name == "enumerate":
            return (("int64", items_of(given[0])),)
        if name == "zip":
            return (tuple(map(items_of, given)),)
        if name == "len":
            return "int64" if isinstance(given[0], tuple | Elements) else None
        scalars = [each for each in given if isinstance(each, str)]
        if name is None or len(scalars) != len(given):
            return None
        if name == "range":
            items = result_of_range(scalars)
            return None if items is None else Elements(items, 1, is_range=True)
        return result_of_function(name, scalars)
