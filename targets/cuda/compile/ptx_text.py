"""Reading and editing of the PTX that LLVM writes.

References
----------
PTX ISA, sections "PTX Module Directives" and "Integer Arithmetic Instructions".
"""

from __future__ import annotations

import re

__all__ = ["count_anew", "cut_bytes_out", "let_signs_wrap", "read_header", "shared_bytes"]

_HEADER = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)\s+\.target\s+(\w+)", re.MULTILINE)
#: LLVM counts calls, and Numba functions, since the process began.
_CALL = re.compile(r"(?<=// callseq )(\d+)|(?<=\bprototype_)(\d+)")
_VERSION = re.compile(r"(?<=B)\d+v(\d+)(?=B)")
#: An array in shared memory whose size is known: its alignment, bits of an element and extent.
_SHARED = re.compile(r"\.shared\s+\.align\s+(\d+)\s+\.b(\d+)\s+[\w$]+(?:\[(\d+)\])?;")
#: A store of bytes: all before the address, the address, and a register or some in braces.
_STORE_OF_BYTES = re.compile(r"^(\s*(?:@!?%\w+ )?)(st\.[\w.:]*b8\s+\[[^]]+\], )([^;]+);", re.M)
_FLOATS = r"(?:f16|bf16|f16x2|bf16x2|f32|f64)"
#: An instruction whose result is a float; what `cvt` gives is the first of its types.
_OF_FLOATS = re.compile(
    r"^\s*(?:@!?%\w+ )?"
    rf"(?:cvt(?:\.(?!{_FLOATS}\b)[a-z]+)*\.{_FLOATS}\b|(?!cvt|set|st|ld)[a-z][\w.]*\.{_FLOATS}\b)"
    r"[\w.]*\s+(%\w+)",
    re.M,
)
_MOVE = re.compile(r"^\s*mov\.b(?:16|32|64)\s+(%\w+), (%\w+);", re.M)
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


def cut_bytes_out(ptx: str) -> str:
    """Write stores of the lowest bytes of floats so that ptxas stores them.

    LLVM stores the lowest byte of a wider register as it is. Where an instruction has just computed
    that register as a float, the driver's ptxas (seen with 580.159.04 on an H200) stores the lowest
    byte of its integer part, as if the store converted it. Of what an integer instruction has cut
    out it stores the right byte.

    References
    ----------
    PTX ISA, section "Integer Arithmetic Instructions: bfe".

    Examples
    --------
    >>> cut_bytes_out("cvt.rn.f32.s32 %r2, %r1;\\nst.global.b8 [%rd1], %r3;")
    'cvt.rn.f32.s32 %r2, %r1;\\nst.global.b8 [%rd1], %r3;'
    >>> print(cut_bytes_out("cvt.rn.f32.s32 %r2, %r1;\\nst.global.b8 [%rd1], %r2;"))
    cvt.rn.f32.s32 %r2, %r1;
    { .reg .b32 %kd_byte0; bfe.u32 %kd_byte0, %r2, 0, 8; st.global.b8 [%rd1], %kd_byte0; }
    """
    if _STORE_OF_BYTES.search(ptx) is None:
        return ptx
    floats = set(_OF_FLOATS.findall(ptx))
    moves = _MOVE.findall(ptx)
    while more := {result for result, value in moves if value in floats} - floats:
        floats |= more

    def write(found: re.Match[str]) -> str:
        before, store, values = found.groups()
        cut: list[str] = []
        for value in re.findall(r"%\w+", values):
            if value in floats:
                byte = f"%kd_byte{len(cut)}"
                cut.append(f".reg .b32 {byte}; {_cut_out(byte, value)} ")
                values = re.sub(rf"{value}\b", byte, values)
        return f"{before}{{ {''.join(cut)}{store}{values}; }}" if cut else found[0]

    return _STORE_OF_BYTES.sub(write, ptx)


def _cut_out(byte: str, value: str) -> str:
    """Return instructions that give a register of 32 bits the lowest byte of one of any width."""
    bits = {"%rd": "u64", "%rs": "u16"}.get(value[:3])
    wide = value if bits is None else byte
    converted = "" if bits is None else f"cvt.u32.{bits} {byte}, {value}; "
    return f"{converted}bfe.u32 {byte}, {wide}, 0, 8;"


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
