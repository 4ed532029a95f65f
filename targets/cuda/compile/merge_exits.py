"""End a loop by one branch: a test at the start of a turn is made at the end of the turn before it.

LLVM knows the last turn of ``while count < rounds and x < 4`` by its count. It leaves the loop at
the start of that turn, without what the turn would compute. So each turn has two branches, and
copies that are read after the loop. Here the first test is made before the loop, and at the end of
each turn together with the second one.

References
----------
PTX ISA, sections "Control Flow Instructions" and "Comparison and Selection Instructions: setp".
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import (
    LABEL,
    branch_of,
    innermost_loops,
    on_functions,
    opposite,
    redirected,
    results_of,
    uses_of,
)

__all__ = ["merge_exits"]

#: In a longer loop two branches are few.
_MOST_LINES = 80
_TEST = re.compile(r"^\s*setp\.(eq|ne|lt|le|gt|ge)\.([bsu](?:32|64))\s+(%\w+), (%\w+), ([%\w-]+);")
_MOVE = re.compile(r"^\s*mov\.b\d+\s+(%\w+), ([%\w.-]+);")
_COMPARISON = re.compile(r"^(\s*setp)\.(\w+)\.(\w+)(\s+(%\w+), [^,;]+, [^,;]+;)$")


class _Loop(NamedTuple):
    """An innermost loop that is left at its start and at its end."""

    #: Lines from its label to its last branch.
    first: int
    last: int
    label: str
    #: The comparison at its start.
    test: re.Match[str]
    #: Whether the comparison ends the loop if it is false.
    is_left_if_false: bool
    #: Copies beside the comparison.
    moves: list[str]
    #: Where the comparison leads to.
    exit: str
    #: Lines between the comparison's branch and the branch at the end.
    body: list[str]
    #: The predicate at the end, with ``!`` if the loop goes on when it is false.
    goes_on: str
    #: Where the loop leads to at its end; ``None`` for the line after it.
    end: str | None


@on_functions("setp")
def merge_exits(lines: list[str], report: Report) -> list[str]:
    """Return a module with innermost loops that end by one branch.

    Such a loop begins with a comparison of integers, a branch out, and perhaps copies. It ends with
    another branch out.

    Examples
    --------
    >>> loop = '''.entry e()
    ... {
    ... $L1:
    ... setp.eq.b64 %p1, %rd1, %rd2;
    ... @%p1 bra $L2;
    ... add.s64 %rd1, %rd1, 1;
    ... setp.le.f32 %p2, %r1, %r2;
    ... @%p2 bra $L1;
    ... $L2:
    ... ret;
    ... }'''
    >>> print(merge_exits(loop).replace(chr(9), ""))
    .entry e()
    {
    $KD_test0:
    setp.eq.b64 %p1, %rd1, %rd2;
    @%p1 bra $KD_last0;
    $L1:
    add.s64 %rd1, %rd1, 1;
    setp.gtu.f32 %p2, %r1, %r2;
    setp.ne.and.b64 %p1, %rd1, %rd2, !%p2;
    @%p1 bra $L1;
    @%p2 bra $KD_left0;
    $KD_last0:
    bra.uni $L2;
    $KD_left0:
    $L2:
    ret;
    }
    """
    for number, (first, last) in reversed(list(enumerate(innermost_loops(lines, _MOST_LINES)))):
        loop = _loop(lines, first, last)
        if loop is not None:
            lines = _merged(lines, loop, number)
            report("loop", "ended by one branch instead of two")
    return lines


def _loop(lines: list[str], first: int, last: int) -> _Loop | None:
    """Return the loop between two lines, if it can end by one branch."""
    inside = lines[first + 1 : last + 1]
    labels = {found[1] for line in lines[first:last] if (found := LABEL.match(line))}
    start, end = _start(inside, labels), _end(inside)
    if start is None or end is None:
        return None
    (length, predicate, is_left_if_false, exit_label), (place, goes_on, end_label) = start, end
    count = next(n for n, line in enumerate(inside) if branch_of(line))
    tests = [found for line in inside[:count] if (found := _TEST.match(line))]
    moves = [line for line in inside[:count] if _MOVE.match(line)]
    body = inside[length:place]
    label = LABEL.match(lines[first])
    assert label is not None
    is_simple = len(tests) == 1 and len(moves) == count - 1 and length <= place
    if not is_simple or tests[0][3] != predicate or uses_of(predicate, lines) != 2:
        return None
    if end_label in labels or uses_of(re.escape(label[1]), inside) != 1:
        return None
    if moves and not _are_for_exit(moves, tests[0], body, labels):
        return None
    return _Loop(
        first,
        last,
        label[1],
        tests[0],
        is_left_if_false,
        moves,
        exit_label,
        body,
        goes_on,
        end_label,
    )


def _start(inside: list[str], labels: set[str]) -> tuple[int, str, bool, str] | None:
    """Return how a loop is left at its start.

    These are how many lines that takes, the predicate, whether a false one leaves the loop, and the
    label after that. It is a branch out, or one around a branch out.
    """
    place = next(n for n, line in enumerate(inside) if branch_of(line))
    branch = branch_of(inside[place])
    assert branch is not None
    if not branch.predicate:
        return None
    if branch.label not in labels:
        return place + 1, branch.predicate, branch.is_negated, branch.label
    around = branch_of(inside[place + 1]) if place + 2 < len(inside) else None
    if around is None or around.predicate or around.label in labels:
        return None
    if not inside[place + 2].startswith(f"{branch.label}:"):
        return None
    return place + 2, branch.predicate, not branch.is_negated, around.label


def _end(inside: list[str]) -> tuple[int, str, str | None] | None:
    """Return the line of the branch at the end, its predicate, and the label of the exit."""
    back = branch_of(inside[-1])
    assert back is not None
    if back.predicate:
        return len(inside) - 1, f"{'!' * back.is_negated}{back.predicate}", None
    out = branch_of(inside[-2]) if len(inside) > 1 else None
    if out is None or not out.predicate:
        return None
    return len(inside) - 2, f"{'!' * (not out.is_negated)}{out.predicate}", out.label


def _are_for_exit(moves: list[str], test: re.Match[str], body: list[str], labels: set[str]) -> bool:
    """Return whether what copies write is read only where the comparison ends the loop.

    At the end of a turn it has always been written again.
    """
    if any(each.label not in labels for line in body if (each := branch_of(line))):
        return False
    after = max((n for n, line in enumerate(body) if LABEL.match(line)), default=-1) + 1
    again = {name for line in body[after:] if "@" not in line for name in results_of(line)}
    operands = [test[0], *(found[2] for line in moves if (found := _MOVE.match(line)))]
    for line in moves:
        (target,) = results_of(line)
        reads = sum(uses_of(target, [each]) - results_of(each).count(target) for each in body)
        if target not in again or reads or uses_of(target, operands):
            return False
    return True


def _merged(lines: list[str], loop: _Loop, number: int) -> list[str]:
    """Return a function with a loop that ends by one branch."""
    test, last, left = (f"$KD_{name}{number}" for name in ("test", "last", "left"))
    relation, kind, predicate, one, other = loop.test.groups()
    stays = relation if loop.is_left_if_false else opposite(relation, kind)
    body, goes_on = _left_if_true(loop, lines)
    ends = f"!{goes_on}".removeprefix("!!")
    return [
        *redirected(lines[: loop.first], loop.label, test),
        f"{test}:",
        loop.test[0],
        f"\t@{'!' * loop.is_left_if_false}{predicate} bra {last};",
        f"{loop.label}:",
        *body,
        f"\tsetp.{stays}.and.{kind} {predicate}, {one}, {other}, {goes_on};",
        f"\t@{predicate} bra {loop.label};",
        f"\t@{ends} bra {loop.end or left};",
        f"{last}:",
        *loop.moves,
        f"\tbra.uni {loop.exit};",
        f"{left}:",
        *redirected(lines[loop.last + 1 :], loop.label, test),
    ]


def _left_if_true(loop: _Loop, lines: list[str]) -> tuple[list[str], str]:
    """Return the body of a loop, and its other predicate, which is true where the loop ends.

    Of a predicate that is true in each other turn ptxas (seen with 13.0) computes the opposite too.
    """
    found = [(n, c) for n, line in enumerate(loop.body) if (c := _COMPARISON.match(line))]
    made = [(n, c) for n, c in found if c[5] == loop.goes_on]
    if len(made) != 1 or uses_of(loop.goes_on, lines) != 2:
        return loop.body, loop.goes_on
    ((place, comparison),) = made
    name, relation, kind, operands = comparison.group(1, 2, 3, 4)
    line = f"{name}.{opposite(relation, kind)}.{kind}{operands}"
    return [*loop.body[:place], line, *loop.body[place + 1 :]], f"!{loop.goes_on}"
