"""PTX written so that the driver's assembler, ptxas, does what it says.

Each function writes otherwise what ptxas was found to get wrong; docs/upstream.md has the smallest
inputs that show it.

References
----------
PTX ISA, sections "Integer Arithmetic Instructions", "vote.sync", "match.sync" and "redux.sync";
CUDA C++ Programming Guide, section "Warp Vote Functions", on the order of memory.
"""

from __future__ import annotations

import re

from targets.cuda.compile.ptx_lines import registers_of

__all__ = [
    "choose_zeros",
    "cut_bytes_out",
    "keep_guards",
    "let_magnitudes_wrap",
    "let_signs_wrap",
    "multiply_high_and_add",
    "work_around_ptxas",
]

#: A store of bytes: all before the address, the address, and a register or some in braces.
_STORE_OF_BYTES = re.compile(r"^(\s*(?:@!?%\w+ )?)(st\.[\w.:]*b8\s+\[[^]]+\], )([^;]+);", re.M)
_FLOATS = r"(?:f16|bf16|f16x2|bf16x2|f32|f64)"
#: An instruction with a float as its result, for `cvt` the first of its types.
_OF_FLOATS = re.compile(
    r"^\s*(?:@!?%\w+ )?"
    rf"(?:cvt(?:\.(?!{_FLOATS}\b)[a-z]+)*\.{_FLOATS}\b|(?!cvt|set|st|ld)[a-z][\w.]*\.{_FLOATS}\b)"
    r"[\w.]*\s+(%\w+)",
    re.M,
)
_MOVE = re.compile(r"^\s*mov\.b(?:16|32|64)\s+(%\w+), (%\w+);", re.M)
_HIGH_PRODUCT = re.compile(r"\bmul\.hi\.u32(\s+%\w+, [^,;]+, [^,;]+);")
_SIGN = re.compile(r"^(\s*)(neg|abs)\.s16(\s+)(%\w+), (%\w+);", re.M)
_MAGNITUDE = re.compile(r"^(\s*)abs\.(s32|s64)(\s+)(%\w+), (%\w+);", re.M)

_ZERO = re.compile(r"^\s*mov\.b64\s+(%\w+), 0;$")
_BRANCH = re.compile(r"^\s*@(!?)(%\w+) bra\s+(\S+);$")
#: Marks a removed line.
_REMOVED = "\0"


def work_around_ptxas(ptx: str) -> str:
    """Write a module so that ptxas does what it says."""
    for write in (
        let_magnitudes_wrap,
        let_signs_wrap,
        multiply_high_and_add,
        cut_bytes_out,
        choose_zeros,
    ):
        ptx = write(ptx)
    return ptx


def let_magnitudes_wrap(ptx: str) -> str:
    """Write magnitudes of 32 and 64 bits so that ptxas does not take them for nonnegative.

    ``abs.s64`` of -2**63 is -2**63. ptxas (seen with 13.0) decides comparisons of the result with 0
    as if it were never negative. So the quotient of 7 by it, rounded down, is 0 and not -1. It
    decides correctly for the larger of a number and its negative.

    References
    ----------
    PTX ISA, section "Integer Arithmetic Instructions: abs".

    Examples
    --------
    >>> print(let_magnitudes_wrap("abs.s64 %rd2, %rd1;"))
    neg.s64 %rd2, %rd1;
    max.s64 %rd2, %rd1, %rd2;
    >>> print(let_magnitudes_wrap("abs.s64 %rd1, %rd1;"))
    { .reg .s64 %kd_negative; neg.s64 %kd_negative, %rd1; max.s64 %rd1, %rd1, %kd_negative; }
    """
    return _MAGNITUDE.sub(_larger_of_both_signs, ptx) if "abs.s" in ptx else ptx


def _larger_of_both_signs(found: re.Match[str]) -> str:
    indent, kind, gap, result, value = found.groups()
    if result != value:
        negative = f"{indent}neg.{kind}{gap}{result}, {value};"
        return f"{negative}\n{indent}max.{kind}{gap}{result}, {value}, {result};"
    # The result overwrites the value, so its negative needs another register.
    return (
        f"{indent}{{ .reg .{kind} %kd_negative; neg.{kind} %kd_negative, {value}; "
        f"max.{kind} {result}, {value}, %kd_negative; }}"
    )


