"""Facts about the barriers of a compiled kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["AS_ONE", "NO_BARRIERS", "BarrierFacts", "BarrierProblem", "notes_of", "read_notes"]

#: Why an operation of a block is refused where single threads differ.
AS_ONE = "Every thread of a block must reach such an operation, with the same arguments"
_FACTS = "barriers"


@dataclass(frozen=True, slots=True)
class BarrierProblem:
    """A barrier that not every thread of a block is known to reach."""

    #: The barrier.
    where: SourceLocation
    #: The condition that varies, in the user's words.
    what: str
    #: How that value comes to vary, from the condition back to its source, with each place.
    links: tuple[tuple[str, SourceLocation], ...]
    #: Whether the condition depends on the thread's own index; else it could only not be proved
    #: uniform.
    is_provable: bool
    #: What helps, of an operation that a block does as one; of a barrier the target says it.
    remedy: str | None = None

    @property
    def chain(self) -> tuple[str, ...]:
        """The links as lines of a message."""
        return tuple(f"{text}  ({where})" for text, where in self.links)


class BarrierFacts(NamedTuple):
    """Facts that a launch needs about a kernel's barriers, for arguments of some kinds."""

    #: When no two arguments overlap in memory.
    problems: tuple[BarrierProblem, ...] = ()
    #: When any two may.
    problems_if_overlapping: tuple[BarrierProblem, ...] = ()
    #: Positions of array parameters that every launch takes for the state of a chain.
    chain_states: frozenset[int] = frozenset()

    @property
    def overlap_matters(self) -> bool:
        """True if it depends on whether arguments overlap in memory which barriers are refused."""
        return self.problems_if_overlapping != self.problems

    @property
    def needs_checks(self) -> bool:
        """True if each launch must be checked."""
        return self.overlap_matters or bool(self.chain_states)


NO_BARRIERS = BarrierFacts()


def notes_of(facts: BarrierFacts, unit: FunctionUnit) -> dict[str, Any]:
    """Return the facts for JSON; places are relative to the functions of the kernel."""
    if facts == NO_BARRIERS:
        return {}
    lines = {(each.filename, each.qualname): each.first_line for each in unit.reachable()}
    keys = list(lines)

    def place(where: SourceLocation) -> list[Any]:
        key = where.filename, where.function or ""
        line = (where.lineno or 0) - lines[key]
        return [keys.index(key), line, where.col_offset, where.end_col_offset]

    def problem(found: BarrierProblem) -> list[Any]:
        links = [[text, place(where)] for text, where in found.links]
        return [place(found.where), found.what, links, found.is_provable, found.remedy]

    return {
        _FACTS: [
            [problem(each) for each in facts.problems],
            [problem(each) for each in facts.problems_if_overlapping],
            sorted(facts.chain_states),
        ]
    }


def read_notes(notes: Mapping[str, Any], unit: FunctionUnit) -> BarrierFacts:
    """Return the facts that :func:`notes_of` wrote.

    Raises ValueError, TypeError or LookupError for notes that it did not write.
    """
    if _FACTS not in notes:
        return NO_BARRIERS
    units: list[FunctionUnit] = []

    def place(found: Sequence[Any]) -> SourceLocation:
        number, line, first, last = found
        if not units:  # few kernels have such a barrier
            units.extend(unit.reachable())
        of = units[number]
        return SourceLocation(of.filename, of.first_line + line, first, last, of.qualname)

    def problems(found: Sequence[Any]) -> Iterator[BarrierProblem]:
        for where, what, links, is_provable, remedy in found:
            chain = tuple((str(text), place(at)) for text, at in links)
            yield BarrierProblem(place(where), str(what), chain, bool(is_provable), remedy)

    apart, overlapping, states = notes[_FACTS]
    return BarrierFacts(
        tuple(problems(apart)), tuple(problems(overlapping)), frozenset(map(int, states))
    )
