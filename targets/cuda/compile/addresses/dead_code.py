"""Removal of instructions with results that nothing reads."""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["remove_dead_code"]

#: An instruction on integers, or one that reads a parameter, and its result.
_PURE = re.compile(
    r"^\s*(?:ld\.param(?:\.[bu]\d+)?|mov\.[bu](?:32|64)"
    r"|(?:add|sub|neg|mul|mad|shl|shr|and|or|xor|not|min|max|selp|cvt)(?:\.(?:lo|wide))?"
    r"(?:\.[bsu](?:8|16|32|64))+)\s+(%\w+),[^;]*;\s*$"
)
#: What differs from one reading to the next (PTX ISA, section "Special Registers").
_VOLATILE = re.compile(r"%(?:clock|globaltimer|pm)")
_REGISTER = re.compile(r"%\w+")


def remove_dead_code(lines: list[str]) -> list[str]:
    """Return a function without them; inline assembly is kept as it is written.

    Examples
    --------
    >>> remove_dead_code(["{", "add.s32 %r2, %r1, 1;", "mul.lo.s32 %r3, %r2, 2;", "}"])
    ['{', '}']
    """
    uses = Counter(register for line in lines for register in _REGISTER.findall(line))
    makers: dict[str, list[int]] = {}
    results: dict[int, str] = {}
    is_assembly = False
    for number, line in enumerate(lines):
        if "inline asm" in line:
            is_assembly = "begin" in line
        elif (found := _PURE.match(line)) and not (is_assembly or _VOLATILE.search(line)):
            results[number] = found[1]
            makers.setdefault(found[1], []).append(number)
    removed: set[int] = set()
    waiting = list(results)
    while waiting:
        number = waiting.pop()
        if number in removed or uses[results[number]] > 1:
            continue
        removed.add(number)
        for register in _REGISTER.findall(lines[number]):
            uses[register] -= 1
            waiting += makers.get(register, ())
    return [line for number, line in enumerate(lines) if number not in removed]
