"""Compute a division or a square root right before its result is used.

ptxas (seen with 13.0) makes branches of a division and of a square root, and moves no arithmetic
across them. LLVM keeps them where the source has them. What is computed between such an operation
and the use of its result may as well be before it. Then it is in one block with what the operands
are computed from, and one hides the latency of the other. An example is the method of Box and
Muller: the root of a logarithm is multiplied by a cosine.

References
----------
PTX ISA, section "Floating-Point Instructions: div, sqrt, rcp". Briggs and Cooper, "Effective
Partial Redundancy Elimination", 1994, section 3, for code that moves forward to its uses.
"""

from __future__ import annotations

import re

from kerneldsl.contract import Report
from targets.cuda.compile.addresses.function import Function, read_function
from targets.cuda.compile.ptx_lines import on_functions

__all__ = ["divide_late"]

_BRANCHING = re.compile(r"(?:div|sqrt|rcp)\.rn\.f(?:32|64)")
_REGISTER = re.compile(r"%\w+")
_ARITHMETIC = re.compile(r"(?:add|sub|mul|fma|mad)\.[\w.]*f(?:32|64)")
#: Operations that are computed before a division then. Fewer do not hide its latency.
_LEAST = 4


@on_functions()
def divide_late(lines: list[str], report: Report) -> list[str]:
    """Return a module with such operations before the first uses of their results.

    Examples
    --------
    >>> print(divide_late('''.entry e()
    ... {
    ... sqrt.rn.f32 %r2, %r1;
    ... add.f32 %r4, %r3, %r3;
    ... mul.f32 %r5, %r4, %r3;
    ... mul.f32 %r6, %r5, %r3;
    ... mul.f32 %r7, %r6, %r3;
    ... mul.f32 %r8, %r2, %r7;
    ... ret;
    ... }'''))
    .entry e()
    {
    add.f32 %r4, %r3, %r3;
    mul.f32 %r5, %r4, %r3;
    mul.f32 %r6, %r5, %r3;
    mul.f32 %r7, %r6, %r3;
    sqrt.rn.f32 %r2, %r1;
    mul.f32 %r8, %r2, %r7;
    ret;
    }
    """
    if not any(map(_BRANCHING.search, lines)):
        return lines
    function = read_function(lines)
    if function is None:
        return lines
    uses = _uses(function)
    moved: dict[int, list[int]] = {}
    count = 0
    #: Where a line that has been moved is.
    places: dict[int, tuple[int, int]] = {}
    for home in reversed(list(function.in_order())):
        for each in reversed(function.blocks[home].instructions):
            if each.predicate or not _BRANCHING.fullmatch(each.opcode):
                continue
            names = _REGISTER.findall(" ".join(each.operands))
            if any(function.writes[name] > 1 for name in names) or each.operands[0] not in uses:
                continue
            found = [places.get(line, (block, line)) for block, line in uses[each.operands[0]]]
            block, line = _place(function, home, found)
            if _passed(function, home, each.line, block, line) < _LEAST:
                continue
            moved.setdefault(line, []).insert(0, each.line)
            places[each.line] = block, line
            count += 1
    report("division or root", "computed right before its use", count)
    written: list[str] = []
    for number, text in enumerate(lines):
        written += (lines[each] for each in moved.get(number, ()))
        if number not in places:
            written.append(text)
    return written


def _passed(function: Function, home: int, line: int, block: int, other: int) -> int:
    """Return how many operations are after a line and before another, in the blocks of these."""
    after = [each for each in function.blocks[home].instructions if each.line > line]
    before = [each for each in function.blocks[block].instructions if each.line < other]
    passed = set(after) & set(before) if home == block else {*after, *before}
    return sum(_ARITHMETIC.match(each.opcode) is not None for each in passed)


def _uses(function: Function) -> dict[str, list[tuple[int, int]]]:
    """Return the blocks and lines that read registers, of blocks that are reached."""
    uses: dict[str, list[tuple[int, int]]] = {}
    for block in function.in_order():
        for each in function.blocks[block].instructions:
            read = set(_REGISTER.findall(" ".join(each.operands)))
            if each.opcode[0] != "?":
                read -= set(each.results)
            if each.predicate:
                read.add(each.predicate.lstrip("!"))
            for register in read:
                uses.setdefault(register, []).append((block, each.line))
    return uses


def _place(function: Function, home: int, uses: list[tuple[int, int]]) -> tuple[int, int]:
    """Return the latest block, and the line in it, that is before all uses and in no more loops."""
    blocks = function.blocks
    common = uses[0][0]
    for block, _ in uses[1:]:
        while not function.dominates(common, block):
            common = blocks[common].dominator
    while blocks[common].depth != blocks[home].depth:
        common = blocks[common].dominator
    inside = [line for block, line in uses if block == common]
    return common, min(inside, default=blocks[common].last)
