"""A kernel cut at its barriers: what runs once for a block, and what every thread runs.

The items of a block run one after the other. Between two :class:`Threads` items every thread has
finished the first before any begins the second, which is what a barrier needs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TypeAlias

from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "Branch",
    "ForLoop",
    "GridBarrier",
    "Item",
    "Leave",
    "Once",
    "Threads",
    "Vote",
    "WhileLoop",
    "has_rows",
    "items_of_threads",
    "statements_of",
]


@dataclass(eq=False)
class Threads:
    """Statements that each thread runs, all threads in any order."""

    #: Without barriers.
    body: list[ast.stmt]
    #: Conditions that a thread must meet to run the body.
    guards: tuple[ast.expr, ...] = ()
    #: Whether a thread that does not meet them goes on after the item; else it has left the kernel.
    is_masked: bool = False
    #: The same work as items along x alone, where interchanging loops makes accesses contiguous.
    rows: list[Item] | None = None
    #: Neighbouring threads that run those items together; ``None`` for all of a block's row, or as
    #: many as an element kernel has storage for.
    lanes: int | None = None
    #: Whether they go from the last threads to the first; else it is the other way round.
    is_descending: bool = False
    #: A condition of the block, and what may be in place of the body if it holds.
    alternative: tuple[ast.expr, list[ast.stmt]] | None = None


@dataclass(eq=False)
class Once:
    """A uniform statement that runs once for the whole block."""

    statement: ast.stmt


@dataclass(eq=False)
class Vote:
    """A barrier that combines a predicate of all threads."""

    #: Variable that takes the result, one for the block.
    target: str
    #: How predicates are combined: "count", or "and" and "or", which give 1 or 0, or "all" and
    #: "any", which give a truth value.
    form: str
    #: Evaluated by each thread.
    predicate: ast.expr
    #: Threads that do not meet them take no part.
    guards: tuple[ast.expr, ...] = ()


@dataclass(eq=False)
class Branch:
    """An ``if`` with a test that all threads agree on."""

    test: ast.expr
    body: list[Item]
    orelse: list[Item] = field(default_factory=list)


@dataclass(eq=False)
class ForLoop:
    """A ``for`` that all threads run together."""

    target: ast.expr
    iterable: ast.expr
    body: list[Item]


@dataclass(eq=False)
class WhileLoop:
    """A ``while`` that all threads run together."""

    test: ast.expr
    body: list[Item]


@dataclass(eq=False)
class Leave:
    """``break`` or ``continue`` of a loop that all threads run together."""

    statement: ast.Break | ast.Continue


@dataclass(eq=False)
class GridBarrier:
    """A barrier of the whole grid: the block goes on when all others have come as far."""


Item: TypeAlias = Threads | Once | Vote | Branch | ForLoop | WhileLoop | Leave | GridBarrier


def has_rows(items: Sequence[Item]) -> bool:
    """Return whether loops of any item were moved outside the loop over threads."""
    for item in items:
        match item:
            case Threads():
                found = item.rows is not None
            case Branch():
                found = has_rows(item.body) or has_rows(item.orelse)
            case ForLoop() | WhileLoop():
                found = has_rows(item.body)
            case _:
                found = False
        if found:
            return True
    return False


def items_of_threads(items: Sequence[Item]) -> Iterator[Threads | Vote]:
    """Yield the items that threads run, each before those of its rows, in the order of writing."""
    for item in items:
        match item:
            case Threads():
                yield item
                yield from items_of_threads(item.rows or ())
            case Vote():
                yield item
            case Branch():
                yield from items_of_threads((*item.orelse, *item.body))
            case ForLoop() | WhileLoop():
                yield from items_of_threads(item.body)


def statements_of(items: Sequence[Item]) -> list[ast.AST]:
    """Return the statements and expressions of items, without what is written in their place."""
    found: list[ast.AST] = []
    for item in items:
        match item:
            case Threads():
                found += [*item.body, *item.guards]
            case Once():
                found.append(item.statement)
            case Vote():
                found += [item.predicate, *item.guards]
            case Branch():
                found += [item.test, *statements_of(item.body), *statements_of(item.orelse)]
            case ForLoop():
                found += [item.iterable, *statements_of(item.body)]
            case WhileLoop():
                found += [item.test, *statements_of(item.body)]
    return found
