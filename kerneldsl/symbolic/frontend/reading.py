"""Read a kernel or function in normal form as SymPy expressions of its arguments.

The statements are run with symbols for values. An element of an array is a symbol, and an
assignment names an expression. A branch is a ``Piecewise``, or a condition of the stores in it.
Statements without a meaning for SymPy, or for a derivative, are refused at their line.
"""

from __future__ import annotations

import ast
from typing import Any

import sympy

from kerneldsl.frontend.library_names import library_name
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.symbolic.frontend.readings import Array, Reading, Shape, Store
from kerneldsl.symbolic.frontend.values import ValueReader, either, first_line, negated

__all__ = ["one_of", "read_unit"]

#: Turns of loops that are written out, all of them together.
_MAX_TURNS = 256
#: Calls within calls.
_MAX_DEPTH = 16


def read_unit(unit: FunctionUnit, wrt: str) -> Reading:
    """Read a function.

    - raises `UnsupportedConstructError` if it does what no expression says, with the line.
    """
    reading = Reading(unit, wrt)
    frame = _Frame(reading, unit, {name: Array(name) for name in unit.parameters}, 0)
    frame.block(unit.tree.body, ())
    reading.results = frame.results
    return reading


class _Frame(ValueReader):
    """One call of a function on its way through its statements."""

    def block(self, statements: list[ast.stmt], path: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Run statements; return the path after them, ``None`` where all ways have returned."""
        here: tuple[Any, ...] | None = path
        for statement in statements:
            if here is None:
                return None
            here = self._statement(statement, here)
        return here

    def _statement(self, node: ast.stmt, path: tuple[Any, ...]) -> tuple[Any, ...] | None:
        match node:
            case ast.Pass():
                return path
            case ast.Expr(value=value):
                self.value(value)  # refused where it does anything
                return path
            case ast.Assign(targets=targets, value=value):
                found = self.value(value)
                for target in targets:
                    self._assign(target, found, path, node)
                return path
            case ast.AugAssign(target=target, op=op, value=value):
                old = self.value(ast.copy_location(_loaded(target), target))
                self._assign(target, self._binary(node, op, old, self.value(value)), path, node)
                return path
            case ast.If(test=test, body=body, orelse=orelse):
                return self._branch(self._condition(test), body, orelse, path)
            case ast.For(target=ast.Name(id=name), iter=ast.Call() as call, body=body, orelse=[]):
                return self._loop(node, name, call, body, path)
            case ast.Return(value=value):
                if value is not None and self._is_some(value):
                    found = self.value(value)
                    parts = found if type(found) is tuple else (found,)
                    numbers = tuple(self._as_number(value, each) for each in parts)
                    self.results.append((path, numbers if type(found) is tuple else numbers[0]))
                return None
        self.refuse(node, f"{first_line(node)} cannot be differentiated")
        return None

    @staticmethod
    def _is_some(value: ast.expr) -> bool:
        return not (isinstance(value, ast.Constant) and value.value is None)

    def _assign(self, target: ast.expr, value: Any, path: tuple[Any, ...], node: ast.AST) -> None:
        match target:
            case ast.Name(id=name):
                self._variables[name] = value
            case ast.Tuple(elts=targets):
                values = (
                    value.extents(self._reading, len(targets))
                    if isinstance(value, Shape)
                    else value
                )
                if not isinstance(values, tuple) or len(values) != len(targets):
                    self.refuse(node, f"{ast.unparse(target)} is not assigned such a tuple")
                for each, part in zip(targets, values, strict=True):
                    self._assign(each, part, path, node)
            case ast.Subscript(value=owner):
                array = self.value(owner)
                if not isinstance(array, Array):
                    self.refuse(target, f"{ast.unparse(target)} is not an element of an argument")
                index = self._index(target)
                number = self._as_number(node, value)
                self._memory[array.name, index] = number
                self._reading.stores.append(Store(path, array.name, index, number, node))
            case _:
                self.refuse(target, f"{ast.unparse(target)} cannot be assigned to")

    def _branch(
        self, test: Any, body: list[ast.stmt], orelse: list[ast.stmt], path: tuple[Any, ...]
    ) -> tuple[Any, ...] | None:
        if test in (sympy.true, sympy.false):
            return self.block(body if test == sympy.true else orelse, path)
        before = self._variables, self._memory
        self._variables, self._memory = dict(before[0]), dict(before[1])
        first_path = self.block(body, (*path, test))
        first = self._variables, self._memory
        self._variables, self._memory = dict(before[0]), dict(before[1])
        second_path = self.block(orelse, (*path, negated(test)))
        if first_path is None:
            return second_path
        if second_path is None:
            self._variables, self._memory = first
            return first_path
        second = self._variables, self._memory
        self._variables = {
            name: either(test, value, second[0][name])
            for name, value in first[0].items()
            if name in second[0]
        }
        self._memory = {}
        for key in {**first[1], **second[1]}:
            array, index = key
            chosen, other = (
                m[key] if key in m else self._reading.load(array, index, self._refuse_load)
                for m in (first[1], second[1])
            )
            self._memory[key] = either(test, chosen, other)
        left = [
            sympy.And(condition, negated(sympy.And(*after[len(path) + 1 :])))
            for condition, after in ((test, first_path), (negated(test), second_path))
            if len(after) > len(path) + 1
        ]
        return (*path, negated(sympy.Or(*left))) if left else path

    def _refuse_load(self, what: str, *, limit: str, remedy: str) -> Any:
        return self.refuse(self._unit.tree, what, limit=limit, remedy=remedy)

    def _loop(
        self,
        node: ast.For,
        name: str,
        call: ast.Call,
        body: list[ast.stmt],
        path: tuple[Any, ...],
    ) -> tuple[Any, ...] | None:
        ends = [self.value(each) for each in call.args]
        if library_name(call.func, self._unit.namespace) != "range" or not all(
            isinstance(each, sympy.Integer) for each in ends
        ):
            self.refuse(
                node,
                f"the loop over {ast.unparse(call)} has no fixed number of turns",
                remedy="Let it go over range(…) of constants",
            )
        here: tuple[Any, ...] | None = path
        for turn in range(*map(int, ends)):
            self._reading.turns += 1
            if self._reading.turns > _MAX_TURNS:
                self.refuse(node, f"loops have more than {_MAX_TURNS} turns together")
            if here is not None:
                self._variables[name] = sympy.Integer(turn)
                here = self.block(body, here)
        return here

    def _called(self, node: ast.Call, callee: FunctionUnit) -> Any:
        if self._depth >= _MAX_DEPTH:
            self.refuse(node, f"{ast.unparse(node)} is a call within {_MAX_DEPTH} others")
        given = dict(zip(callee.parameters, map(self.value, node.args), strict=True))
        frame = _Frame(self._reading, callee, given, self._depth + 1)
        frame._memory = self._memory
        frame.block(callee.tree.body, ())
        if not frame.results:
            self.refuse(node, f"{ast.unparse(node)} returns nothing")
        return one_of(frame.results)


def one_of(results: list[tuple[tuple[Any, ...], Any]]) -> Any:
    """Return what a function gives, of the paths and values of its returns."""
    *others, (_, found) = results
    for path, value in reversed(others):
        found = either(sympy.And(*path), value, found)
    return found


def _loaded(target: ast.expr) -> ast.expr:
    """Return what is assigned to in place, as what is read."""
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    assert isinstance(target, ast.Subscript)
    return ast.Subscript(target.value, target.slice, ast.Load())
