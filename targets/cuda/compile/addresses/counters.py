"""Intervals of counters: registers that each turn of a loop makes more, or each turn makes less.

A counter begins between known numbers, and so is what is added, such as the threads of a block. How
far it goes follows from a test that ends the loop. The test is of the counter, or of another one
that limits the number of turns. A register may be a counter of several loops, one after another.

References
----------
Muchnick, "Advanced Compiler Design and Implementation", 1997, section 14.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import NamedTuple

from kerneldsl.analysis.interval_arithmetic import Interval, hull
from kerneldsl.ir.recognize import reached
from targets.cuda.compile.addresses.arithmetic import add, is_within, wrap
from targets.cuda.compile.addresses.facts import ParameterFacts
from targets.cuda.compile.addresses.function import Function, Instruction
from targets.cuda.compile.addresses.values import Values
from targets.cuda.compile.ptx_lines import opposite, swapped

__all__ = ["counter_intervals"]


#: Passes over the counters: the begin of one may be the value of another.
_PASSES = 2
#: A counter that stays within this from 0 does not wrap.
_FAR = 2**62
_LITERAL = re.compile(r"-?\d{1,18}")
_TEST = re.compile(r"setp\.(eq|ne|lt|le|gt|ge)\.([bsu])64")


class _Loop(NamedTuple):
    """A natural loop."""

    head: int
    body: frozenset[int]


class _Write(NamedTuple):
    """An instruction that writes a register, and the intervals of its value and of what it adds."""

    block: int
    line: int
    interval: Interval | None
    #: Interval of the number that it adds to the register; ``None`` for another operation.
    step: Interval | None
    #: A power of two that divides its value.
    power: int


class _Counter(NamedTuple):
    """A register with one step in a loop, and the numbers that it begins and is stepped with."""

    register: str
    begin: Interval
    step: Interval
    #: The instruction that makes the step, and whether each iteration does.
    write: _Write
    is_each_turn: bool


class _Test(NamedTuple):
    """Facts of two operands in each turn but the last."""

    relation: str
    one: str
    other: str
    #: Whether the comparison is unsigned.
    is_unsigned: bool
    block: int
    line: int


def counter_intervals(function: Function, facts: ParameterFacts) -> Mapping[str, Interval]:
    """Return the intervals of counters, and of other registers that are written more than once."""
    loops = [_Loop(head, frozenset(body)) for head, body in function.loops.items()]
    loops.sort(key=lambda each: function.blocks[each.head].rank)
    leading = {each.head: _leading_to(function, each.head) for each in loops}
    found: dict[str, Interval] = {}
    for number in range(_PASSES if loops else 0):
        if number and not found:
            break  # it would find as little as before
        known = _Known(function, loops, leading, _writes(function, facts, found))
        for loop in loops:
            known.note(loop, _of_loop(function, loop, known))
        intervals = known.intervals()
        found |= {name: each for name, each in intervals.items() if function.writes[name] > 1}
        found |= choice_intervals(function, {**intervals, **found})
    return found


class _Known:
    """Facts about the writes of registers."""

    def __init__(
        self,
        function: Function,
        loops: list[_Loop],
        leading: Mapping[int, set[int]],
        writes: Mapping[str, list[_Write]],
    ) -> None:
        self._function = function
        self._loops = loops
        #: The blocks that may lead to the head of a loop.
        self._leading = leading
        self._writes = writes
        #: Writes of registers that are written more than once; counters are among these.
        self._repeated = {name: made for name, made in writes.items() if len(made) > 1}
        #: The intervals of counters in loops.
        self._stepped: dict[tuple[str, _Loop], Interval] = {}

    def note(self, loop: _Loop, counters: Mapping[str, Interval]) -> None:
        self._stepped |= {(register, loop): each for register, each in counters.items()}

    def intervals(self) -> dict[str, Interval]:
        """Return the intervals of registers with writes that are all known."""
        found = {name: self._hull(name, made) for name, made in self._writes.items()}
        return {name: each for name, each in found.items() if each is not None}

    def bound(self, register: str, loop: _Loop) -> tuple[Interval, int] | None:
        """Return the interval of a register in a loop, and a power of two that divides it."""
        leading = self._leading[loop.head]
        made = [each for each in self._writes.get(register, ()) if each.block in leading]
        interval = self._hull(register, made) if made else None
        return None if interval is None else (interval, min(each.power for each in made))

    def is_written(self, register: str, loop: _Loop) -> bool:
        return any(each.block in loop.body for each in self._writes.get(register, ()))

    def counters(self, loop: _Loop) -> Iterator[_Counter]:
        """Yield the registers that each turn of a loop makes more, or each turn makes less."""
        latches = _latches(self._function, loop)
        for register, made in self._repeated.items():
            inside = [each for each in made if each.block in loop.body]
            if len(inside) != 1:
                continue
            (write,) = inside
            block, step = write.block, write.step
            if step is None or step[0] <= 0 <= step[1] or self._innermost(block) is not loop:
                continue
            leading = self._leading[loop.head]
            others = [each for each in made if each not in inside and each.block in leading]
            begin = self._hull(register, others) if others else None
            is_begun = self._is_entered_once(loop) or any(
                _is_before(self._function, each.block, loop) for each in others
            )
            if is_begun and begin is not None:
                is_each_turn = all(self._function.dominates(block, each) for each in latches)
                yield _Counter(register, begin, step, write, is_each_turn)

    def _is_entered_once(self, loop: _Loop) -> bool:
        """Return whether a loop is in no other one, of whatever form."""
        after = reached(loop.body, lambda number: self._function.blocks[number].followers)
        return not (set(after) - loop.body) & self._leading[loop.head]

    def _hull(self, register: str, writes: list[_Write]) -> Interval | None:
        """Return between which numbers the values of writes are."""
        if len(writes) == len(self._writes[register]) == 1:
            return writes[0].interval if self._function.writes[register] == 1 else None
        known = [self._interval(register, each) for each in writes]
        found = [each for each in known if each is not None]
        is_whole = len(self._writes[register]) == self._function.writes[register]
        return reduce(hull, found) if is_whole and len(found) == len(known) else None

    def _interval(self, register: str, write: _Write) -> Interval | None:
        loop = self._innermost(write.block)
        if write.step is None or loop is None or len(self._writes[register]) == 1:
            return write.interval
        return self._stepped.get((register, loop), write.interval)

    def _innermost(self, block: int) -> _Loop | None:
        around = (each for each in self._loops if block in each.body)
        return min(around, key=lambda each: len(each.body), default=None)


def _latches(function: Function, loop: _Loop) -> list[int]:
    """Return the blocks that the next turn follows."""
    return [each for each in loop.body if loop.head in function.blocks[each].followers]


def _leading_to(function: Function, block: int) -> set[int]:
    """Return the blocks that a block may follow."""
    before = function.before
    return set(reached(before.get(block, ()), lambda each: before.get(each, ())))


def _is_before(function: Function, block: int, loop: _Loop) -> bool:
    """Return whether a block runs each time before a loop is entered."""
    blocks = function.blocks
    is_outside = block not in loop.body and function.dominates(block, loop.head)
    return is_outside and blocks[block].depth == blocks[loop.head].depth - 1


def _writes(
    function: Function, facts: ParameterFacts, known: Mapping[str, Interval]
) -> dict[str, list[_Write]]:
    """Return the writes of registers."""
    values = Values(function, facts, known)
    writes: dict[str, list[_Write]] = {}
    for number in function.in_order():
        values.enter(number)
        for each in function.blocks[number].instructions:
            # Only registers that are written more than once can be counters.
            written = each.results
            is_repeated = len(written) == 1 and function.writes[written[0]] > 1
            step, power = _step(values, each) if is_repeated else None, _power(each)
            values.execute(each)
            for register in written:
                interval = None if each.predicate else values.interval(register)
                write = _Write(number, each.line, interval, step, power)
                writes.setdefault(register, []).append(write)
    return writes


def _power(instruction: Instruction) -> int:
    """Return a power of two that what an instruction gives is a multiple of."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode not in ("and.b64", "mov.b64") or not _LITERAL.fullmatch(operands[-1]):
        return 1
    number = int(operands[-1])
    return number & -number or _FAR  # 0 is a multiple of each of them


