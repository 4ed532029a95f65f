"""Test by one branch what LLVM tests by two.

References
----------
PTX ISA, sections "Special Registers", "Control Flow Instructions" and "Comparison and Selection
Instructions: setp".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import (
    LABEL,
    VOLATILE,
    Branch,
    Loop,
    branch_of,
    declare,
    last_loops_first,
    on_functions,
    opposite,
    results_of,
    uses_of,
)

__all__ = ["merge_exits", "merge_guards"]

# LLVM knows the last iteration of ``while count < rounds and x < 4`` by its count. It leaves the
# loop at the start of that iteration. So each iteration has two branches, and copies that are read
# after the loop. Here the first test is made before the loop, and at the end of each iteration
# together with the second one.

#: Most lines of a loop; in a longer one, two branches cost little.
_MOST_LINES = 80
_TEST = re.compile(r"^\s*setp\.(eq|ne|lt|le|gt|ge)\.([bsu](?:32|64))\s+(%\w+), (%\w+), ([%\w-]+);")
_MOVE = re.compile(r"^\s*mov\.b\d+\s+(%\w+), ([%\w.-]+);")
_COMPARISON = re.compile(r"^(\s*setp)\.(\w+)\.(\w+)(\s+(%\w+), [^,;]+, [^,;]+;)$")


class _Exits(NamedTuple):
    """The two exits of an innermost loop, at its start and at its end."""

    #: The comparison at its start.
    test: re.Match[str]
    #: Whether the comparison ends the loop if it is false.
    is_left_if_false: bool
    #: Copies in the comparison's block.
    moves: list[str]
    #: Target of the exit at the start.
    exit: str
    #: Lines between the comparison's branch and the branch at the end.
    body: list[str]
    #: The predicate at the end, with ``!`` if the loop continues when it is false.
    goes_on: str
    #: Target of the exit at the end; ``None`` for the line after it.
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
    for number, loop in last_loops_first(lines, _MOST_LINES):
        exits = _exits(loop)
        if exits is not None:
            lines[:] = _merged(loop, exits, number)
            report("loop", "ended by one branch instead of two")
    return lines


def _exits(loop: Loop) -> _Exits | None:
    """Return how a loop is left, if it can end by one branch."""
    inside, labels = loop.body, loop.labels
    start, end = _start(inside, labels), _end(inside)
    if start is None or end is None:
        return None
    (length, predicate, is_left_if_false, exit_label), (place, goes_on, end_label) = start, end
    count = next(n for n, line in enumerate(inside) if branch_of(line))
    tests = [found for line in inside[:count] if (found := _TEST.match(line))]
    moves = [line for line in inside[:count] if _MOVE.match(line)]
    body = inside[length:place]
    is_simple = len(tests) == 1 and len(moves) == count - 1 and length <= place
    if not is_simple or tests[0][3] != predicate or uses_of(predicate, loop.lines) != 2:
        return None
    if end_label in labels or uses_of(re.escape(loop.label), inside) != 1:
        return None
    if moves and not _are_for_exit(moves, tests[0], body, labels):
        return None
    return _Exits(tests[0], is_left_if_false, moves, exit_label, body, goes_on, end_label)


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


def _merged(loop: Loop, exits: _Exits, number: int) -> list[str]:
    """Return a function with a loop that ends by one branch."""
    test, last, left = (f"$KD_{name}{number}" for name in ("test", "last", "left"))
    relation, kind, predicate, one, other = exits.test.groups()
    stays = relation if exits.is_left_if_false else opposite(relation, kind)
    body, goes_on = _left_if_true(exits, loop.lines)
    ends = f"!{goes_on}".removeprefix("!!")
    written = [
        exits.test[0],
        f"\t@{'!' * exits.is_left_if_false}{predicate} bra {last};",
        f"{loop.label}:",
        *body,
        f"\tsetp.{stays}.and.{kind} {predicate}, {one}, {other}, {goes_on};",
        f"\t@{predicate} bra {loop.label};",
        f"\t@{ends} bra {exits.end or left};",
        f"{last}:",
        *exits.moves,
        f"\tbra.uni {exits.exit};",
        f"{left}:",
    ]
    return loop.entered_at(test, written)


def _left_if_true(exits: _Exits, lines: list[str]) -> tuple[list[str], str]:
    """Return the body of a loop, and its other predicate, which is true where the loop ends.

    Of a predicate that is true in each other turn ptxas (seen with 13.0) computes the opposite too.
    """
    found = [(n, c) for n, line in enumerate(exits.body) if (c := _COMPARISON.match(line))]
    made = [(n, c) for n, c in found if c[5] == exits.goes_on]
    if len(made) != 1 or uses_of(exits.goes_on, lines) != 2:
        return exits.body, exits.goes_on
    ((place, comparison),) = made
    name, relation, kind, operands = comparison.group(1, 2, 3, 4)
    line = f"{name}.{opposite(relation, kind)}.{kind}{operands}"
    return [*exits.body[:place], line, *exits.body[place + 1 :]], f"!{exits.goes_on}"


# A kernel of three axes begins with ``if 0 < x < width - 1 and 0 < y < height - 1 and ...``. LLVM
# branches for x, and then reads the special registers for the other axes. So the latency of these
# is waited for twice. NVVM makes one branch: what is between the branches is only arithmetic.

#: Arithmetic between two branches that is also done by threads that leave at the first one.
_MOST_BETWEEN = 32
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
        elif not _PURE.match(line) or VOLATILE.search(line) or place - first > _MOST_BETWEEN:
            one = None
