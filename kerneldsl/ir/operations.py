"""Values, operations and regions.

A kernel is a :class:`Function` with one region. A region is a list of operations that ends with a
``yield``. ``if``, ``for``, ``for_each`` and ``while`` hold regions. Every value is assigned once. A
variable of the source that a region assigns is a result of the operation around the region. In
loops it is also an argument of the region. Types are Numba's. Operators and functions that Numba
defines hold Numba's signature.

``break``, ``continue`` and ``return`` are one thing: a region that ends with ``leave`` leaves the
``labeled`` operation around it that has the same :class:`Label`. Its operands are the results of
that operation, and control goes on after it. The region of ``labeled`` may also end with a
``yield``. A region ends with ``unreachable`` if control never gets there, for example because both
regions of a branch end with ``leave``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Any, NamedTuple

from kerneldsl.analysis.work import KernelWork
from kerneldsl.contract.findings import NO_BARRIERS, BarrierFacts

__all__ = [
    "CONTROL",
    "LOOPS",
    "Binding",
    "Effect",
    "Function",
    "HandedOn",
    "Label",
    "Operation",
    "Region",
    "SourcePlace",
    "Value",
    "carried_arguments",
    "ends_of",
    "given_to",
    "handed_on",
    "keep_results",
]


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
    LEAVE = enum.auto()
    """Control leaves an operation around it."""


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


class SourcePlace(NamedTuple):
    """A place in the source."""

    line: int
    column: int
    #: The normal form of the function.
    unit: Any
    #: The place of the call, if the function is read in the place of its call.
    caller: SourcePlace | None
    end_column: int | None = None
    #: The call, if the operation is a call of a function that is read in its place.
    call: Any = None


class Operation:
    """One operation."""

    __slots__ = (
        "attributes",
        "effect",
        "name",
        "operands",
        "place",
        "regions",
        "results",
        "source",
    )

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
        #: Effect of the operation itself, without the operations in its regions.
        self.effect = effect
        #: The :class:`SourcePlace` in the source.
        self.place = place
        #: The :class:`~kerneldsl.frontend.parts.Part` that it was read from, for findings.
        self.source: Any = None

    def take_results(self, results: list[Value]) -> Operation:
        """Give this operation the results of one that it takes the place of; return it."""
        self.results = results
        for value in results:
            value.owner = self
        return self

    def defined(self) -> set[Value]:
        """Return the values that are defined in its regions."""
        found: set[Value] = set()
        for region in self.regions:
            found.update(region.arguments)
            for each in region.operations:
                found.update(each.results, each.defined())
        return found

    def leaves(self) -> Iterator[Operation]:
        """Return the ``leave`` operations in its regions that lead to it."""
        label = self.attributes.get("label")
        return (
            each
            for each in self.walk()
            if each.name == "leave" and each.attributes["label"] is label
        )

    @property
    def result(self) -> Value:
        """The only result."""
        (found,) = self.results
        return found

    def effects(self) -> Effect:
        """Return its effects and those of the operations in its regions."""
        found = self.effect
        for region in self.regions:
            found |= region.effects()
        if self.name == "labeled" and found & Effect.LEAVE and not self.may_be_left():
            found &= ~Effect.LEAVE
        return found

    def exits(self) -> list[Operation]:
        """Return the ``leave`` operations by which control leaves it, as ``break`` does."""
        operations = list(self.walk())
        inside = {each.attributes["label"] for each in operations if each.name == "labeled"}
        leaves = (each for each in operations if each.name == "leave")
        return [each for each in leaves if each.attributes["label"] not in inside]

    def may_be_left(self) -> bool:
        """Return whether control may leave it other than at its end."""
        return bool(self.exits())

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


class Label:
    """The ``labeled`` operation that a ``leave`` inside it ends."""

    __slots__ = ("ends_kernel", "name")

    def __init__(self, name: str, *, ends_kernel: bool = False) -> None:
        #: ``break``, ``continue`` or ``return``.
        self.name = name
        #: Whether a ``leave`` to this label ends the thread's work in the kernel.
        self.ends_kernel = ends_kernel


class Binding(NamedTuple):
    """A variable that holds a value, or a call that returned it, for messages."""

    #: Name that the user wrote; ``None`` for a call.
    name: str | None
    #: The :class:`~kerneldsl.frontend.parts.Part` with the statement that assigns it, or the
    #: call.
    source: Any


class Region:
    """Operations in their order; the last one is a ``yield`` of the region's values."""

    __slots__ = ("arguments", "operations")

    def __init__(
        self, argument_types: tuple[Any, ...] = (), operations: Iterable[Operation] = ()
    ) -> None:
        self.arguments = [Value(each, self) for each in argument_types]
        self.operations = list(operations)

    @classmethod
    def of(cls, operations: Iterable[Operation], *yielded: Value) -> Region:
        """Return a region without arguments that yields some values."""
        return cls((), [*operations, Operation("yield", [*yielded])])

    @property
    def yielded(self) -> list[Value]:
        """The operands of the ``yield``, none if control does not get there."""
        return [] if self.is_left else self.operations[-1].operands

    @property
    def is_left(self) -> bool:
        """True if control never gets to the end, but leaves an operation around the region."""
        return bool(self.operations) and self.operations[-1].name in ("leave", "unreachable")

    def effects(self) -> Effect:
        found = Effect.NONE
        for operation in self.operations:
            found |= operation.effects()
        return found

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
        #: Work for one index, counted before any rewrite.
        self.work = KernelWork()
        #: Places that can fail in debug mode, by number.
        self.fault_sites: tuple[Any, ...] = ()
        #: Whether the function had loops when it was read, loops over the elements of rows
        #: included.
        self.has_loops = False
        #: Warnings about the function.
        self.findings: tuple[Any, ...] = ()
        #: Warnings about stores of float64 results to float32 arrays.
        self.wide_stores: tuple[Any, ...] = ()
        #: Facts about its barriers, once they are analyzed.
        self.barriers: BarrierFacts = NO_BARRIERS
        #: Variables and calls that hold each value, in the order of the source.
        self.bindings: dict[Value, list[Binding]] = {}


