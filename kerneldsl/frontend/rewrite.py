"""Replace what stands for something outside a function by names of the normal form."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Mapping
from inspect import CO_VARARGS
from typing import Any, NoReturn

from kerneldsl.errors.values import safe_repr
from kerneldsl.frontend.call_arguments import (
    bind_arguments,
    default_values,
    rest_in_tuple,
    statements_of_access,
)
from kerneldsl.frontend.captured import constant_problem, is_constant
from kerneldsl.frontend.foreign import foreign_dim3, is_dispatcher, is_overloaded
from kerneldsl.frontend.function_arguments import FunctionArguments, MakeCallee, call_of
from kerneldsl.frontend.intrinsic_calls import MakeLocal
from kerneldsl.frontend.local_functions import GivenFunction, LocalFunction
from kerneldsl.frontend.outside_values import (
    draws,
    is_array_of_device,
    is_buffer_function,
    message_of,
    refuse_builtin,
    refuse_group,
    refuse_unknown,
    root_of,
)
from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.resolve import Namespace, Resolved, device_function, is_kernel
from kerneldsl.frontend.trees import load
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Dim3, Dim3Values, IntrinsicGroup

__all__ = ["Rewriter"]

_NO_FUNCTION_VALUES = "A kernel calls functions; they are not values"


class Rewriter(FunctionArguments):
    """Rewrites the statements of one function.

    - `scope`: meanings of names.
    - `make_callee`: gives the unit of a called function.
    - `taken`: names that the function uses.
    - `local_constants`: locals that are bound once.
    - `local_functions`: functions that are in the function.
    - `make_local`: gives the unit of one of them, which a node calls.
    - `needed_by`: gives the variables that one of them reads of the function around it.
    - `is_plain`: whether it is a Numba function, in which everything but a call of another is left
      alone.
    - `takes_arrays`: whether arrays of a device are taken from outside, by parameters that are
      added.
    """

    def __init__(
        self,
        scope: Namespace,
        reporter: Reporter,
        make_callee: MakeCallee,
        *,
        taken: set[str],
        local_constants: dict[str, ast.expr],
        local_functions: Mapping[str, LocalFunction],
        make_local: MakeLocal,
        needed_by: Callable[[LocalFunction], tuple[str, ...]],
        is_plain: bool,
        takes_arrays: bool = False,
    ) -> None:
        super().__init__(
            scope,
            reporter,
            taken=taken,
            local_constants=local_constants,
            local_functions=local_functions,
            make_local=make_local,
            is_plain=is_plain,
        )
        self._make_callee = make_callee
        self._needed_by = needed_by
        self._takes_arrays = takes_arrays
        #: Names of the parameters that are added, to the arrays from outside.
        self.hidden: dict[str, Any] = {}

    # Expressions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._local_functions:
            self._refuse_as_value(node, node.id)
        return self._value(node) if self._is_read_outside(node) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if self._is_read_outside(node):
            return self._value(node)
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):  # the field of a record, which is written by name
            field = ast.copy_location(ast.Constant(node.attr), node)
            return ast.copy_location(ast.Subscript(node.value, field, node.ctx), node)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        if not self._is_plain:
            self._reporter.fail(
                node,
                "A lambda has no name",
                "Give it a name in a separate statement, f = lambda …: …, and write f here",
                limit=_NO_FUNCTION_VALUES,
            )
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id in self._local_functions:
            local = self._local_functions[node.func.id]
            if any(map(self._is_function, (*node.args, *(each.value for each in node.keywords)))):
                return self._given_call(node, self._given(local, {}, node.func), local.name)
            return self._local_call(node, local)
        if not self._is_read_outside(node.func):
            if isinstance(node.func, ast.Attribute) and node.func.attr == "map" and node.args:
                return self._of_each_element(node, node.args[0], node.func.value, 0, node.args[1:])
            self.generic_visit(node)
            return node
        resolved = self._scope.resolve(node.func)
        if isinstance(resolved.value, GivenFunction) and not resolved.rest:
            return self._given_call(node, resolved.value, resolved.path)
        if isinstance(resolved.value, FunctionUnit) and not resolved.rest:
            return self._unit_call(node, resolved.value, resolved.path)
        if self._takes_arrays and is_buffer_function(resolved) and len(node.args) == 1:
            given: ast.expr = self.visit(node.args[0])  # an array is its own pointer
            return given
        intrinsic = self._intrinsic(resolved)
        if intrinsic is not None:
            self._refuse_starred(node)
            return self._intrinsic_call(node, intrinsic, resolved)
        if is_kernel(resolved.value):
            self._reporter.fail(
                node,
                f"{resolved.path} is a kernel, and a kernel cannot call a kernel",
                "Move what both need into a function decorated with @kd.func, or launch the two "
                "kernels one after the other",
            )
        if not resolved.rest:
            static = self._static_arguments(node, resolved.value)
            callee = self._callee(resolved, static)
            if callee is not None:
                if not callee.is_plain_numba:
                    self._refuse_starred(node)
                return self._device_call(node, callee, resolved, static)
        if not self._is_plain:
            match node:
                case ast.Call(_, [ast.Constant(str(text))], []) if resolved.value is float:
                    return self._number_of_text(node, text)
            refuse_builtin(self._reporter, node, resolved)
            if any(k.arg is None for k in node.keywords):
                self._reporter.fail(node, "** cannot be used in a kernel", "Name each argument")
        if isinstance(resolved.value, types.FunctionType) and is_overloaded(resolved.value):
            return self._overloaded_call(node)
        self.generic_visit(node)
        return node

    def _number_of_text(self, node: ast.Call, text: str) -> ast.expr:
        """Return the constant that `float("inf")` is."""
        try:
            value = float(text)
        except ValueError:
            self._reporter.fail(node, f"{text!r} is not a number", "Write a number", value=text)
        return self._default(node, f"float({text!r})", value)

    # Statements

    def visit_Expr(self, node: ast.Expr) -> list[ast.stmt]:
        self._statement = node.value
        self.generic_visit(node)
        return statements_of_access(node, self.uses)

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        known = self.statics.truth(node.test)
        if known is None:
            self.generic_visit(node)
            return node
        taken = ast.copy_location(ast.Module(node.body if known else node.orelse, []), node)
        self.generic_visit(taken)
        return taken.body or [ast.copy_location(ast.Pass(), node)]

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        known = self.statics.identity(node)
        if known is not None:
            return ast.copy_location(ast.Constant(known), node)
        self.generic_visit(node)
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        if self._is_plain:
            self.generic_visit(node)
            return node
        raised = node.exc
        message: ast.expr | None = None
        if isinstance(raised, ast.Call):
            if raised.args:
                message = message_of(raised.args)
            raised = raised.func
        kind = (
            self._scope.resolve(raised).value
            if raised is not None and self._scope.is_outside(raised)
            else None
        )
        if raised is None or not (isinstance(kind, type) and issubclass(kind, Exception)):
            self._reporter.fail(
                node, "A kernel can raise only an exception class", 'Write raise ValueError("…")'
            )
        name = self._value(raised)
        call = ast.Call(name, [message] if message else [], [])
        node.exc = ast.copy_location(call, node.exc or node)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        node.test = self.visit(node.test)
        if node.msg is not None:
            node.msg = self.visit(node.msg) if self._is_plain else message_of([node.msg])
        return node

    # Outside values

    def _value(self, node: ast.expr) -> ast.expr:
        """Return what stands for an outside value that is read."""
        resolved = self._scope.resolve(node)
        value = foreign_dim3(resolved.foreign) if resolved.foreign else resolved.value
        if isinstance(value, Dim3):
            return self._three(node, value, resolved)
        intrinsic = self._intrinsic(resolved)
        if intrinsic is not None:
            return self._intrinsic_read(node, intrinsic, resolved)
        if isinstance(value, IntrinsicGroup):
            refuse_group(self._reporter, node, resolved.path, value)
        if isinstance(value, GivenFunction | FunctionUnit):
            self._refuse_as_value(node, resolved.path)
        if is_kernel(value) or device_function(value) is not None:
            if self._is_plain:
                return self._keep(resolved, node)
            self._refuse_as_value(node, resolved.path)
        if is_constant(value) and (not self._is_plain or constant_problem(value) is None):
            return self._constant(node, resolved)
        if self._takes_arrays and not resolved.rest and is_array_of_device(value):
            return ast.copy_location(load(self._parameter_of(value, resolved.path)), node)
        owner = self._scope.resolve(root_of(node)).value
        if not self._is_plain and not draws(owner, resolved.path):  # which keeping it refuses
            refuse_unknown(self._reporter, node, resolved)
        return self._keep(resolved, node)

    def _parameter_of(self, array: Any, path: str) -> str:
        """Return the parameter that stands for an array from outside."""
        known = next((name for name, each in self.hidden.items() if each is array), None)
        if known is None:
            known = self._name_of(f"{path} from outside")
            self.hidden[known] = array
        return known

    def _arrays_of(self, callee: FunctionUnit) -> list[ast.expr]:
        """Return the arguments for the arrays from outside that a called function reads."""
        names = callee.parameters[len(callee.parameters) - len(callee.hidden) :]
        return [
            load(self._parameter_of(array, name))
            for name, array in zip(names, callee.hidden, strict=True)
        ]

    def _three(self, node: ast.expr, group: Dim3, resolved: Resolved) -> ast.expr:
        """Return the named tuple of x, y and z that stands for a group such as ``threadIdx``."""
        self._watch(node, resolved)
        name = self._name_of("kd.Dim3")
        self.namespace[name] = Dim3Values
        members = [self._use(node, getattr(group, axis), {}, []) for axis in "xyz"]
        function = ast.copy_location(load(name), node)
        return ast.copy_location(ast.Call(function, members, []), node)

    def _refuse_as_value(self, node: ast.expr, path: str) -> NoReturn:
        self._reporter.fail(
            node,
            f"The function {path} is used without being called",
            f"Write {path}(…)",
            limit=_NO_FUNCTION_VALUES,
        )

    # Calls

    def _callee(
        self, resolved: Resolved, constants: Mapping[str, Any] | None = None
    ) -> FunctionUnit | None:
        if self._is_plain and not is_dispatcher(resolved.value):
            return None
        return self._make_callee(resolved.value, resolved.node, self._reporter, constants or {})

    def _static_arguments(self, node: ast.Call, called: Any) -> dict[str, Any]:
        """Return the arguments of a device function that are constants of the compiler."""
        if self._is_plain or (device_function(called) is None and not is_dispatcher(called)):
            return {}
        from kerneldsl.frontend.specialized import (  # kernels that call no function do without
            arguments_by_name,
            called_function,
            is_no_value,
            spread_argument,
            static_parameters,
        )

        function = called_function(called)
        assert function is not None
        found: dict[str, Any] = {}
        needed: frozenset[str] | None = None
        given_names = arguments_by_name(node, function)
        for parameter, given in given_names.items():
            value = self._no_value(given)
            if value is not None:
                found[parameter] = value
                continue
            if needed is None:
                needed = static_parameters(function)
            if parameter in needed:
                what = f"{function.__name__}: {parameter}"
                found[parameter] = self.statics.evaluate(given, what, "Give a constant")
        is_known = bool(given_names) or not (node.args or node.keywords)
        defaults = default_values(function) if is_known else {}
        for parameter, value in defaults.items():
            if parameter not in given_names:
                if needed is None:
                    needed = static_parameters(function)
                if is_no_value(value) or parameter in needed:
                    found[parameter] = value
        return found | spread_argument(node, function)

    def _device_call(
        self,
        node: ast.Call,
        callee: FunctionUnit,
        resolved: Resolved,
        static: Mapping[str, Any] | None = None,
    ) -> ast.expr:
        path = resolved.path
        arguments = callee.tree.args
        is_flexible = arguments.vararg or arguments.kwarg
        is_starred = any(isinstance(a, ast.Starred) for a in node.args)
        is_numbas = is_flexible or is_starred  # Numba's own functions alone; Numba binds arguments
        if not is_numbas:
            assert isinstance(callee.function, types.FunctionType)
            node = rest_in_tuple(node, callee.function)
        if static:
            assert isinstance(callee.function, types.FunctionType)
            code = callee.function.__code__
            count = code.co_argcount + code.co_kwonlyargcount
            parameters = code.co_varnames[: count + bool(code.co_flags & CO_VARARGS)]
            given_names = bind_arguments(
                node,
                callee.function.__name__,
                parameters,
                reporter=self._reporter,
                optional=default_values(callee.function),
                positional_count=code.co_argcount,
            )
            rest = [ast.keyword(n, e) for n, e in given_names.items() if n not in static]
            path = f"{path}({', '.join(f'{n}={safe_repr(v)}' for n, v in static.items())})"
            node = ast.copy_location(ast.Call(node.func, [], rest), node)
        name = self._name_of_callee(path, callee)
        self._capture(name, resolved)
        if is_numbas:
            self.generic_visit(node)
            node.func = ast.copy_location(load(name), node.func)
            return node
        positional = self._arguments_of_function(node, callee, resolved.path)
        return call_of(node, name, positional + self._arrays_of(callee))

    def _local_call(self, node: ast.Call, local: LocalFunction) -> ast.expr:
        """Return a call with the variables of the function around that the called one reads."""
        name = local.name
        callee = self._make_local(local, node)
        self.callees[name] = callee
        given = self._arguments_of(node, local)
        end = len(callee.parameters) - len(callee.hidden)
        hidden = callee.parameters[len(local.parameters) : end]
        positional: list[ast.expr] = [
            self.visit(given[parameter]) if parameter in given else load(local.defaults[parameter])
            for parameter in local.parameters
        ]
        positional += map(load, hidden)
        return call_of(node, name, positional + self._arrays_of(callee))
