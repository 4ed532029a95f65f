"""Find what is known of how a value differs between the threads of one scope, such as a block.

The lattice is UNIFORM < UNPROVEN < VARYING, as in LLVM's uniformity analysis with one element more.
Every value that is not uniform knows its cause, so that a refusal can report how it came to vary.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from kerneldsl.errors import SourceLocation
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "Divergence",
    "Environment",
    "Fact",
    "Form",
    "Uniformity",
    "Value",
    "join",
    "join_values",
    "level_of",
    "merge",
]


class Uniformity(enum.IntEnum):
    """Variation of a value between the threads of a scope; joins take the maximum."""

    UNIFORM = 0
    """The same in every thread of the scope."""
    UNPROVEN = 1
    """May differ: it was loaded from memory, or came out of an atomic or an unknown function."""
    VARYING = 2
    """Depends on the thread's own index."""


@dataclass(frozen=True, slots=True, eq=False)
class Divergence:
    """Cause for which a value, or a point of control flow, is not uniform."""

    #: UNPROVEN or VARYING.
    level: Uniformity
    #: A sentence without its end, such as "`i` is assigned `tid + 1`".
    text: str
    #: Where that is.
    where: SourceLocation
    #: What it comes from.
    cause: Divergence | None = None

    def chain(self) -> tuple[str, ...]:
        """Return the sentences from here back to the source, each with its place."""
        lines: list[str] = []
        link: Divergence | None = self
        while link is not None and len(lines) < 8:
            lines.append(f"{link.text}  ({link.where})")
            link = link.cause
        return tuple(lines)


#: ``None`` stands for what is uniform.
Fact: TypeAlias = Divergence | None


def join(*facts: Fact) -> Fact:
    """Return the most varying of several facts; the first of equals, so that iteration settles."""
    worst: Fact = None
    for fact in facts:
        if fact is not None and (worst is None or fact.level > worst.level):
            worst = fact
    return worst


def level_of(fact: Fact) -> Uniformity:
    """Return the level of a fact."""
    return Uniformity.UNIFORM if fact is None else fact.level


class Form(enum.Enum):
    """Possible forms of a value, as far as its expression shows."""

    NUMBERS = enum.auto()
    """A number or a tuple of numbers, which has no memory."""
    ARRAY = enum.auto()
    """One array, a view of one or an element."""
    OTHER = enum.auto()
    """Anything, such as a tuple out of which an index takes one of several arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """Abstract value of the uniformity analysis; without arguments, a uniform one."""

    #: Of the value itself. An array is its place in memory here; how its elements vary is asked
    #: where they are read.
    fact: Fact = None
    #: Of the shape, the strides and the number of items. Numbers are uniform there.
    extent: Fact = None
    #: What the value can be.
    form: Form = Form.OTHER

    @property
    def levels(self) -> tuple[Uniformity, Uniformity, Form]:
        """Values that iteration over a loop compares."""
        return level_of(self.fact), level_of(self.extent), self.form

    @property
    def worst(self) -> Fact:
        """The fact of the value and its extents together."""
        return join(self.fact, self.extent)

    def chosen_by(self, fact: Fact) -> Value:
        """Return one of several such values, chosen where threads diverge."""
        extent = None if self.form is Form.NUMBERS else join(self.extent, fact)
        return Value(join(self.fact, fact), extent, self.form)


def join_values(*values: Value) -> Value:
    """Return what is known of a value that is one of several."""
    forms = {value.form for value in values}
    return Value(
        join(*(value.fact for value in values)),
        join(*(value.extent for value in values)),
        forms.pop() if len(forms) == 1 else Form.OTHER,
    )


#: Variables to their values. A variable that is not there has no value yet.
Environment: TypeAlias = dict[str, Value]


def merge(one: Environment, two: Environment) -> Environment:
    """Return what is known where two ways meet."""
    merged = one | two
    for name in one.keys() & two.keys():
        if one[name] is two[name]:  # most variables, where two ways part and meet again
            continue
        merged[name] = join_values(one[name], two[name])
    return merged
