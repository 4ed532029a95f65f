"""Multiply by a bit where LLVM chooses by it: a product is computed beside logic, not after it.

LLVM writes ``(x & 1) * c``, as in the division of polynomials of a checksum, as a choice between a
constant and 0. A GPU has choices, comparisons, shifts and logic in one pipeline, and products in
another one. What such code does is mostly of the first pipeline, in which the choice is one more.

References
----------
CUDA Programming Guide, section "Arithmetic Instructions": "Throughput of Native Arithmetic
Instructions".
"""

from __future__ import annotations

import re
from collections import Counter

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import on_functions

__all__ = ["multiply_by_bits"]

_CHOICE = re.compile(
    r"^(?P<bit>\s*and\.b32\s+(?P<register>%r\d+), %r\d+, 1;\n)"
    r"\s*setp\.ne\.b32\s+(?P<predicate>%p\d+), (?P=register), 0;\n"
    r"(?P<space>\s*)selp\.b32(?P<result>\s+%r\d+), (?P<factor>-?\d+), 0, (?P=predicate);$",
    re.MULTILINE,
)


@on_functions("selp.b32")
def multiply_by_bits(lines: list[str], report: Report) -> list[str]:
    """Return a module with products in place of choices that nothing else depends on.

    Examples
    --------
    >>> print(multiply_by_bits('''and.b32 %r2, %r1, 1;
    ... setp.ne.b32 %p1, %r2, 0;
    ... selp.b32 %r3, -306674912, 0, %p1;'''))
    and.b32 %r2, %r1, 1;
    mul.lo.s32 %r3, %r2, -306674912;
    """
    text = "\n".join(lines)
    uses = Counter(re.findall(r"%p\d+", text))

    def product(found: re.Match[str]) -> str:
        if uses[found["predicate"]] > 2:
            return found[0]
        report("choice", "computed by a multiplication")
        space, result, register = found.group("space", "result", "register")
        return f"{found['bit']}{space}mul.lo.s32{result}, {register}, {found['factor']};"

    return _CHOICE.sub(product, text).split("\n")
