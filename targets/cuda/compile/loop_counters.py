"""Count the turns of innermost loops so that ptxas unrolls them, or needs fewer registers.

References
----------
PTX ISA, sections "Integer Arithmetic Instructions: add", "Control Flow Instructions" and
"Comparison and Selection Instructions: setp".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import (
    LABEL,
    Loop,
    branch_of,
    declare,
    last_loops_first,
    on_functions,
    opposite,
    results_of,
    swapped,
    uses_of,
)

__all__ = ["count_turns_down", "shorten_counters"]

# LLVM ends a loop when its counter equals a bound. If the trip count is compared by
# ``setp.gt.s64``, ptxas (seen with 13.0) unrolls a loop of PTX by four more. It then issues the
# loads of four iterations together. It does not if 64-bit integers are compared for equality. So a
# loop that nvcc compiles has sixteen loads in flight, and the same loop by LLVM has four.

_STEP = re.compile(r"^\s*add\.s64\s+(%rd\d+), \1, (-?\d+);")
_COMPARISON = re.compile(r"^\s*setp\.(eq|ne)\.b64\s+(%p\d+), (%rd\d+), (%rd\d+|-?\d+);")


class _Counter(NamedTuple):
    """The counter of a loop, and its changes."""

    #: Label to which the loop exits; ``None`` for the line after it.
    exit: str | None
    predicate: str
    #: Line of the comparison in the body.
    comparison: int
    register: str
    bound: str
    step: int


@on_functions("setp")
def count_turns_down(lines: list[str], report: Report) -> list[str]:
    """Return a module in which innermost loops end when a distance is no longer positive.

    Such a loop has no label, no barrier and no pragma inside. It adds a number to a register in
    each turn. It ends when that equals a number, or a register that the loop does not change.

    Examples
    --------
    >>> loop = '''.entry e()
    ... {
    ... $L1:
    ... add.s64 %rd1, %rd1, 4;
    ... setp.ne.b64 %p1, %rd1, %rd2;
    ... @%p1 bra $L1;
    ... ret;
    ... }'''
    >>> print(count_turns_down(loop).replace(chr(9), ""))
    .entry e()
    {
    .reg .b64 %kd_left0;
    $KD_enter0:
    sub.s64 %kd_left0, %rd2, %rd1;
    $L1:
    add.s64 %kd_left0, %kd_left0, -4;
    setp.gt.s64 %p1, %kd_left0, 0;
    @%p1 bra $L1;
    ret;
    }
    """
    registers: list[str] = []
    for number, loop in last_loops_first(lines, len(lines)):
        counter = _counter(loop)
        if counter is not None:
            lines[:] = _rewritten(loop, counter, number)
            registers.insert(0, f".b64 %kd_left{number}")
    report("loop", "counted down to 0", len(registers))
    return declare(lines, registers)


def _counter(loop: Loop) -> _Counter | None:
    """Return the counter of a loop that can be rewritten, or ``None``."""
    body = loop.body
    branch, way_out = branch_of(body[-1]), None
    if branch is None or len(loop.labels) > 1 or uses_of(re.escape(loop.label), body) > 1:
        return None
    is_equal_inside = branch.is_negated
    if not branch.predicate:
        branch = branch_of(body[-2]) if len(body) > 1 else None
        if branch is None:
            return None
        way_out, is_equal_inside = branch.label, not branch.is_negated
    predicate = branch.predicate
    if not predicate or any("bar." in line or ".pragma" in line for line in body):
        return None
    found = {n: c for n, line in enumerate(body) if (c := _COMPARISON.match(line))}
    found = {n: c for n, c in found.items() if c[2] == predicate}
    steps = {s[1]: (n, int(s[2])) for n, line in enumerate(body) if (s := _STEP.match(line))}
    if len(found) != 1 or uses_of(predicate, loop.lines) != 2:
        return None
    ((place, comparison),) = found.items()
    operator, _, one, other = comparison.groups()
    counter, bound = (one, other) if one in steps else (other, one)
    at, step = steps.get(counter, (len(body), 0))
    is_counter = step != 0 and at < place and loop.writes[counter] == 1 and not loop.writes[bound]
    if not is_counter or operator != ("eq" if is_equal_inside else "ne"):
        return None
    return _Counter(way_out, predicate, place, counter, bound, step)


def _rewritten(loop: Loop, counter: _Counter, number: int) -> list[str]:
    left, body = f"%kd_left{number}", loop.body[: -1 - (counter.exit is not None)]
    body[counter.comparison : counter.comparison + 1] = [
        f"\tadd.s64 {left}, {left}, {-abs(counter.step)};",
        f"\tsetp.gt.s64 {counter.predicate}, {left}, 0;",
    ]
    if uses_of(counter.register, [*body, *loop.after]) == 2:  # its step alone reads it
        body = [line for line in body if results_of(line) != (counter.register,)]
    written = [
        *(f"\t{line}" for line in _distance(counter, left)),
        f"{loop.label}:",
        *body,
        f"\t@{counter.predicate} bra {loop.label};",
        *([] if counter.exit is None else [f"\tbra.uni {counter.exit};"]),
    ]
    return loop.entered_at(f"$KD_enter{number}", written)


def _distance(counter: _Counter, result: str) -> list[str]:
    """Return what computes how far the counter is from its bound, in the direction of its steps."""
    register, bound = counter.register, counter.bound
    if bound.startswith("%"):
        ends = (bound, register) if counter.step > 0 else (register, bound)
        return [f"sub.s64 {result}, {ends[0]}, {ends[1]};"]
    if counter.step > 0:
        return [f"neg.s64 {result}, {register};", f"add.s64 {result}, {result}, {bound};"]
    return [f"add.s64 {result}, {register}, {-int(bound)};"]


# A kernel's integers have 64 bits, and a GPU adds and compares 32 bits at a time. In loops that end
# at a count alone counting costs little, because ptxas unrolls them. A loop with a second way out
# is not unrolled, such as ``while count < rounds and x < 4``. Such a loop is written twice, with
# counters of 32 bits and as it was. The first one runs if all counters, and what they are compared
# with, are below 2**29 before the loop.

#: Bound of the counters at the start and at the end of the loop. The sum of two, and an iteration
#: more, fits an int32.
_LIMIT = 2**29
#: Longer loops are not written twice.
_MOST_LINES = 80
_UNIT_STEP = re.compile(r"^\s*add\.s64\s+(%rd\d+), (%rd\d+), (-?1);")
_TEST = re.compile(
    r"^\s*setp\.(eq|ne|lt|le|gt|ge)\.(?:and\.)?[bsu]64\s+(%p\d+), (%rd\d+|-?\d+), "
    r"(%rd\d+|-?\d+)((?:, !?%p\d+)?);"
)
_COPY = re.compile(r"^\s*(mov\.b64|cvt\.u32\.u64)\s+(%\w+), (%rd\d+);")
_BOTH = re.compile(r"^\s*(and|or)\.pred\s+(%p\d+), (%p\d+), (%p\d+);")
#: Collective operations of a warp or block: their threads may be in either loop.
_OF_SEVERAL = re.compile(
    r"\b(?:\w+\.)*(?:sync|aligned)\b|\b(?:bar|barrier|mbarrier|call|activemask)\b"
)


@on_functions("setp")
def shorten_counters(lines: list[str], report: Report) -> list[str]:
    """Return a module in which loops with several ways out count in 32 bits if these suffice."""
    registers: list[str] = []
    for number, loop in last_loops_first(lines, _MOST_LINES):
        counters = _short_counters(loop)
        if counters is not None:
            writer = _Writer(loop, counters, number)
            lines[:] = writer.written()
            registers += writer.registers()
            report("loop", "counted in 32 bits if the number of iterations fits")
    return declare(lines, registers) if registers else lines


def _ways_out(loop: Loop) -> int:
    """Return how many branches leave a loop, its end included."""
    branches = [branch for line in loop.body if (branch := branch_of(line)) is not None]
    both = {found[2] for line in loop.body if (found := _BOTH.match(line))}
    both |= {c[2] for line in loop.body if (c := _TEST.match(line)) and c[5]}
    ways = [each for each in branches[:-1] if each.label not in loop.labels]
    ways += [each for each in branches[-1:] if each.predicate]
    return sum(1 + (each.predicate in both) for each in ways)


def _goes_on(loop: Loop, place: int, predicate: str) -> bool | None:
    """Return the value of a predicate without which a loop is left in the same turn.

    ``None`` if it is not certain that the loop is left. The predicate is computed at a place in
    the body.
    """
    body, labels = loop.body, loop.labels
    uses = [n for n, line in enumerate(body) if uses_of(predicate, [line]) and n != place]
    if len(uses) != 1 or uses[0] < place or loop.writes[predicate] != 1:
        return None
    (use,) = uses
    both = _BOTH.match(body[use])
    if both is not None:
        value = _goes_on(loop, use, both[2])
        return value if value is (both[1] == "and") else None
    branch = branch_of(body[use])
    # No branch jumps past the lines before this one, so each iteration executes them.
    skipped = (branch_of(line) for line in body[:use])
    if branch is None or any(each and each.label in labels for each in skipped):
        return None
    if branch.label not in labels:
        return branch.is_negated
    if use == len(body) - 1:
        return not branch.is_negated
    follows = branch_of(body[use + 1])
    is_left = follows is not None and not follows.predicate and follows.label not in labels
    return not branch.is_negated if is_left else None


class _Counters(NamedTuple):
    """Numbers of a loop that can be short."""

    counters: list[str]
    #: Registers that they are compared with.
    bounds: list[str]
    #: Two numbers; the first must not be greater than the second for the loop to end.
    ordered: tuple[str, str] | None


def _short_counters(loop: Loop) -> _Counters | None:
    """Return them, of a loop that has another way out than its end."""
    if _ways_out(loop) < 2 or any(map(_OF_SEVERAL.search, loop.body)):
        return None
    steps = {
        found[1]: int(found[3])
        for line in loop.body
        if (found := _UNIT_STEP.match(line)) and found[1] == found[2] and loop.writes[found[1]] == 1
    }
    steps = {name: step for name, step in steps.items() if _can_be_short(name, loop)}
    bounds: dict[str, None] = {}
    ends: list[tuple[str, str] | None] = []
    for place, line in enumerate(loop.body):
        comparison = _TEST.match(line)
        if comparison is None or not {comparison[3], comparison[4]} & steps.keys():
            continue
        relation, predicate, one, other, also = comparison.groups()
        if ".u64" in line and min(steps.get(each, 1) for each in (one, other)) < 0:
            return None  # it may pass 0
        if other in steps:
            relation, one, other = swapped(relation), other, one
        if other.startswith("%"):
            bounds[other] = None
        value = _goes_on(loop, place, predicate)
        if value or (value is False and not also):
            relation = relation if value else opposite(relation, "s64")
            is_up = steps[one] > 0
            if relation == "ne":
                ends.append((one, other) if is_up else (other, one))
            elif relation in (("lt", "le") if is_up else ("gt", "ge")):
                ends.append(None)
    return _Counters(list(steps), list(bounds), ends[0]) if ends else None


def _can_be_short(counter: str, loop: Loop) -> bool:
    """Return whether a counter is stepped, copied, and compared with what does not change."""
    for line in loop.body:
        count = uses_of(counter, [line])
        comparison = _TEST.match(line)
        if comparison is not None and count:
            (other,) = {comparison[3], comparison[4]} - {counter} or {counter}
            is_small = other.startswith("%") or abs(int(other)) < _LIMIT
            if count != 1 or loop.writes[other] or not is_small:
                return False
        elif count and not _UNIT_STEP.match(line):
            copy = _COPY.match(line)
            if count != 1 or copy is None or copy[3] != counter:
                return False
    return True


class _Writer:
    """Writes a loop twice."""

    def __init__(self, loop: Loop, counters: _Counters, number: int) -> None:
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
        loop = self._loop
        written = [
            *(f"\t{line}" for line in self._tests()),
            f"\t@!{self._fits} bra {loop.label};",
            *(f"\tcvt.u32.u64 {short}, {name};" for name, short in self._short.items()),
            *self._short_loop(),
            f"{loop.label}:",
            *loop.body,
            f"{self._done}:",
        ]
        return loop.entered_at(f"$KD_begin{self._number}", written)

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
            elif branch is not None and branch.label in loop.labels:
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
        step, comparison, copy = _UNIT_STEP.match(line), _TEST.match(line), _COPY.match(line)
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
