"""Let ptxas unroll the loop over what remains of a loop that LLVM unrolled by eight.

LLVM writes a pragma that keeps ptxas from unrolling it, because it has at most seven turns. But
each turn that loads waits for memory. Eight coefficients of a polynomial take less time than the
four that remain of twelve. Such a loop is unrolled by four, then by two (seen with ptxas 13.0).

References
----------
PTX ISA, section "Pragma Strings: nounroll".
"""

from __future__ import annotations

import re

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import innermost_loops, on_functions, results_of

__all__ = ["unroll_remainders"]

_PRAGMA = re.compile(r'^\s*\.pragma "nounroll";$')
_COUNT = re.compile(r"^\s*and\.b64\s+(%rd\d+), %rd\d+, 7;")
_STEP = re.compile(r"^\s*add\.s64\s+(%rd\d+), \1, -1;")
_LOAD = re.compile(r"^\s*ld\.(?!param)")
#: What keeps the order of accesses to memory.
_ORDERED = re.compile(r"^\s*(?:@!?%\w+ )?(?:st|red|atom|bar|barrier|fence|membar|call|cp)\b|asm")
#: Lines of a loop that is unrolled.
_MOST_LINES = 32


@on_functions("nounroll")
def unroll_remainders(lines: list[str], report: Report) -> list[str]:
    """Return a module without the pragma in such loops.

    Examples
    --------
    >>> loop = '''.entry e()
    ... {
    ... and.b64 %rd1, %rd4, 7;
    ... $L1:
    ... .pragma "nounroll";
    ... ld.global.b32 %r1, [%rd2];
    ... add.s64 %rd1, %rd1, -1;
    ... setp.ne.b64 %p1, %rd1, 0;
    ... @%p1 bra $L1;
    ... ret;
    ... }'''
    >>> "pragma" in unroll_remainders(loop), "pragma" in unroll_remainders(loop.replace("7", "3"))
    (False, True)
    """
    counts = {found[1] for line in lines if (found := _COUNT.match(line))}
    removed = set()
    for first, last in innermost_loops(lines, _MOST_LINES) if counts else ():
        body = lines[first : last + 1]
        pragmas = [first + n for n, line in enumerate(body) if _PRAGMA.match(line)]
        steps = {found[1] for line in body if (found := _STEP.match(line))} & counts
        is_ordered = any(map(_ORDERED.search, body))
        if not pragmas or not any(map(_LOAD.match, body)) or is_ordered:
            continue
        if any(_is_counter(step, lines, body) for step in steps):
            removed.update(pragmas)
    report("loop over a remainder", "unrolled by ptxas", len(removed))
    return [line for number, line in enumerate(lines) if number not in removed]


def _is_counter(register: str, lines: list[str], body: list[str]) -> bool:
    """Return whether a register counts a remainder down to 0, and has no other values."""
    end = re.compile(rf"^\s*setp\.ne\.b64\s+%p\d+, {register}, 0;")
    writes = sum(register in results_of(line) for line in lines)
    return writes == 2 and any(map(end.match, body))
