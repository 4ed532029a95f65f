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
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import reduce
from typing import NamedTuple

from targets.cuda.compile.addresses.choices import choice_intervals
from targets.cuda.compile.addresses.facts import ParameterFacts
from targets.cuda.compile.addresses.function import (
    Function,
    Instruction,
    natural_loops,
    results,
)
from targets.cuda.compile.addresses.intervals import Interval, hull, is_within
from targets.cuda.compile.addresses.polynomials import add, wrap
from targets.cuda.compile.addresses.values import Values
from targets.cuda.compile.ptx_lines import opposite, swapped

__all__ = ["counter_intervals"]

#: Counters that begin at others are known after so many passes.
_PASSES = 2
#: A counter that stays within this from 0 does not wrap.
_FAR = 2**62
_LITERAL = re.compile(r"-?\d{1,18}")
_TEST = re.compile(r"setp\.(eq|ne|lt|le|gt|ge)\.[bs]64")


class _Loop(NamedTuple):
    """A natural loop."""

    head: int
    body: frozenset[int]


class _Write(NamedTuple):
    """An instruction that writes a register, and the intervals of its value and of what it adds."""

    block: int
    interval: Interval | None
    #: Between which numbers it makes the register more; ``None`` if it does something else.
    step: Interval | None


class _Counter(NamedTuple):
    """A register with one step in a loop, and the numbers that it begins and is stepped with."""

    register: str
    begin: Interval
    step: Interval
    #: Whether each turn makes the step.
    is_each_turn: bool


class _Test(NamedTuple):
    """Facts of two operands in each turn but the last."""

    relation: str
    one: str
    other: str


def counter_intervals(function: Function, facts: ParameterFacts) -> Mapping[str, Interval]:
    """Return the intervals of counters, and of other registers that are written more than once."""
    loops = [_Loop(head, frozenset(body)) for head, body in natural_loops(function).items()]
    loops.sort(key=lambda each: function.blocks[each.head].rank)
    multiples = _multiples(function)
    found: dict[str, Interval] = {}
    for _ in range(_PASSES if loops else 0):
        writes, bounds = _writes(function, facts, found)
        stepped: dict[tuple[str, _Loop], Interval] = {}
        for loop in loops:
            counters = list(_counters(function, loops, loop, writes, stepped))
            for register, interval in _of_loop(function, loop, counters, bounds, multiples).items():
                stepped[register, loop] = interval
        found |= _whole(function, loops, writes, stepped)
        found |= choice_intervals(function, {**bounds, **found})
    return found


def _whole(
    function: Function,
    loops: list[_Loop],
    writes: Mapping[str, list[_Write]],
    stepped: Mapping[tuple[str, _Loop], Interval],
) -> dict[str, Interval]:
    """Return the intervals of registers with writes that are all known."""
    found = {}
    for register, made in writes.items():
        known = [_written(register, each, loops, stepped) for each in made]
        intervals = [each for each in known if each is not None]
        if len(intervals) == function.writes[register]:
            found[register] = reduce(hull, intervals)
    return found


def _written(
    register: str,
    write: _Write,
    loops: list[_Loop],
    stepped: Mapping[tuple[str, _Loop], Interval],
) -> Interval | None:
    """Return between which numbers the value of a write is."""
    loop = _innermost(loops, write.block)
    if write.step is None or loop is None:
        return write.interval
    return stepped.get((register, loop))


def _innermost(loops: list[_Loop], block: int) -> _Loop | None:
    around = (each for each in loops if block in each.body)
    return min(around, key=lambda each: len(each.body), default=None)


def _multiples(function: Function) -> dict[str, int]:
    """Return the powers of two that registers with cleared low bits are multiples of."""
    found: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for block in function.blocks:
        for each in block.instructions:
            if each.opcode in ("and.b64", "mov.b64") and _LITERAL.fullmatch(each.operands[-1]):
                number, register = int(each.operands[-1]), each.operands[0]
                counts[register] += 1
                power = number & -number or _FAR  # 0 is a multiple of each of them
                found[register] = min(found.get(register, power), power)
    return {name: power for name, power in found.items() if counts[name] == function.writes[name]}


