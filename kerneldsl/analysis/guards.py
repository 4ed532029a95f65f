"""The guard around a kernel's work, if it can be asked about many indices at once.

An element kernel usually works under one condition on its index: ``if 0 < i < n - 1: …``, or
``if i >= n: return`` before the rest. Where such a guard is a system of linear inequalities in the
coordinates of ``grid``, the indices that pass it are convex: when the corners of a box of indices
pass, all of the box does.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator, Sequence

from kerneldsl.analysis.library_names import library_name
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Typing

__all__ = ["find_guard", "returns_alone"]

#: Factors of a coordinate that cannot take it out of int64, whatever the extent is.
_MAX_FACTOR = 16


def find_guard(unit: FunctionUnit, tree: ast.FunctionDef) -> tuple[ast.If, ...]:
    """Find the statements with the conditions of a kernel's guard.

    Before the guard there may be only assignments to variables that read no memory. The tree may be
    the normal form, or what passes have made of it. The result is either one statement with those
    nested in it at once, around all that the kernel does; or statements one after the other that
    return. It is empty if there is no guard.
    """
    forms = _Forms(unit)
    for position, statement in enumerate(tree.body):
        if isinstance(statement, ast.If):
            return _guard(statement, tree.body[position + 1 :], forms)
        if not forms.take(statement):
            break
    return ()


def returns_alone(body: Sequence[ast.stmt]) -> bool:
    """Return whether all statements are returns."""
    return len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is None


def _guard(statement: ast.If, following: list[ast.stmt], forms: _Forms) -> tuple[ast.If, ...]:
    if statement.orelse:
        return ()
    if returns_alone(statement.body):
        return tuple(_returns([statement, *following], forms))
    if (following and not returns_alone(following)) or not forms.is_convex(statement.test):
        return ()
    found = [statement]
    while len(found[-1].body) == 1:
        inner = found[-1].body[0]
        if not isinstance(inner, ast.If) or inner.orelse or not forms.is_convex(inner.test):
            break
        found.append(inner)
    return tuple(found)


def _returns(statements: list[ast.stmt], forms: _Forms) -> Iterator[ast.If]:
    for statement in statements:
        if not isinstance(statement, ast.If) or statement.orelse:
            return
        if not returns_alone(statement.body) or not forms.fails_convexly(statement.test):
            return
        yield statement


class _Form(enum.Enum):
    """Dependence of a value on the thread's index."""

    #: Not at all.
    UNIFORM = enum.auto()
    #: As a sum of coordinates, each with a small constant factor, and something uniform.
    LINEAR = enum.auto()
    #: It is the coordinates.
    INDEX = enum.auto()


