"""Find which variables and expressions of a function are integers, wherever in it one looks.

Nothing is assumed of the types of parameters. What is called is known by the object that its name
is bound to.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from kerneldsl.analysis.bindings import bindings, unpack_targets
from kerneldsl.analysis.expressions import assigned_names
from kerneldsl.analysis.library_names import library_name
from kerneldsl.language.element_types import ElementKind, names_of

__all__ = ["INTEGER_CASTS", "SIZES", "UNSIGNED_CASTS", "Integers"]

#: Attributes of an array that are sizes.
SIZES = frozenset({"size", "ndim", "nbytes", "itemsize"})
UNSIGNED_CASTS = names_of(ElementKind.UNSIGNED)
INTEGER_CASTS = UNSIGNED_CASTS | names_of(ElementKind.SIGNED)


class Integers:
    """Integer names of one function.

    `is_nonnegative_call` says of a call that its result is an integer that is not negative.
    `constants` are values of outside names, and `namespace` holds the objects of others.
    """

    def __init__(
        self,
        tree: ast.FunctionDef,
        is_nonnegative_call: Callable[[ast.Call], bool],
        constants: Mapping[str, Any],
        namespace: Mapping[str, Any],
    ) -> None:
        self.is_nonnegative_call = is_nonnegative_call
        self._constants = {
            name: int(value)
            for name, value in constants.items()
            if isinstance(value, int | np.integer)
        }
        self._parameters = {a.arg for a in (*tree.args.posonlyargs, *tree.args.args)}
        own = self._parameters | assigned_names(tree)
        #: The names of `namespace` that the function has no variable of its own for.
        self.outside = {name: value for name, value in namespace.items() if name not in own}
        #: Locals that are given only integers.
        self.variables = self._find(tree)

    def constant(self, name: str) -> int | None:
        """Return the value of an outside name, if it is an integer."""
        return None if name in self._parameters else self._constants.get(name)

    def _find(self, tree: ast.FunctionDef) -> frozenset[str]:
        """Return the locals that are given only integers."""
        values: dict[str, list[ast.expr | None]] = {}
        for binding in bindings(tree):
            for target, value in unpack_targets(binding.target, binding.value):
                for name, given in self._given(target, value, is_item=binding.is_item):
                    values.setdefault(name, []).append(given)
        integers = frozenset(values) - self._parameters
        while True:  # start with all, and take away until nothing changes
            kept = frozenset(
                name
                for name in integers
                if all(v is not None and self.is_integer(v, integers) for v in values[name])
            )
            if kept == integers:
                return integers
            integers = kept

    def _given(
        self, target: ast.expr, value: ast.expr, *, is_item: bool
    ) -> Iterator[tuple[str, ast.expr | None]]:
        """Yield a target's names, each with an expression that is an integer if it is."""
        is_number = isinstance(target, ast.Name)
        given: ast.expr | None = value
        if is_item:
            is_range = isinstance(value, ast.Call) and self.called(value.func) == "range"
            given = ast.Constant(0) if is_range and is_number else None
        elif not is_number and isinstance(value, ast.Attribute):
            given = ast.Constant(0) if value.attr == "shape" else None
        elif not is_number and not isinstance(value, ast.Call):
            given = None  # coordinates and shapes are tuples of integers, others may not be
        for name in assigned_names(target):
            yield name, given

    def is_integer(self, node: ast.expr, integers: frozenset[str] | None = None) -> bool:
        """Return whether an expression is an integer if these variables are; by default all."""
        integers = self.variables if integers is None else integers

        def both(*parts: ast.expr) -> bool:
            return all(self.is_integer(p, integers) for p in parts)

        match node:
            case ast.Constant():
                return isinstance(node.value, int)
            case ast.Name():
                return node.id in integers or self.constant(node.id) is not None
            case ast.Attribute():
                return node.attr in SIZES
            case ast.Subscript():
                return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
            case ast.Compare():
                return True
            case ast.UnaryOp():
                return both(node.operand)
            case ast.BinOp():
                return not isinstance(node.op, ast.Div) and both(node.left, node.right)
            case ast.IfExp():
                return both(node.body, node.orelse)
            case ast.BoolOp():
                return both(*node.values)
            case ast.Call():
                name = self.called(node.func)
                if self.is_nonnegative_call(node) or name in ("int", "len"):
                    return True
                module, _, last = (name or "").rpartition(".")
                if module in ("numpy", "numba") and last in INTEGER_CASTS:
                    return True
                return name in ("min", "max", "abs") and both(*node.args)
        return False

    def called(self, node: ast.expr) -> str | None:
        """Return the name of the builtin or library function that is called, if it is one."""
        return library_name(node, self.outside)
