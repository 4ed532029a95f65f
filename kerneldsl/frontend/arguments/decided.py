"""Conditions that a compiler may decide before it infers types: on constants and ranks.

Numba drops the branch that such a condition rules out, and the variables have the types that the
other branch gives them. Which conditions it decides is its own affair, and here it is only said
which ones it cannot decide: those on what is known at run time alone.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kerneldsl.frontend.bindings import bindings
from kerneldsl.frontend.expressions import assigned_names
from kerneldsl.frontend.library_names import library_name
from kerneldsl.frontend.trees import children_of, walk_here
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["DecidedConditions"]


class DecidedConditions:
    """The conditions of a function that may be decided, and the variables that hang on them.

    Parameters
    ----------
    unit : FunctionUnit
        The function.
    arguments : sequence of object
        Values of its parameters; only scalars are known to be read at run time.
    """

    def __init__(self, unit: FunctionUnit, arguments: Sequence[object]) -> None:
        self._unit = unit
        self._scalars = {
            name for name, a in zip(unit.parameters, arguments, strict=True) if isinstance(a, str)
        }
        self._bound: dict[str, list[ast.expr | None]] = {}
        for binding in bindings(unit.tree):
            for name in assigned_names(binding.target):
                is_whole = isinstance(binding.target, ast.Name) and not binding.is_item
                self._bound.setdefault(name, []).append(binding.value if is_whole else None)
        self._asked: set[str] = set()
        #: Whether there is any.
        self.has_any = False
        self._changed: set[str] = set()
        self._changes_all = False
        for node in walk_here(unit.tree):
            if isinstance(node, ast.If | ast.While):
                # Python itself leaves out what a literal rules out, so one way alone remains.
                if isinstance(node.test, ast.Constant) or not self.may_be_decided(node.test):
                    continue
                self.has_any = True
                self._changed |= assigned_names(node)
                self._changes_all |= any(
                    isinstance(n, ast.Break | ast.Continue | ast.Return) for n in walk_here(node)
                )
            elif isinstance(node, ast.IfExp) and self.may_be_decided(node.test):
                self.has_any = True

    def may_change(self, name: str) -> bool:
        """Return whether a variable's type may depend on what is decided."""
        return self._changes_all or name in self._changed

    def may_be_decided(self, test: ast.expr) -> bool:
        """Return whether a condition, or a part of it, may be decided before types are inferred."""
        match test:
            case ast.BoolOp(values=values):
                return any(map(self.may_be_decided, values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.may_be_decided(operand)
            case ast.IfExp():
                return any(map(self.may_be_decided, (test.test, test.body, test.orelse)))
        return self._is_fixed(test)

    def _is_fixed(self, node: ast.expr) -> bool:
        """Return whether an expression may be known before the code runs."""
        match node:
            case ast.Name(id=name):
                return name not in self._scalars and self._is_fixed_variable(name)
            case ast.Subscript(value=ast.Name(id=name)) if name in self._unit.parameters:
                return False
            case ast.Attribute(attr="shape" | "size" | "strides" | "nbytes"):
                return False
            case ast.Attribute(value=value):
                return self._is_fixed(value)
            case ast.Call(func=func, args=args):
                if library_name(func, self._unit.namespace) == "len":
                    return True
                is_ours = self._unit.use_of(node) or self._unit.callee_of(node)
                return not is_ours and all(map(self._is_fixed, args))
        parts = [each for each in children_of(node) if isinstance(each, ast.expr)]
        return all(map(self._is_fixed, parts))

    def _is_fixed_variable(self, name: str) -> bool:
        values = self._bound.get(name)
        if values is None or name in self._asked:
            return True
        if len(values) > 1 or values[0] is None or name in self._unit.parameters:
            return False
        self._asked.add(name)
        found = self._is_fixed(values[0])
        self._asked.discard(name)
        return found
