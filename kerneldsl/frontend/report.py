"""Errors of the front end, with their place in the user's function."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple, NoReturn

from kerneldsl.errors import KernelError, SourceLocation, UnsupportedConstructError

__all__ = ["Reporter"]


class Reporter(NamedTuple):
    """Raises errors that point into one function."""

    #: The function's file.
    filename: str
    #: The function.
    qualname: str

    def locate(self, node: ast.AST) -> SourceLocation:
        line = getattr(node, "lineno", 1)
        end = getattr(node, "end_col_offset", None)
        if getattr(node, "end_lineno", line) != line:
            end = None
        return SourceLocation(
            self.filename, line, getattr(node, "col_offset", None), end, self.qualname
        )

    def fail(
        self,
        node: ast.AST,
        what: str,
        remedy: str,
        *,
        limit: str | None = None,
        value: Any = None,
        error: type[KernelError] = UnsupportedConstructError,
    ) -> NoReturn:
        """Raise *error* at a node."""
        raise error(what, where=self.locate(node), value=value, limit=limit, remedy=remedy)
