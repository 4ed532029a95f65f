"""Check indices, and let ``assert`` and ``raise`` act: debug mode."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.syntax import call
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.lowering.faults import FaultSite, FaultTable
from kerneldsl.lowering.passes.tuple_names import TupleLengths, nested_tuples, tuple_lengths
from kerneldsl.lowering.trees import copy_tree

__all__ = ["CHECKED", "FAULT", "RecordFaults"]

T = TypeVar("T", bound=ast.AST)

#: ``kd_checked(index, bound, site, axis)`` gives the index back, or records a fault.
CHECKED = "kd_checked"
#: ``kd_fault(site)`` records a fault.
FAULT = "kd_fault"


@dataclass(frozen=True)
class RecordFaults:
    """Put a check around every index, and a fault in place of ``assert`` and ``raise``.

    ``a[i, j]`` becomes ``a[kd_checked(i, a.shape[0], 0, 0), kd_checked(j, a.shape[1], 0, 1)]``; the
    index of an atomic operation likewise. The target that implements ``kd_checked`` accepts
    ``-bound <= index < bound`` where negative indices wrap around, else ``0 <= index < bound``, and
    ends the thread otherwise, as ``kd_fault`` does.

    Slices are left alone, and so is what follows an ellipsis and an access to what a call returns.
    """

    #: Number of the function's first place; those of its callees follow those of its caller.
    first_site: int = 0
    #: Parameters that are tuples, and their lengths: elements of a tuple are not checked, because
    #: Numba wants their indices constant.
    tuple_parameters: TupleLengths = field(default_factory=dict)

    def __call__(self, unit: FunctionUnit) -> tuple[ast.FunctionDef, FaultTable]:
        """Return the function with its checks, and the places that they name."""
        tuples = tuple_lengths(unit, self.tuple_parameters)
        recorder = _Recorder(unit, self.first_site, tuples, nested_tuples(unit, tuples))
        tree = recorder.visit(copy_tree(unit.tree))
        return ast.fix_missing_locations(tree), FaultTable(tuple(recorder.sites))


@dataclass
class _Recorder(ast.NodeTransformer):
    unit: FunctionUnit
    first_site: int
    tuples: Mapping[str, int | None]
    #: Of tuples that are written out, whether elements are tuples, too.
    nested: Mapping[str, list[bool]]
    sites: list[FaultSite] = field(default_factory=list)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        array = node.value
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            node.value = self.visit(array)  # the field of a record
            return node
        if _is_simple(array) and not self._is_tuple(array):
            text = ast.unparse(array)
            base = copy_tree(array)
            node.slice = self._checked(node.slice, base, self._site(IndexError, "", node, text))
        else:
            node.slice = self.visit(node.slice)
        node.value = self.visit(array)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        use = self.unit.use_of(node)
        if use is None or Effect.ATOMIC not in use.intrinsic.effect or not _is_simple(node.args[0]):
            self.generic_visit(node)
            return node
        array, index, *values = node.args
        site = self._site(IndexError, "", node, ast.unparse(array))
        checked = self._checked(index, copy_tree(array), site)
        node.args = [self.visit(array), checked, *(self.visit(v) for v in values)]
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        message = str(node.msg.value) if isinstance(node.msg, ast.Constant) else ""
        fault = self._fault(self._site(AssertionError, message, node), node)
        test = ast.UnaryOp(ast.Not(), self.visit(node.test))
        return _at(ast.If(_at(test, node.test), [fault], []), node)

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        message, kind = "", node.exc
        if isinstance(kind, ast.Call):
            if kind.args and isinstance(kind.args[0], ast.Constant):
                message = str(kind.args[0].value)
            kind = kind.func
        return self._fault(self._site(self._exception(kind), message, node), node)

    def _exception(self, node: ast.expr | None) -> type[BaseException]:
        """Return the class that a ``raise`` names; the front end has seen that it is one."""
        found = self._object(node)
        assert isinstance(found, type)
        assert issubclass(found, BaseException)
        return found

    def _object(self, node: ast.expr | None) -> object:
        if isinstance(node, ast.Attribute):
            return getattr(self._object(node.value), node.attr)
        assert isinstance(node, ast.Name)
        return self.unit.namespace[node.id]

    def _site(
        self,
        kind: type[BaseException],
        message: str,
        node: ast.AST,
        array: str | None = None,
    ) -> int:
        where: SourceLocation = self.unit.locate(node)
        self.sites.append(FaultSite(kind, message, where, array))
        return self.first_site + len(self.sites) - 1

    def _fault(self, site: int, node: ast.stmt) -> ast.stmt:
        return _at(ast.Expr(_at(call(FAULT, ast.Constant(site)), node)), node)

    def _checked(self, index: ast.expr, array: ast.expr, site: int) -> ast.expr:
        if isinstance(index, ast.Tuple):
            parts = index.elts
        elif isinstance(index, ast.Name) and index.id in self.tuples:
            length = self.tuples[index.id]
            if length is None:
                return index
            parts = [
                _at(ast.Subscript(index, ast.Constant(k), ast.Load()), index) for k in range(length)
            ]
            index = _at(ast.Tuple(parts, ast.Load()), index)
        else:
            return self._check_part(index, array, site, 0)
        axis = 0
        checked: list[ast.expr] = []
        for k, part in enumerate(parts):
            if isinstance(part, ast.Constant) and part.value is ...:
                checked += [self.visit(p) for p in parts[k:]]
                break
            if isinstance(part, ast.Constant) and part.value is None:
                checked.append(part)
                continue
            checked.append(self._check_part(part, array, site, axis))
            axis += 1
        return _at(ast.Tuple(checked, ast.Load()), index)

    def _check_part(self, part: ast.expr, array: ast.expr, site: int, axis: int) -> ast.expr:
        if isinstance(part, ast.Slice) or (
            isinstance(part, ast.Constant) and part.value in (None, ...)
        ):
            return self.visit(part) if isinstance(part, ast.Slice) else part
        is_element = isinstance(part, ast.Subscript) and self._is_tuple(part.value)
        inner: ast.expr = part if is_element else self.visit(part)
        shape = ast.Attribute(copy_tree(array), "shape", ast.Load())
        bound = ast.Subscript(shape, ast.Constant(axis), ast.Load())
        return _at(call(CHECKED, inner, bound, ast.Constant(site), ast.Constant(axis)), part)

    def _is_tuple(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Tuple):
            return True
        match node:
            case ast.Attribute():
                return node.attr in ("shape", "strides")
            case ast.Subscript(ast.Name(name), ast.Constant(int(k))) if name in self.nested:
                return self.nested[name][k : k + 1] == [True]
            case ast.Subscript(ast.Name(name)):
                return any(self.nested.get(name, ()))
        return isinstance(node, ast.Name) and node.id in self.tuples


def _is_simple(node: ast.expr) -> bool:
    """Return whether an expression can be evaluated twice."""
    return not any(isinstance(n, ast.Call | ast.NamedExpr) for n in ast.walk(node))


def _at(node: T, place: ast.AST) -> T:
    return ast.copy_location(node, place)
