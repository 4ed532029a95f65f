"""Parts of a normal form: the expressions and statements that messages show."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.expressions import index_parts, written
from kerneldsl.frontend.trees import is_text
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["Part", "numbered_parts"]


class Part(NamedTuple):
    """An expression or statement of a function."""

    unit: FunctionUnit
    node: ast.AST

    @property
    def where(self) -> SourceLocation:
        return self.unit.locate(self.node)

    @property
    def line(self) -> int:
        return self.where.lineno

    @property
    def text(self) -> str:
        """The expression as it is written."""
        return written(self.node, self.unit)

    @property
    def printed(self) -> str:
        """The expression of the normal form as Python prints it."""
        return ast.unparse(self.node)

    @property
    def is_expression(self) -> bool:
        """True if it is not a statement."""
        return isinstance(self.node, ast.expr)

    @property
    def is_control(self) -> bool:
        """True if it is a statement, and a branch or a loop."""
        return isinstance(self.node, ast.If | ast.For | ast.While)

    @property
    def shown(self) -> Part:
        """The expression that a statement evaluates: of a branch its condition."""
        match self.node:
            case ast.For(iter=shown) | ast.AugAssign(target=shown):
                pass
            case ast.If(test=shown) | ast.While(test=shown) | ast.IfExp(test=shown):
                pass
            case ast.Assign(value=shown) | ast.Expr(value=shown):
                pass
            case ast.AnnAssign(value=ast.expr() as shown):
                pass
            case _:
                return self
        return Part(self.unit, shown)

    @property
    def mentioned(self) -> set[Any]:
        """The names and nodes in it."""
        return {each.id if isinstance(each, ast.Name) else each for each in ast.walk(self.node)}

    @property
    def without_signs(self) -> Part:
        """The operand of its signs."""
        node = self.node
        while isinstance(node, ast.UnaryOp):
            node = node.operand
        return Part(self.unit, node)

    @property
    def index_texts(self) -> list[str]:
        """The indices of an access, also of parts of parts."""
        node, found = self.node, list[str]()
        while isinstance(node, ast.Subscript | ast.Attribute):
            if isinstance(node, ast.Subscript) and not is_text(node.slice):
                found[:0] = map(ast.unparse, index_parts(node))
            node = node.value
        if isinstance(node, ast.Call):
            found = [*map(ast.unparse, index_parts(ast.Subscript(node.args[0], node.args[1])))]
        return found

    def argument(self, number: int) -> Part:
        assert isinstance(self.node, ast.Call)
        return Part(self.unit, self.node.args[number])

    def operand(self, number: int) -> Part | None:
        """Return an operand of an operation or call, ``None`` if it is not known."""
        match self.node:
            case ast.BinOp(left=left, right=right) | ast.AugAssign(target=left, value=right):
                operands = [left, right]
            case ast.Call(args=operands):
                pass
            case _:
                return None
        return Part(self.unit, operands[number]) if number < len(operands) else None

    def assigned_to(self, target: Part) -> Part | None:
        """Return what an assignment assigns to one of its targets, ``None`` if it has no such."""
        node = self.node
        if not isinstance(node, ast.Assign) or target.node not in node.targets:
            return None
        return Part(self.unit, node.value)

    def assigned(self, name: str) -> Part:
        """Return the expression with which a statement assigns a variable."""
        match self.node:
            case ast.Assign(targets=targets, value=value):
                parts = (_part(each, value, name) for each in targets)
                found = next(filter(None, parts), value)
            case ast.AnnAssign(value=ast.expr() as found) | ast.AugAssign(value=found):
                pass
            case ast.For(target=target, iter=items):
                found = _item(target, items, name)
            case _:
                return self
        return Part(self.unit, found)


def numbered_parts(kernel: FunctionUnit) -> Iterator[tuple[tuple[int, int], Part]]:
    """Return all parts of a kernel and of what it calls, with their numbers."""
    for first, unit in enumerate(kernel.reachable()):
        for second, node in enumerate(ast.walk(unit.tree)):
            yield (first, second), Part(unit, node)


def _item(target: ast.expr, items: ast.expr, name: str) -> ast.expr:
    """Return what gives the items that a target of a loop is assigned."""
    match target, items:
        case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="zip"), args=sources):
            pairs = zip(targets, sources, strict=False)
        case ast.Tuple(elts=[_, each]), ast.Call(func=ast.Name(id="enumerate"), args=[source, *_]):
            pairs = zip([each], [source], strict=True)
        case _:
            return items
    found = (_item(each, source, name) for each, source in pairs if _holds(each, name))
    return next(found, items)


def _holds(target: ast.expr, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target))


def _part(target: ast.expr, value: ast.expr, name: str) -> ast.expr | None:
    """Return what a target that contains a name is assigned."""
    if isinstance(target, ast.Name):
        return value if target.id == name else None
    if not isinstance(target, ast.Tuple | ast.List):
        return None
    given = value.elts if isinstance(value, ast.Tuple | ast.List) else [value] * len(target.elts)
    pairs = zip(target.elts, given, strict=False)
    return next((found for each, part in pairs if (found := _part(each, part, name))), None)