class _Forms:
    """Forms of the variables that are assigned before the guard."""

    def __init__(self, unit: FunctionUnit) -> None:
        self._unit = unit
        self._parameters = frozenset(unit.parameters)
        #: ``None`` for a value of another form.
        self._variables: dict[str, _Form | None] = {}

    def take(self, statement: ast.stmt) -> bool:
        """Note an assignment; say whether a statement may be before a guard."""
        if isinstance(statement, ast.Pass):
            return True
        if isinstance(statement, ast.Expr):
            return isinstance(statement.value, ast.Constant)  # a docstring
        if not isinstance(statement, ast.Assign) or not self._is_pure(statement.value):
            return False
        form = self.form(statement.value)
        return all(self._assign(target, form) for target in statement.targets)

    def _assign(self, target: ast.expr, form: _Form | None) -> bool:
        if isinstance(target, ast.Name):
            self._variables[target.id] = form
            return True
        if isinstance(target, ast.Tuple) and all(isinstance(e, ast.Name) for e in target.elts):
            part = _Form.LINEAR if form is _Form.INDEX else None
            return all(self._assign(element, part) for element in target.elts)
        return False

    def _is_pure(self, node: ast.expr) -> bool:
        """Return whether a value can be computed for any index, as often as one likes."""
        return all(self._is_pure_node(each) for each in _evaluated(node))

    def _is_pure_node(self, node: ast.AST) -> bool:
        match node:
            case ast.Subscript():
                return self.form(node) is not None
            case ast.Call():
                return self._is_place(node) or self._is_length(node)
            case ast.Name() | ast.Constant() | ast.Tuple() | ast.Attribute():
                return True
            case ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.Compare() | ast.IfExp():
                return True
            case ast.operator() | ast.unaryop() | ast.boolop() | ast.cmpop() | ast.expr_context():
                return True
        return False

    def _is_place(self, node: ast.Call) -> bool:
        use = self._unit.use_of(node)
        return use is not None and use.intrinsic.name in ("grid", "gridsize")

    def _is_length(self, node: ast.Call) -> bool:
        return (
            library_name(node.func, self._unit.namespace) == "len"
            and len(node.args) == 1
            and isinstance(node.args[0], ast.Name)
            and node.args[0].id in self._parameters
        )

    def form(self, node: ast.expr) -> _Form | None:
        """Return how a value depends on the index; ``None`` if that is not plain to see."""
        match node:
            case ast.Constant():
                return _Form.UNIFORM if type(node.value) in (int, float, bool) else None
            case ast.Name():
                if node.id in self._variables:
                    return self._variables[node.id]
                is_known = node.id in self._parameters or node.id in self._unit.constants
                return _Form.UNIFORM if is_known else None
            case ast.Attribute(attr="size" | "ndim" | "shape", value=ast.Name(id=name)):
                is_array = name in self._parameters and name not in self._variables
                return _Form.UNIFORM if is_array else None
            case ast.Subscript(value=ast.Attribute(attr="shape") as shape):
                index = node.slice
                is_fixed = isinstance(index, ast.Constant | ast.UnaryOp)
                return self.form(shape) if is_fixed else None
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant()):
                is_index = self._variables.get(name) is _Form.INDEX
                return _Form.LINEAR if is_index else None
            case ast.Call() if self._is_length(node):
                return _Form.UNIFORM
            case ast.Call() if self._is_place(node):
                return self._form_of_place(node)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                found = self.form(operand)
                return found if found in (_Form.UNIFORM, _Form.LINEAR) else None
            case ast.BinOp():
                return self._form_of_operation(node)
        return None

    def _form_of_place(self, node: ast.Call) -> _Form | None:
        use = self._unit.use_of(node)
        assert use is not None
        if use.intrinsic.name == "gridsize":
            return _Form.UNIFORM if use.static["ndim"] == 1 else None
        is_one = use.intrinsic.typing is Typing.INDEX or use.static["ndim"] == 1
        return _Form.LINEAR if is_one else _Form.INDEX

    def _form_of_operation(self, node: ast.BinOp) -> _Form | None:
        left, right = self.form(node.left), self.form(node.right)
        if left is _Form.UNIFORM and right is _Form.UNIFORM:
            return _Form.UNIFORM
        if {left, right} - {_Form.UNIFORM, _Form.LINEAR}:
            return None
        if isinstance(node.op, ast.Add | ast.Sub):
            return _Form.LINEAR
        if isinstance(node.op, ast.Mult):
            factor = node.left if right is _Form.LINEAR else node.right
            value = factor.value if isinstance(factor, ast.Constant) else None
            is_small = isinstance(value, int) and 0 <= value <= _MAX_FACTOR
            return _Form.LINEAR if is_small else None
        return None

    def is_convex(self, test: ast.expr) -> bool:
        """Return whether all indices between two that pass a condition pass it too."""
        match test:
            case ast.BoolOp(op=ast.And()):
                return all(self.is_convex(value) for value in test.values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.fails_convexly(operand)
            case ast.Compare():
                sides = [test.left, *test.comparators]
                if any(self.form(side) not in (_Form.UNIFORM, _Form.LINEAR) for side in sides):
                    return False
                return all(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in test.ops)
        return False

    def fails_convexly(self, test: ast.expr) -> bool:
        """Return whether all indices between two that fail a condition fail it too."""
        match test:
            case ast.BoolOp(op=ast.Or()):
                return all(self.fails_convexly(value) for value in test.values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.is_convex(operand)
            case ast.Compare(ops=[_]):
                return self.is_convex(test)
        return False


def _evaluated(node: ast.expr) -> Iterator[ast.AST]:
    """Yield every node below that is evaluated; what a call names is not."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.Call) and child is node.func:
            continue
        yield from _evaluated(child) if isinstance(child, ast.expr) else [child]
