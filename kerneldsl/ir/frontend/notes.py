"""Types and values of the nodes of a normal form, noted while it is read.

They become a :class:`~kerneldsl.frontend.typed_unit.TypedUnit`. A loop is read again if its
variables get other types; the last reading counts.
"""

from __future__ import annotations

import ast
import operator
from types import MappingProxyType
from typing import Any

from numba import types

from kerneldsl.frontend.expressions import condition_expressions
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend.members import type_of
from kerneldsl.ir.frontend.written import value_type
from kerneldsl.language.types import BOOL, Type

__all__ = ["Notes"]


class Notes:
    """Types and values of a function's nodes, for arguments of Numba's types."""

    def __init__(
        self,
        unit: FunctionUnit,
        arguments: tuple[Any, ...],
        functions: dict[tuple[Any, ...], Notes] | None = None,
    ) -> None:
        self.unit = unit
        self.arguments = arguments
        self.result: Any = types.none
        self._functions = {} if functions is None else functions
        self._types: dict[ast.AST, Any] = {}
        self._calls: dict[ast.AST, Notes] = {}
        self._typed: TypedUnit | None = None

    def add(self, node: ast.AST, found: Any) -> None:
        self.add_type(node, type_of(found))

    def add_type(self, node: ast.AST, kind: Any) -> None:
        self._types[node] = kind

    def of_call(self, unit: FunctionUnit, arguments: list[Any]) -> Notes:
        """Return the notes of a function that is called; calls of equal types share them."""
        kinds = tuple(types.unliteral(type_of(each)) for each in arguments)
        return self._functions.setdefault((unit, *kinds), Notes(unit, kinds, self._functions))

    def add_call(self, node: ast.Call, called: Notes, found: Any) -> None:
        """Note the function that a call calls, and its result."""
        self._calls[node] = called
        called.result = type_of(found)

    def typed(self, context: Any) -> TypedUnit:
        """Return what is noted in the language's types; `context` is Numba's typing context."""
        if self._typed is None:
            self._typed = _Reading(self, context).run()
        return self._typed


class _Reading:
    """Goes through the nodes of a function in the order of the source."""

    def __init__(self, notes: Notes, context: Any) -> None:
        self._notes = notes
        self._context = context
        self._tested = condition_expressions(notes.unit.tree)
        self._types: dict[ast.AST, Type] = {}

    def run(self) -> TypedUnit:
        notes = self._notes
        arguments = tuple(map(value_type, notes.arguments))
        for statement in notes.unit.tree.body:
            self._visit(statement)
        calls = {node: called.typed(self._context) for node, called in notes._calls.items()}
        return TypedUnit(
            notes.unit,
            arguments,
            value_type(notes.result),
            MappingProxyType(self._types),
            MappingProxyType(calls),
        )

    def _visit(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self._visit(child)
        kind = self._type(node)
        if kind is None:
            return
        found = value_type(kind)
        if node in self._tested and isinstance(node, ast.BoolOp | ast.IfExp):
            found = BOOL
        self._types[node] = found

    def _type(self, node: ast.AST) -> Any:
        known = self._notes._types
        match node:
            case ast.Subscript(value=owner, slice=index, ctx=ast.Store()):
                if owner not in known or index not in known:
                    return None
                return self._element(known[owner], known[index], index)
            case ast.Attribute(value=owner, attr=name, ctx=ast.Store()) if owner in known:
                return self._context.resolve_getattr(known[owner], name)
        return known.get(node)

    def _element(self, owner: Any, kind: Any, index: ast.expr) -> Any:
        """Return the type of an element that is assigned."""
        if isinstance(index, ast.Constant) and isinstance(index.value, str):
            return self._context.resolve_static_getitem(owner, index.value).return_type
        found = self._context.resolve_function_type(operator.getitem, (owner, kind), {})
        return found.return_type
