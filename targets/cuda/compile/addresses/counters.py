"""Intervals of counters: registers that each turn of a loop adds the same number to.

A counter begins between known numbers. How far it goes follows from a test that ends the loop. The
test is of the counter, or of another one that limits the number of turns.

References
----------
Muchnick, "Advanced Compiler Design and Implementation", 1997, section 14.1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
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


class _Counter(NamedTuple):
    """A register with one step in a loop, which begins before the loop."""

    register: str
    loop: _Loop
    step: int


class _Test(NamedTuple):
    """Facts of two operands in each turn but the last."""

    relation: str
    one: str
    other: str


def counter_intervals(function: Function, facts: ParameterFacts) -> Mapping[str, Interval]:
    """Return the intervals of counters, and of other registers that are written more than once."""
    loops = [_Loop(head, frozenset(body)) for head, body in natural_loops(function).items()]
    counters = list(_counters(function, loops))
    multiples = _multiples(function)
    found: dict[str, Interval] = {}
    for _ in range(_PASSES if counters else 0):
        begins, bounds = _operands(function, facts, found, counters)
        for loop in loops:
            inside = [each for each in counters if each.loop is loop and each.register in begins]
            found |= _of_loop(function, loop, inside, begins, bounds, multiples)
        found |= {name: each for name, each in bounds.items() if function.writes[name] > 1}
        found |= choice_intervals(function, {**bounds, **found})
    return found


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


def _counters(function: Function, loops: list[_Loop]) -> Iterator[_Counter]:
    writes: dict[str, list[tuple[int, Instruction]]] = {}
    for number in function.in_order():
        for each in function.blocks[number].instructions:
            for register in results(each):
                if function.writes[register] > 1:
                    writes.setdefault(register, []).append((number, each))
    for register, places in writes.items():
        steps = [(block, each) for block, each in places if _is_step(each, register)]
        if len(steps) != 1 or len(places) != function.writes[register]:
            continue
        ((block, step),) = steps
        around = [each for each in loops if block in each.body]
        loop = min(around, key=lambda each: len(each.body), default=None)
        begins = [number for number, each in places if each is not step]
        if loop is not None and any(_is_before(function, each, loop) for each in begins):
            yield _Counter(register, loop, int(step.operands[2]))


def _is_step(instruction: Instruction, register: str) -> bool:
    return (
        instruction.opcode == "add.s64"
        and not instruction.predicate
        and instruction.operands[:2] == (register, register)
        and _LITERAL.fullmatch(instruction.operands[2]) is not None
    )


def _is_before(function: Function, block: int, loop: _Loop) -> bool:
    """Return whether a block runs each time before a loop is entered."""
    blocks = function.blocks
    is_outside = block not in loop.body and function.dominates(block, loop.head)
    return is_outside and blocks[block].depth == blocks[loop.head].depth - 1


def _operands(
    function: Function,
    facts: ParameterFacts,
    known: Mapping[str, Interval],
    counters: list[_Counter],
) -> tuple[dict[str, Interval], dict[str, Interval]]:
    """Return the intervals of what counters begin with, and of other registers."""
    values = Values(function, facts, known)
    registers = {each.register for each in counters}
    found: dict[str, Interval] = {}
    unknown: set[str] = set()
    for number in function.in_order():
        values.enter(number)
        for each in function.blocks[number].instructions:
            values.execute(each)
            for register in results(each):
                if register in registers and _is_step(each, register):
                    continue
                interval = values.interval(register)
                if interval is None or each.predicate:
                    unknown.add(register)
                else:
                    found[register] = hull(found.get(register, interval), interval)
    certain = {name: each for name, each in found.items() if name not in unknown}
    begins = {name: each for name, each in certain.items() if name in registers}
    return begins, {name: each for name, each in certain.items() if name not in registers}


def _of_loop(
    function: Function,
    loop: _Loop,
    counters: list[_Counter],
    begins: Mapping[str, Interval],
    bounds: Mapping[str, Interval],
    multiples: Mapping[str, int],
) -> dict[str, Interval]:
    """Return the intervals of the counters of a loop."""
    blocks = function.blocks
    changed = {r for n in loop.body for each in blocks[n].instructions for r in results(each)}
    ways: list[_Way] = []
    limits: dict[str, int] = {}
    for test in _tests(function, loop):
        for each in counters:
            way = _way(each, test, begins[each.register], bounds, multiples, changed)
            if way is not None:
                ways.append(way)
                limits[each.register] = min(way.farthest, limits.get(each.register, _FAR))
    if not ways:
        return {}
    turns = min(each.turns for each in ways)
    found = {}
    for each in counters:
        sign = 1 if each.step > 0 else -1
        low, high = sorted(sign * end for end in begins[each.register])
        high += abs(each.step) * turns
        high = max(low, min(high, limits.get(each.register, high)))
        interval = (low, high) if sign > 0 else (-high, -low)
        if is_within(interval, (-_FAR, _FAR)):
            found[each.register] = interval
    return found


def _tests(function: Function, loop: _Loop) -> Iterator[_Test]:
    """Yield the tests that each turn makes. Each of them can end the loop."""
    blocks = function.blocks
    latches = [each for each in loop.body if loop.head in blocks[each].followers]
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
    begin: Interval,
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
    step, low, high = counter.step, begin[0], begin[1]
    if step < 0:  # as its negative, which is counted up
        step, low, high = -step, -high, -low
        bound, relation = (-bound[1], -bound[0]), swapped(relation)
    if relation == "ne":
        # It meets the bound, unless it begins beyond it, or steps over it.
        is_met = step == 1 or (low == high == 0 and multiples.get(other, 1) % step == 0)
        if not is_met or high > bound[0] or other in changed:
            return None
        farthest = bound[1]
    elif relation not in ("lt", "le"):
        return None
    else:
        farthest = max(bound[1] - (relation == "lt"), high) + step
    turns = max(0, bound[1] - low) // step + 2
    return _Way(turns, farthest) if turns * step < _FAR else None
