"""Count the turns of loops down, so that ptxas unrolls them.

LLVM ends a loop where its counter equals a bound. ptxas (seen with 13.0) unrolls a loop of PTX by
four more, and loads what four turns need at once, where the number of turns is compared as
``setp.gt.s64``, but not where 64-bit integers are compared for equality: the loop that nvcc
compiles has sixteen loads in flight, the same loop by LLVM four.

References
----------
PTX ISA, sections "Control Flow Instructions" and "Comparison and Selection Instructions: setp".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import (
    LABEL,
    branch_of,
    declare,
    on_functions,
    redirected,
    results_of,
    uses_of,
)

__all__ = ["count_turns_down"]

_STEP = re.compile(r"^\s*add\.s64\s+(%rd\d+), \1, (-?\d+);")
_COMPARISON = re.compile(r"^\s*setp\.(eq|ne)\.b64\s+(%p\d+), (%rd\d+), (%rd\d+|-?\d+);")


class _Loop(NamedTuple):
    """An innermost loop: lines from its label to its last branch, and how its counter changes."""

    first: int
    last: int
    label: str
    #: Where it goes afterwards, unless to the line after it.
    exit: str | None
    predicate: str
    #: Line of the comparison.
    comparison: int
    counter: str
    bound: str
    step: int


@on_functions("setp")
def count_turns_down(lines: list[str], report: Report) -> list[str]:
    """Return a module whose innermost loops end when a distance is no longer positive.

    Such a loop has no label, no barrier and no pragma inside, adds a number to a register in each
    turn, and ends where that equals a register or a number that the loop does not change.

    Examples
    --------
    >>> loop = '''.entry e()
    ... {
    ... $L1:
    ... add.s64 %rd1, %rd1, 4;
    ... setp.ne.b64 %p1, %rd1, %rd2;
    ... @%p1 bra $L1;
    ... ret;
    ... }'''
    >>> print(count_turns_down(loop).replace(chr(9), ""))
    .entry e()
    {
    .reg .b64 %kd_left0;
    $KD_enter0:
    sub.s64 %kd_left0, %rd2, %rd1;
    $L1:
    add.s64 %kd_left0, %kd_left0, -4;
    setp.gt.s64 %p1, %kd_left0, 0;
    @%p1 bra $L1;
    ret;
    }
    """
    loops = list(_loops(lines))
    report("loop", "counted down to 0", len(loops))
    for number, loop in reversed(list(enumerate(loops))):  # the places of those before it hold
        lines = _rewritten(lines, loop, number)
    return declare(lines, [f".b64 %kd_left{number}" for number in range(len(loops))])


def _loops(lines: list[str]) -> Iterator[_Loop]:
    label, start = None, 0
    for place, line in enumerate(lines):
        if found := LABEL.match(line):
            label, start = found[1], place
        branch = branch_of(line)
        if branch is not None and label is not None and branch.label == label:
            loop = _counted(lines, start, place)
            if loop is not None:
                yield loop
            label = None


def _counted(lines: list[str], first: int, last: int) -> _Loop | None:
    """Return the loop between a label and a branch to it, where it is one to write otherwise."""
    branch, way_out = branch_of(lines[last]), None
    if branch is None:
        return None
    label, is_equal_inside = branch.label, branch.is_negated
    if not branch.predicate:
        branch = branch_of(lines[last - 1])
        if branch is None:
            return None
        way_out, is_equal_inside = branch.label, not branch.is_negated
    predicate = branch.predicate
    body = range(first + 1, last + 1)
    if not predicate or any("bar." in lines[n] or ".pragma" in lines[n] for n in body):
        return None
    found = {n: c for n in body if (c := _COMPARISON.match(lines[n])) and c[2] == predicate}
    steps = {s[1]: (n, int(s[2])) for n in body if (s := _STEP.match(lines[n]))}
    if len(found) != 1 or uses_of(predicate, lines) != 2:
        return None
    ((place, comparison),) = found.items()
    if any(each.label == label for line in lines[last + 1 :] if (each := branch_of(line))):
        return None  # a second way around, or in
    operator, _, one, other = comparison.groups()
    counter, bound = (one, other) if one in steps else (other, one)
    at, step = steps.get(counter, (last, 0))
    written = [name for n in body for name in results_of(lines[n])]
    is_counter = step != 0 and at < place and written.count(counter) == 1 and bound not in written
    if not is_counter or operator != ("eq" if is_equal_inside else "ne"):
        return None
    return _Loop(first, last, label, way_out, predicate, place, counter, bound, step)


def _rewritten(lines: list[str], loop: _Loop, number: int) -> list[str]:
    left, enter = f"%kd_left{number}", f"$KD_enter{number}"
    before, after = lines[: loop.first], lines[loop.last + 1 :]
    body = lines[loop.first + 1 : loop.last - (loop.exit is not None)]
    place = loop.comparison - loop.first - 1
    body[place : place + 1] = [
        f"\tadd.s64 {left}, {left}, {-abs(loop.step)};",
        f"\tsetp.gt.s64 {loop.predicate}, {left}, 0;",
    ]
    if uses_of(loop.counter, [*body, *after]) == 2:  # its step alone reads it
        body = [line for line in body if results_of(line) != (loop.counter,)]
    return [
        *redirected(before, loop.label, enter),
        f"{enter}:",
        *(f"\t{line}" for line in _distance(loop, left)),
        f"{loop.label}:",
        *body,
        f"\t@{loop.predicate} bra {loop.label};",
        *([] if loop.exit is None else [f"\tbra.uni {loop.exit};"]),
        *redirected(after, loop.label, enter),
    ]


def _distance(loop: _Loop, result: str) -> list[str]:
    """Return what computes how far the counter is from its bound, in the direction of its steps."""
    if loop.bound.startswith("%"):
        ends = (loop.bound, loop.counter) if loop.step > 0 else (loop.counter, loop.bound)
        return [f"sub.s64 {result}, {ends[0]}, {ends[1]};"]
    if loop.step > 0:
        return [f"neg.s64 {result}, {loop.counter};", f"add.s64 {result}, {result}, {loop.bound};"]
    return [f"add.s64 {result}, {loop.counter}, {-int(loop.bound)};"]
