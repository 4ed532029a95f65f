"""Reading and editing of the PTX that LLVM writes.

References
----------
PTX ISA, sections "PTX Module Directives" and "Integer Arithmetic Instructions".
"""

from __future__ import annotations

import re

__all__ = ["count_anew", "let_signs_wrap", "read_header", "shared_bytes"]

_HEADER = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)\s+\.target\s+(\w+)", re.MULTILINE)
#: LLVM counts calls, and Numba functions, since the process began.
_CALL = re.compile(r"(?<=// callseq )(\d+)|(?<=\bprototype_)(\d+)")
_VERSION = re.compile(r"(?<=B)\d+v(\d+)(?=B)")
#: An array in shared memory whose size is known: its alignment, bits of an element and extent.
_SHARED = re.compile(r"\.shared\s+\.align\s+(\d+)\s+\.b(\d+)\s+[\w$]+(?:\[(\d+)\])?;")
_SIGN = re.compile(r"^(\s*)(neg|abs)\.s16(\s+)(%\w+), (%\w+);", re.M)


def let_signs_wrap(ptx: str) -> str:
    """Write negation and magnitude of 16 bits so that ptxas lets them overflow.

    ``neg.s16`` and ``abs.s16`` of -32768 are -32768, as all of PTX's integer arithmetic wraps.
    ptxas (seen with 13.0) computes them in 32 bits and takes the result for a number of 16 without
    cutting it off, so that what is made of it in 64 bits is 32768. Of what is written here it cuts
    it off.

    Examples
    --------
    >>> let_signs_wrap("neg.s16 %rs2, %rs1;")
    'sub.u16 %rs2, 0, %rs1;'
    """
    return _SIGN.sub(_written_otherwise, ptx)


def shared_bytes(ptx: str) -> int:
    """Return how many bytes of static shared memory PTX declares.

    Examples
    --------
    >>> shared_bytes(".shared .align 16 .b8 a[20]; .shared .align 16 .b8 b[4];")
    36
    """
    total = 0
    for align, bits, extent in _SHARED.findall(ptx):
        total = -(-total // int(align)) * int(align) + int(bits) // 8 * int(extent or 1)
    return total


def _written_otherwise(found: re.Match[str]) -> str:
    indent, operation, gap, result, value = found.groups()
    if operation == "neg":
        return f"{indent}sub.u16{gap}{result}, 0, {value};"
    return (
        f"{indent}{{ .reg .b32 %kd_wide; cvt.s32.s16 %kd_wide, {value}; "
        f"abs.s32 %kd_wide, %kd_wide; cvt.u16.u32 {result}, %kd_wide; }}"
    )


def read_header(ptx: str) -> tuple[tuple[int, int], str] | None:
    """Return a module's version of PTX and its target; ``None`` where they are not there.

    Examples
    --------
    >>> read_header(".version 8.4\\n.target sm_90a\\n")
    ((8, 4), 'sm_90a')
    """
    found = _HEADER.search(ptx)
    return ((int(found[1]), int(found[2])), found[3]) if found is not None else None


def count_anew(text: str) -> str:
    """Count calls and functions from 0, so that a kernel's PTX and LLVM IR are always the same."""
    return _renumber(_VERSION, _renumber(_CALL, text))


def _renumber(counter: re.Pattern[str], text: str) -> str:
    numbers: dict[str, str] = {}
    return counter.sub(lambda found: numbers.setdefault(found[0], str(len(numbers))), text)
