"""Count in 32 bits in loops that are left early, if the number of turns fits.

A kernel's integers have 64 bits, and a GPU adds and compares 32 bits at a time. In loops that end
at a count alone counting costs little, because ptxas unrolls them (:mod:`.loop_counters`). A loop
with a second way out is not unrolled, such as ``while count < rounds and x < 4``. Such a loop is
written twice, with counters of 32 bits and as it was. The first one runs if all counters, and what
they are compared with, are below 2**29 before the loop.

References
----------
PTX ISA, sections "Integer Arithmetic Instructions: add" and "Comparison and Selection Instructions:
setp".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import (
    LABEL,
    branch_of,
    declare,
    innermost_loops,
    on_functions,
    opposite,
    redirected,
    results_of,
    swapped,
    uses_of,
)

__all__ = ["shorten_counters"]

#: What counters begin below, and end below. Their sum, and a turn more, fits an int32.
_LIMIT = 2**29
#: Longer loops are not written twice.
_MOST_LINES = 80
_STEP = re.compile(r"^\s*add\.s64\s+(%rd\d+), (%rd\d+), (-?1);")
_COMPARISON = re.compile(
    r"^\s*setp\.(eq|ne|lt|le|gt|ge)\.(?:and\.)?[bsu]64\s+(%p\d+), (%rd\d+|-?\d+), "
    r"(%rd\d+|-?\d+)((?:, !?%p\d+)?);"
)
_COPY = re.compile(r"^\s*(mov\.b64|cvt\.u32\.u64)\s+(%\w+), (%rd\d+);")
_BOTH = re.compile(r"^\s*(and|or)\.pred\s+(%p\d+), (%p\d+), (%p\d+);")
#: What threads of a warp or block do together: they may be in either loop.
_OF_SEVERAL = re.compile(
    r"\b(?:\w+\.)*(?:sync|aligned)\b|\b(?:bar|barrier|mbarrier|call|activemask)\b"
)


@on_functions("setp")
def shorten_counters(lines: list[str], report: Report) -> list[str]:
    """Return a module in which loops with several ways out count in 32 bits if these suffice."""
    registers: list[str] = []
    for number, (first, last) in reversed(list(enumerate(innermost_loops(lines, _MOST_LINES)))):
        loop = _Loop(lines, first, last)
        counters = _short_counters(loop)
        if counters is not None:
            writer = _Writer(loop, counters, number)
            lines = writer.written()
            registers += writer.registers()
            report("loop", "counted in 32 bits if the number of iterations fits")
    return declare(lines, registers) if registers else lines


class _Loop:
    """An innermost loop: lines from its label to the last branch back to it."""

    def __init__(self, lines: list[str], first: int, last: int) -> None:
        self.before, self.body = lines[:first], lines[first + 1 : last + 1]
        self.after = lines[last + 1 :]
        found = LABEL.match(lines[first])
        assert found is not None
        self.label = found[1]
        self.labels = {self.label} | {
            each[1] for line in self.body if (each := LABEL.match(line)) is not None
        }
        self.writes = Counter(name for line in self.body for name in results_of(line))

    def is_out(self, label: str) -> bool:
        """Return whether a branch to a label leaves the loop."""
        return label not in self.labels

    def ways_out(self) -> int:
        """Return how many branches leave it, its end included."""
        branches = [branch for line in self.body if (branch := branch_of(line)) is not None]
        both = {found[2] for line in self.body if (found := _BOTH.match(line))}
        both |= {c[2] for line in self.body if (c := _COMPARISON.match(line)) and c[5]}
        ways = [each for each in branches[:-1] if self.is_out(each.label)]
        ways += [each for each in branches[-1:] if each.predicate]
        return sum(1 + (each.predicate in both) for each in ways)

    def goes_on(self, place: int, predicate: str) -> bool | None:
        """Return the value of a predicate without which the loop is left in the same turn.

        ``None`` if it is not certain that the loop is left. The predicate is computed at a place in
        the body.
        """
        uses = [n for n, line in enumerate(self.body) if uses_of(predicate, [line]) and n != place]
        if len(uses) != 1 or uses[0] < place or self.writes[predicate] != 1:
            return None
        (use,) = uses
        both = _BOTH.match(self.body[use])
        if both is not None:
            value = self.goes_on(use, both[2])
            return value if value is (both[1] == "and") else None
        branch = branch_of(self.body[use])
        # What is before it is run in each turn: nothing branches past it.
        skipped = (branch_of(line) for line in self.body[:use])
        if branch is None or any(each and not self.is_out(each.label) for each in skipped):
            return None
        if self.is_out(branch.label):
            return branch.is_negated
        if use == len(self.body) - 1:
            return not branch.is_negated
        follows = branch_of(self.body[use + 1])
        is_left = follows is not None and not follows.predicate and self.is_out(follows.label)
        return not branch.is_negated if is_left else None


class _Counters(NamedTuple):
    """Numbers of a loop that can be short."""

    counters: list[str]
    #: Registers that they are compared with.
    bounds: list[str]
    #: Of two numbers the one that must not be greater for the loop to end, and the other one.
    ordered: tuple[str, str] | None


def _short_counters(loop: _Loop) -> _Counters | None:
    """Return them, of a loop that has another way out than its end."""
    if loop.ways_out() < 2 or any(map(_OF_SEVERAL.search, loop.body)):
        return None
    steps = {
        found[1]: int(found[3])
        for line in loop.body
        if (found := _STEP.match(line)) and found[1] == found[2] and loop.writes[found[1]] == 1
    }
    steps = {name: step for name, step in steps.items() if _can_be_short(name, loop)}
    bounds: dict[str, None] = {}
    ends: list[tuple[str, str] | None] = []
    for place, line in enumerate(loop.body):
        comparison = _COMPARISON.match(line)
        if comparison is None or not {comparison[3], comparison[4]} & steps.keys():
            continue
        relation, predicate, one, other, also = comparison.groups()
        if ".u64" in line and min(steps.get(each, 1) for each in (one, other)) < 0:
            return None  # it may pass 0
        if other in steps:
            relation, one, other = swapped(relation), other, one
        if other.startswith("%"):
            bounds[other] = None
        value = loop.goes_on(place, predicate)
        if value or (value is False and not also):
            relation = relation if value else opposite(relation, "s64")
            is_up = steps[one] > 0
            if relation == "ne":
                ends.append((one, other) if is_up else (other, one))
            elif relation in (("lt", "le") if is_up else ("gt", "ge")):
                ends.append(None)
    return _Counters(list(steps), list(bounds), ends[0]) if ends else None


def _can_be_short(counter: str, loop: _Loop) -> bool:
    """Return whether a counter is stepped, copied, and compared with what does not change."""
    for line in loop.body:
        count = uses_of(counter, [line])
        comparison = _COMPARISON.match(line)
        if comparison is not None and count:
            (other,) = {comparison[3], comparison[4]} - {counter} or {counter}
            is_small = other.startswith("%") or abs(int(other)) < _LIMIT
            if count != 1 or loop.writes[other] or not is_small:
                return False
        elif count and not _STEP.match(line):
            copy = _COPY.match(line)
            if count != 1 or copy is None or copy[3] != counter:
                return False
    return True


class _Writer:
    """Writes a loop twice."""

    def __init__(self, loop: _Loop, counters: _Counters, number: int) -> None:
        self._loop = loop
        self._counters = counters
        self._number = number
        names = [*counters.counters, *counters.bounds]
        self._short = {name: f"%kd_short{number}_{n}" for n, name in enumerate(names)}
        self._fits = f"%kd_fits{number}"
        self._done = f"$KD_done{number}"
        outside = [*loop.before, *loop.after]
        self._read = [name for name in counters.counters if _is_read(name, outside)]

    def registers(self) -> list[str]:
        """Return the declarations of its registers."""
        return [f".pred {self._fits}", *(f".b32 {name}" for name in self._short.values())]

    def written(self) -> list[str]:
        """Return the function with the loop in both forms."""
        loop, begin = self._loop, f"$KD_begin{self._number}"
        return [
            *redirected(loop.before, loop.label, begin),
            f"{begin}:",
            *(f"\t{line}" for line in self._tests()),
            f"\t@!{self._fits} bra {loop.label};",
            *(f"\tcvt.u32.u64 {short}, {name};" for name, short in self._short.items()),
            *self._short_loop(),
            f"{loop.label}:",
            *loop.body,
            f"{self._done}:",
            *redirected(loop.after, loop.label, begin),
        ]

    def _tests(self) -> Iterator[str]:
        """Yield what tests whether the numbers are small."""
        condition = ""
        tests = [(name, str(_LIMIT), "lt") for name in self._short]
        if self._counters.ordered is not None:
            tests.append((*self._counters.ordered, "le"))
        for one, other, relation in tests:
            both = ".and" if condition else ""
            yield f"setp.{relation}{both}.u64 {self._fits}, {one}, {other}{condition};"
            condition = f", {self._fits}"

    def _short_loop(self) -> list[str]:
        loop = self._loop
        ways_out: list[tuple[str, str]] = []
        written = [f"{self._inside(loop.label)}:"]
        for line in loop.body:
            label, branch = LABEL.match(line), branch_of(line)
            if label is not None:
                line = f"{self._inside(label[1])}:"
            elif branch is not None and not loop.is_out(branch.label):
                line = line.replace(f"{branch.label};", f"{self._inside(branch.label)};")
            elif branch is not None and self._read:
                way_out = f"$KD_out{self._number}_{len(ways_out)}"
                ways_out.append((way_out, branch.label))
                line = line.replace(f"{branch.label};", f"{way_out};")
            written.append(self._shortened(line))
        restored = [f"\tcvt.s64.s32 {name}, {self._short[name]};" for name in self._read]
        written += [*restored, f"\tbra.uni {self._done};"]
        for way_out, target in ways_out:
            written += [f"{way_out}:", *restored, f"\tbra.uni {target};"]
        return written

    def _inside(self, label: str) -> str:
        return f"{label}_short{self._number}"

    def _shortened(self, line: str) -> str:
        counters = self._counters.counters
        step, comparison, copy = _STEP.match(line), _COMPARISON.match(line), _COPY.match(line)
        if step is not None and step[1] in counters:
            short = self._short[step[1]]
            return f"\tadd.s32 {short}, {short}, {step[3]};"
        if comparison is not None and {comparison[3], comparison[4]} & set(counters):
            relation, predicate, *numbers, also = comparison.groups()
            kind = "b32" if relation in ("eq", "ne") else "s32"
            one, other = (self._short.get(name, name) for name in numbers)
            both = ".and" if also else ""
            return f"\tsetp.{relation}{both}.{kind} {predicate}, {one}, {other}{also};"
        if copy is not None and copy[3] in counters:
            instruction = "cvt.s64.s32" if copy[1] == "mov.b64" else "mov.b32"
            return f"\t{instruction} {copy[2]}, {self._short[copy[3]]};"
        return line


def _is_read(register: str, lines: Iterable[str]) -> bool:
    return any(uses_of(register, [line]) > results_of(line).count(register) for line in lines)
