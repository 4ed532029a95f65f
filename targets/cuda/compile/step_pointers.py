"""Step each of the addresses that a loop computes from an address that it steps.

LLVM has one register for the rows that several columns of an array are read of, and adds the
columns in each iteration. That is an addition more than with an address for each column, and each
load waits for it. ptxas (seen with 13.0) keeps it so. Sums of an offset that is stepped, and of
pointers, stay: pointers take no registers if they are parameters.

References
----------
Muchnick, "Advanced Compiler Design and Implementation", 1997, section 14.1.2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import (
    LABEL,
    REGISTER,
    Loop,
    branch_of,
    count_registers,
    count_writes,
    declare,
    innermost_loops,
    on_functions,
    results_of,
)

__all__ = ["step_pointers"]

_SUM = re.compile(r"^\s*add\.s64\s+(%rd\d+), (%\w+), (%?-?\w+);$")
_OFFSET = re.compile(r"^\s*(?:mul\.wide\.[us]32|shl\.b64)\s+(%\w+),")
_MOST_LINES = 400
#: Addresses in place of one; each takes two registers.
_MOST = 3


class _Stepped(NamedTuple):
    """An address that a loop steps, and what it adds to it."""

    first: int
    last: int
    register: str
    #: Line of the step, and the lines of the sums with their results and addends.
    step: int
    by: str
    sums: dict[int, tuple[str, str]]


@on_functions("ld.global")
def step_pointers(lines: list[str], report: Report) -> list[str]:
    """Return a module in which loops of one block step such addresses.

    Examples
    --------
    >>> print(step_pointers('''.entry e()
    ... {
    ... mul.wide.u32 %rd2, %r3, 4;
    ... mul.wide.u32 %rd3, %r4, 4;
    ... $L1:
    ... add.s64 %rd4, %rd1, %rd2;
    ... ld.global.b32 %r1, [%rd4];
    ... add.s64 %rd5, %rd1, %rd3;
    ... ld.global.b32 %r2, [%rd5];
    ... add.s64 %rd1, %rd1, 64;
    ... @%p1 bra $L1;
    ... ret;
    ... }''').replace(chr(9), ""))
    .entry e()
    {
    .reg .b64 %kd_step0;
    .reg .b64 %kd_step1;
    mul.wide.u32 %rd2, %r3, 4;
    mul.wide.u32 %rd3, %r4, 4;
    $KD_step0:
    add.s64 %kd_step0, %rd1, %rd2;
    add.s64 %kd_step1, %rd1, %rd3;
    $L1:
    ld.global.b32 %r1, [%kd_step0];
    ld.global.b32 %r2, [%kd_step1];
    add.s64 %kd_step0, %kd_step0, 64;
    add.s64 %kd_step1, %kd_step1, 64;
    @%p1 bra $L1;
    ret;
    }
    """
    loops = list(innermost_loops(lines, _MOST_LINES))
    if not loops:
        return lines
    uses = count_registers(lines)
    offsets = {each[1] for line in lines if (each := _OFFSET.match(line))}
    found = [
        stepped
        for first, last in loops
        for stepped in _stepped(lines, first, last, uses)
        if offsets.issuperset(other for _, other in stepped.sums.values())
    ]
    registers: list[str] = []
    for number, stepped in reversed(list(enumerate(found))):  # the places of those before it hold
        lines = _written(lines, stepped, number, registers)
    report("address", "stepped without a common base", len(registers))
    return declare(lines, [f".b64 {each}" for each in registers])


def _stepped(lines: list[str], first: int, last: int, uses: Counter[str]) -> Iterator[_Stepped]:
    """Yield at most one such address of a loop."""
    body = range(first + 1, last)
    if any(LABEL.match(lines[n]) or branch_of(lines[n]) for n in body):
        return
    writes = count_writes(lines[first + 1 : last])
    for place in body:
        found = _SUM.match(lines[place])
        if found is None or found[1] != found[2] or writes[found[1]] != 1 or found[3] in writes:
            continue
        register = found[1]
        sums = {
            n: made for n in range(first + 1, place) if (made := _added(lines[n], register, writes))
        }
        inside = count_registers(lines[first + 1 : last])
        elsewhere = sum(register in results_of(line) for line in lines) - 1
        is_read_by_sums = inside[register] == 2 + len(sums)
        is_read_here = uses[register] == inside[register] + elsewhere
        if (
            not 2 <= len({other for _, other in sums.values()}) <= _MOST
            or not is_read_by_sums
            or not is_read_here
        ):
            continue
        read = count_registers(lines[first + 1 : place])
        if all(read[result] == uses[result] for result, _ in sums.values()):
            yield _Stepped(first, last, register, place, found[3], sums)
            return


def _added(line: str, register: str, writes: Counter[str]) -> tuple[str, str] | None:
    """Return the result of a sum of a register and one that does not change, and the latter."""
    found = _SUM.match(line)
    if found is None or register not in found.groups()[1:] or found[1] == register:
        return None
    other = found[3] if found[2] == register else found[2]
    return (found[1], other) if other.startswith("%") and not writes[other] else None


def _written(lines: list[str], found: _Stepped, number: int, registers: list[str]) -> list[str]:
    loop, step = Loop(lines, found.first, found.last), found.step - found.first - 1
    added = dict.fromkeys(other for _, other in found.sums.values())
    names = {other: f"%kd_step{len(registers) + n}" for n, other in enumerate(added)}
    registers += names.values()
    renamed = {result: names[other] for result, other in found.sums.values()}
    before_step = (n for n in range(found.first + 1, found.step) if n not in found.sums)
    written = [
        *(f"\tadd.s64 \t{name}, {found.register}, {other};" for other, name in names.items()),
        lines[found.first],
        *(REGISTER.sub(lambda each: renamed.get(each[0], each[0]), lines[n]) for n in before_step),
        *(f"\tadd.s64 \t{name}, {name}, {found.by};" for name in names.values()),
        *loop.body[step + 1 :],
    ]
    return loop.entered_at(f"$KD_step{number}", written)