def _counters(
    function: Function,
    loops: list[_Loop],
    loop: _Loop,
    writes: Mapping[str, list[_Write]],
    stepped: Mapping[tuple[str, _Loop], Interval],
) -> Iterator[_Counter]:
    """Yield the registers that each turn of a loop makes more, or each turn makes less."""
    for register, made in writes.items():
        inside = [each for each in made if each.block in loop.body]
        if len(inside) != 1 or len(made) != function.writes[register]:
            continue
        (step,) = inside
        if _innermost(loops, step.block) is not loop or not _has_sign(step.step):
            continue
        others = [each for each in made if each is not step]
        reaching = [each for each in others if loop.head in _reached(function, each.block)]
        begins = [_written(register, each, loops, stepped) for each in reaching]
        known = [each for each in begins if each is not None]
        is_begun = any(_is_before(function, each.block, loop) for each in reaching)
        if is_begun and len(known) == len(begins) and step.step is not None:
            is_each_turn = all(function.dominates(step.block, n) for n in _latches(function, loop))
            yield _Counter(register, reduce(hull, known), step.step, is_each_turn)


def _latches(function: Function, loop: _Loop) -> list[int]:
    """Return the blocks that the next turn follows."""
    return [each for each in loop.body if loop.head in function.blocks[each].followers]


def _has_sign(step: Interval | None) -> bool:
    return step is not None and (step[0] > 0 or step[1] < 0)


def _reached(function: Function, block: int) -> set[int]:
    """Return the blocks that may follow one."""
    found: set[int] = set()
    waiting = list(function.blocks[block].followers)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += function.blocks[each].followers
    return found


def _is_before(function: Function, block: int, loop: _Loop) -> bool:
    """Return whether a block runs each time before a loop is entered."""
    blocks = function.blocks
    is_outside = block not in loop.body and function.dominates(block, loop.head)
    return is_outside and blocks[block].depth == blocks[loop.head].depth - 1


def _writes(
    function: Function, facts: ParameterFacts, known: Mapping[str, Interval]
) -> tuple[dict[str, list[_Write]], dict[str, Interval]]:
    """Return the writes of registers that are written more than once, and intervals of others."""
    values = Values(function, facts, known)
    writes: dict[str, list[_Write]] = {}
    bounds: dict[str, Interval] = {}
    for number in function.in_order():
        values.enter(number)
        for each in function.blocks[number].instructions:
            step = _step(values, each)
            values.execute(each)
            for register in results(each):
                interval = None if each.predicate else values.interval(register)
                if function.writes[register] > 1:
                    writes.setdefault(register, []).append(_Write(number, interval, step))
                elif interval is not None:
                    bounds[register] = interval
    return writes, bounds | _whole(function, [], writes, {})


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
    counters: list[_Counter],
    bounds: Mapping[str, Interval],
    multiples: Mapping[str, int],
) -> dict[str, Interval]:
    """Return the intervals of the counters of a loop."""
    blocks = function.blocks
    changed = {r for n in loop.body for each in blocks[n].instructions for r in results(each)}
    turns: list[int] = []
    limits: dict[str, int] = {}
    for test in _tests(function, loop):
        for each in counters:
            way = _way(each, test, bounds, multiples, changed)
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
        made = [each for each in block.instructions if name in results(each)]
        if len(made) != 1 or made[0].predicate or not (found := _TEST.fullmatch(made[0].opcode)):
            continue
        _, one, other, *more = made[0].operands
        if not more:
            stays = (taken in loop.body) is not branch.predicate.startswith("!")
            yield _Test(found[1] if stays else opposite(found[1], "s64"), one, other)


class _Way(NamedTuple):
    """The most steps of a counter, and its largest value if steps count as positive."""

    turns: int
    farthest: int


def _way(
    counter: _Counter,
    test: _Test,
    bounds: Mapping[str, Interval],
    multiples: Mapping[str, int],
    changed: Collection[str],
) -> _Way | None:
    """Return how far a counter goes, as of a test of it; ``None`` if that is unknown.

    One step more is counted, because the step may be before the test or after it.
    """
    relation, one, other = test
    if other == counter.register:
        relation, one, other = swapped(relation), other, one
    if one != counter.register:
        return None
    bound = (int(other),) * 2 if _LITERAL.fullmatch(other) else bounds.get(other)
    if bound is None:
        return None
    (least, most), (low, high) = counter.step, counter.begin
    if most < 0:  # as its negative, which is counted up
        (least, most), (low, high) = (-most, -least), (-high, -low)
        bound, relation = (-bound[1], -bound[0]), swapped(relation)
    if relation == "ne":
        # It meets the bound, unless it begins beyond it, or steps over it.
        is_met = most == 1 or (low == high == 0 and multiples.get(other, 1) % most == 0)
        if least != most or not is_met or high > bound[0] or other in changed:
            return None
        farthest = bound[1]
    elif relation not in ("lt", "le"):
        return None
    else:
        farthest = max(bound[1] - (relation == "lt"), high) + most
    turns = max(0, bound[1] - low) // least + 2
    return _Way(turns, farthest) if turns * least < _FAR else None
