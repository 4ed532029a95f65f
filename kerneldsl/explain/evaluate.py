"""Expressions of the typed normal form, for many threads at once.

Values that follow from the launch and the arguments are computed; what is read from memory is known
only where the array's contents are. Each access and each operation is counted for the lanes that
perform it.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from kerneldsl.analysis.library_names import outside_value
from kerneldsl.analysis.operations import CONVERSIONS, OPERATORS, SELECTIONS, called_function
from kerneldsl.explain.lane_memory import ActiveLanes, LaneMemory, record_type
from kerneldsl.explain.subscripts import elements
from kerneldsl.explain.tally import DivisionTally
from kerneldsl.explain.values import (
    UNKNOWN,
    Maybe,
    Value,
    View,
    as_dtype,
    binary,
    choose,
    compare,
    function,
    possible,
    unary,
)
from kerneldsl.language.kinds import ScalarKind
from kerneldsl.language.types import DtypeType, Type

__all__ = ["Evaluator"]


class Evaluator(LaneMemory, ABC):
    """Expressions of one function, for the lanes that are `active`."""

    # ------------------------------------------------------------------ values

    def value(self, node: ast.expr) -> Value:
        """Return the value of an expression; what it does is counted."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.Subscript():
                return self._load(node)
            case ast.BinOp(left=left, op=op, right=right):
                return self.operation(node, op, self.value(left), self.value(right))
            case ast.UnaryOp(op=op, operand=operand):
                return unary(op, self.value(operand))
            case ast.Compare():
                return self._compare(node)
            case ast.BoolOp():
                return self._join(node)
            case ast.IfExp():
                return self._either(node)
            case ast.Tuple(elts=values):
                return tuple(self.value(each) for each in values)
            case ast.Attribute(value=base, attr=attr):
                return self._attribute(node, base, attr)
            case ast.Slice():
                return slice(*(self._bound(each) for each in (node.lower, node.upper, node.step)))
            case ast.Call():
                return self.call(node)
        return UNKNOWN

    @abstractmethod
    def call(self, node: ast.Call) -> Value:
        """Return what a call gives."""

    def _bound(self, node: ast.expr | None) -> Value:
        return None if node is None else self.value(node)

    def _name(self, node: ast.Name, name: str) -> Value:
        if name in self.names:
            return self.names[name]
        if name in self.unit.constants:
            value = self.unit.constants[name].value
            return (
                self.constant_array(node, name, value) if isinstance(value, np.ndarray) else value
            )
        found = outside_value(node, self.unit.namespace)
        return UNKNOWN if found is None else found

    def _attribute(self, node: ast.Attribute, base: ast.expr, attr: str) -> Value:
        outside = outside_value(node, self.unit.namespace)
        if outside is not None:
            return outside
        value = self.value(base)
        if isinstance(value, View) and record_type(self.typed.type_of(base)) is not None:
            found = self.field(value, base, attr)
            if found is not UNKNOWN:
                return self._element(node, found)
        if isinstance(value, View):
            match attr:
                case "shape":
                    return value.shape
                case "size":
                    return int(np.prod([int(n) for n in value.shape], dtype=np.int64))
                case "ndim":
                    return len(value.shape)
                case "itemsize":
                    return value.itemsize
                case "strides":
                    return value.strides
                case "T":
                    return View(
                        value.memory,
                        value.offset,
                        value.shape[::-1],
                        value.strides[::-1],
                        value.itemsize,
                        None,
                        value.is_unknown,
                    )
            return UNKNOWN
        place = "xyz".find(attr)
        if isinstance(value, tuple) and 0 <= place < len(value):
            return value[place]
        return UNKNOWN

    # -------------------------------------------------------------- operations

    def operation(self, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
        """Return the result of an operator, and count it."""
        operations = self.typed.operations.get(node, ())
        result: Type | None = None
        if operations:
            (first, second), result = operations[0].operands[:2], operations[0].result
            if not isinstance(op, ast.LShift | ast.RShift | ast.Pow):
                left, right = as_dtype(left, first), as_dtype(right, second)
            self._count(node, op, result, left, right)
        found = binary(op, left, right)
        return found if result is None else as_dtype(found, result)

    def _count(
        self, node: ast.AST, op: ast.operator, result: Type, left: Value, right: Value
    ) -> None:
        name = OPERATORS[type(op)]
        if not isinstance(result, ScalarKind):
            return
        if _is_of_floats(result):
            self.count(node, result, name)
        elif name in ("div", "mod") and not self._is_constant(node):
            self._divide(node, result, (left, right))

    def _divide(self, node: ast.AST, result: ScalarKind, operands: tuple[Value, Value]) -> None:
        tally = self.tallies.divisions.get(node)
        if tally is None:
            parts = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
            kinds = [self.typed.type_of(part) for part in parts]
            is_narrow = bool(kinds) and all(map(_is_narrow, kinds))
            where, text = self.locate(node), ast.unparse(node)
            tally = DivisionTally(where, text, result.dtype, is_narrow)
            self.tallies.divisions[node] = tally
        tally.count += self.weight * self.active.threads
        tally.fits = tally.fits and all(map(self._fits, operands))

    def _fits(self, value: Value) -> bool:
        """Return whether a value is from 0 to 2**32 - 1 in all lanes at work."""
        if not isinstance(value, int | np.integer | np.ndarray):
            return False
        found = np.broadcast_to(value, self.active.mask.shape)[self.active.mask]
        return bool(found.size == 0 or (found.min() >= 0 and found.max() < 1 << 32))

    def _is_constant(self, node: ast.AST) -> bool:
        """Return whether the right operand of an operator is the same in all launches."""
        right = node.right if isinstance(node, ast.BinOp) else getattr(node, "value", None)
        is_captured = isinstance(right, ast.Name) and right.id in self.unit.constants
        return isinstance(right, ast.Constant) or is_captured

    def count(self, node: ast.AST, kind: ScalarKind, name: str) -> None:
        """Count an operation on floats, or on complex numbers of floats."""
        dtype = kind.dtype
        if kind.element.is_complex:
            dtype, name = kind.element.arithmetic, f"complex {name}"
        self.tallies.floats[self.typed, node, dtype, name] += self.weight * self.active.threads

    def _compare(self, node: ast.Compare) -> Value:
        left = self.value(node.left)
        operations = self.typed.operations.get(node, ())
        found: Value = True
        for number, (op, other) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = self.value(other)
            one, two = left, right
            if number < len(operations) and len(operations[number].operands) == 2:
                first, second = operations[number].operands
                one, two = as_dtype(left, first), as_dtype(right, second)
            found = _both(found, compare(op, one, two))
            left = right
        return found

    def _join(self, node: ast.BoolOp) -> Value:
        """Return ``and`` or ``or``: an operand is looked at by the lanes that get there."""
        outer = self.active
        is_and = isinstance(node.op, ast.And)
        found = self.value(node.values[0])
        for each in node.values[1:]:
            holds, is_data = possible(found)
            goes_on = holds if is_and else (True if is_data else np.logical_not(holds))
            self.uncertain += is_data
            with_mask = outer.mask & goes_on
            self.active = ActiveLanes(with_mask, self.threads)
            right = self.value(each) if self.active else found
            self.active = outer
            self.uncertain -= is_data
            found = _both(found, right) if is_and else _any(found, right)
        return found

    def _either(self, node: ast.IfExp) -> Value:
        test = self.value(node.test)
        holds, is_data = possible(test)
        outer, found = self.active, []
        self.uncertain += is_data
        for side, goes in (
            (node.body, holds),
            (node.orelse, True if is_data else ~np.asarray(holds)),
        ):
            self.active = ActiveLanes(outer.mask & goes, self.threads)
            found.append(self.value(side) if self.active else None)
        self.uncertain -= is_data
        self.active = outer
        kind = self.typed.type_of(node)
        first, second = found
        if first is None or second is None:
            return as_dtype(second if first is None else first, kind)
        if is_data:
            return UNKNOWN
        return as_dtype(choose(holds, first, second), kind)

    def _load(self, node: ast.Subscript) -> Value:
        return self._element(node, self.element(node.value, node.slice))

    def _element(self, node: ast.expr, found: Value) -> Value:
        """Return an element that is read; a record is none, but a name for its place."""
        is_record = record_type(self.typed.type_of(node)) is not None
        if isinstance(found, View) and not found.shape and not is_record:
            self.access(node, found)
            return elements(found, self.threads.lane_count)
        return found

    # ------------------------------------------------------------- conversions

    def library_call(self, node: ast.Call) -> Value:
        """Return what a conversion or a mathematical function gives."""
        called = self.typed.type_of(node.func)
        arguments = [self.value(each) for each in node.args]
        result = self.typed.type_of(node)
        if isinstance(called, DtypeType):
            return as_dtype(arguments[0] if arguments else 0, ScalarKind(called.dtype))
        name = called_function(node, self.unit.namespace)
        if name == "len" and arguments:
            value = arguments[0]
            if isinstance(value, View) and value.shape:
                return value.shape[0]
            return len(value) if isinstance(value, tuple) else UNKNOWN
        if name in ("int", "float", "bool") and arguments:
            return as_dtype(arguments[0], result)
        if _is_of_floats(result) and name not in CONVERSIONS | SELECTIONS:
            self.count(node, result, name or "function")
        operations = self.typed.operations.get(node, ())
        if operations and len(operations[0].operands) == len(arguments):
            kinds = operations[0].operands
            arguments = [as_dtype(a, k) for a, k in zip(arguments, kinds, strict=True)]
        return as_dtype(function(name, arguments), result)


def _is_of_floats(kind: Type | None) -> TypeGuard[ScalarKind]:
    """Return whether a type is a float or a complex number."""
    return isinstance(kind, ScalarKind) and (kind.element.is_float or kind.element.is_complex)


def _is_narrow(kind: Type | None) -> bool:
    """Return whether a type is an unsigned integer of 32 bits or fewer."""
    return isinstance(kind, ScalarKind) and kind.element.is_unsigned and kind.element.nbytes <= 4


def _logical(called: Callable[[Any, Any], Any], left: Value, right: Value) -> Any:
    return called(possible(left)[0], possible(right)[0])


def _both(left: Value, right: Value) -> Value:
    """Return ``left and right``."""
    found = _logical(np.logical_and, left, right)
    is_data = possible(left)[1] or possible(right)[1]
    return Maybe(found) if is_data and np.any(found) else found


def _any(left: Value, right: Value) -> Value:
    """Return ``left or right``."""
    found = _logical(np.logical_or, left, right)
    return Maybe(found) if possible(left)[1] or possible(right)[1] else found