#: Operations with regions that run several times.
LOOPS = ("for", "for_each", "while")
#: Operations with results that their regions give.
CONTROL = ("if", "labeled", *LOOPS)


def ends_of(operation: Operation) -> list[Operation]:
    """Return the ``yield`` and ``leave`` operations that give its results."""
    regions = operation.regions
    if operation.name == "while":
        regions = regions[1:]
    found = [region.operations[-1] for region in regions if not region.is_left]
    if operation.name == "labeled":
        found += operation.leaves()
    return found


def keep_results(operation: Operation, kept: Sequence[bool]) -> None:
    """Keep some of the values that an operation gives and carries, in place."""
    count = len(kept)

    def chosen(values: list[Value]) -> list[Value]:
        first = len(values) - count
        return [*values[:first], *compress(values[first:], kept)]

    for end in ends_of(operation):
        end.operands = chosen(end.operands)
    if operation.name in LOOPS:
        operation.operands = chosen(operation.operands)
        for region in operation.regions:
            region.arguments = chosen(region.arguments)
    operation.results = chosen(operation.results)


def given_to(operation: Operation) -> list[Value]:
    """Return the values that a loop carries at first, one for each result."""
    count = len(operation.results)
    return operation.operands[-count:] if count and operation.name in LOOPS else []


def carried_arguments(operation: Operation) -> list[list[Value]]:
    """Return the arguments of each region of a loop that are carried, one for each result."""
    count = len(operation.results)
    if not count or operation.name not in LOOPS:
        return []
    return [region.arguments[-count:] for region in operation.regions]


class HandedOn(NamedTuple):
    """A variable that a branch or loop hands on."""

    #: Result of the operation, and the arguments of a loop's regions that carry the variable.
    targets: list[Value]
    #: Initial value of a loop's variable, and the values at the ends of the regions.
    sources: list[Value]


def handed_on(operation: Operation) -> list[HandedOn]:
    """Return what a branch or loop hands on, one for each result."""
    if operation.name not in CONTROL:
        return []
    arguments, ends = carried_arguments(operation), ends_of(operation)
    given = [given_to(operation)] if operation.name in LOOPS else []
    sources = [*given, *(end.operands for end in ends)]
    return [
        HandedOn(
            [result, *(each[number] for each in arguments)], [each[number] for each in sources]
        )
        for number, result in enumerate(operation.results)
    ]
