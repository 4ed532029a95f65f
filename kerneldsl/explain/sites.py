"""Places of operations in the source, and the text that is shown of them."""

from __future__ import annotations

import ast
from typing import Any

from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.expressions import index_parts
from kerneldsl.frontend.user_places import is_own
from kerneldsl.ir.operations import Operation, SourcePlace
from kerneldsl.utilities.cached_property import cached_property

__all__ = ["Site", "copied_site", "index_texts", "operand_site", "root_site", "site_of"]


class Site:
    """Place in the source that an operation was read from.

    Operations of one node are at one site: those of a function that is called at several places.
    """

    def __init__(self, place: SourcePlace) -> None:
        self._place = place
        self.node: Any = place.node
        #: The normal form of the function.
        self.unit: Any = place.unit

    @property
    def is_statement(self) -> bool:
        """True of a branch or a loop."""
        return isinstance(self.node, ast.If | ast.For | ast.While)

    @property
    def is_expression(self) -> bool:
        """True of what is no statement."""
        return isinstance(self.node, ast.expr)

    @cached_property
    def where(self) -> SourceLocation:
        """The place, or that of the call by which a user comes to it."""
        return located(self._place, self._shown)

    @property
    def is_shown(self) -> bool:
        """False in our files if a user's call leads to it."""
        return bool(self.where == self._place.unit.locate(self._shown))

    @cached_property
    def text(self) -> str:
        """The text in the normal form."""
        return ast.unparse(self._shown)

    @property
    def _shown(self) -> Any:
        """The node, of a branch its condition, of a loop what it is over."""
        match self.node:
            case ast.For(iter=shown) | ast.If(test=shown) | ast.While(test=shown):
                return shown
        return self.node


def site_of(operation: Operation) -> Site:
    """Return what an operation was read from."""
    return Site(operation.place)


def copied_site(statement: SourcePlace, store: Operation) -> Site:
    """Return what is stored by an assignment; `statement` is the place of the last one."""
    node = statement.node
    is_assigned = isinstance(node, ast.Assign) and store.place.node in node.targets
    return Site(statement._replace(node=node.value) if is_assigned else store.place)


def located(place: SourcePlace, node: Any) -> SourceLocation:
    """Return the location of a node at a place; of one in our files, that of the user's call."""
    each = place
    while each.caller is not None:
        if is_own(each.unit) and not is_own(each.caller.unit):
            place, node = each.caller, each.caller.node
            break
        each = each.caller
    found: SourceLocation = place.unit.locate(node)
    return found


def index_texts(operation: Operation) -> list[str]:
    """Return the texts of the indices of an access, also of parts of parts."""
    node, found = operation.place.node, list[str]()
    while isinstance(node, ast.Subscript | ast.Attribute):
        if isinstance(node, ast.Subscript) and not _is_text(node.slice):
            found[:0] = map(ast.unparse, index_parts(node))
        node = node.value
    if isinstance(node, ast.Call):
        found = [*map(ast.unparse, index_parts(ast.Subscript(node.args[0], node.args[1])))]
    return found


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def operand_site(operation: Operation, number: int) -> Site | None:
    """Return what an operand was read from, ``None`` if it is not known."""
    match operation.place.node:
        case ast.BinOp(left=left, right=right):
            operands = [left, right]
        case ast.AugAssign(target=target, value=value):
            operands = [target, value]
        case ast.Call(args=operands):
            pass
        case _:
            return None
    if number >= len(operands):
        return None
    return Site(operation.place._replace(node=operands[number]))


def root_site(operation: Operation) -> Site:
    """Return what an operation was read from, without signs."""
    node = operation.place.node
    while isinstance(node, ast.UnaryOp):
        node = node.operand
    return Site(operation.place._replace(node=node))