def _step(values: Values, instruction: Instruction) -> Interval | None:
    """Return what an instruction adds to its result; ``None`` if it does something else."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode not in ("add.s64", "sub.s64") or instruction.predicate:
        return None
    one, other, before = (values.wide(each) for each in (*operands[1:], operands[0]))
    added = wrap(add(add(one, other, 1 if opcode == "add.s64" else -1), before, -1), 64)
    return values.interval_of(added)


def _of_loop(
    function: Function,
    loop: _Loop,
    known: _Known,
) -> dict[str, Interval]:
    """Return the intervals of the counters of a loop."""
    counters = list(known.counters(loop))
    turns: list[int] = []
    limits: dict[str, int] = {}
    for test in _tests(function, loop) if counters else ():
        for each in counters:
            way = _way(function, each, loop, test, known)
            if way is not None:
                limits[each.register] = min(way.farthest, limits.get(each.register, _FAR))
                if each.is_each_turn:
                    turns.append(way.turns)
    found = {}
    for each in counters:
        if not turns and each.register not in limits:
            continue
        sign = 1 if each.step[0] > 0 else -1
        low, high = sorted(sign * end for end in each.begin)
        farthest = high + max(map(abs, each.step)) * min(turns, default=_FAR)
        high = max(low, min(farthest, limits.get(each.register, farthest)))
        interval = (low, high) if sign > 0 else (-high, -low)
        if is_within(interval, (-_FAR, _FAR)):
            found[each.register] = interval
    return found


def _tests(function: Function, loop: _Loop) -> Iterator[_Test]:
    """Yield the tests that each turn makes. Each of them can end the loop."""
    blocks = function.blocks
    latches = _latches(function, loop)
    for number in loop.body:
        block = blocks[number]
        if len(block.followers) != 2 or not all(function.dominates(number, n) for n in latches):
            continue
        branch = block.instructions[-1]
        taken, straight = block.followers
        if (taken in loop.body) == (straight in loop.body):
            continue
        name = branch.predicate.lstrip("!")
        made = [each for each in block.instructions if name in each.results]
        if len(made) != 1 or made[0].predicate or not (found := _TEST.fullmatch(made[0].opcode)):
            continue
        _, one, other, *more = made[0].operands
        if not more:
            stays = (taken in loop.body) is not branch.predicate.startswith("!")
            relation = found[1] if stays else opposite(found[1], "s64")
            yield _Test(relation, one, other, found[2] == "u", number, made[0].line)


class _Way(NamedTuple):
    """The most steps of a counter, and its largest value if steps count as positive."""

    turns: int
    farthest: int


def _way(
    function: Function,
    counter: _Counter,
    loop: _Loop,
    test: _Test,
    known: _Known,
) -> _Way | None:
    """Return how far a counter goes, as of a test of it; ``None`` if that is unknown.

    One step more is counted unless the step comes before the test.
    """
    relation, one, other = test[:3]
    if other == counter.register:
        relation, one, other = swapped(relation), other, one
    if one != counter.register:
        return None
    found = known.bound(other, loop)
    if _LITERAL.fullmatch(other):
        found = (int(other), int(other)), 1
    if found is None:
        return None
    bound, power = found
    if test.is_unsigned and (relation not in ("lt", "le") or bound[0] < 0):
        return None  # what is less without signs than a number from 0 on is so with signs
    (least, most), (low, high) = counter.step, counter.begin
    if most < 0:  # as its negative, which is counted up
        (least, most), (low, high) = (-most, -least), (-high, -low)
        bound, relation = (-bound[1], -bound[0]), swapped(relation)
    if relation == "ne":
        # The counter reaches the bound, unless it begins beyond the bound or steps over it.
        is_met = most == 1 or (low == high == 0 and power % most == 0)
        if least != most or not is_met or high > bound[0] or known.is_written(other, loop):
            return None
        farthest = bound[1]
        turns = max(0, bound[1] - low) // least + (not _is_stepped_before(function, counter, test))
    elif relation not in ("lt", "le"):
        return None
    else:
        farthest = max(bound[1] - (relation == "lt"), high) + most
        turns = max(0, bound[1] - low) // least + 2
    return _Way(turns, farthest) if turns * least < _FAR else None


def _is_stepped_before(function: Function, counter: _Counter, test: _Test) -> bool:
    """Return whether each turn makes a step before its test."""
    block, line = counter.write.block, counter.write.line
    if block == test.block:
        return line < test.line
    return function.dominates(block, test.block)


# -- registers that are copies of others, or chosen from them --------------------------------------


#: Copies and choices, and how many of their operands may be the result.
_SOURCES = {"mov.b64": 1, "selp.b64": 2}


def choice_intervals(function: Function, known: Mapping[str, Interval]) -> dict[str, Interval]:
    """Return the intervals of such registers of 64 bits, from those of others.

    The values of one are those of the registers and the numbers that it is written from, directly
    or by others like it.
    """
    writes: dict[str, list[Instruction]] = {}
    for number in function.in_order():
        for each in function.blocks[number].instructions:
            for register in each.results:
                if function.writes[register] > 1:
                    writes.setdefault(register, []).append(each)
    sources: dict[str, set[str]] = {}
    for register, made in writes.items():
        are_chosen = all(each.opcode in _SOURCES for each in made)
        if are_chosen and len(made) == function.writes[register]:
            sources[register] = {
                operand for each in made for operand in each.operands[1 : 1 + _SOURCES[each.opcode]]
            }
    found = {register: _interval(register, sources, known) for register in sources}
    return {register: each for register, each in found.items() if each is not None}


def _interval(
    register: str, sources: Mapping[str, set[str]], known: Mapping[str, Interval]
) -> Interval | None:
    """Return the smallest interval with all that a register may be; ``None`` if that is unknown."""
    seen, waiting = {register}, [register]
    interval: Interval | None = None
    while waiting:
        for each in sources[waiting.pop()]:
            if each in seen:
                continue
            seen.add(each)
            if each in sources:
                waiting.append(each)
                continue
            is_number = each.lstrip("-").isdigit()
            values = (int(each), int(each)) if is_number else known.get(each)
            if values is None:
                return None
            interval = values if interval is None else hull(interval, values)
    return interval
