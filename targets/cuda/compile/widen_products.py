"""Multiply integers of 16 bits in 32 bits.

LLVM computes ``(a * 77 + b * 150) >> 8`` in 16 bits if no more of it are stored, as of pixels. A
GPU has products of 32 bits alone. ptxas (seen with 13.0) extends the sign of each product that
another one is added to. The low 16 bits of a product need only those of its operands. If a byte of
them is stored, it is shifted in 32 bits, too: ptxas clears the high half before a shift of 16 bits.

References
----------
PTX ISA, sections "Integer Arithmetic Instructions: mul, mad".
"""

from __future__ import annotations

import re
from collections import Counter

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import declare, on_functions, results_of

__all__ = ["widen_products"]

_PRODUCT = re.compile(r"^\s*(mul|mad)\.lo\.s16\s+(%rs\d+), ([^;]+);$")
#: A shift that gives the same lowest eight bits whatever the high half is.
_SHIFT = re.compile(r"^\s*shr\.[su]16\s+(%rs\d+), (%rs\d+), ([0-8]);$")
_BYTE_STORE = r"^\s*(?:@!?%p\d+ )?st\.(?:\w+\.)*[bsu]8\s+\[[^\]]*\], {};$"


@on_functions(".lo.s16")
def widen_products(lines: list[str], report: Report) -> list[str]:
    """Return a module without products of 16 bits.

    Examples
    --------
    >>> print(widen_products('''{
    ... mul.lo.s16 %rs2, %rs1, 77;
    ... mad.lo.s16 %rs3, %rs1, 29, %rs2;
    ... }''').replace(chr(9), ""))
    {
    .reg .b32 %kd_wide<4>;
    cvt.u32.u16 %kd_wide0, %rs1;
    mul.lo.s32 %kd_wide1, %kd_wide0, 77;
    cvt.u16.u32 %rs2, %kd_wide1;
    cvt.u32.u16 %kd_wide2, %rs1;
    mad.lo.s32 %kd_wide3, %kd_wide2, 29, %kd_wide1;
    cvt.u16.u32 %rs3, %kd_wide3;
    }
    """
    writes = Counter(name for line in lines for name in results_of(line))
    #: Registers of 32 bits with the same low halves.
    wide: dict[str, str] = {}
    written: list[str] = []
    count = products = 0
    for line in lines:
        shift = _SHIFT.match(line)
        if shift and shift[2] in wide and _are_bytes(shift[1], line, lines):
            written.append(f"\tshr.u32 %kd_wide{count}, {wide[shift[2]]}, {shift[3]};")
            written.append(f"\tcvt.u16.u32 {shift[1]}, %kd_wide{count};")
            count += 1
            continue
        found = _PRODUCT.match(line)
        if found is None:
            written.append(line)
            continue
        operation, result, rest = found.groups()
        operands = rest.split(", ")
        for place, each in enumerate(operands):
            if each.startswith("%") and each not in wide:
                operands[place] = f"%kd_wide{count}"
                written.append(f"\tcvt.u32.u16 %kd_wide{count}, {each};")
                count += 1
            else:
                operands[place] = wide.get(each, each)
        name = f"%kd_wide{count}"
        count, products = count + 1, products + 1
        written.append(f"\t{operation}.lo.s32 {name}, {', '.join(operands)};")
        written.append(f"\tcvt.u16.u32 {result}, {name};")
        if writes[result] == 1:
            wide[result] = name
    report("product", "of 16 bits computed in 32", products)
    return declare(written, [f".b32 %kd_wide<{count}>"]) if count else lines


def _are_bytes(register: str, made: str, lines: list[str]) -> bool:
    """Return whether all that reads a register stores its lowest byte."""
    store, name = re.compile(_BYTE_STORE.format(register)), re.compile(rf"{register}\b")
    return all(line == made or store.match(line) for line in lines if name.search(line))
