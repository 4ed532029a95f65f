"""Build the operations that rewrites add."""

from __future__ import annotations

from typing import Any

from numba import types

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.ir.typing import Typing

__all__ = ["Builder"]


class Builder:
    """Appends operations to a list, each typed as the front end types it.

    Parameters
    ----------
    typing : Typing
        Types of operators.
    operations : list of Operation, optional
        The list, by default a new one.
    """

    def __init__(self, typing: Typing, operations: list[Operation] | None = None) -> None:
        self.typing = typing
        self.operations: list[Operation] = [] if operations is None else operations
        #: Where in the source the operations are.
        self.place: Any = None

    def operation(
        self,
        name: str,
        operands: list[Value],
        results: tuple[Any, ...] = (),
        attributes: dict[str, Any] | None = None,
        regions: list[Region] | None = None,
        effect: Effect = Effect.NONE,
    ) -> Operation:
        """Append an operation, and return it."""
        made = Operation(
            name, operands, results, attributes, regions, effect=effect, place=self.place
        )
        self.operations.append(made)
        return made

    def add(self, name: str, *operands: Value, kind: Any = types.int64) -> Value:
        """Append an operation with one result, and return the result."""
        return self.operation(name, [*operands], (kind,)).result

    def constant(self, value: Any, kind: Any = types.int64) -> Value:
        """Return a constant."""
        return self.operation("const", [], (kind,), {"value": value}).result

    def numba(self, function: Any, *operands: Value) -> Value:
        """Apply one of Python's operators."""
        signature = self.typing.operator(function, tuple(value.type for value in operands))
        attributes = {"function": function, "signature": signature}
        return self.operation("numba", [*operands], (signature.return_type,), attributes).result

    def cast(self, value: Value, kind: Any = types.int64) -> Value:
        """Convert a value."""
        return value if value.type == kind else self.add("cast", value, kind=kind)
