"""A kernel cut at its barriers: what runs once for a block, and what every thread runs.

The items of a block run one after the other. Between two :class:`Threads` items every thread has
finished the first before any begins the second, which is what a barrier asks for.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["Branch", "ForLoop", "Item", "Leave", "Once", "Threads", "Vote", "WhileLoop"]


@dataclass(eq=False)
class Threads:
    """Statements that each thread runs, all threads in any order.

    Parameters
    ----------
    body : list of ast.stmt
        Without barriers.
    guards : tuple of ast.expr
        Conditions that a thread must meet to run the body.
    is_masked : bool
        Whether a thread that does not meet them goes on after the item; else it has left the
        kernel.
    rows : list of Item or None
        The same work as items along x alone, where interchanging loops makes accesses contiguous.
    """

    body: list[ast.stmt]
    guards: tuple[ast.expr, ...] = ()
    is_masked: bool = False
    rows: list[Item] | None = None


@dataclass(eq=False)
class Once:
    """A uniform statement that runs once for the whole block."""

    statement: ast.stmt


@dataclass(eq=False)
class Vote:
    """A barrier that combines a predicate of all threads.

    Parameters
    ----------
    target : str
        Variable that takes the result, one for the block.
    form : {"count", "and", "or"}
        How predicates are combined.
    predicate : ast.expr
        Evaluated by each thread.
    guards : tuple of ast.expr
        Threads that do not meet them take no part.
    """

    target: str
    form: str
    predicate: ast.expr
    guards: tuple[ast.expr, ...] = ()


@dataclass(eq=False)
class Branch:
    """An ``if`` whose test all threads agree on."""

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


Item: TypeAlias = Threads | Once | Vote | Branch | ForLoop | WhileLoop | Leave
