"""Values, operations and regions.

A kernel is a :class:`Function` with one region. A region is a list of operations that ends with a
``yield``. ``if``, ``for``, ``for_each`` and ``while`` hold regions. Every value is assigned once. A
variable of the source that a region assigns is a result of the operation around the region. In
loops it is also an argument of the region. Types are Numba's. Operators and functions that Numba
defines hold Numba's signature.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

__all__ = ["Effect", "Function", "Operation", "Region", "Value"]


class Effect(enum.Flag):
    """Effect of an operation on memory and on other threads."""

    NONE = 0
    READ = enum.auto()
    WRITE = enum.auto()
    ALLOCATE = enum.auto()
    """Gives memory of the block: once for all threads."""
    WAIT = enum.auto()
    """The threads of a block, or of a warp, wait for each other."""
    EXCHANGE = enum.auto()
    """The lanes of a warp exchange values."""
    BLOCK = enum.auto()
    """The threads of a block perform it together, with uniform operands."""


#: An operation with one of these needs all threads of a group.
TOGETHER = Effect.WAIT | Effect.EXCHANGE | Effect.BLOCK


class Value:
    """A result of an operation, or an argument of a region."""

    __slots__ = ("name", "owner", "type")

    def __init__(self, type: Any, owner: Operation | Region | None, name: str = "") -> None:
        self.type = type
        #: The operation or region that defines it.
        self.owner = owner
        #: Name of the variable in the source, for the printer.
        self.name = name


class Operation:
    """One operation."""

    __slots__ = ("attributes", "effect", "name", "operands", "place", "regions", "results")

    def __init__(
        self,
        name: str,
        operands: list[Value],
        result_types: tuple[Any, ...] = (),
        attributes: dict[str, Any] | None = None,
        regions: list[Region] | None = None,
        effect: Effect = Effect.NONE,
        place: Any = None,
    ) -> None:
        self.name = name
        self.operands = operands
        self.results = [Value(each, self) for each in result_types]
        self.attributes = attributes or {}
        self.regions = regions or []
        #: Of itself, without the operations of its regions.
        self.effect = effect
        #: Line and column in the source.
        self.place = place

    @property
    def result(self) -> Value:
        """The only result."""
        (found,) = self.results
        return found

    def effects(self) -> Effect:
        """Return its effects and those of the operations in its regions."""
        found = self.effect
        for region in self.regions:
            for operation in region.operations:
                found |= operation.effects()
        return found

    def walk(self) -> Iterator[Operation]:
        """Return this operation and those in its regions, outermost first."""
        yield self
        for region in self.regions:
            yield from region.walk()

    def used(self) -> Iterator[Value]:
        """Return the values that it and the operations in its regions read."""
        yield from self.operands
        for region in self.regions:
            for operation in region.operations:
                yield from operation.used()


class Region:
    """Operations in their order; the last one is a ``yield`` of the region's values."""

    __slots__ = ("arguments", "operations")

    def __init__(self, argument_types: tuple[Any, ...] = ()) -> None:
        self.arguments = [Value(each, self) for each in argument_types]
        self.operations: list[Operation] = []

    @property
    def yielded(self) -> list[Value]:
        """The operands of the ``yield``."""
        return self.operations[-1].operands

    def walk(self) -> Iterator[Operation]:
        """Return all operations, also those of inner regions."""
        for operation in self.operations:
            yield from operation.walk()


class Function:
    """A kernel or device function, typed for its arguments."""

    def __init__(self, name: str, parameters: tuple[tuple[str, Any], ...], unit: Any) -> None:
        self.name = name
        self.body = Region(tuple(kind for _, kind in parameters))
        for value, (parameter, _) in zip(self.body.arguments, parameters, strict=True):
            value.name = parameter
        #: The normal form that it was made of.
        self.unit = unit
