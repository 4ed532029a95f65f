"""Remarks of passes in cached code.

Code that is found in the cache belongs to the same syntax tree, but a comment may have moved its
lines. So places are statements: the number of a function, and the number of a statement in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from typing import Any

from kerneldsl.contract import PassRemark, Specialization
from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.trees import statements_of

__all__ = ["dump_remarks", "restore_remarks"]


def dump_remarks(remarks: Iterable[PassRemark], specialization: Specialization) -> list[list[Any]]:
    """Return remarks as JSON has them; a place that is no statement of the kernel is left out."""
    numbers: dict[SourceLocation, list[int]] = {}
    if any(each.where for each in remarks):
        for function, unit in enumerate(specialization.unit.reachable()):
            for statement, node in enumerate(statements_of(unit.tree)):
                numbers.setdefault(unit.locate(node), [function, statement])
    return [
        [
            each.name,
            each.count,
            each.text,
            [numbers[place] for place in each.where if place in numbers],
            each.is_missed,
        ]
        for each in remarks
    ]


def restore_remarks(
    rows: Any, specialization: Specialization
) -> Callable[[], tuple[PassRemark, ...]]:
    """Return what makes the remarks that :func:`dump_remarks` wrote: a launch does not read them.

    A place that is no statement of the kernel is left out. Raises `ValueError`, `TypeError` or
    `LookupError` for anything else.
    """
    read = [
        (
            str(name),
            int(count),
            str(text),
            [(index(n), index(m)) for n, m in where],
            bool(is_missed),
        )
        for name, count, text, where, is_missed in rows
    ]

    def restore() -> tuple[PassRemark, ...]:
        places = {
            (function, statement): unit.locate(node)
            for function, unit in enumerate(specialization.unit.reachable())
            for statement, node in enumerate(statements_of(unit.tree))
        }
        return tuple(
            PassRemark(name, count, text, tuple(places[n] for n in where if n in places), is_missed)
            for name, count, text, where, is_missed in read
        )

    return restore
