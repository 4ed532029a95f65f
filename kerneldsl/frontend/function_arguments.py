"""Functions as arguments: of device functions, of local ones, and of functions with overloads."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from types import FunctionType
from typing import Any

from kerneldsl.errors.values import safe_repr
from kerneldsl.frontend.call_arguments import (
    bind_arguments,
    default_values,
    gathered,
    rest_in_tuple,
)
from kerneldsl.frontend.foreign import foreign_intrinsic
from kerneldsl.frontend.intrinsic_calls import IntrinsicCalls
from kerneldsl.frontend.lambdas import LAMBDA_NAME, function_of_lambda
from kerneldsl.frontend.local_functions import GivenFunction, LocalFunction, as_local
from kerneldsl.frontend.outside_values import is_read
from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.resolve import device_function
from kerneldsl.frontend.trees import load
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Intrinsic

__all__ = ["FunctionArguments", "MakeCallee", "call_of"]

MakeCallee = Callable[[Any, ast.AST, Reporter, Mapping[str, Any]], FunctionUnit | None]


class FunctionArguments(IntrinsicCalls):
    """Rewrites calls that are given functions, and calls of those that were given.

    - `_make_callee`: gives the unit of a called function.
    - `_needed_by`: gives the variables that a local function reads of the function around it.
    """

    _make_callee: MakeCallee
    _needed_by: Callable[[LocalFunction], tuple[str, ...]]

    @abstractmethod
    def _arrays_of(self, callee: FunctionUnit) -> list[ast.expr]:
        """Return the arguments for the arrays from outside that a called function reads."""

    def _is_function(self, node: ast.expr) -> bool:
        """Return whether an argument is a function, as it is written."""
        return isinstance(node, ast.Lambda) or self._no_value(node) is not None

    def _no_value(self, node: ast.expr) -> Any:
        """Return what an argument is for the compiler alone, such as a function, else ``None``."""
        from kerneldsl.frontend.specialized import is_no_value

        if isinstance(node, ast.Lambda):
            function = function_of_lambda(node, LAMBDA_NAME)
            return self._given(*as_local(LAMBDA_NAME, function), node)
        if isinstance(node, ast.Name) and node.id in self._local_functions:
            return self._given(self._local_functions[node.id], {}, node)
        if not self._is_read_outside(node):
            return None
        resolved = self._scope.resolve(node)
        value = resolved.value
        if resolved.foreign is not None:
            value = foreign_intrinsic(resolved.foreign)
        is_passed = isinstance(value, Intrinsic) and is_read(value)
        if resolved.rest or not is_no_value(value) or is_passed:
            return None
        self._watch(node, resolved)
        return value

    def _given(
        self, local: LocalFunction, defaults: Mapping[str, ast.expr], node: ast.expr
    ) -> GivenFunction:
        """Return a function in this one as an argument, with the constants that it reads.

        - `defaults`: default values that are in no variable yet.
        """
        values = []
        for name in self._needed_by(local):
            what = f"{local.name} is an argument, and it reads {name}"
            variable = defaults.get(name) or ast.copy_location(load(name), node)
            remedy = f"Make {name} a constant, or a parameter of {local.name}"
            values.append((name, self.statics.evaluate(variable, what, remedy)))
        return GivenFunction(local, tuple(values))

    def _overloaded_call(self, node: ast.Call) -> ast.expr:
        """Return a call of a function with overloads; functions have the names of their units."""
        node.func = self.visit(node.func)
        node.args = list(map(self._argument, node.args))
        for keyword in node.keywords:
            keyword.value = self._argument(keyword.value)
        return node

    def _argument(self, node: ast.expr) -> ast.expr:
        value = self._no_value(node)
        if not isinstance(value, GivenFunction | FunctionUnit) and device_function(value) is None:
            return self.visit(node)  # type: ignore[no-any-return]
        unit = self._make_callee(value, node, self._reporter, {})
        assert unit is not None
        return ast.copy_location(load(self._name_of_callee(ast.unparse(node), unit)), node)

    def _unit_call(self, node: ast.Call, unit: FunctionUnit, path: str) -> ast.expr:
        """Return a call of the function that an overloaded one was given."""
        if unit.given is None:
            assert isinstance(unit.function, FunctionType)
            node = rest_in_tuple(node, unit.function)
            self._refuse_starred(node)
            arguments = self._arguments_of_function(node, unit, path)
        else:
            arguments = self._arguments_of_given(node, unit.given, path, {})
        name = self._name_of_callee(path, unit)
        return call_of(node, name, arguments + self._arrays_of(unit))

    def _arguments_of_function(
        self, node: ast.Call, unit: FunctionUnit, path: str
    ) -> list[ast.expr]:
        """Return what a call, with the rest in a tuple, gives the parameters in their order."""
        function = unit.function
        assert isinstance(function, FunctionType)
        defaults = default_values(function)
        parameters = unit.parameters[: len(unit.parameters) - len(unit.hidden)]
        given = bind_arguments(
            node,
            unit.name,
            parameters,
            reporter=self._reporter,
            optional=defaults,
            positional_count=function.__code__.co_argcount,
        )
        # A path that no chain can be stands for a default value.
        return [
            self.visit(given[each])
            if each in given
            else self._default(node, f"{path}({each})", defaults[each])
            for each in parameters
        ]

    def _name_of_callee(self, path: str, callee: FunctionUnit) -> str:
        """Return a name for a called function. Others may be written as it is."""
        name = self._name_of(path)
        while self.callees.setdefault(name, callee) is not callee:
            path += "_"
            name = self._name_of(path)
        return name

    def _arguments_of(self, node: ast.Call, local: LocalFunction) -> dict[str, ast.expr]:
        if local.rest is not None:
            node = gathered(node, local.positional_count, local.rest)
        self._refuse_starred(node)
        return bind_arguments(
            node,
            local.name,
            local.parameters,
            reporter=self._reporter,
            optional=local.defaults,
            positional_count=local.positional_count,
        )

    def _given_call(self, node: ast.Call, given: GivenFunction, path: str) -> ast.expr:
        """Return a call of a local function that is an argument, or that is given functions."""
        local = given.local
        names = self._arguments_of(node, local)
        static = {n: v for n, each in names.items() if (v := self._no_value(each)) is not None}
        callee = self._make_callee(given, node, self._reporter, static)
        assert callee is not None
        shown = ", ".join(f"{n}={safe_repr(v)}" for n, v in static.items())
        name = self._name_of_callee(f"{path}({shown})", callee)
        arguments = self._arguments_of_given(node, given, path, static)
        return call_of(node, name, arguments + self._arrays_of(callee))

    def _arguments_of_given(
        self, node: ast.Call, given: GivenFunction, path: str, static: Collection[str]
    ) -> list[ast.expr]:
        local, values = given.local, dict(given.values)
        names = self._arguments_of(node, local)
        return [
            self.visit(names[parameter])
            if parameter in names
            else self._default(node, f"{path}({parameter})", values[local.defaults[parameter]])
            for parameter in local.parameters
            if parameter not in static
        ]

    def _refuse_starred(self, node: ast.Call) -> None:
        """Refuse an argument that stands for several where each parameter needs its own."""
        for each in node.args:
            if isinstance(each, ast.Starred):
                what = f"* cannot be used in a call of {ast.unparse(node.func)}"
                self._reporter.fail(each, what, "Name each value")


def call_of(node: ast.Call, name: str, arguments: list[ast.expr]) -> ast.expr:
    """Return a call by a name of the unit, at the place of another."""
    function = ast.copy_location(load(name), node.func)
    for argument in arguments:
        if not hasattr(argument, "lineno"):
            ast.copy_location(argument, node)
    return ast.copy_location(ast.Call(function, arguments, []), node)
