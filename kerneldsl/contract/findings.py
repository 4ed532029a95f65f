"""Findings: warnings of values in a kernel, which are shown when its code is compiled or loaded.

They are found in the typed kernel when it is compiled, and are stored with the code. The kernel may
have moved in its file when the code is loaded. So a stored finding has no lines. It refers to nodes
of the kernel by their number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from kerneldsl.frontend.parts import Part, numbered_parts
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["Finding", "finding_text", "from_numbers", "numbered"]

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
