"""Compute a linear congruential generator step by step, with one multiplier.

LLVM multiplies constants in its selection of instructions: of ``y = a * x + c`` and ``z = a * y +
c`` it makes ``z = a * a * x + (a * c + c)``. In an unrolled loop each number is then computed from
the first one, with its own multiplier. An instruction of a GPU has room for one constant of 32
bits. So the multipliers need registers, and ptxas (seen with 13.0) loads them in each turn. Here
such a number is computed from the one before it again.

References
----------
D. H. Lehmer, "Mathematical Methods in Large-Scale Computing Units", Annals of the Computation
Laboratory of Harvard University 26 (1951).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import LABEL, on_functions, results_of

__all__ = ["step_through_chains"]

_WIDTH = 2**32
_AFFINE = re.compile(r"^(\s*)mad\.lo\.s32(\s+)(%r\d+), (%r\d+), (-?\d+), (-?\d+);")


class _Affine(NamedTuple):
    """``result = source * multiplier + addend``, modulo 2**32."""

    result: str
    source: str
    multiplier: int
    addend: int


@on_functions("mad.lo.s32")
def step_through_chains(lines: list[str], report: Report) -> list[str]:
    """Return a module in which such numbers are computed from the ones before them.

    Examples
    --------
    >>> print(step_through_chains('''mad.lo.s32 %r2, %r1, 5, 7;
    ... mad.lo.s32 %r3, %r1, 25, 42;'''))
    mad.lo.s32 %r2, %r1, 5, 7;
    mad.lo.s32 %r3, %r2, 5, 7;
    """
    written: list[str] = []
    known: list[_Affine] = []
    for line in lines:
        if LABEL.match(line):
            known.clear()
        found, new = _AFFINE.match(line), None
        if found is not None:
            space, gap, result, source, multiplier, addend = found.groups()
            new = _Affine(result, source, int(multiplier), int(addend))
            step = _step(known, new)
            if step is not None:
                line = f"{space}mad.lo.s32{gap}{result}, {step.source}, "
                line += f"{step.multiplier}, {step.addend};"
                report("number", "computed from the one before")
        changed = results_of(line)
        known = [k for k in known if k.result not in changed and k.source not in changed]
        if new is not None and new.result != new.source:
            known.append(new)
        written.append(line)
    return written


def _step(known: list[_Affine], new: _Affine) -> _Affine | None:
    """Return the same number, computed with a known multiplier from the last one possible."""
    multipliers = {each.multiplier for each in known}
    for each in reversed(known):
        if each.source == new.source and each.multiplier % 2:
            factor = _signed(new.multiplier * pow(each.multiplier, -1, _WIDTH))
            if factor in multipliers:
                addend = _signed(new.addend - factor * each.addend)
                return _Affine(new.result, each.result, factor, addend)
    return None


def _signed(number: int) -> int:
    return (number + _WIDTH // 2) % _WIDTH - _WIDTH // 2
