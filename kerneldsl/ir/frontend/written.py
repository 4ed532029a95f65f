"""Read a kernel as it is written, as regions of typed operations."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from typing import Any

from kerneldsl.frontend.parts import Part
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend.reader import Read, Reader
from kerneldsl.ir.frontend.value_types import value_type
from kerneldsl.ir.operations import Value
from kerneldsl.ir.typing import Typing
from kerneldsl.language.types import Type

__all__ = ["WrittenReader", "kind_of", "language_type"]

_COMPOUND = (ast.If, ast.For, ast.While)
#: Returns the language's type of one of Numba's.
language_type = cache(value_type)


class WrittenReader(Reader):
    """Reads statements as they are written.

    An operation has the place and source of its expression or target. A ``statement`` is the start
    of a statement that has no others in it.
    """

    def __init__(self, unit: FunctionUnit, typing: Typing) -> None:
        super().__init__(unit, typing)
        self.keeps_returns = True

    def statement(self, node: ast.stmt) -> None:
        if not isinstance(node, _COMPOUND):
            written = node.value if isinstance(node, ast.Expr) else node
            self.at(written, self.begin, written)
        super().statement(node)

    def begin(self, node: ast.AST) -> None:
        self.add("statement", [])

    def read(self, node: ast.expr, read: Read | None) -> Any:
        return self.at(node, self._value, node, read)

    def at(self, node: ast.AST, act: Callable[..., Any], *values: Any) -> Any:
        around, self.source = self.source, Part(self.unit, node)
        found = super().at(node, act, *values)
        self.source = around
        return found


def kind_of(value: Value) -> Type:
    """Return the language's type of a value."""
    return language_type(value.type)
