"""PTX written so that the driver's assembler, ptxas, does what it says.

Each function writes otherwise what ptxas was found to get wrong; docs/upstream.md has the smallest
inputs that show it.

References
----------
PTX ISA, sections "Integer Arithmetic Instructions", "vote.sync", "match.sync", "redux.sync",
"activemask" and "bar.warp.sync".
"""

from __future__ import annotations

import re
from collections import Counter

from targets.cuda.compile.ptx_text import read_header

__all__ = ["cut_bytes_out", "let_signs_wrap", "rejoin_lanes", "work_around_ptxas"]

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

#: An exchange of a warp by a mask in a register: all before that register, and the register.
_EXCHANGE = re.compile(
    r"^\s*(?:vote\.sync|match\.a(?:ny|ll)\.sync|redux\.sync)[\w.]*\s[^;]*, (%\w+);$", re.M
)
_NUMBER = re.compile(r"^\s*mov\.[bus]32\s+(%\w+), -?\w+;$", re.M)
#: What an instruction writes: a register, or several.
_WRITTEN = re.compile(r"^\s*(?:@!?%\w+ )?[a-z][\w.:]*\s+(\{[^}]*\}|%[\w|%]+)", re.M)
_ACTIVE_LANES = re.compile(r"^\s*activemask\.b32\s+(%\w+);$")
#: The first architecture whose lanes go by themselves.
_APART_SINCE = 70
_ACTIVE_LANES_SINCE = (6, 2)


def work_around_ptxas(ptx: str) -> str:
    """Write a module so that ptxas does what it says."""
    return rejoin_lanes(cut_bytes_out(let_signs_wrap(ptx)))


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


def rejoin_lanes(ptx: str) -> str:
    """Bring the lanes together that have reached an exchange with a mask that is no constant.

    Lanes of several masks, as ``match.any.sync`` gives them, do it one mask after the other, and
    ptxas (seen with 13.0, for sm_80 and later) brings them together only where the result is used.
    It takes them for together in any case, so that loops of such a warp count once for each of its
    parts in the registers that all lanes share. Lanes whose mask was just asked for have one mask.

    Examples
    --------
    >>> print(rejoin_lanes(".version 8.0\\n.target sm_90\\nredux.sync.add.s32 %r2, %r1, %r3;"))
    .version 8.0
    .target sm_90
    { .reg .b32 %kd_lanes; activemask.b32 %kd_lanes;
    redux.sync.add.s32 %r2, %r1, %r3;
    bar.warp.sync %kd_lanes; }
    """
    header = read_header(ptx)
    if _EXCHANGE.search(ptx) is None or header is None or header[0] < _ACTIVE_LANES_SINCE:
        return ptx
    if int("".join(filter(str.isdigit, header[1]))) < _APART_SINCE:
        return ptx
    written = _WRITTEN.findall(ptx)
    writes = Counter(register for each in written for register in re.findall(r"%\w+", each))
    numbers = {register for register in _NUMBER.findall(ptx) if writes[register] == 1}
    lines = []
    just_active = set[str]()
    for line in ptx.split("\n"):
        exchange = _EXCHANGE.match(line)
        if exchange is not None and exchange[1] not in just_active | numbers:
            lines += [
                "{ .reg .b32 %kd_lanes; activemask.b32 %kd_lanes;",
                line,
                "bar.warp.sync %kd_lanes; }",
            ]
            continue
        if (active := _ACTIVE_LANES.match(line)) is not None:
            just_active.add(active[1])
        elif line.endswith(":") or "bra" in line:  # lanes may come and go
            just_active.clear()
        lines.append(line)
    return "\n".join(lines)


def _written_otherwise(found: re.Match[str]) -> str:
    indent, operation, gap, result, value = found.groups()
    if operation == "neg":
        return f"{indent}sub.u16{gap}{result}, 0, {value};"
    return (
        f"{indent}{{ .reg .b32 %kd_wide; cvt.s32.s16 %kd_wide, {value}; "
        f"abs.s32 %kd_wide, %kd_wide; cvt.u16.u32 {result}, %kd_wide; }}"
    )
