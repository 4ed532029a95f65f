"""Compute the next value of a variable in its register, instead of copying it there.

If the old value of a variable is read after its next one is computed, LLVM computes the next one
in another register. It copies it at the end of the turn. ptxas (seen with 13.0) keeps the copy.
Here what reads the old value is moved before the instruction that computes the next one. Copies at
the start of a loop are removed, too.

References
----------
Chaitin, "Register Allocation and Spilling via Graph Coloring", 1982.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from kerneldsl.contract import Report
from targets.cuda.compile.addresses.function import Function, Instruction, read_function
from targets.cuda.compile.ptx_lines import (
    branch_of,
    count_registers,
    count_writes,
    on_functions,
    registers_of,
    results_of,
    split_blocks,
)

__all__ = ["coalesce_copies"]


# Copies of a variable at the start of a loop, which the variable itself can replace.
#
# If the old value of a variable is read after its next one is computed, LLVM may keep the old
# value in a second register. The loop begins with the copy, and ptxas (seen with 13.0) keeps it,
# too. Here the next value is computed after what reads the old one, so that one register is
# enough.
#
# See Boissinot et al., "Revisiting Out-of-SSA Translation for Correctness, Code Quality, and
# Efficiency", 2009.

_COPY = re.compile(r"^\s*mov\.b(?:32|64)\s+(%(?:r|rd)\d+), (%(?:r|rd)\d+);")
_OPERATIONS = "add|sub|mul|mad|fma|neg|abs|min|max|and|or|xor|not|shl|shr|cvt|mov|selp"
#: Arithmetic, which can be done later.
_MOVABLE = re.compile(rf"(?:{_OPERATIONS})\.(?![\w.]*\bcc\b)[\w.]+")


class _Copy(NamedTuple):
    """A copy of a variable."""

    instruction: Instruction
    block: int
    name: str
    variable: str


def _coalesce_head_copies(lines: list[str]) -> tuple[list[str], int]:
    """Return a function without such copies, and how many it had.

    Examples
    --------
    >>> turn = '''{
    ... mov.b64 %rd1, 9;
    ... $L1:
    ... mov.b64 %rd2, %rd1;
    ... add.s64 %rd1, %rd2, -1;
    ... setp.gt.s64 %p1, %rd2, 1;
    ... @%p1 bra $L1;
    ... }'''.split(chr(10))
    >>> print(chr(10).join(_coalesce_head_copies(turn)[0]))
    {
    mov.b64 %rd1, 9;
    $L1:
    setp.gt.s64 %p1, %rd1, 1;
    add.s64 %rd1, %rd1, -1;
    @%p1 bra $L1;
    }
    """
    count = 0
    seen: set[str] = set()
    while name := _first_candidate(lines, seen):
        seen.add(name)
        written = _without(name, lines)
        count += written is not None
        lines = written or lines
    return lines, count


def _first_candidate(lines: list[str], seen: set[str]) -> str | None:
    """Return a register that only copies another one, which is written at several places."""
    copies = [
        (found[1], found[2])
        for line in lines
        if "mov.b" in line and (found := _COPY.match(line)) and found[1] not in seen
    ]
    if not copies:
        return None
    writes = count_writes(lines)
    return next((one for one, other in copies if writes[one] == 1 and writes[other] > 1), None)


def _without(name: str, lines: list[str]) -> list[str] | None:
    """Return a function without the copy in a register; ``None`` if it is needed."""
    function = read_function(lines)
    copy = _copy_in(function, name) if function is not None else None
    if function is None or copy is None:
        return None
    moved: dict[int, int] = {}
    equal = _where_equal(function, copy)
    for number in function.in_order():
        move = _move(function, copy, number, is_equal=equal[number])
        if move is None:
            return None
        moved |= move
    pattern = re.compile(rf"{re.escape(name)}\b")
    text: list[str] = []
    later = {after: line for line, after in moved.items()}
    for number, line in enumerate(lines):
        if number not in moved and number != copy.instruction.line:
            text.append(pattern.sub(copy.variable, line))
        if number in later:
            text.append(pattern.sub(copy.variable, lines[later[number]]))
    return text


def _copy_in(function: Function, name: str) -> _Copy | None:
    """Return the copy in a loop that is all that writes a register."""
    for number in function.in_order():
        for each in function.blocks[number].instructions:
            if name in each.results:
                is_copy = function.writes[name] == 1 and not each.predicate
                is_inside = function.blocks[number].depth > 0
                return (
                    _Copy(each, number, name, each.operands[1]) if is_copy and is_inside else None
                )
    return None


def _where_equal(function: Function, copy: _Copy) -> list[bool]:
    """Return for each block whether the variable has at its start what the copy has."""
    equal = [True] * len(function.blocks)
    equal[0] = False
    is_changing = True
    while is_changing:
        is_changing = False
        for number in function.in_order():
            after = equal[number]
            for each in function.blocks[number].instructions:
                after = each is copy.instruction or (after and copy.variable not in each.results)
            for following in function.blocks[number].followers:
                if equal[following] and not after:
                    equal[following] = False
                    is_changing = True
    return equal


def _move(function: Function, copy: _Copy, number: int, *, is_equal: bool) -> dict[int, int] | None:
    """Return the line of a block that computes the next value, and the line that it goes after.

    Empty if none has to be moved; ``None`` if the old value is needed for longer.
    """
    moved: dict[int, int] = {}
    definition: Instruction | None = None
    is_moved = False
    for each in function.blocks[number].instructions:
        written, read = set(each.results), set(each.reads)
        if each is copy.instruction:
            is_equal, definition = True, None
            continue
        if definition is not None and (
            copy.variable in written | read or not written.isdisjoint(definition.reads)
        ):
            definition = None
        if copy.name in read and not is_equal:
            if definition is None:
                return None
            is_moved = True
        if definition is not None and is_moved and not each.opcode.startswith("bra"):
            # The definition moves to the last possible line: while the variable has its value, an
            # address is one of an element.
            moved[definition.line] = each.line
        if copy.variable in written:
            is_movable = is_equal and not each.predicate and _MOVABLE.fullmatch(each.opcode)
            definition, is_equal, is_moved = (each if is_movable else None), False, False
    return moved


#: Arithmetic, which can be done earlier.
_PURE = re.compile(rf"^\s*(?:{_OPERATIONS}|setp)\.(?![\w.]*\bcc\b)[\w.]+\s+%\w+, [^;\[]+;$")
#: Lines that may read or write registers that they do not name.
_UNKNOWN = re.compile(r"inline asm|[{}]|\bcall\b")


@on_functions("mov.b")
def coalesce_copies(lines: list[str], report: Report) -> list[str]:
    """Return a module without such copies.

    Examples
    --------
    >>> turn = '''.entry e()
    ... {
    ... $L1:
    ... fma.rn.f32 %r3, %r1, %r2, %r4;
    ... mul.f32 %r5, %r1, %r1;
    ... mov.b32 %r1, %r3;
    ... @%p1 bra $L1;
    ... }'''
    >>> print(coalesce_copies(turn).replace(chr(9), ""))
    .entry e()
    {
    $L1:
    mul.f32 %r5, %r1, %r1;
    fma.rn.f32 %r1, %r1, %r2, %r4;
    @%p1 bra $L1;
    }
    """
    if not any("mov.b" in line and _COPY.match(line) for line in lines):
        return lines
    uses = count_registers(lines)
    written: list[str] = []
    for block in split_blocks(lines):
        written += _of_block(block, uses) if block and branch_of(block[-1]) else block
    count = len(lines) - len(written)
    coalesced, more = _coalesce_head_copies(written)
    report("value", "computed without a copy", count + more)
    return coalesced


def _of_block(block: list[str], uses: Counter[str]) -> list[str]:
    """Return a block that ends with a branch, without copies."""
    copies = [line for line in block if "mov.b" in line and _COPY.match(line)]
    if not copies or any(map(_UNKNOWN.search, block)):
        return block
    for copy in copies:
        if copy in block:
            block = _coalesced(block, block.index(copy), uses)
    return block


def _coalesced(block: list[str], place: int, uses: Counter[str]) -> list[str]:
    """Return a block that computes a value where the copy at a place brings it, if it can."""
    found = _COPY.match(block[place])
    assert found is not None
    variable, value = found.groups()
    made = [n for n, line in enumerate(block) if value in results_of(line)]
    if len(made) != 1 or made[0] > place:
        return block
    after = count_registers(block[made[0] :])[value]
    is_kept = not any(variable in results_of(line) for line in block[place + 1 :])
    if after != uses[value] or not is_kept:
        return block
    definition = block[made[0]]
    passed = _before_use(definition, block[made[0] + 1 : place])
    start = made[0] + 1 + len(passed)
    moved = _divided(definition, block[start:place], variable)
    if moved is None or not _PURE.match(definition):
        return block
    ahead, rest = moved
    name = re.compile(rf"{re.escape(value)}\b")
    renamed = [name.sub(variable, line) for line in (definition, *rest, *block[place + 1 :])]
    return [*block[: made[0]], *passed, *ahead, *renamed]


def _before_use(definition: str, lines: list[str]) -> list[str]:
    """Return the lines after a definition that can be before it.

    They may access memory at an address that the old value of the variable is part of. That address
    is one of an element as long as the variable has the value.
    """
    names = set(registers_of(definition))
    uses = (results_of(definition)[0] in registers_of(line) for line in lines)
    changes = (bool(names & set(results_of(line))) for line in lines)
    ends = [n for n, each in enumerate(zip(uses, changes, strict=True)) if any(each)]
    return lines[: ends[0]] if ends else lines


def _divided(
    definition: str, lines: list[str], variable: str
) -> tuple[list[str], list[str]] | None:
    """Divide the lines after a definition into those that can be before it and read a variable.

    The others do not read it. ``None`` if that is not possible.
    """
    ahead: list[str] = []
    rest: list[str] = []
    after = [definition]
    for line in lines:
        results, names = results_of(line), registers_of(line)
        if variable in results:
            return None
        if variable not in names:
            rest.append(line)
            after.append(line)
            continue
        changed = {name for each in after for name in results_of(each)}
        touched = {name for each in after for name in registers_of(each)}
        if not _PURE.match(line) or changed & set(names) or touched & set(results):
            return None
        ahead.append(line)
    return ahead, rest
