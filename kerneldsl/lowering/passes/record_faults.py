"""Check indices, and let ``assert`` and ``raise`` act: debug mode."""

from __future__ import annotations

import ast
from dataclasses import field
from typing import TypeVar

from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.syntax import call
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.lowering.faults import FaultSite, FaultTable
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["CHECKED", "FAULT", "RecordFaults"]

T = TypeVar("T", bound=ast.AST)

#: ``kd_checked(index, indexed, site, axis)`` gives the index back, or records a fault.
CHECKED = "kd_checked"
#: ``kd_fault(site)`` records a fault.
FAULT = "kd_fault"


@dataclass(frozen=True)
class RecordFaults:
    """Put a check around every index, and a fault in place of ``assert`` and ``raise``.

    ``a[i, j]`` becomes ``a[kd_checked(i, a, 0, 0), kd_checked(j, a, 0, 1)]``; the index of an
    atomic operation likewise. The target that implements ``kd_checked`` knows by the types whether
    `a` is an array or a tuple, and how many parts the index has (:mod:`..checked_indices`). It
    accepts ``-bound <= index < bound`` where negative indices wrap around, else
    ``0 <= index < bound``, and ends the thread otherwise, as ``kd_fault`` does.

    Slices are left alone, and so is what follows an ellipsis and an access to what a call returns.
    """

    #: Number of the function's first place; those of its callees follow those of its caller.
    first_site: int = 0

    def __call__(self, unit: FunctionUnit) -> tuple[ast.FunctionDef, FaultTable]:
        """Return the function with its checks, and the places that they name."""
        recorder = _Recorder(unit, self.first_site)
        tree = recorder.visit(copy_tree(unit.tree))
        return ast.fix_missing_locations(tree), FaultTable(tuple(recorder.sites))


@dataclass
class _Recorder(Transformer):
    unit: FunctionUnit
    first_site: int
    sites: list[FaultSite] = field(default_factory=list)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        array = node.value
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            node.value = self.visit(array)  # the field of a record
            return node
        if _is_simple(array) and not _is_visible_tuple(array):
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
        if not isinstance(index, ast.Tuple):
            return self._check_part(index, array, site, 0)
        parts = index.elts
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
        checked = call(
            CHECKED, self.visit(part), copy_tree(array), ast.Constant(site), ast.Constant(axis)
        )
        return _at(checked, part)


def _is_visible_tuple(node: ast.expr) -> bool:
    """Return whether an expression is a tuple to anyone who reads it: it needs no site."""
    return isinstance(node, ast.Tuple) or (
        isinstance(node, ast.Attribute) and node.attr in ("shape", "strides")
    )


def _is_simple(node: ast.expr) -> bool:
    """Return whether an expression can be evaluated twice."""
    return not any(isinstance(n, ast.Call | ast.NamedExpr) for n in walk_here(node))


def _at(node: T, place: ast.AST) -> T:
    return ast.copy_location(node, place)
