"""Write calls of the language, and what is read of it, in the normal form."""

from __future__ import annotations

import ast
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kerneldsl.frontend.call_arguments import (
    access_of,
    bind_arguments,
    checked_operation,
    is_none,
    read_inline_call,
)
from kerneldsl.frontend.captured import ConstantArray, GlobalReader, make_captured
from kerneldsl.frontend.foreign import foreign_intrinsic
from kerneldsl.frontend.lambdas import function_of_lambda
from kerneldsl.frontend.local_functions import LocalFunction, as_local
from kerneldsl.frontend.outside_values import OutsideValues, is_read, refuse_foreign, spelling
from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.resolve import Namespace, Resolved
from kerneldsl.frontend.statics import StaticEvaluator
from kerneldsl.frontend.trees import load
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Typing
from kerneldsl.language.reserved import RESERVED_PREFIX

__all__ = ["IntrinsicCalls", "MakeLocal"]

#: numba.cuda's names of our parameters.
_ALIASES = {"ary": "array", "idx": "index", "val": "value", "old": "expected"}
_COMPARE_AND_SWAP = ("array", "expected", "value")

MakeLocal = Callable[[LocalFunction, ast.AST], FunctionUnit]


class IntrinsicCalls(OutsideValues, ABC):
    """Rewrites what one function calls or reads of the language.

    - `scope`: meanings of names.
    - `taken`: names that the function uses.
    - `local_constants`: locals that are bound once.
    - `local_functions`: functions that are in the function.
    - `make_local`: gives the unit of one of them, which a node calls.
    - `is_plain`: whether it is a Numba function, in which everything but a call of another is left
      alone.
    """

    def __init__(
        self,
        scope: Namespace,
        reporter: Reporter,
        *,
        taken: set[str],
        local_constants: dict[str, ast.expr],
        local_functions: Mapping[str, LocalFunction],
        make_local: MakeLocal,
        is_plain: bool,
    ) -> None:
        super().__init__(scope, reporter, taken=taken, is_plain=is_plain)
        self._local_functions = local_functions
        self._make_local = make_local
        self.statics = StaticEvaluator(
            self._capture_static, scope.is_outside, local_constants, reporter, self._look
        )
        self._counts: dict[str, int] = {}
        #: The call, as written, that is a separate statement.
        self._statement: ast.expr | None = None
        self.uses: dict[str, IntrinsicUse] = {}

    @abstractmethod
    def _callee(self, resolved: Resolved) -> FunctionUnit | None:
        """Return the unit of a function that is called, ``None`` if it is no device function."""

    def _intrinsic(self, resolved: Resolved) -> Intrinsic | None:
        """Return the intrinsic of a chain; raise for numba.cuda's names that have none here."""
        if resolved.foreign is not None:
            ours = foreign_intrinsic(resolved.foreign)
            if ours is None:
                refuse_foreign(self._reporter, resolved.node, resolved.foreign)
            return ours
        value = resolved.value
        if not isinstance(value, Intrinsic):
            return None
        if resolved.rest:
            self._reporter.fail(
                resolved.node,
                f"{resolved.path} has no attribute {resolved.rest[0]!r}",
                f"Write {spelling(value)}",
            )
        if self._is_plain:
            self._reporter.fail(
                resolved.node,
                f"{resolved.path} is used in a Numba function",
                "Decorate the function with @kd.func instead of @njit",
                limit="Numba's own functions know nothing of a kernel's threads",
            )
        return value

    def _intrinsic_read(self, node: ast.expr, intrinsic: Intrinsic, resolved: Resolved) -> ast.expr:
        if not is_read(intrinsic):
            self._reporter.fail(
                node,
                f"{resolved.path} is used without being called",
                f"Write {spelling(intrinsic)}",
            )
        self._watch(node, resolved)
        return self._use(node, intrinsic, {}, [])

    def _intrinsic_call(self, node: ast.Call, intrinsic: Intrinsic, resolved: Resolved) -> ast.expr:
        name = resolved.path
        if is_read(intrinsic):
            self._reporter.fail(node, f"{name} is a value, not a function", f"Write {name}")
        self._watch(node.func, resolved)
        if intrinsic.typing is Typing.INLINE:
            constants, values = read_inline_call(node, intrinsic, self.statics, self._reporter)
            return self._use(node, intrinsic, constants, [self.visit(value) for value in values])
        if intrinsic.form is not None and len(node.args) > len(intrinsic.parameters):
            from kerneldsl.language.intrinsics.tiles import tile

            if intrinsic is tile.store:
                return self._store_of_each_element(node)
        parameters: tuple[str, ...] = intrinsic.parameters
        is_swap = resolved.foreign is not None and resolved.foreign.endswith("compare_and_swap")
        if is_swap:
            parameters = _COMPARE_AND_SWAP
        required = sum(p not in intrinsic.defaults for p in parameters)
        given = bind_arguments(
            node, name, parameters, required, reporter=self._reporter, aliases=_ALIASES
        )
        if intrinsic.typing is Typing.CONSTANT:
            return self._constant_array(given[parameters[0]], name)
        if is_swap:  # numba.cuda's works on the first element of an array of one dimension
            given["index"] = ast.copy_location(ast.Constant(0), node)
        static: dict[str, Any] = {}
        arguments: list[ast.expr] = []
        for parameter in intrinsic.parameters:
            is_static = parameter in intrinsic.static
            if parameter not in given:
                default = intrinsic.defaults[parameter]
                if is_static:
                    static[parameter] = default
                else:
                    arguments.append(ast.copy_location(ast.Constant(default), node))
            elif parameter == "dtype" and self._is_dtype_of_value(intrinsic, given[parameter]):
                if intrinsic.typing is Typing.ARRAY:
                    static[parameter] = None
                arguments.append(self.visit(given[parameter]))
            elif is_static:
                static[parameter] = self.statics.argument(intrinsic, parameter, given[parameter])
            elif parameter in intrinsic.functions and not is_none(given[parameter]):
                arguments.append(self._operation(given[parameter], intrinsic, parameter))
            else:
                arguments.append(self.visit(given[parameter]))
                if parameter in intrinsic.below:
                    self._check_below(intrinsic, parameter, given[parameter], arguments[-1])
        if intrinsic.form is not None:
            from kerneldsl.language.intrinsics.matrix import mma

            if intrinsic is mma and self._chosen_precision() == "reference":
                static["precision"] = "reference"
        if static.get("alignment", 0) is None:
            del static["alignment"]
        if intrinsic.typing is Typing.ELEMENT:
            arguments = access_of(node, intrinsic, arguments, self._statement, self._reporter)
        return self._use(node, intrinsic, static, arguments)

    def _is_dtype_of_value(self, intrinsic: Intrinsic, node: ast.expr) -> bool:
        """Return whether the dtype of an array or a tile is that of a value, ``x.dtype``."""
        if intrinsic.typing not in (Typing.ARRAY, Typing.TILE):
            return False
        node = self.statics.bound_to(node)
        is_attribute = isinstance(node, ast.Attribute) and node.attr == "dtype"
        return is_attribute and not self._is_read_outside(node)

    def _chosen_precision(self) -> str:
        """Return the precision that the program chooses, and watch it like a captured global."""
        from kerneldsl.language import product_precision

        path, read = "kd.use(mma=…)", GlobalReader(vars(product_precision), "chosen")
        value = read()
        self._captured[path] = make_captured("kd_use_mma", path, value, read)
        return str(value)

    def _check_below(
        self, intrinsic: Intrinsic, parameter: str, node: ast.expr, visited: ast.expr
    ) -> None:
        """Refuse a constant that no thread has as its index."""
        value: object = None
        if isinstance(visited, ast.Constant | ast.UnaryOp):
            with contextlib.suppress(ValueError):  # of a variable with a sign
                value = ast.literal_eval(visited)
        elif isinstance(visited, ast.Name) and visited.id in self.constants:
            value = self.constants[visited.id].value
        bound = intrinsic.below[parameter]
        if isinstance(value, int) and not 0 <= value < bound:
            self._reporter.fail(
                node,
                f"kd.{intrinsic.name}: {parameter} is {value}",
                f"Name one of 0 to {bound - 1} that takes part",
                limit=f"{parameter} is an index, and there are {bound} at most",
                value=value,
            )

    def _operation(self, node: ast.expr, intrinsic: Intrinsic, parameter: str) -> ast.expr:
        """Return the name of a function that an intrinsic is given."""
        local: LocalFunction | None = None
        callee: FunctionUnit | None = None
        name = f"{RESERVED_PREFIX}lambda_{len(self.callees)}"
        if isinstance(node, ast.Lambda):
            local, _ = as_local(name, function_of_lambda(node, name))
        elif isinstance(node, ast.Name) and node.id in self._local_functions:
            name, local = node.id, self._local_functions[node.id]
        elif self._is_read_outside(node):
            resolved = self._scope.resolve(node)
            callee = None if resolved.rest else self._callee(resolved)
            if callee is not None:
                name = self._name_of(resolved.path)
                self._capture(name, resolved)
        if local is not None:
            callee = self._make_local(local, node)
        what = f"kd.{intrinsic.name}: {parameter}"
        self.callees[name] = checked_operation(self._reporter, node, callee, local, what)
        return ast.copy_location(load(name), node)

    def _constant_array(self, node: ast.expr, path: str) -> ast.expr:
        """Return what stands for an array from outside that a kernel declares to be constant."""
        resolved = self._scope.resolve(node) if self._scope.is_outside(node) else None
        if resolved is None or not isinstance(resolved.value, np.ndarray) or resolved.rest:
            found = "" if resolved is None else f", of type {type(resolved.value).__name__}"
            text = ast.unparse(node)
            names = (each for each in ast.walk(node) if isinstance(each, ast.Name))
            self._reporter.fail(
                node,
                f"{path} was given {text}{found}",
                f"Write table = np.asarray({text}) outside the kernel, and {path}(table)"
                if all(map(self._scope.is_outside, names))
                else "Name an array that is made outside the kernel. Use a parameter by its name; "
                "for an array of each thread, write kd.local.array(shape, dtype)",
                limit="It takes the name of a NumPy array from outside the kernel",
            )
        value = self._constant(node, resolved)
        name = self._name_of(resolved.path)
        held = self.constants[name]
        self.constants[name] = held._replace(value=held.value.view(ConstantArray))
        return value

    def _of_each_element(
        self,
        node: ast.Call,
        function: ast.expr,
        value: ast.expr,
        index_count: int,
        more: list[ast.expr],
    ) -> ast.expr:
        """Return the call of a function for each element of a tile, with its index."""
        from kerneldsl.language.intrinsics.tiles import element_words, tile

        places: list[ast.expr] = [ast.copy_location(ast.Constant(0), node)] * index_count
        called = self.visit(
            ast.copy_location(ast.Call(function, [value, *places, *more], []), node)
        )
        for axis in range(index_count):  # the first parameters, in their order
            called.args[1 + axis] = self._use(node, element_words.index, {"axis": axis}, [])
        return self._use(node, tile.map, {}, [called])

    def _store_of_each_element(self, node: ast.Call) -> ast.expr:
        """Return a store of what a function gives for each element."""
        from kerneldsl.language.intrinsics.tiles import tile

        array, at, value, function, *more = node.args
        rank = len(at.elts) if isinstance(at, ast.Tuple) else 1
        mapped = self._of_each_element(node, function, value, rank, more)
        return self._use(node, tile.store, {}, [self.visit(array), self.visit(at), mapped])

    def _use(
        self,
        node: ast.expr,
        intrinsic: Intrinsic,
        static: dict[str, Any],
        arguments: list[ast.expr],
    ) -> ast.expr:
        count = self._counts.get(intrinsic.symbol, 0)
        self._counts[intrinsic.symbol] = count + 1
        name = f"{RESERVED_PREFIX}{intrinsic.symbol}_{count}"
        self.uses[name] = IntrinsicUse(intrinsic, static)
        at = node.func if isinstance(node, ast.Call) else node
        function = ast.copy_location(load(name), at)
        return ast.copy_location(ast.Call(function, arguments, []), node)
