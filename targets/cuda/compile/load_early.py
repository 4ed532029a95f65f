"""Load what is known before a division or a square root before it, not after it.

ptxas (seen with 13.0) makes branches of a division and of a square root, and moves no load to
before a branch. LLVM keeps loads where the source has them. So the memory is waited for again after
each of these operations.

References
----------
PTX ISA, sections "Floating-Point Instructions: div, sqrt" and "Data Movement and Conversion
Instructions: ld.global.nc".
"""

from __future__ import annotations

import re
from collections import Counter

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import LABEL, branch_of, on_functions, results_of

__all__ = ["load_early"]

#: Loads that are moved in a block; each of them needs a register for longer.
_MOST = 8
#: What ptxas makes branches of.
_BRANCHING = re.compile(r"^\s*(?:(?:div|sqrt|rcp)\.rn\.f(?:32|64)|(?:div|rem)\.[su]64)\s")
_LOAD = re.compile(
    r"^\s*ld\.global(\.nc)?(?:\.v[248])?\.[bfsu]\d+\s+[^@]*, \[(%\w+)(?:\+-?\d+)?\];"
)
#: What computes an address.
_PURE = re.compile(
    r"^\s*(?:ld\.param\.\w+|(?:add|sub|mul|mad|shl|and|or|neg|cvt|mov)\.(?![\w.]*\bf\d)[\w.]+)"
    r"\s+%\w+, [^;]+;$"
)
#: What may change memory, let another thread change it, or show what another thread has changed.
_WRITES = re.compile(
    r"^\s*(?:@!?%\w+ )?(?:st|red|atom|bar|barrier|fence|membar|call|cp|ld\.(?:acquire|volatile))\b"
    r"|asm|[{}]"
)
_REGISTER = re.compile(r"%\w+")


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
    if not any(map(_BRANCHING.match, lines)):
        return lines
    writes = Counter(name for line in lines for name in results_of(line))
    written: list[str] = []
    block: list[str] = []
    for line in lines:
        block.append(line)
        if branch_of(line) or LABEL.match(line):
            written += _of_block(block, writes, report)
            block = []
    return written + _of_block(block, writes, report)


def _of_block(block: list[str], writes: Counter[str], report: Report) -> list[str]:
    first = next((n for n, line in enumerate(block) if _BRANCHING.match(line)), len(block))
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
        operands = set(_REGISTER.findall(line)) - set(results)
        for n in range(first, at):
            if operands & set(results_of(block[n])):
                if any(writes[name] != 1 for name in results_of(block[n])):
                    return None
                waiting += [n] if n not in needed else []
    return needed
