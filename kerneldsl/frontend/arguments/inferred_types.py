"""Types of a function's values, inferred without Numba, if they are certain.

They serve the steps before a launch, when Numba may not be imported. Numba's own types, those
of every value, are in a :class:`~kerneldsl.frontend.typed_unit.TypedUnit`. A type that is said here
is equal to the one there, which a property test holds. Variables are followed through the control
flow as Numba's single-assignment form does. Numba may decide a condition on captured constants or
ranks before it infers types; if that could change a type, the type is not known.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kerneldsl.frontend.arguments.dataflow import Branching, Dataflow, Loop
from kerneldsl.frontend.arguments.decided import DecidedConditions
from kerneldsl.frontend.arguments.expression_types import ExpressionTypes
from kerneldsl.frontend.arguments.known_values import Elements, Value, items_of, joined
from kerneldsl.frontend.expressions import augmented_value, condition_expressions
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["types_of_values"]

_Values = dict[str, Value]
#: Calls of device functions inside each other that are followed.
_MAX_DEPTH = 8


def types_of_values(unit: FunctionUnit, values: tuple[Value, ...]) -> dict[ast.expr, Value]:
    """Return what is known of a function's expressions, for what is known of its arguments."""
    walk = _Walk(unit, values, {}, 0)
    walk.run()
    return walk.types


class _Walk(Dataflow[_Values], ExpressionTypes):
    """Follows the values of variables through one function."""

    def __init__(
        self,
        unit: FunctionUnit,
        arguments: tuple[Value, ...],
        calls: dict[tuple[FunctionUnit, tuple[Value, ...]], Value],
        depth: int,
    ) -> None:
        Dataflow.__init__(self)
        ExpressionTypes.__init__(self, unit, condition_expressions(unit.tree))
        self._arguments = arguments
        self._calls = calls
        self._depth = depth
        self._augmented: dict[ast.AugAssign, ast.BinOp] = {}
        self._returned: dict[ast.Return, Value] = {}
        self.decided = DecidedConditions(unit, arguments)

    def run(self) -> Value:
        """Walk the function; return what it returns."""
        entry = dict(zip(self.unit.parameters, self._arguments, strict=True))
        end = self.block(self.unit.tree.body, entry)
        values = list(self._returned.values())
        if end is not None or not values:
            return None  # of what may or may not return a value nothing is said
        found = values[0]
        for each in values[1:]:
            found = joined(found, each, may_differ=not self.decided.has_any)
        return found

    def augmented_value(self, node: ast.AugAssign) -> ast.BinOp:
        return self._augmented.setdefault(node, augmented_value(node))

    def called(self, callee: FunctionUnit, arguments: tuple[Value, ...]) -> Value:
        """Return what a device function returns."""
        key = callee, arguments
        if key not in self._calls:
            self._calls[key] = None  # of a function that calls itself
            if self._depth < _MAX_DEPTH and len(arguments) == len(callee.parameters):
                walk = _Walk(callee, arguments, self._calls, self._depth + 1)
                self._calls[key] = walk.run()
        return self._calls[key]

    # ------------------------------------------------------------------------- statements

    def transfer(self, node: ast.stmt, state: _Values) -> _Values | None:
        match node:
            case ast.Assign(targets=targets, value=value):
                found = self.value(value, state)
                for target in targets:
                    self._bind(target, found, state)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self.value(value, state), state)
            case ast.AugAssign(target=target):
                found = self.value(self.augmented_value(node), state)
                if isinstance(target, ast.Name):
                    self._bind(target, found, state)
            case ast.Expr(value=value):
                self.value(value, state)
            case ast.Assert(test=test):
                self.value(test, state)
            case ast.Return(value=value):
                self._returned[node] = None if value is None else self.value(value, state)
                return None
        return state

    def _bind(self, target: ast.expr, value: Value, state: _Values) -> None:
        match target:
            case ast.Name(id=name):
                state[name] = self.record(target, value)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                parts: Sequence[Value] = [None] * len(targets)
                if isinstance(value, tuple) and len(value) == len(targets):
                    parts = value
                elif isinstance(value, Elements):
                    parts = [items_of(value)] * len(targets)
                for each, part in zip(targets, parts, strict=True):
                    self._bind(each, part, state)
            case ast.Subscript():
                self.value(target, state)

    # ------------------------------------------------------------------------ control flow

    def enter(self, node: Loop, state: _Values) -> _Values:
        if isinstance(node, ast.For):
            self.value(node.iter, state)
        return state

    def test(self, node: Branching, state: _Values) -> _Values:
        if isinstance(node, ast.If | ast.While):
            self.value(node.test, state)
        return state

    def assume(self, node: Branching, truth: bool, tested: _Values) -> _Values | None:
        if isinstance(node, ast.For):
            state = dict(tested)
            if truth:
                self._bind(node.target, items_of(self.types.get(node.iter)), state)
            return state
        # Python leaves out what a literal rules out.
        if isinstance(node.test, ast.Constant) and bool(node.test.value) is not truth:
            return None
        return dict(tested)

    def join(self, one: _Values, two: _Values) -> _Values:
        both = {**one, **two}
        for name in one.keys() & two.keys():
            may_differ = not self.decided.may_change(name)
            both[name] = joined(one[name], two[name], may_differ=may_differ)
        return both