def let_signs_wrap(ptx: str) -> str:
    """Write negation and magnitude of 16 bits so that ptxas lets them overflow.

    ``neg.s16`` and ``abs.s16`` of -32768 are -32768, as all of PTX's integer arithmetic wraps.
    ptxas (seen with 13.0) computes them in 32 bits, and uses the result as a number of 16 bits
    without cutting it off. Extended to 64 bits it is 32768. It cuts off the result of the
    instructions that are written here.

    Examples
    --------
    >>> let_signs_wrap("neg.s16 %rs2, %rs1;")
    'sub.u16 %rs2, 0, %rs1;'
    """
    return _SIGN.sub(_written_otherwise, ptx) if ".s16" in ptx else ptx


def multiply_high_and_add(ptx: str) -> str:
    """Write the high words of products of 32 bits so that ptxas subtracts from them rightly.

    If a number of 64 bits is subtracted from ``mul.hi.u32``, ptxas (seen with 13.0) adds its
    negative within the product's instruction. It ignores that the negative of a low word of 0
    carries into the high word, so the difference is 2**32 too small. ``mad.hi.u32`` with 0 costs
    the same and is not merged.

    References
    ----------
    PTX ISA, section "Integer Arithmetic Instructions: mad".

    Examples
    --------
    >>> multiply_high_and_add("mul.hi.u32 %r3, %r1, -1431655765;")
    'mad.hi.u32 %r3, %r1, -1431655765, 0;'
    """
    return _HIGH_PRODUCT.sub(r"mad.hi.u32\1, 0;", ptx)


def cut_bytes_out(ptx: str) -> str:
    """Write stores of the lowest bytes of floats so that ptxas stores them.

    LLVM stores the lowest byte of a wider register as it is. If an instruction has just computed
    that register as a float, the driver's ptxas stores the lowest byte of its integer part, as if
    the store converted it (seen with 580.159.04 on an H200). It stores the right byte after an
    integer instruction has extracted it.

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
    if "b8" not in ptx or _STORE_OF_BYTES.search(ptx) is None:
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


def choose_zeros(ptx: str) -> str:
    """Write a zero of 64 bits that a product in a short branch replaces as a choice.

    ptxas makes one instruction with a predicate of such a branch. Just before, it zeroes the two
    registers by ``CS2R``, which takes longer than the product. But ptxas (seen with 13.0, for
    sm_90) waits only for the product. A lane that skips it reads what was in the registers, if
    few warps run. A choice by the condition of the branch takes no longer than a product.

    Examples
    --------
    >>> lines = ["mov.b64 \\t%rd3, 0;", "@%p1 bra \\t$L1;", "mul.lo.s64 \\t%rd3, %rd1, %rd2;"]
    >>> text = choose_zeros("\\t" + "\\n\\t".join(lines) + "\\n$L1:")
    >>> print(text.replace("\\t", " ").splitlines()[0])
     selp.b64  %rd3, 0, -1, %p1;
    """
    lines = ptx.split("\n")
    zeros: dict[str, int] = {}
    for at, line in enumerate(lines):
        zero = _ZERO.match(line) if "mov.b64" in line else None
        branch = _BRANCH.match(line) if "bra" in line else None
        if branch is not None:
            for register, place in zeros.items():
                _choose_zero(lines, register, place, at, branch)
        if zeros:
            for register in set(registers_of(line)).intersection(zeros):
                del zeros[register]
        if branch is not None or line.endswith(":"):
            zeros = {}
        elif zero is not None:
            zeros[zero[1]] = at
    return "\n".join(line for line in lines if line != _REMOVED)


def _choose_zero(
    lines: list[str], register: str, place: int, at: int, branch: re.Match[str]
) -> None:
    """Choose a register's zero at a branch instead of its place, if a product may replace it."""
    is_negated, condition, label = branch.groups()
    end = next((n for n in range(at + 1, min(at + 40, len(lines))) if lines[n] == f"{label}:"), 0)
    body = lines[at + 1 : end]
    product = re.compile(rf"\s*(?:mul|mad)\.(?:wide|lo)\.\w+\s+{register},")
    if any(line.endswith(":") or " bra" in line for line in body) or not any(
        map(product.match, body)
    ):
        return
    values = "-1, 0" if is_negated else "0, -1"  # what the product replaces may be any number
    lines[place] = _REMOVED
    lines[at] = f"\tselp.b64 \t{register}, {values}, {condition};\n{lines[at]}"


