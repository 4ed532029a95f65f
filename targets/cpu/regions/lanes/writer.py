"""Write operations one after the other."""

from __future__ import annotations

from typing import Any

from numba import types

from kerneldsl.ir.operations import Effect, Value
from targets.cpu.regions.index_arithmetic import IndexArithmetic

__all__ = ["Writer"]


class Writer(IndexArithmetic):
    """Adds operations to a list, also on values that each lane keeps."""

    def truth(self, value: bool) -> Value:
        """Return a constant truth value."""
        return self.constant(value, types.boolean)

    def load(self, place: Value, *lane: Value, kind: Any = None) -> Value:
        """Load what a lane has kept; a row gives the operation the lane's index."""
        kinds = (kind or place.type,)
        return self.operation("lane.load", [place, *lane], kinds, effect=Effect.READ).result

    def store(self, place: Value, value: Value, *lane: Value) -> None:
        """Keep a value of a lane."""
        self.operation("lane.store", [place, value, *lane], effect=Effect.WRITE)

    def end(self, *values: Value) -> None:
        """End a region."""
        self.operation("yield", list(values))
