"""Rewrites of a few instructions of PTX each, which ptxas compiles to shorter code.

What ptxas does was seen with its release 13.0.

References
----------
NVIDIA, "CUDA Binary Utilities", section "Instruction Set Reference". CUDA Programming Guide,
section "Arithmetic Instructions": "Throughput of Native Arithmetic Instructions". PTX ISA, sections
"Integer Arithmetic Instructions: mul, mad" and "Pragma Strings: nounroll". D. H. Lehmer,
"Mathematical Methods in Large-Scale Computing Units", Annals of the Computation Laboratory of
Harvard University 26 (1951), for congruential generators.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kerneldsl.contract import Report, ignore_remark
from targets.cuda.compile.addresses.arithmetic import signed
from targets.cuda.compile.ptx_lines import (
    LABEL,
    count_registers,
    count_writes,
    declare,
    innermost_loops,
    on_functions,
    results_of,
)

__all__ = [
    "multiply_by_bits",
    "order_indices",
    "step_through_chains",
    "unroll_remainders",
    "widen_products",
]

# For ``blockIdx * blockDim + threadIdx`` LLVM reads the number of a block first. Then ptxas reads
# it by S2UR and the threads by LDC. If the threads come first, it takes S2R and ULDC, which have a
# shorter latency. Kernels with an element for a thread took up to 6 % less time on an H200.

_NUMBER_FIRST = re.compile(
    r"^(\s*mov\.u32\s+(%r\d+), %ctaid\.([xyz]);\n)(\s*mov\.u32\s+(?!\2,)%r\d+, %ntid\.\3;\n)",
    re.MULTILINE,
)


def order_indices(ptx: str, report: Report = ignore_remark) -> str:
    """Return a module that reads the threads of a block first.

    Examples
    --------
    >>> print(order_indices('''mov.u32 %r1, %ctaid.x;
    ... mov.u32 %r2, %ntid.x;
    ... mov.u32 %r3, %tid.x;'''))
    mov.u32 %r2, %ntid.x;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r3, %tid.x;
    """
    text, count = _NUMBER_FIRST.subn(r"\4\1", ptx)
    report("block number", "read after the number of threads", count)
    return text


# LLVM writes ``(x & 1) * c``, as in the division of polynomials of a checksum, as a choice between
# a constant and 0. A GPU has choices, comparisons, shifts and logic in one pipeline, and products
# in another one. Such code mostly uses the first pipeline, in which the choice is one more.

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
    uses = count_registers(lines)

    def product(found: re.Match[str]) -> str:
        if uses[found["predicate"]] > 2:
            return found[0]
        report("choice", "computed by a multiplication")
        space, result, register = found.group("space", "result", "register")
        return f"{found['bit']}{space}mul.lo.s32{result}, {register}, {found['factor']};"

    return _CHOICE.sub(product, text).split("\n")


# LLVM computes ``(a * 77 + b * 150) >> 8`` in 16 bits if no more of it are stored, as of pixels. A
# GPU has products of 32 bits alone. ptxas extends the sign of each product that another one is
# added to. The low 16 bits of a product need only those of its operands. If a byte of them is
# stored, it is shifted in 32 bits, too: ptxas clears the high half before a shift of 16 bits.

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
    writes = count_writes(lines)
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


# LLVM multiplies constants in its selection of instructions: of ``y = a * x + c`` and
# ``z = a * y + c`` it makes ``z = a * a * x + (a * c + c)``. In an unrolled loop each number of a
# congruential generator is then computed from the first one, with its own multiplier. An
# instruction of a GPU has room for one constant of 32 bits. So the multipliers need registers, and
# ptxas loads them in each iteration. Here each number is again computed from the one before it.

_BITS = 32
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
            factor = signed(new.multiplier * pow(each.multiplier, -1, 2**_BITS), _BITS)
            if factor in multipliers:
                addend = signed(new.addend - factor * each.addend, _BITS)
                return _Affine(new.result, each.result, factor, addend)
    return None


# If LLVM unrolls a loop by eight, the remainder loop has at most seven iterations. LLVM writes
# a pragma that keeps ptxas from unrolling it. But each iteration that loads waits for memory.
# Eight coefficients of a polynomial take less time than the four that remain of twelve. Without the
# pragma such a loop is unrolled by four, then by two.

_PRAGMA = re.compile(r'^\s*\.pragma "nounroll";$')
_COUNT = re.compile(r"^\s*and\.b64\s+(%rd\d+), %rd\d+, 7;")
_STEP = re.compile(r"^\s*add\.s64\s+(%rd\d+), \1, -1;")
_LOAD = re.compile(r"^\s*ld\.(?!param)")
#: Instructions that keep the order of memory accesses.
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
    return count_writes(lines)[register] == 2 and any(map(end.match, body))
