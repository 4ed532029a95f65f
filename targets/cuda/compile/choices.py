"""Branch around single instructions, so that ptxas needs no choices of values.

ptxas (seen with 13.0) also writes a choice for an instruction with a predicate. If PTX branches
around one instruction, ptxas gives it a predicate.

References
----------
PTX ISA, sections "Comparison and Selection Instructions: selp" and "Predicated Execution"; NVIDIA,
"Nsight Compute: Kernel Profiling Guide", section "Pipelines".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import (
    branch_of,
    count_registers,
    count_writes,
    innermost_loops,
    on_functions,
    registers_of,
    results_of,
    split_blocks,
)

__all__ = ["branch_choices", "move_exchanges"]

# LLVM computes two float64 numbers, such as the polynomials of sine and cosine, and chooses one. A
# choice of 64 bits takes two instructions. One of the numbers is computed only in the threads that
# choose it instead.

_CHOICE = re.compile(r"^\s*selp\.f64\s+(%rd\d+), (%rd\d+), (%rd\d+), (%p\d+);$")
#: Arithmetic in one instruction.
_ARITHMETIC = re.compile(r"^\s*(?:add|sub|mul|fma)(?:\.rn)?\.f64\s+(%rd\d+), [^;\[]+;$")
_LABEL = "$KD_choice"
#: Labels that other branches lead to, and calls.
_ENDS = re.compile(r"^\$(?!KD_choice)\w+:|.*\bcall\b")
#: ptxas unrolls no loop that a branch is in.
_MOST_LINES = 1000


@on_functions("selp.f64")
def branch_choices(lines: list[str], report: Report) -> list[str]:
    """Return a module in which such choices outside of innermost loops are branches.

    Examples
    --------
    >>> print(branch_choices('''.entry e()
    ... {
    ... mul.rn.f64 %rd3, %rd1, %rd1;
    ... fma.rn.f64 %rd4, %rd1, %rd2, %rd2;
    ... selp.f64 %rd5, %rd3, %rd4, %p1;
    ... st.global.b64 [%rd6], %rd5;
    ... }''').replace(chr(9), ""))
    .entry e()
    {
    mul.rn.f64 %rd3, %rd1, %rd1;
    @%p1 bra $KD_choice0;
    fma.rn.f64 %rd3, %rd1, %rd2, %rd2;
    $KD_choice0:
    st.global.b64 [%rd6], %rd3;
    }
    """
    count = 0
    while (found := _first(lines)) is not None:
        lines = _branched(lines, found, count)
        count += 1
    report("choice", "computed only where it is chosen", count)
    return lines


class _Choice(NamedTuple):
    """A choice between a number and one that an instruction before it computes for it alone."""

    place: int
    #: The line of the instruction.
    source: int
    result: str
    #: The number that is chosen otherwise.
    kept: str
    #: Predicate with which the branch around the instruction is taken.
    predicate: str


def _first(lines: list[str]) -> _Choice | None:
    """Return the first choice that can be a branch."""
    uses, writes = count_registers(lines), count_writes(lines)
    loops: list[range] | None = None
    start = 0
    for place, line in enumerate(lines):
        found = _CHOICE.match(line)
        if found is None:
            if _ENDS.match(line) or ((branch := branch_of(line)) and not _is_own(branch.label)):
                start = place + 1
            continue
        if loops is None:
            loops = [range(one, last + 1) for one, last in innermost_loops(lines, _MOST_LINES)]
        if any(place in loop for loop in loops) or writes[found[1]] != 1:
            continue
        result, one, other, predicate = found.groups()
        choices = (
            _Choice(place, _made(lines, one, start, place), result, other, f"!{predicate}"),
            _Choice(place, _made(lines, other, start, place), result, one, predicate),
        )
        choice = max(choices, key=lambda each: each.source)
        if choice.source >= 0 and _is_free(lines, choice, uses, start):
            return choice
    return None


def _is_own(label: str) -> bool:
    """Return whether a label is after a single instruction that this pass branches around."""
    return label.startswith(_LABEL)


def _made(lines: list[str], register: str, start: int, end: int) -> int:
    """Return the line of arithmetic from a start that makes a register for its end; else -1."""
    places = [n for n in range(start, end) if register in results_of(lines[n])]
    if len(places) != 1 or not _ARITHMETIC.match(lines[places[0]]):
        return -1
    is_conditional = branch_of(lines[places[0] - 1]) is not None
    return -1 if is_conditional else places[0]


def _is_free(lines: list[str], choice: _Choice, uses: Counter[str], start: int) -> bool:
    """Return whether the result can be in the register of the number that is kept.

    Nothing else reads that number after the choice, and the choice alone reads the other one. An
    iteration of an outer loop must not read the result of the previous one before its own choice.
    """
    source = lines[choice.source]
    made, *operands = registers_of(source)
    if uses[made] != 2 or made == choice.kept:
        return False
    block = lines[start : choice.place + 1]
    if choice.result in count_registers(block[:-1]):
        return False
    first = next(line for line in block if choice.kept in registers_of(line))
    is_own = count_registers(block)[choice.kept] == uses[choice.kept]
    if not is_own or choice.kept not in results_of(first):
        return False
    between = lines[choice.source + 1 : choice.place]
    return not any(set(results_of(line)) & set(operands) for line in between)


def _branched(lines: list[str], choice: _Choice, number: int) -> list[str]:
    """Return a function with a choice as a branch around the instruction that is for it alone."""
    result = re.compile(rf"{choice.result}\b")
    (made,) = results_of(lines[choice.source])
    moved = re.sub(rf"{made}\b", choice.kept, lines[choice.source], count=1)
    label = f"{_LABEL}{number}"
    # A block that reads the result may be before it in the text.
    lines = [result.sub(choice.kept, line) for line in lines]
    return [
        *lines[: choice.source],
        *lines[choice.source + 1 : choice.place],
        f"\t@{choice.predicate} bra \t{label};",
        moved,
        f"{label}:",
        *lines[choice.place + 1 :],
    ]


# ``if b < a: a, b = b, a`` is a comparison and two choices. All three are on the ALU pipe, which
# takes one instruction of a warp every other cycle. So the pipe limits a sorting network. A move is
# also on the FMA pipe. So one of the choices becomes a conditional move.

_CHOICE_OF_32 = re.compile(r"^\s*selp\.[bf]32\s+(%r\d+), (%r\d+), (%r\d+), (%p\d+);$")
#: Exchanges of a basic block that are worth it: those of a network of four values.
_LEAST_EXCHANGES = 5


@on_functions("selp.")
def move_exchanges(lines: list[str], report: Report) -> list[str]:
    """Return a module in which blocks with many exchanges move one of two values.

    Examples
    --------
    >>> one = '''selp.f32 %r3, %r1, %r2, %p1;
    ... selp.f32 %r4, %r2, %r1, %p1;'''
    >>> written = move_exchanges(chr(10).join([one] * 5)).split(chr(10))
    >>> print(chr(10).join(written[:5]).replace(chr(9), ""))
    selp.f32 %r3, %r1, %r2, %p1;
    mov.b32 %r4, %r1;
    @!%p1 bra $KD_exchange0;
    mov.b32 %r4, %r2;
    $KD_exchange0:
    """
    count = 0
    written: list[str] = []
    for block in split_blocks(lines):
        places = set(_exchanges(block))
        if len(places) < _LEAST_EXCHANGES:
            written += block
            continue
        for place, line in enumerate(block):
            written += _moved(line, count) if place in places else [line]
            count += place in places
    report("exchange", "of a choice and a move", count)
    return written


def _exchanges(block: list[str]) -> Iterator[int]:
    """Yield the second lines of exchanges."""
    before: tuple[str, ...] | None = None
    for place, line in enumerate(block):
        found = _CHOICE_OF_32.match(line)
        if found is None:
            before = None
            continue
        result, one, other, predicate = found.groups()
        if before is not None:
            is_exchange = before[1:] == (other, one, predicate) and one != other
            if is_exchange and not {before[0], result} & {one, other} and before[0] != result:
                yield place
                before = None
                continue
        before = result, one, other, predicate


def _moved(line: str, number: int) -> list[str]:
    """Return a choice as a move that is branched around."""
    found = _CHOICE_OF_32.match(line)
    assert found is not None
    result, one, other, predicate = found.groups()
    return [
        f"\tmov.b32 \t{result}, {other};",
        f"\t@!{predicate} bra \t$KD_exchange{number};",
        f"\tmov.b32 \t{result}, {one};",
        f"$KD_exchange{number}:",
    ]