def _written_otherwise(found: re.Match[str]) -> str:
    indent, operation, gap, result, value = found.groups()
    if operation == "neg":
        return f"{indent}sub.u16{gap}{result}, 0, {value};"
    return (
        f"{indent}{{ .reg .b32 %kd_wide; cvt.s32.s16 %kd_wide, {value}; "
        f"abs.s32 %kd_wide, %kd_wide; cvt.u16.u32 {result}, %kd_wide; }}"
    )


# Keep the tests of the counts of shifts, which LLVM's back end for PTX leaves out.
#
# LLVM 22 takes ``select (icmp ult %n, 64), (shl %x, %n), 0`` for PTX's own shift, which is 0 where
# the count is not less than the bits. But PTX reads 32 bits of a count. The test is of all bits:
# without it, a shift by 2**32 moves nothing. LLVM keeps the test if it does not know that the other
# value is 0.
#
# See PTX ISA, "shl" and "shr". LLVM, pull requests 172431 (the rewrite) and 201165 (its
# correction).

_FUNCTION = re.compile(r"^define .*?^}", re.MULTILINE | re.DOTALL)
_NAME = r'(%(?:"[^"]*"|[\w.$-]+))'
#: A shift by a count that is not a number: its name, its bits and its count.
_SHIFT = re.compile(
    rf"^  {_NAME} = (?:shl|lshr) (?:nuw |nsw |exact )*i(16|32|64) [^,\n]+, {_NAME}", re.MULTILINE
)
#: A count that was extended is less than the bits if its lower half is.
_EXTENDED = re.compile(
    rf"^  {_NAME} = (?:sext|zext)(?: nneg)? i(?:1|8|16|32) \S+ to i64", re.MULTILINE
)
#: The tested number may be wider.
_TRUNCATED = re.compile(rf"^  {_NAME} = trunc (?:nuw |nsw )*i\d+ \S+ to i(?:16|32)", re.MULTILINE)
_CHOICE = re.compile(
    rf"^  {_NAME} = select i1 [^,\n]+, (i(\d+)) ({_NAME}, i\3 0|0, i\3 {_NAME})(?=[,\n])",
    re.MULTILINE,
)
_REGISTERS = {"16": "h", "32": "r", "64": "l"}


def keep_guards(text: str) -> str:
    """Return a module with zeros that LLVM does not know, so that its PTX has all tests."""
    if not _SHIFT.search(text):
        return text
    return _FUNCTION.sub(lambda function: _keep_guards(function[0]), text)


def _keep_guards(function: str) -> str:
    extended = {found[1] for found in _EXTENDED.finditer(function)}
    truncated = {found[1] for found in _TRUNCATED.finditer(function)}
    shifts = {
        found[1]
        for found in _SHIFT.finditer(function)
        if (found[3] not in extended if found[2] == "64" else found[3] in truncated)
    }

    def hide_zero(choice: re.Match[str]) -> str:
        name, kind, bits, arms, first, second = choice.groups()
        if (first or second) not in shifts:
            return choice[0]
        zero = f'%"{name[1:].strip(chr(34))}.zero"'
        shown = f'  {zero} = call {kind} asm "mov.b{bits} $0, 0;", "={_REGISTERS[bits]}"()\n'
        hidden = f"{first}, {kind} {zero}" if first else f"{zero}, {kind} {second}"
        return shown + choice[0].removesuffix(arms) + hidden

    return _CHOICE.sub(hide_zero, function) if shifts else function
