"""Find variables that can be computed again instead of stored.

Their expressions give the same value whenever a thread evaluates them. A *pure* variable has one
assignment in the whole kernel, from coordinates, arguments, shapes and other pure variables. It
needs no memory across a barrier: each part of the kernel computes it again. Pure integer
expressions that are affine in one loop variable can become bounds of that loop.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from kerneldsl.analysis.bindings import bindings
from kerneldsl.analysis.expressions import index_parts, loaded_names
from kerneldsl.analysis.library_names import library_name, outside_value
from kerneldsl.frontend.syntax import assign, call
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.operators import OPPOSITES

__all__ = ["Affine", "Rematerializable", "negate"]

#: Recomputing a longer expression than this costs more than keeping its value.
_MAX_NODES = 48
_SIMPLE_CALLS = frozenset({"min", "max", "abs", "int", "float", "bool", "len"})
_INTEGER_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift)
_ARRAY_ATTRIBUTES = frozenset({"shape", "size", "ndim"})


@dataclass(frozen=True)
class Affine:
    """``coefficient * variable + rest``, with a coefficient of 0 or ±1."""

    coefficient: int
    rest: ast.expr


class Rematerializable:
    """The pure variables of one kernel: they can be rematerialized.

    Ids in the tree are replaced; `space_names` are coordinates and extents of the generated code.
    """

    def __init__(
        self,
        tree: ast.FunctionDef,
        unit: FunctionUnit,
        kinds: tuple[Kind, ...],
        space_names: frozenset[str],
    ) -> None:
        self.unit = unit
        self.space_names = space_names
        self.kinds: dict[str, Kind] = dict(zip(unit.parameters, kinds, strict=True))
        self.assignments = Counter(
            n.id
            for n in walk_here(tree)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
        #: Pure variables in the order of their definitions, with their defining expressions.
        self.definitions: dict[str, ast.expr] = {}
        #: Variables of the block, which do not change while a loop over threads runs.
        self.invariant: frozenset[str] = frozenset()
        self._integers: frozenset[str] = frozenset()
        self._collect(tree)

    def _collect(self, tree: ast.FunctionDef) -> None:
        for node in walk_here(tree):  # breadth first: definitions of inner lists come later
            if (
                isinstance(node, ast.Assign)
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name)
                and self.assignments[node.targets[0].id] == 1
                and node.targets[0].id not in self.kinds
                and self.is_pure(node.value)
                and sum(1 for _ in ast.walk(self.expanded(node.value))) <= _MAX_NODES
            ):
                self.definitions[node.targets[0].id] = node.value

    def set_invariant(self, names: frozenset[str], tree: ast.FunctionDef) -> None:
        """Declare variables of the block; the method finds the integers among them."""
        values: dict[str, list[ast.expr | None]] = {name: [] for name in names}
        for _, target, value, is_item in bindings(tree):
            if isinstance(target, ast.Name) and target.id in values:
                values[target.id].append(self._range_value(value) if is_item else value)
        candidates = {name for name, found in values.items() if found}
        while True:
            self._integers = frozenset(candidates)
            keep = {
                name
                for name in candidates
                if all(v is not None and self._is_signed(self.expanded(v)) for v in values[name])
            }
            if keep == candidates:
                break
            candidates = keep
        self._integers = frozenset(candidates)
        self.invariant = names

    def add_integers(self, names: Collection[str]) -> None:
        """Declare further variables of the block, with type int64."""
        self.invariant |= frozenset(names)
        self._integers |= frozenset(names)

    def _range_value(self, node: ast.expr) -> ast.expr | None:
        """Return an expression that is an integer if what a ``range`` gives is."""
        if isinstance(node, ast.Call) and self.called(node.func) == "range":
            total: ast.expr = ast.Constant(0)
            for argument in node.args:
                total = ast.BinOp(total, ast.Add(), argument)
            return total
        return None

    def is_steady(self, node: ast.expr) -> bool:
        """Return whether an expression keeps its value while a loop over threads runs.

        Such an expression is pure and may also contain variables of the block.
        """
        names = loaded_names(node) & self.invariant
        constants = {name: ast.Constant(0) for name in names}
        return self.is_pure(_Expansion(constants).visit(copy_tree(node)))

    def is_pure(self, node: ast.expr) -> bool:
        """Return whether an expression only reads what never changes while a thread runs."""
        match node:
            case ast.Constant():
                return isinstance(node.value, int | float | complex | bool)
            case ast.Name():
                return self._is_immutable(node.id)
            case ast.Subscript():  # an element of a shape, never of an array
                return (
                    isinstance(node.value, ast.Attribute)
                    and node.value.attr == "shape"
                    and self.is_pure(node.value)
                    and self.is_pure(node.slice)
                )
            case ast.Attribute():
                return (
                    node.attr in _ARRAY_ATTRIBUTES
                    and isinstance(node.value, ast.Name)
                    and isinstance(self.kinds.get(node.value.id), ArrayKind)
                    and self.assignments[node.value.id] == 0
                )
            case ast.BinOp():
                return self.is_pure(node.left) and self.is_pure(node.right)
            case ast.UnaryOp():
                return self.is_pure(node.operand)
            case ast.Compare():
                return self.is_pure(node.left) and all(self.is_pure(c) for c in node.comparators)
            case ast.BoolOp():
                return all(self.is_pure(v) for v in node.values)
            case ast.IfExp():
                return all(self.is_pure(n) for n in (node.test, node.body, node.orelse))
            case ast.Call():
                return self._is_simple_call(node) and all(self.is_pure(a) for a in node.args)
            case _:
                return False

    def _is_immutable(self, name: str) -> bool:
        if name in self.space_names or name in self.definitions or name in self.unit.constants:
            return True
        kind = self.kinds.get(name)
        return isinstance(kind, ScalarKind) and self.assignments[name] == 0

    def arrays(self) -> dict[str, tuple[str, int]]:
        """Return the parameters that always hold one array, with its dtype and rank."""
        return {
            name: (kind.dtype, kind.ndim)
            for name, kind in self.kinds.items()
            if isinstance(kind, ArrayKind) and self.assignments[name] == 0
        }

    def called(self, node: ast.expr) -> str | None:
        """Return the name of the builtin or library function that is called, if it is one."""
        return library_name(node, self.unit.namespace)

    def _is_simple_call(self, node: ast.Call) -> bool:
        if node.keywords:
            return False
        if isinstance(node.func, ast.Name) and node.func.id == "kd_unsigned":
            return True
        found = outside_value(node.func, self.unit.namespace)
        is_cast = isinstance(found, type) and issubclass(found, np.generic)
        return is_cast or self.called(node.func) in _SIMPLE_CALLS

    # -- substitution ---------------------------------------------------------------------------

    def expanded(self, node: ast.expr, known: Mapping[str, ast.expr] | None = None) -> ast.expr:
        """Return a copy with every pure or `known` variable replaced by its expression."""
        definitions = {**self.definitions, **known} if known else self.definitions
        return _Expansion(definitions).visit(copy_tree(node))  # type: ignore[no-any-return]

    def steady_values(self, body: Sequence[ast.stmt]) -> dict[str, ast.expr]:
        """Return the expanded values of a body's own variables that are steady while it runs.

        Each is assigned once in the kernel, before what reads it.
        """
        known: dict[str, ast.expr] = {}
        for node in body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    expanded = self.expanded(value, known)
                    is_short = sum(1 for _ in ast.walk(expanded)) <= _MAX_NODES
                    if self.assignments[name] == 1 and is_short and self.is_steady(expanded):
                        known[name] = expanded
        return known

    def independent_of(self, variables: Collection[str]) -> list[str]:
        """Return the pure variables into which none of `variables` enters, in order."""
        return [
            name
            for name, value in self.definitions.items()
            if not loaded_names(self.expanded(value)) & set(variables)
        ]

    def definition(self, name: str) -> ast.stmt:
        """Compute a pure variable again."""
        return assign(name, copy_tree(self.definitions[name]))

    def needed(self, names: set[str]) -> list[str]:
        """Return the pure variables among `names`, with those they are computed from, in order."""
        wanted: set[str] = set()
        pending = [n for n in names if n in self.definitions]
        while pending:
            name = pending.pop()
            if name not in wanted:
                wanted.add(name)
                pending.extend(loaded_names(self.definitions[name]) & self.definitions.keys())
        return [name for name in self.definitions if name in wanted]

    # -- integers and affine forms --------------------------------------------------------------

    def is_integer(self, node: ast.expr) -> bool:
        """Return whether an expanded expression surely fits int64, in Numba's typing.

        That is a signed integer, or an unsigned argument of at most 32 bits; arithmetic of unsigned
        operands alone is in uint64.
        """
        return self._is_signed(node) or self._is_unsigned(node)

    def _is_unsigned(self, node: ast.expr) -> bool:
        kind = self.kinds.get(node.id) if isinstance(node, ast.Name) else None
        if not isinstance(kind, ScalarKind):
            return False
        return kind.element.is_unsigned and kind.element.nbytes < 8

    def as_int64(self, node: ast.expr) -> ast.expr:
        """Convert the unsigned arguments in an integer expression.

        Numba computes with such an argument in int64 if the other operand is signed. It computes in
        uint64 if a split expression combines two of them.
        """
        return _Conversion(self._is_unsigned).visit(node)  # type: ignore[no-any-return]

    def _is_signed(self, node: ast.expr) -> bool:
        match node:
            case ast.Call(func=ast.Name(id="kd_int64")):
                return True
            case ast.Constant():
                return _is_int64(node.value)
            case ast.Name():
                if node.id in self.space_names or node.id in self._integers:
                    return True
                if node.id in self.unit.constants:
                    return _is_int64(self.unit.constants[node.id].value)
                kind = self.kinds.get(node.id)
                return isinstance(kind, ScalarKind) and kind.element.is_signed
            case ast.Attribute():
                return node.attr in ("size", "ndim")
            case ast.Subscript(value=ast.Name(id=array)):
                kind = self.kinds.get(array)
                return (
                    isinstance(kind, ArrayKind)
                    and kind.element.is_signed
                    and self.assignments[array] == 0
                    and len(index_parts(node)) == kind.ndim
                    and not any(isinstance(part, ast.Slice) for part in index_parts(node))
                )
            case ast.Subscript():
                return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
            case ast.BinOp():
                sides = (node.left, node.right)
                return (
                    isinstance(node.op, _INTEGER_OPERATORS)
                    and all(map(self.is_integer, sides))
                    and any(map(self._is_signed, sides))
                )
            case ast.UnaryOp():
                return isinstance(node.op, ast.USub | ast.UAdd) and self._is_signed(node.operand)
            case ast.Call(func=ast.Name(id="kd_unsigned")):
                return self.is_integer(node.args[0])
            case ast.Call():
                name = self.called(node.func)
                return name == "len" or (
                    name in ("min", "max", "abs")
                    and all(map(self.is_integer, node.args))
                    and any(map(self._is_signed, node.args))
                )
            case _:
                return False

    def affine(self, node: ast.expr, variable: str) -> Affine | None:
        """Write an expanded expression as ±variable + rest, or ``None`` if it has another form."""
        if variable not in loaded_names(node):
            return Affine(0, node)
        match node:
            case ast.Name():
                return Affine(1, ast.Constant(0))
            case ast.Call(func=ast.Name(id="kd_unsigned")):
                return self.affine(node.args[0], variable)
            case ast.UnaryOp(op=ast.USub()):
                inner = self.affine(node.operand, variable)
                if inner is None:
                    return None
                return Affine(-inner.coefficient, ast.UnaryOp(ast.USub(), inner.rest))
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                left = self.affine(node.left, variable)
                right = self.affine(node.right, variable)
                if left is None or right is None:
                    return None
                sign = 1 if isinstance(node.op, ast.Add) else -1
                total = left.coefficient + sign * right.coefficient
                if abs(total) > 1:
                    return None
                return Affine(total, ast.BinOp(left.rest, node.op, right.rest))
            case _:
                return None

    def stride(self, node: ast.expr, variable: str) -> int | None:
        """Return the slope of an expanded expression in a variable, if it is known."""
        if variable not in loaded_names(node):
            return 0
        match node:
            case ast.Name():
                return 1
            case ast.Call(func=ast.Name(id="kd_unsigned")):
                return self.stride(node.args[0], variable)
            case ast.BinOp(op=ast.Mult()):
                inner, factor = node.left, node.right
                if variable in loaded_names(factor):
                    inner, factor = factor, inner
                found, times = self.stride(inner, variable), self.constant(factor)
                return None if found is None or times is None else found * times
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                left, right = self.stride(node.left, variable), self.stride(node.right, variable)
                if left is None or right is None:
                    return None
                return left + right if isinstance(node.op, ast.Add) else left - right
            case _:
                return None

    def constant(self, node: ast.expr) -> int | None:
        """Return the value of an integer that is a constant, or ``None``."""
        value: object = node.value if isinstance(node, ast.Constant) else None
        if isinstance(node, ast.Name) and node.id in self.unit.constants:
            value = self.unit.constants[node.id].value
        return value if isinstance(value, int) and _is_int64(value) else None


def _is_int64(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


class _Conversion(Transformer):
    def __init__(self, is_unsigned: Callable[[ast.expr], bool]) -> None:
        self.is_unsigned = is_unsigned

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not self.is_unsigned(node):
            return node
        return call("kd_int64", node)


class _Expansion(Transformer):
    def __init__(self, definitions: Mapping[str, ast.expr]) -> None:
        self.definitions = definitions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self.definitions.get(node.id)
        if found is None or not isinstance(node.ctx, ast.Load):
            return node
        return self.visit(copy_tree(found))  # type: ignore[no-any-return]


def negate(test: ast.expr, pure: Rematerializable) -> ast.expr:
    """Return the opposite of a test, with ``not`` moved inwards if that is exact.

    Comparisons of integers are turned around; others keep ``not``, since NaN compares false both
    ways.
    """
    if isinstance(test, ast.BoolOp):
        operator = ast.And() if isinstance(test.op, ast.Or) else ast.Or()
        return ast.BoolOp(operator, [negate(v, pure) for v in test.values])
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        inverse = OPPOSITES.get(type(test.ops[0]))
        if (
            inverse is not None
            and pure.is_integer(pure.expanded(test.left))
            and pure.is_integer(pure.expanded(test.comparators[0]))
        ):
            return ast.Compare(test.left, [inverse()], test.comparators)
    return ast.UnaryOp(ast.Not(), test)
