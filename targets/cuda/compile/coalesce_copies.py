"""Compute the next value of a variable in its register, instead of copying it there.

If the old value of a variable is read after its next one is computed, LLVM computes the next one
in another register. It copies it at the end of the turn. ptxas (seen with 13.0) keeps the copy.
Here what reads the old value is moved before the instruction that computes the next one.
:mod:`.head_copies` deals with copies at the start of a loop.

References
----------
Chaitin, "Register Allocation and Spilling via Graph Coloring", 1982.
"""

from __future__ import annotations

import re
from collections import Counter

from kerneldsl.contract import Report, ignore_remark
from targets.cuda.compile.head_copies import coalesce_head_copies
from targets.cuda.compile.ptx_lines import LABEL, branch_of, each_function, results_of

__all__ = ["coalesce_copies"]

_COPY = re.compile(r"^\s*mov\.b(?:32|64)\s+(%(?:r|rd)\d+), (%(?:r|rd)\d+);")
#: Arithmetic, which can be done earlier.
_PURE = re.compile(
    r"^\s*(?:add|sub|mul|mad|fma|neg|abs|min|max|and|or|xor|not|shl|shr|cvt|mov|selp|setp)\."
    r"(?![\w.]*\bcc\b)[\w.]+\s+%\w+, [^;\[]+;$"
)
#: What may read or write other registers than those of its line.
_UNKNOWN = re.compile(r"inline asm|[{}]|\bcall\b")
_REGISTER = re.compile(r"%[\w.]+")


def coalesce_copies(ptx: str, report: Report = ignore_remark) -> str:
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
    if "mov.b" not in ptx:
        return ptx
    return each_function(ptx, lambda lines: _of_function(lines, report))


def _of_function(lines: list[str], report: Report) -> list[str]:
    uses = Counter(name for line in lines for name in _REGISTER.findall(line))
    written: list[str] = []
    block: list[str] = []
    for line in lines:
        block.append(line)
        if branch_of(line):
            coalesced = _of_block(block, uses)
            report("value", "computed without a copy", len(block) - len(coalesced))
            written += coalesced
            block = []
        elif LABEL.match(line):
            written += block
            block = []
    coalesced, count = coalesce_head_copies([*written, *block])
    report("value", "computed without a copy", count)
    return coalesced


def _of_block(block: list[str], uses: Counter[str]) -> list[str]:
    """Return a block that ends with a branch."""
    if any(map(_UNKNOWN.search, block)):
        return block
    for copy in filter(_COPY.match, list(block)):
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
    after = sum(_REGISTER.findall(line).count(value) for line in block[made[0] :])
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
    names = set(_REGISTER.findall(definition))
    uses = (results_of(definition)[0] in _REGISTER.findall(line) for line in lines)
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
        results, names = results_of(line), _REGISTER.findall(line)
        if variable in results:
            return None
        if variable not in names:
            rest.append(line)
            after.append(line)
            continue
        changed = {name for each in after for name in results_of(each)}
        touched = {name for each in after for name in _REGISTER.findall(each)}
        if not _PURE.match(line) or changed & set(names) or touched & set(results):
            return None
        ahead.append(line)
    return ahead, rest
