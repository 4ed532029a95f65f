"""Take the largest of sums with int32 in 32 bits, if a number in it is not negative.

Integers of 32 bits that are loaded are int64 in a kernel. So is ``max(a + 1, b - 1, 0)``, and two
registers are compared and chosen for each of them. The result is not negative. A sum of an int32
and a small number that is not negative either fits a uint32. So each sum is first replaced by the
larger of it and 0: ``max(a, -1) + 1`` is the same number, and computed in 32 bits.

References
----------
PTX ISA, sections "Integer Arithmetic Instructions: max" and "add".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import (
    LABEL,
    branch_of,
    count_registers,
    declare,
    on_functions,
    results_of,
)

__all__ = ["narrow_maxima"]

#: Small numbers are below this.
_SMALL = 2**30
_MAXIMUM = re.compile(r"^\s*max\.s64\s+(%\w+), (%\w+), (%\w+|-?\d+);")
_SUM = re.compile(r"^\s*add\.s64\s+%\w+, (%\w+), (%\w+|-?\d+);")
_EXTENSION = re.compile(r"^\s*cvt\.s64\.s32\s+%\w+, (%\w+);")
_LOAD = re.compile(r"^\s*ld\.(?:[\w:]+\.)*s32\s+(%rd\d+), \[")
_CHOICE = re.compile(r"^\s*selp\.b64\s+%\w+, (-?\d+), (-?\d+), (%\w+);")
_BEGIN = re.compile(r"^\s*mov\.b64\s+(%\w+), (\d+);")


@on_functions("max.s64")
def narrow_maxima(lines: list[str], report: Report) -> list[str]:
    """Return a module in which such maxima are computed in 32 bits.

    Examples
    --------
    >>> print(narrow_maxima('''{
    ... cvt.s64.s32 %rd1, %r1;
    ... add.s64 %rd2, %rd1, -1;
    ... max.s64 %rd3, %rd2, 0;
    ... ret;
    ... }''').replace(chr(9), ""))
    {
    .reg .b32 %kd_max0;
    cvt.s64.s32 %rd1, %r1;
    add.s64 %rd2, %rd1, -1;
    max.s32 %kd_max0, %r1, 1;
    add.s32 %kd_max0, %kd_max0, -1;
    cvt.u64.u32 %rd3, %kd_max0;
    ret;
    }
    """
    return _Writer(lines).written(report)


class _Term(NamedTuple):
    """An int32 and a small number that is added to it, or one of two."""

    #: A register of 32 bits, or of 64 that holds an int32.
    register: str
    numbers: tuple[int, ...]
    #: Predicate that chooses between two numbers.
    predicate: str = ""


class _Writer:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._writes: dict[str, list[int]] = {}
        for number, line in enumerate(lines):
            for name in results_of(line):
                self._writes.setdefault(name, []).append(number)
        self._uses = count_registers(lines)
        self._registers: list[str] = []

    def written(self, report: Report) -> list[str]:
        """Return the lines of the function."""
        replaced: dict[int, list[str]] = {}
        narrow: dict[str, str] = {}
        for place, line in enumerate(self._lines):
            found = _MAXIMUM.match(line)
            if found is None or found[3].startswith("%") or not 0 <= int(found[3]) < _SMALL:
                continue
            terms = list(self._terms(found[2], place))
            known = [each for each in terms if each is not None]
            if len(known) == len(terms) and len(self._writes[found[1]]) == 1:
                least = int(found[3])
                replaced[place], narrow[found[1]] = self._maximum(found[1], known, least)
        if not replaced:
            return self._lines
        self._accumulate(replaced, narrow)
        report("result", "of max computed in 32 bits", len(narrow))
        lines: list[str] = []
        for place, line in enumerate(self._lines):
            lines += replaced.get(place, [line])
        return declare(lines, [f".b32 {name}" for name in self._registers])

    def _definition(self, register: str, place: int) -> int | None:
        """Return the line that writes a register, in the same block as a later place."""
        writes = self._writes.get(register, [])
        if len(writes) != 1 or writes[0] >= place or "@" in self._lines[writes[0]]:
            return None
        between = self._lines[writes[0] : place]
        return None if any(LABEL.match(each) or branch_of(each) for each in between) else writes[0]

    def _terms(self, register: str, place: int) -> Iterator[_Term | None]:
        """Yield the terms of a maximum; ``None`` if there are others."""
        at = self._definition(register, place)
        if at is None:
            yield None
            return
        if found := _MAXIMUM.match(self._lines[at]):
            if self._uses[register] == 2 and found[3].startswith("%"):
                yield from self._terms(found[2], at)
                yield from self._terms(found[3], at)
            else:
                yield None
            return
        yield self._term(register, at, place)

    def _term(self, register: str, at: int, place: int) -> _Term | None:
        found = _SUM.match(self._lines[at])
        if found is None:
            source = self._source(register, place)
            return None if source is None else _Term(source, (0,))
        one, other = found[1], found[2]
        if not other.startswith("%"):
            source = self._source(one, place)
            number = int(other)
            return _Term(source, (number,)) if source and abs(number) < _SMALL else None
        for number_, value in ((one, other), (other, one)):
            made = self._definition(number_, at)
            choice = _CHOICE.match(self._lines[made]) if made is not None else None
            source = self._source(value, place)
            if made is None or choice is None or source is None:
                continue
            numbers = int(choice[1]), int(choice[2])
            changed = any(choice[3] in results_of(each) for each in self._lines[made:place])
            if max(map(abs, numbers)) < _SMALL and not changed:
                return _Term(source, numbers, choice[3])
        return None

    def _source(self, register: str, place: int) -> str | None:
        """Return the register with an int32 that a register of 64 bits has."""
        at = self._definition(register, place)
        if at is None:
            return None
        if found := _EXTENSION.match(self._lines[at]):
            source = found[1]
            changed = any(source in results_of(each) for each in self._lines[at:place])
            return None if changed else source
        return register if _LOAD.match(self._lines[at]) else None

    def _register(self) -> str:
        self._registers.append(f"%kd_max{len(self._registers)}")
        return self._registers[-1]

    def _maximum(self, result: str, terms: list[_Term], least: int) -> tuple[list[str], str]:
        """Return instructions that compute a maximum, and the register of 32 bits that has it."""
        lines: list[str] = []
        total = ""
        for term in terms:
            name, source = self._register(), term.register
            if source.startswith("%rd"):
                lines.append(f"\tcvt.u32.u64 {name}, {source};")
                source = name
            number, bound = str(term.numbers[0]), str(least - term.numbers[0])
            if term.predicate:
                number, bound = self._register(), self._register()
                for target, (one, other) in (
                    (number, term.numbers),
                    (bound, tuple(least - each for each in term.numbers)),
                ):
                    lines.append(f"\tselp.b32 {target}, {one}, {other}, {term.predicate};")
            lines.append(f"\tmax.s32 {name}, {source}, {bound};")
            if number != "0":
                lines.append(f"\tadd.s32 {name}, {name}, {number};")
            if total:
                lines.append(f"\tmax.u32 {name}, {name}, {total};")
            total = name
        return [*lines, f"\tcvt.u64.u32 {result}, {total};"], total

    def _accumulate(self, replaced: dict[int, list[str]], narrow: dict[str, str]) -> None:
        """Keep the largest of such maxima in 32 bits, too."""
        operands: dict[str, set[str]] = {}
        for register, writes in self._writes.items():
            lines = [self._lines[each] for each in writes]
            maxima = [_MAXIMUM.match(each) for each in lines if not _is_begin(each)]
            if maxima and all(maxima) and register not in narrow:
                operands[register] = {name for m in maxima if m for name in (m[2], m[3])}
        while unknown := {
            each for each, names in operands.items() if names - narrow.keys() - operands.keys()
        }:
            operands = {each: names for each, names in operands.items() if each not in unknown}
        narrow = narrow | {register: self._register() for register in operands}
        for register in operands:
            name = narrow[register]
            for place in self._writes[register]:
                line = self._lines[place]
                begin, found = _BEGIN.match(line), _MAXIMUM.match(line)
                if begin is not None:
                    replaced[place] = [line, f"\tmov.b32 {name}, {begin[2]};"]
                elif found is not None:
                    replaced[place] = [
                        f"\tmax.u32 {name}, {narrow[found[2]]}, {narrow[found[3]]};",
                        f"\tcvt.u64.u32 {register}, {name};",
                    ]


def _is_begin(line: str) -> bool:
    begin = _BEGIN.match(line)
    return begin is not None and int(begin[2]) < 2**32
