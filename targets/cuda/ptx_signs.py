"""Negation and magnitude of 16 bits, written so that ptxas lets them overflow.

``neg.s16`` and ``abs.s16`` of -32768 are -32768, as all of PTX's integer arithmetic wraps. ptxas
(seen with 13.0) computes them in 32 bits and takes the result for a number of 16 without cutting it
off, so that what is made of it in 64 bits is 32768. Of what is written here it cuts it off.

References
----------
PTX ISA, section "Integer Arithmetic Instructions".
"""

from __future__ import annotations

import re

__all__ = ["let_signs_wrap"]

_SIGN = re.compile(r"^(\s*)(neg|abs)\.s16(\s+)(%\w+), (%\w+);", re.M)


def let_signs_wrap(ptx: str) -> str:
    """Write both operations of a PTX module otherwise.

    Examples
    --------
    >>> let_signs_wrap("neg.s16 %rs2, %rs1;")
    'sub.u16 %rs2, 0, %rs1;'
    """
    return _SIGN.sub(_written_otherwise, ptx)


def _written_otherwise(found: re.Match[str]) -> str:
    indent, operation, gap, result, value = found.groups()
    if operation == "neg":
        return f"{indent}sub.u16{gap}{result}, 0, {value};"
    return (
        f"{indent}{{ .reg .b32 %kd_wide; cvt.s32.s16 %kd_wide, {value}; "
        f"abs.s32 %kd_wide, %kd_wide; cvt.u16.u32 {result}, %kd_wide; }}"
    )
