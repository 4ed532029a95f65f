"""Reasons that a value, or a point of control flow, differs between threads.

A :class:`Divergence` has the largest group of threads for which a value is the same. It says
whether the value depends on an index of a smaller group. For the threads of one group these are the
levels UNIFORM < UNPROVEN < VARYING. LLVM's uniformity analysis has the first and the last.
``None`` stands for a value that is the same in the whole launch.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.parts import Part
from kerneldsl.ir.operations import Binding, Operation
from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "Divergence",
    "Fact",
    "Level",
    "are_equal",
    "holding",
    "join",
    "level_of",
    "shown_part",
    "used_bindings",
]

_MOST_LINKS = 8


class Level(enum.IntEnum):
    """Variation of a value between the threads of a group; joins take the maximum."""

    UNIFORM = 0
    """Equal in all threads of the group."""
    UNPROVEN = 1
    """May differ: the value was loaded from memory, or is a result of an atomic or an unknown
    function."""
    VARYING = 2
    """Depends on the thread's own index."""


@dataclass(frozen=True, slots=True, eq=False)
class Divergence:
    """Cause for which something is not the same in all threads of a launch."""

    #: The largest group of threads in which the value is uniform.
    scope: Scope
    #: The smallest group with an index on which the value depends; GRID if it depends on none.
    index: Scope
    #: A sentence without its end, with ``{text}`` for the source and ``{varies}`` for the level.
    form: str
    #: The expression or statement.
    source: Part | None
    #: The divergence that it follows from.
    cause: Divergence | None = None
    #: Several causes. None of them is the worst for each group.
    parts: tuple[Divergence, ...] = ()

    @property
    def is_internal(self) -> bool:
        """True if it is in a function of kerneldsl's own, which a user does not know."""
        return self.source is not None and self.source.unit.module.partition(".")[0] == "kerneldsl"

    def level(self, group: Scope) -> Level:
        """Return how it varies between the threads of a group."""
        if self.scope >= group:
            return Level.UNIFORM
        return Level.VARYING if self.index < group else Level.UNPROVEN

    def within(self, group: Scope) -> Divergence:
        """Return what it is if threads of one group that differ do not count."""
        parts = tuple(part.within(group) for part in self.parts)
        scope, index = max(self.scope, group), max(self.index, group)
        return replace(self, scope=scope, index=index, parts=parts)

    def because(self, form: str, source: Part | None) -> Divergence:
        """Return the next link of its chain."""
        return Divergence(self.scope, self.index, form, source, self)

    def at(self, group: Scope) -> Divergence:
        """Return the cause that is the worst for a group."""
        if not self.parts:
            return self
        return max((part.at(group) for part in self.parts), key=lambda part: part.level(group))

    def text(self, group: Scope) -> str:
        worst = self.at(group)
        is_varying = worst.level(group) is Level.VARYING
        varies = "varies" if is_varying else "is not known to be uniform"
        text = "" if worst.source is None else worst.source.text
        return worst.form.format(text=text, varies=varies)

    def links(self, group: Scope) -> Iterator[tuple[str, SourceLocation]]:
        """Return the sentences from here back to the source, each with its place."""
        link: Divergence | None = self
        count, shown = 0, self
        while link is not None and count < _MOST_LINKS:
            link = link.at(group)
            if not link.is_internal:
                shown = link
            elif link.cause is None:  # the source, in the words of the user's call
                link = replace(link, source=shown.source)
            if not link.is_internal:
                count += 1
                assert link.source is not None
                yield link.text(group), link.source.where
            link = link.cause


#: Divergence of a value; ``None`` for a uniform one.
Fact: TypeAlias = Divergence | None


def level_of(fact: Fact, group: Scope) -> Level:
    """Return how a fact varies between the threads of a group."""
    return Level.UNIFORM if fact is None else fact.level(group)


def are_equal(one: Fact, two: Fact) -> bool:
    """Return whether two facts have the same levels for each group."""
    if one is None or two is None:
        return one is two
    return (one.scope, one.index) == (two.scope, two.index)


def join(*facts: Fact) -> Fact:
    """Return the most varying of several facts; the first of equals, so that iteration settles."""
    worst: Fact = None
    for fact in facts:
        if fact is None or fact is worst:
            continue
        if worst is None:
            worst = fact
        elif worst.scope <= fact.scope and worst.index <= fact.index:
            continue
        elif fact.scope <= worst.scope and fact.index <= worst.index:
            worst = fact
        else:
            scope, index = min(worst.scope, fact.scope), min(worst.index, fact.index)
            parts = (*(worst.parts or (worst,)), *(fact.parts or (fact,)))
            worst = Divergence(scope, index, "", worst.source, parts=parts)
    return worst


# -- words ----------------------------------------------------------------------------------------


def holding(fact: Divergence, binding: Binding) -> Divergence:
    """Return the link for a variable that holds a value, or for a call that returned it."""
    if binding.name is None:
        return fact.because("`{text}` returns what varies", binding.source)
    form = f"`{binding.name}` is assigned `{{text}}`"
    return fact.because(form, binding.source.assigned(binding.name))


# -- what a message shows --------------------------------------------------------------------------


def shown_part(operation: Operation) -> Part | None:
    """Return the expression that an operation was read from."""
    source: Part | None = operation.source
    return None if source is None else source.shown


def used_bindings(bindings: list[Binding], user: Part | str | None) -> list[int]:
    """Return the numbers of the bindings through which a value is used, the first one first."""
    if len(bindings) == 1 or user is None:
        return list(range(len(bindings)))[:1]
    parts = {user} if isinstance(user, str) else user.mentioned
    found, is_returned = list[int](), False
    for number in reversed(range(len(bindings))):
        binding = bindings[number]
        if is_returned or (binding.name or binding.source.node) in parts:
            found.insert(0, number)
            parts = binding.source.shown.mentioned
            is_returned = binding.name is None
    return found or [0]
