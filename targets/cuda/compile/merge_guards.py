"""Test guards that follow each other by one branch.

A kernel of three axes begins with ``if 0 < x < width - 1 and 0 < y < height - 1 and ...``. LLVM
branches for x, and then reads the special registers for the other axes. So the latency of these is
waited for twice. NVVM makes one branch: what is between the branches is only arithmetic.

References
----------
PTX ISA, sections "Special Registers" and "Control Flow Instructions: bra".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import (
    LABEL,
    VOLATILE,
    Branch,
    branch_of,
    declare,
    on_functions,
    uses_of,
)

__all__ = ["merge_guards"]

#: Arithmetic between two branches that is also done by threads that leave at the first one.
_MOST_LINES = 32
_PURE = re.compile(
    r"^\s*(?:ld\.param\.\w+|mov\.[bu](?:32|64)|setp\.\w+\.(?!f)\w+|(?:and|or|xor|not)\.(?:pred|b\d+)"
    r"|(?:add|sub|neg|shl|shr|min|max|selp|cvt)\.[bsu]\d+(?:\.[bsu]\d+)?"
    r"|(?:mul|mad)\.(?:lo|wide)\.[su]\d+)\s+%\w+, [^;]+;$"
)


@on_functions()
def merge_guards(lines: list[str], report: Report) -> list[str]:
    """Return a module in which such guards are one branch to the end of the kernel.

    Examples
    --------
    >>> print(merge_guards('''.entry e()
    ... {
    ... @%p1 bra $L1;
    ... mov.u32 %r2, %ctaid.y;
    ... setp.eq.b32 %p2, %r2, 0;
    ... @%p2 bra $L1;
    ... st.global.b32 [%rd1], %r2;
    ... $L1:
    ... ret;
    ... }''').replace(chr(9), ""))
    .entry e()
    {
    .reg .pred %kd_guard0;
    mov.u32 %r2, %ctaid.y;
    setp.eq.b32 %p2, %r2, 0;
    or.pred %kd_guard0, %p1, %p2;
    @%kd_guard0 bra $L1;
    st.global.b32 [%rd1], %r2;
    $L1:
    ret;
    }
    """
    ends = {
        found[1]
        for line, following in itertools.pairwise(lines)
        if (found := LABEL.match(line)) and following.strip() == "ret;"
    }
    branches = (each for line in lines if "bra" in line and (each := branch_of(line)))
    if sum(each.label in ends for each in branches) < 2:
        return lines
    count = 0
    given, lines = lines, _with_guards_to_ends(lines, ends)
    while pair := next(_pairs(lines, ends), None):
        first, last, one, other = pair
        guard = f"%kd_guard{count}"
        lines = [
            *lines[:first],
            *lines[first + 1 : last],
            *_guard(guard, one, other),
            f"\t@{guard} bra {one.label};",
            *lines[last + 1 :],
        ]
        count += 1
    report("guard", "tested together with the one before it", count)
    if not count:
        return given
    return declare(lines, [f".pred %kd_guard{number}" for number in range(count)])


def _with_guards_to_ends(lines: list[str], ends: set[str]) -> list[str]:
    """Return lines in which branches around jumps to the end are branches to the end."""
    written: list[str] = []
    place = 0
    while place < len(lines):
        if "bra" not in lines[place]:
            written.append(lines[place])
            place += 1
            continue
        around, jump = (branch_of(line) for line in [*lines[place : place + 2], "", ""][:2])
        is_jump = jump is not None and not jump.predicate and jump.label in ends
        label = LABEL.match(lines[place + 2]) if place + 2 < len(lines) else None
        if (
            around is not None
            and jump is not None
            and label is not None
            and is_jump
            and around.predicate
            and around.label == label[1]
            and uses_of(re.escape(label[1]), lines) == 2
        ):
            sign = "" if around.is_negated else "!"
            written.append(f"\t@{sign}{around.predicate} bra {jump.label};")
            place += 3
        else:
            written.append(lines[place])
            place += 1
    return written


def _guard(name: str, one: Branch, other: Branch) -> list[str]:
    """Return what sets a predicate where one of two branches is taken."""
    if one.is_negated and other.is_negated:
        operation = f"and.pred {name}, {one.predicate}, {other.predicate};"
        return [f"\t{operation}", f"\tnot.pred {name}, {name};"]
    if not (one.is_negated or other.is_negated):
        return [f"\tor.pred {name}, {one.predicate}, {other.predicate};"]
    negated, plain = (one, other) if one.is_negated else (other, one)
    return [
        f"\tnot.pred {name}, {negated.predicate};",
        f"\tor.pred {name}, {name}, {plain.predicate};",
    ]


def _pairs(lines: list[str], ends: set[str]) -> Iterator[tuple[int, int, Branch, Branch]]:
    """Yield lines of branches to the end that only arithmetic is between, and the branches."""
    first, one = 0, None
    for place, line in enumerate(lines):
        branch = branch_of(line)
        if branch is not None:
            is_guard = branch.label in ends and branch.predicate
            if is_guard and one is not None and one.label == branch.label:
                yield first, place, one, branch
            first, one = place, branch if is_guard else None
        elif not _PURE.match(line) or VOLATILE.search(line) or place - first > _MOST_LINES:
            one = None
