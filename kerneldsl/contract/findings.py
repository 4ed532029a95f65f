"""Findings in a kernel: warnings of values, and what launches must know of its barriers.

Warnings are shown when code is compiled or loaded. All of it is found in the typed kernel when it
is compiled, and is stored with the code. The kernel may have moved in its file when the code is
loaded. So what is stored has no lines. It refers to nodes of the kernel by their number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.parts import Part, numbered_parts
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "AS_ONE",
    "NO_BARRIERS",
    "BarrierFacts",
    "BarrierProblem",
    "Finding",
    "finding_text",
    "from_numbers",
    "notes_of",
    "numbered",
    "read_notes",
]

#: A part of the source in the text of a finding.
_PART = re.compile(r"\{(\d+)\.(text|line)\}")


class Finding(NamedTuple):
    """A warning.

    Parameters
    ----------
    place : Part
        The place that is shown.
    text : str
        Its text, in which ``{0.text}`` is the first of the parts as it is written, and ``{0.line}``
        its line.
    parts : tuple of Part
        Other parts of the source.
    """

    place: Part
    text: str
    parts: tuple[Part, ...] = ()


def finding_text(finding: Finding) -> str:
    """Return the text of a finding."""

    def part(found: re.Match[str]) -> str:
        number = int(found[1])
        parts = finding.parts
        return str(getattr(parts[number], found[2])) if number < len(parts) else found[0]

    return _PART.sub(part, finding.text)


def numbered(findings: Iterable[Finding], kernel: FunctionUnit) -> list[list[Any]]:
    """Return findings as they are stored, with the numbers of nodes.

    What refers to a node that is not in the tree of a function is left out.
    """
    findings = list(findings)
    known = {id(part.node): place for place, part in numbered_parts(kernel)} if findings else {}

    def number(part: Part) -> list[int]:
        return list(known[id(part.node)])

    return [
        [number(each.place), each.text, list(map(number, each.parts))]
        for each in findings
        if all(id(part.node) in known for part in (each.place, *each.parts))
    ]


def from_numbers(stored: Any, kernel: FunctionUnit) -> tuple[Finding, ...]:
    """Return findings from what was stored; none if that is not of this kernel."""
    if not stored:
        return ()
    known = dict(numbered_parts(kernel))
    try:
        return tuple(
            Finding(
                known[_place(place)],
                str(text),
                tuple(known[_place(each)] for each in parts),
            )
            for place, text, parts in stored
        )
    except (KeyError, TypeError, ValueError):
        return ()


def _place(stored: Any) -> tuple[int, int]:
    unit, node = stored
    return unit, node


#: Reason for refusing an operation of a block that threads may not reach together.
AS_ONE = "Every thread of a block must reach such an operation, with the same arguments"
_FACTS = "barriers"


@dataclass(frozen=True, slots=True)
class BarrierProblem:
    """A barrier that not every thread of a block is known to reach."""

    #: The barrier.
    where: SourceLocation
    #: The condition that varies, in the user's words.
    what: str
    #: Reasons why the value varies, from the condition back to its source, with their places.
    links: tuple[tuple[str, SourceLocation], ...]
    #: True if the condition depends on the thread's own index. False if it only could not be proved
    #: uniform.
    is_provable: bool
    #: Remedy for a collective operation of a block; the target gives the one for a barrier.
    remedy: str | None = None

    @property
    def chain(self) -> tuple[str, ...]:
        """The links as lines of a message."""
        return tuple(f"{text}  ({where})" for text, where in self.links)


class BarrierFacts(NamedTuple):
    """Facts that a launch needs about a kernel's barriers, for arguments of some kinds."""

    #: Problems if no two arguments overlap in memory.
    problems: tuple[BarrierProblem, ...] = ()
    #: Problems if any two arguments may overlap.
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
