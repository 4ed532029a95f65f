"""Build operations on integers and truth values that rewrites add."""

from __future__ import annotations

from typing import Any

from numba import types

from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.typing import Typing

__all__ = ["Builder"]


class Builder:
    """Appends operations to a list, each typed as the front end types it."""

    def __init__(self, typing: Typing, operations: list[Operation] | None = None) -> None:
        self.typing = typing
        self.operations: list[Operation] = [] if operations is None else operations

    def add(self, name: str, *operands: Value, kind: Any = types.int64) -> Value:
        """Append an operation with one result."""
        made = Operation(name, [*operands], (kind,))
        self.operations.append(made)
        return made.result

    def constant(self, value: int, kind: Any = types.int64) -> Value:
        """Return a constant."""
        made = Operation("const", [], (kind,), {"value": value})
        self.operations.append(made)
        return made.result

    def numba(self, function: Any, *operands: Value) -> Value:
        """Apply one of Python's operators."""
        signature = self.typing.operator(function, tuple(value.type for value in operands))
        attributes = {"function": function, "signature": signature}
        made = Operation("numba", [*operands], (signature.return_type,), attributes)
        self.operations.append(made)
        return made.result

    def cast(self, value: Value, kind: Any) -> Value:
        """Convert a value."""
        return value if value.type == kind else self.add("cast", value, kind=kind)
