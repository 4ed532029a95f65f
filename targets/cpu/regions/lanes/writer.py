"""Write operations one after the other."""

from __future__ import annotations

from typing import Any

from numba import types

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from targets.cpu.regions.index_arithmetic import IndexArithmetic

__all__ = ["Writer"]


class Writer(IndexArithmetic):
    """Adds operations to a list."""

    def __init__(self, out: list[Operation] | None = None) -> None:
        super().__init__([] if out is None else out)

    def operation(
        self,
        name: str,
        operands: list[Value],
        results: tuple[Any, ...] = (),
        attributes: dict[str, Any] | None = None,
        regions: list[Region] | None = None,
        effect: Effect = Effect.NONE,
    ) -> Operation:
        """Add an operation, and return it."""
        made = Operation(name, operands, results, attributes, regions, effect)
        self.out.append(made)
        return made

    def truth(self, value: bool) -> Value:
        """Return a constant truth value."""
        return self.operation("const", [], (types.boolean,), {"value": value}).result

    def load(self, place: Value, *lane: Value, kind: Any = None) -> Value:
        """Load what a lane has kept; a row gives the operation the lane's index."""
        kinds = (kind or place.type,)
        return self.operation("lane.load", [place, *lane], kinds, effect=Effect.READ).result

    def store(self, place: Value, value: Value, *lane: Value) -> None:
        """Keep a value of a lane."""
        self.operation("lane.store", [place, value, *lane], effect=Effect.WRITE)

    def choose(self, condition: Value, yes: Value, no: Value) -> Value:
        """Return one of two values of a type."""
        return yes if yes is no else self.add("int.select", [condition, yes, no], yes.type)

    def end(self, *values: Value) -> None:
        """End a region."""
        self.operation("yield", list(values))
