"""Move instructions past divisions and square roots, which ptxas compiles to branches.

ptxas (seen with 13.0) moves no arithmetic and no load across these branches. LLVM keeps the
operations where the source has them.

References
----------
PTX ISA, sections "Floating-Point Instructions: div, sqrt, rcp" and "Data Movement and Conversion
Instructions: ld.global.nc". Briggs and Cooper, "Effective Partial Redundancy Elimination", 1994,
section 3, for code that moves forward to its uses.
"""

from __future__ import annotations

import re
from collections import Counter

from kerneldsl.contract import Report
from targets.cuda.compile.addresses.function import Function, read_function
from targets.cuda.compile.ptx_lines import (
    count_writes,
    on_functions,
    registers_of,
    results_of,
    split_blocks,
)

__all__ = ["divide_late", "load_early"]

# Instructions between such an operation and the use of its result may be moved before it. Then they
# are in one block with the computation of the operands, and one hides the latency of the other. An
# example is the method of Box and Muller: the root of a logarithm is multiplied by a cosine.

_BRANCHING = re.compile(r"(?:div|sqrt|rcp)\.rn\.f(?:32|64)")
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
    #: Block and line to which a line has been moved.
    places: dict[int, tuple[int, int]] = {}
    for home in reversed(list(function.in_order())):
        for each in reversed(function.blocks[home].instructions):
            if each.predicate or not _BRANCHING.fullmatch(each.opcode):
                continue
            names = (*each.results, *each.reads)
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
            for register in set(each.reads):
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


# A load after such an operation waits for the memory again. What is known before is loaded before.

#: Loads that are moved in a block; each of them needs a register for longer.
_MOST = 8
#: Instructions that ptxas expands to branches.
_SLOW = re.compile(r"^\s*(?:(?:div|sqrt|rcp)\.rn\.f(?:32|64)|(?:div|rem)\.[su]64)\s")
_LOAD = re.compile(
    r"^\s*ld\.global(\.nc)?(?:\.v[248])?\.[bfsu]\d+\s+[^@]*, \[(%\w+)(?:\+-?\d+)?\];"
)
#: Instructions that compute addresses.
_PURE = re.compile(
    r"^\s*(?:ld\.param\.\w+|(?:add|sub|mul|mad|shl|and|or|neg|cvt|mov)\.(?![\w.]*\bf\d)[\w.]+)"
    r"\s+%\w+, [^;]+;$"
)
#: Instructions that may change memory, let another thread change it, or make changes of another
#: thread visible.
_WRITES = re.compile(
    r"^\s*(?:@!?%\w+ )?(?:st|red|atom|bar|barrier|fence|membar|call|cp|ld\.(?:acquire|volatile))\b"
    r"|asm|[{}]"
)


@on_functions("ld.global")
def load_early(lines: list[str], report: Report) -> list[str]:
    """Return a module with such loads before the first of these operations in their block.

    Examples
    --------
    >>> print(load_early('''.entry e()
    ... {
    ... sqrt.rn.f32 %r2, %r1;
    ... add.s64 %rd2, %rd1, 4;
    ... ld.global.nc.b32 %r3, [%rd2];
    ... ret;
    ... }'''))
    .entry e()
    {
    add.s64 %rd2, %rd1, 4;
    ld.global.nc.b32 %r3, [%rd2];
    sqrt.rn.f32 %r2, %r1;
    ret;
    }
    """
    if not any(map(_SLOW.match, lines)):
        return lines
    writes = count_writes(lines)
    return [line for block in split_blocks(lines) for line in _of_block(block, writes, report)]


def _of_block(block: list[str], writes: Counter[str], report: Report) -> list[str]:
    first = next((n for n, line in enumerate(block) if _SLOW.match(line)), len(block))
    moved: set[int] = set()
    count = 0
    for place in range(first, len(block)):
        load = _LOAD.match(block[place])
        if load is None or count == _MOST:
            continue
        if any(_WRITES.search(line) for line in block[first:place]) and not load[1]:
            break
        needed = _needed(block, first, place, writes)
        if needed is not None:
            moved |= needed
            count += 1
    report("load", "moved before a division or a square root", count)
    ahead = [block[n] for n in sorted(moved)]
    rest = [line for n, line in enumerate(block[first:], first) if n not in moved]
    return [*block[:first], *ahead, *rest]


def _needed(block: list[str], first: int, place: int, writes: Counter[str]) -> set[int] | None:
    """Return the lines from one on that a load needs, and the load; ``None`` if it cannot move."""
    needed: set[int] = set()
    waiting = [place]
    while waiting:
        at = waiting.pop()
        line, results = block[at], results_of(block[at])
        is_movable = at == place or _PURE.match(line) is not None
        if not is_movable or any(writes[name] != 1 for name in results):
            return None
        needed.add(at)
        operands = set(registers_of(line)) - set(results)
        for n in range(first, at):
            if operands & set(results_of(block[n])):
                if any(writes[name] != 1 for name in results_of(block[n])):
                    return None
                waiting += [n] if n not in needed else []
    return needed
