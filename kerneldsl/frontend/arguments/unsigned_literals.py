"""Give literals beside uint64 values that type: ``x[i] * 3`` becomes ``x[i] * uint64(3)``.

A Python int is an int64, and Numba computes uint64 with int64 as int64: quotients, remainders and
shifts of numbers from 2**63 on are then those of negative numbers. A literal that is not negative
takes the uint64's type instead, as NumPy has it. So does a variable that holds such literals and
uint64 values alone (``total = 0``, then ``total += x[i]``). It is written out here, once for all
targets.

A uint64 is meant that the program says: an element, an argument, ``np.uint64(…)``. What Numba makes
of smaller unsigned numbers (uint8 + uint8 is a uint64) keeps Numba's rule, as differences of such
numbers and literals may well be negative: ``a[i] + b[i] - 255`` stays an int64.

The decision is ``docs/adr/0031-integers-stay-integers.md``.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from kerneldsl.frontend.arguments.copying import CopyingTransformer
from kerneldsl.frontend.arguments.integer_origins import Argument, IntegerOrigins, element_of
from kerneldsl.frontend.arguments.known_values import value_of_kind
from kerneldsl.frontend.arguments.origins import ARITHMETIC, CONVERTED, Origin, origin_of
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import call, load
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind

__all__ = ["type_unsigned_literals"]


_UINT64 = "uint64"
#: Kernels by what is known of their arguments; ``None`` for one that stays as it is.
_known: WeakKeyDictionary[FunctionUnit, dict[tuple[Argument, ...], FunctionUnit | None]] = (
    WeakKeyDictionary()
)


def type_unsigned_literals(unit: FunctionUnit, kinds: Sequence[Kind]) -> FunctionUnit:
    """Return a kernel with literals beside uint64 values written as such.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel, for which `quick_tests.may_have_uint64` is true.
    kinds : sequence of Kind
        Kinds of its arguments.

    Returns
    -------
    FunctionUnit
        The unit itself if it has none; the same one for the same kinds.
    """
    values = tuple(map(value_of_kind, kinds))
    return _typed(unit, tuple(Argument(value, origin_of(value)) for value in values))


def _typed(unit: FunctionUnit, arguments: tuple[Argument, ...]) -> FunctionUnit:
    """Return a function with typed literals."""
    known = _known.setdefault(unit, {})
    if arguments not in known:
        known[arguments] = None  # of a function that calls itself
        made = _Typing(unit, IntegerOrigins(unit, arguments)).run()
        known[arguments] = None if made is unit else made
    return known[arguments] or unit


class _Typing(CopyingTransformer):
    """Writes the conversions."""

    def __init__(self, unit: FunctionUnit, origins: IntegerOrigins) -> None:
        self._unit = unit
        self._origins = origins
        self._names = FreshNames.for_unit(unit)
        self._callees = dict(unit.callees)
        self._namespace = dict(unit.namespace)
        self._conversion = ""

    def run(self) -> FunctionUnit:
        """Return the function."""
        tree = self.generic_visit(self._unit.tree)
        if tree is self._unit.tree:
            return self._unit
        assert isinstance(tree, ast.FunctionDef)
        return replace(self._unit, tree=tree, callees=self._callees, namespace=self._namespace)

    def _converted(self, node: ast.expr) -> ast.expr:
        """Return a conversion of a literal or bool; of what is none the visited node."""
        visited = self.visit(node)
        assert isinstance(visited, ast.expr)
        return self._to_wide(visited) if self._origins.of(node) in CONVERTED else visited

    def _to_wide(self, node: ast.expr) -> ast.expr:
        """Return a conversion to uint64."""
        if not self._conversion:
            self._conversion = self._names.make("uint64")
            self._namespace[self._conversion] = np.uint64
        made = ast.copy_location(call(self._conversion, node), node)
        return ast.fix_missing_locations(made)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if self._origins.of(node) is not Origin.WIDE or not isinstance(node.op, ARITHMETIC):
            return self.generic_visit(node)
        made = ast.BinOp(self._converted(node.left), node.op, self._converted(node.right))
        return _kept(node, made, ("left", "right"))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        is_wide = self._origins.of(self._origins.augmented(node)) is Origin.WIDE
        if not (is_wide and isinstance(node.op, ARITHMETIC)):
            return self.generic_visit(node)
        target = self.visit(node.target)
        made = ast.AugAssign(target, node.op, self._converted(node.value))
        return _kept(node, made, ("target", "value"))

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        elements = self._origins.elements(node)
        if elements:
            return self._fitted(node, elements)
        if self._origins.of(node) is not Origin.WIDE:
            return self.generic_visit(node)
        test = self.visit(node.test)
        made = ast.IfExp(test, self._converted(node.body), self._converted(node.orelse))
        return _kept(node, made, ("test", "body", "orelse"))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        if self._origins.of(node) is not Origin.WIDE:
            return self.generic_visit(node)
        values = [self._converted(each) for each in node.values]
        if all(a is b for a, b in zip(values, node.values, strict=True)):
            return node
        return ast.copy_location(ast.BoolOp(node.op, values), node)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        result = self._origins.result
        if node.value is None or not (result.elements or result.origin is Origin.WIDE):
            return self.generic_visit(node)
        made = (
            self._fitted(node.value, result.elements)
            if result.elements
            else self._converted(node.value)
        )
        return _kept(node, ast.Return(made), ("value",))

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.AST]:
        match node.targets:
            case [ast.Name(id=name)] if self._origins.of_variable(name) is Origin.WIDE:
                made = ast.Assign(node.targets, self._converted(node.value))
                return _kept(node, made, ("value",))
            case [ast.Name(id=name)] if elements := self._origins.elements_of_variable(name):
                made = ast.Assign(node.targets, self._fitted(node.value, elements))
                return _kept(node, made, ("value",))
            case [ast.Tuple(elts=targets)] if len(targets) == self._origins.length(node.value):
                origins = [self._origins.of_target(each) for each in targets]
                made = ast.Assign(node.targets, self._fitted(node.value, origins))
                return _kept(node, made, ("value",))
        if self._is_chain(node):
            return [self.visit(each) for each in _separated(node)]
        return self.generic_visit(node)

    def _is_chain(self, node: ast.Assign) -> bool:
        """Return whether a literal is assigned to several variables, one of them a uint64."""
        names = [each.id for each in node.targets if isinstance(each, ast.Name)]
        is_wide = any(self._origins.of_variable(name) is Origin.WIDE for name in names)
        return is_wide and len(names) > 1 and self._origins.is_literal(node.value)

    def _fitted(self, node: ast.expr, origins: Sequence[Origin]) -> ast.expr:
        """Return a tuple with literals of uint64 where its elements must be uint64."""
        match node:
            case ast.Tuple(elts=values) if len(values) == len(origins):
                parts = [
                    self._converted(value) if origin is Origin.WIDE else self.visit(value)
                    for value, origin in zip(values, origins, strict=True)
                ]
                if all(a is b for a, b in zip(parts, values, strict=True)):
                    return node
                return ast.copy_location(ast.Tuple(parts, node.ctx), node)
            case ast.IfExp(test=test, body=body, orelse=other):
                ways = (self._fitted(body, origins), self._fitted(other, origins))
                made = _kept(node, ast.IfExp(self.visit(test), *ways), ("test", "body", "orelse"))
                assert isinstance(made, ast.expr)
                return made
            case ast.Name():
                fitted = [
                    one in CONVERTED and two is Origin.WIDE
                    for one, two in zip(self._origins.elements(node), origins, strict=False)
                ]
                if any(fitted):
                    parts = [element_of(load(node.id), place) for place in range(len(fitted))]
                    located = [ast.copy_location(part, node) for part in parts]
                    whole = ast.Tuple(
                        [
                            self._to_wide(part) if is_fitted else part
                            for part, is_fitted in zip(located, fitted, strict=True)
                        ],
                        ast.Load(),
                    )
                    return ast.fix_missing_locations(ast.copy_location(whole, node))
        visited = self.visit(node)
        assert isinstance(visited, ast.expr)
        return visited

    def visit_Call(self, node: ast.Call) -> ast.AST:
        operands = self._origins.operands(node)
        if operands and self._origins.of(node) is Origin.WIDE:
            arguments = [
                self._converted(each) if each in operands else self.visit(each)
                for each in node.args
            ]
            if all(a is b for a, b in zip(arguments, node.args, strict=True)):
                return node
            return ast.copy_location(ast.Call(node.func, arguments, node.keywords), node)
        callee = self._unit.callee_of(node)
        if (
            callee is None
            or callee.is_plain_numba
            or node.keywords
            or len(node.args) != len(callee.parameters)
        ):
            return self.generic_visit(node)
        visited = self.generic_visit(node)
        made = _typed(callee, tuple(map(self._origins.argument, node.args)))
        assert isinstance(visited, ast.Call)
        assert isinstance(node.func, ast.Name)
        if made is callee:
            return visited
        name = next((n for n, known in self._callees.items() if known is made), None)
        if name is None:
            name = self._names.make(callee.name)
            self._callees[name] = made
        function = ast.copy_location(ast.Name(name, ast.Load()), node.func)
        return ast.copy_location(ast.Call(function, visited.args, []), node)


def _separated(node: ast.Assign) -> list[ast.Assign]:
    """Return an assignment to each target."""
    made = [ast.Assign([target], node.value) for target in node.targets]
    return [ast.copy_location(each, node) for each in made]


def _kept(node: ast.stmt | ast.expr, made: ast.AST, parts: tuple[str, ...]) -> ast.AST:
    """Return the node itself where its parts are what they were, else what was made of it."""
    if all(getattr(node, part) is getattr(made, part) for part in parts):
        return node
    for name, value in vars(node).items():
        if name not in node._fields:
            setattr(made, name, value)
    return made
