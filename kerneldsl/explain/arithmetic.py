"""Findings about arithmetic, with places and what to write instead.

They are of float64 where no argument is, with all that makes it so, of branches and of integers.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kerneldsl.explain.accesses import source_text
from kerneldsl.explain.explanation import BranchReport, Finding
from kerneldsl.explain.sites import Site, site_of
from kerneldsl.explain.tally import AccessTally, FloatTally, Tallies
from kerneldsl.explain.text import short_number
from kerneldsl.ir.frontend.written import kind_of
from kerneldsl.ir.nonnegative import mark_indices
from kerneldsl.ir.operations import LOOPS, Function, Operation, Value, handed_on
from kerneldsl.language.element_types import ELEMENT_TYPES, ElementType
from kerneldsl.language.kinds import Kind, ScalarKind, leaf_kinds
from kerneldsl.utilities.formatting import format_percent

__all__ = ["divergence", "double_arithmetic", "index_arithmetic", "integer_division"]

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
        #: Variables that branches and loops hand on, by the values that carry them.
        self._variables = {
            value: each
            for operation in function.body.walk()
            for each in handed_on(operation)
            for value in each.targets
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
        made, variable = self._loops.get(value, value.owner), self._variables.get(value)
        is_root = element is not None and element.is_integer
        if not is_root and value in asked:
            return
        asked.add(value)
        if not is_root and variable is not None:
            for each in variable.sources:
                yield from self._of_value(each, None, asked)
        elif not is_root and isinstance(made, Operation) and made.name in _COMPUTED:
            yield from self._of_operation(made, asked)
        elif is_root and site is not None:
            yield site
        elif isinstance(made, Operation):
            yield site_of(made, made.source.without_signs)


# -- branches and integers ------------------------------------------------------------------------


#: Lanes at work, below which a branch or a loop is reported, and the warps that it must concern.
_AT_WORK, _CONCERNED = 0.9, 0.05


def divergence(branches: Sequence[BranchReport]) -> Iterator[Finding]:
    """Yield the branches and loops in which lanes of a warp wait for others."""
    for each in branches:
        if each.depends_on_data or not each.warps:
            continue
        idle = 1.0 - each.share
        if each.is_loop:
            if each.share >= _AT_WORK:
                continue
            what = f"{format_percent(each.share)} of lanes are at work in the rounds of their warps"
            why = "A warp makes as many rounds as the lane with the most"
            remedy = "Give the threads of a warp loops of equal length, or sort by length"
        else:
            if each.divergent < _CONCERNED * each.warps or each.share >= _AT_WORK:
                continue
            what = (
                f"the lanes of {format_percent(each.divergent / each.warps)} of the warps part "
                f"here, and {format_percent(each.share)} of them are at work"
            )
            why = "A warp executes both sides, one after the other"
            remedy = "Let whole warps take one side: compare kd.threadIdx.x // 32, or compact first"
        yield Finding(
            "divergence", each.where, each.share, what, why, remedy, weight=32 * idle * each.warps
        )


def integer_division(tallies: Tallies) -> Iterator[Finding]:
    """Yield divisions and remainders of integers by what is no constant."""
    for each in tallies.divisions.values():
        remedy = (
            "Divide by a constant that the kernel captures, a power of two best, or let the grid's "
            "axes give the quotient and the remainder"
        )
        if each.fits and not each.is_narrow:
            remedy = (
                "Both are from 0 to 2**32 - 1 in this launch: np.uint32(…) around each of them "
                f"divides in 32 bits. {remedy}"
            )
        count = short_number(each.count)
        yield Finding(
            "integer division",
            each.site.where,
            each.count,
            f"{count} divisions or remainders of {each.dtype} by a value that is not a constant",
            "GPUs have no instruction for it: each takes some tens of them, and in 64 bits more",
            remedy,
            weight=32 * each.count,
        )


def index_arithmetic(function: Function, tallies: Tallies) -> Iterator[Finding]:
    """Yield, for each function, the indices that count from the end if they are negative.

    None of them is negative in the launch, but the code does not show it.
    """
    mark_indices(function, wraparound=True)
    places: dict[Any, dict[Any, AccessTally]] = defaultdict(dict)
    for each in tallies.accesses.values():
        if not each.wraps and _wrapped(each):  # what is read and written at one place has one index
            places[each.site.unit][each.site.node, each.memory] = each
    for found in places.values():
        counts = {key: _wrapped(each) * each.lanes for key, each in found.items()}
        nodes = {node for node, _ in found}
        most = found[max(counts, key=lambda key: counts[key])]
        count = sum(counts.values())
        many = f" at {len(nodes)} places" if len(nodes) > 1 else ""
        yield Finding(
            "index arithmetic",
            most.site.where,
            count,
            f"{short_number(count)} indices{many} may be negative, for all that the code shows",
            "Each is compared with 0 to count from the end: some four 64-bit instructions, eight "
            "of a GPU's",
            "Where none ever is, as in this launch, promise it: @kd.kernel(wraparound=False)",
            weight=8 * count,
        )


def _wrapped(access: AccessTally) -> int:
    """Return how many indices of an access may be negative."""
    marks = [each.attributes.get("nonnegative", ()) for each in access.operations]
    return max(sum(not is_marked for is_marked in each) for each in marks)
