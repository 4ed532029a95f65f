"""Findings about arithmetic in float64 where no argument is, with all that makes it so."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kerneldsl.explain.accesses import source_text
from kerneldsl.explain.explanation import Finding
from kerneldsl.explain.reading import kind_of
from kerneldsl.explain.sites import Site, site_of
from kerneldsl.explain.tally import FloatTally, Tallies
from kerneldsl.explain.text import short_number
from kerneldsl.ir.operations import (
    CONTROL,
    LOOPS,
    Function,
    Operation,
    Value,
    carried_arguments,
    ends_of,
    given_to,
)
from kerneldsl.language.element_types import ELEMENT_TYPES, ElementType
from kerneldsl.language.kinds import Kind, ScalarKind, leaf_kinds

__all__ = ["double_arithmetic"]

#: Operations with results of the type that their operands make.
_COMPUTED = ("cast", "fma", "numba", "tuple.make")


def double_arithmetic(
    function: Function, kinds: Sequence[Kind], tallies: Tallies
) -> Iterator[Finding]:
    """Yield where a kernel computes in float64 if none of its arguments is.

    Operations that share a cause are one finding, which names all their causes. They are in float32
    if each of these is a float32.
    """
    leaves = [part for each in leaf_kinds(kinds) for part in _numbers(each.element)]
    if any(each.is_double for each in leaves) or not any(each.is_float for each in leaves):
        return
    roots = _Roots(function)
    groups: list[_Group] = []
    for tally in tallies.floats.values():
        if tally.dtype == "float64":
            found = {each.node: each for each in roots.of(tally)} or {tally.site.node: tally.site}
            made = _Group(found, {tally.site.node: tally.site}, tally.count)
            for group in [each for each in groups if found.keys() & each.causes.keys()]:
                groups.remove(group)
                made = _Group(
                    group.causes | made.causes,
                    group.operations | made.operations,
                    group.times + made.times,
                )
            groups.append(made)
    yield from map(_finding, groups)


class _Group(NamedTuple):
    """Operations that share causes, each by its node."""

    causes: dict[object, Site]
    operations: dict[object, Site]
    times: float


def _numbers(element: ElementType) -> Iterator[ElementType]:
    """Yield an element type, or those of a record's fields."""
    if not element.is_record:
        yield element
    for each in element.fields if element.is_record else ():
        yield from _numbers(ELEMENT_TYPES[each.dtype])


def _finding(group: _Group) -> Finding:
    places = sorted(
        ((each.where, _text(each)) for each in group.causes.values()),
        key=lambda each: (each[0].filename, each[0].lineno, each[0].col_offset or 0),
    )
    where = places[0][0]
    written: list[str] = []
    for line, causes in itertools.groupby(places, key=lambda each: each[0].lineno):
        texts = dict.fromkeys(f"np.float32({cause})" for _, cause in causes)
        written.append(" and ".join(texts) + (f" in line {line}" if line != where.lineno else ""))
    lines_of = {each.where.lineno for each in group.operations.values()}
    others = sorted(lines_of - {where.lineno})
    lines = f" in line{'s' * (len(others) > 1)} {', '.join(map(str, others))}" if others else ""
    return Finding(
        "float64",
        where,
        group.times,
        f"{short_number(group.times)} operations{lines} are in float64, and no argument is",
        "A Python float is a float64, and so is what it, or an integer of 32 bits or more, makes "
        "with a float32; GPUs compute in float64 at half the rate of float32 or, most of them, at "
        "a 64th",
        f"Write {', '.join(written)}, or name constants of that type",
        weight=64 * group.times,
    )


def _text(cause: Site) -> str:
    """Return the text of a cause; of one in our files that of the user's call."""
    return cause.text if cause.is_shown else source_text(cause.where)


class _Roots:
    """Causes of float64: constants and integers.

    Each has to be a float32 for the operation to be in float32.
    """

    def __init__(self, function: Function) -> None:
        self._loops = {
            value: each
            for each in function.body.walk()
            if each.name in LOOPS
            for region in each.regions
            for value in region.arguments
        }

    def of(self, tally: FloatTally) -> Iterator[Site]:
        """Yield what makes an operation float64."""
        asked = set[Value]()
        for operation in tally.operations:
            yield from self._of_operation(operation, asked)

    def _of_operation(self, operation: Operation, asked: set[Value]) -> Iterator[Site]:
        for number, each in enumerate(operation.operands):
            source = operation.source.operand(number)
            site = site_of(operation, source) if source is not None else None
            yield from self._of_value(each, site, asked)

    def _of_value(self, value: Value, site: Site | None, asked: set[Value]) -> Iterator[Site]:
        """Yield what makes a value something else than a float32; `site` is that of the reader."""
        kind = kind_of(value)
        element = kind.element if isinstance(kind, ScalarKind) else None
        if element is not None and element.is_float and not element.is_double:
            return
        made = self._loops.get(value, value.owner)
        is_root = element is not None and element.is_integer
        if not is_root and value in asked:
            return
        asked.add(value)
        number = _number_of(made, value) if isinstance(made, Operation) else None
        if not is_root and isinstance(made, Operation) and number is not None:
            for values in (given_to(made), *(end.operands for end in ends_of(made))):
                for each in values[number : number + 1]:
                    yield from self._of_value(each, None, asked)
        elif not is_root and isinstance(made, Operation) and made.name in _COMPUTED:
            yield from self._of_operation(made, asked)
        elif is_root and site is not None:
            yield site
        elif isinstance(made, Operation):
            yield site_of(made, made.source.without_signs)


def _number_of(made: Operation, value: Value) -> int | None:
    """Return the number of a result of control, or of what a loop carries; else ``None``."""
    if made.name not in CONTROL:
        return None
    for values in (made.results, *carried_arguments(made)):
        if value in values:
            return values.index(value)
    return None
