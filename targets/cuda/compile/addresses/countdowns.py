"""Count down in 32 bits if all that a counter begins with fits them.

ptxas (seen with 13.0) keeps a counter of 64 bits in two registers, and steps and compares it by two
instructions each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kerneldsl.analysis.interval_arithmetic import Interval
from kerneldsl.contract import Report, ignore_remark
from kerneldsl.ir.recognize import reached
from targets.cuda.compile.addresses.arithmetic import INT32, is_within
from targets.cuda.compile.addresses.facts import ParameterFacts
from targets.cuda.compile.addresses.function import Function, Instruction, read_function
from targets.cuda.compile.addresses.values import NO_COUNTERS, Values

__all__ = ["countdowns", "shorten_countdowns"]


def shorten_countdowns(
    lines: list[str],
    facts: ParameterFacts,
    counters: Mapping[str, Interval] = NO_COUNTERS,
    report: Report = ignore_remark,
) -> list[str]:
    """Return a function with counters of 32 bits.

    Such a counter is decreased by a number at one place, and the loop goes on while it is greater
    than another number. If it is decreased by a power of two, the loop may also go on until it
    equals the other. What counts in 32 bits is the distance of both. `counters` are intervals of
    registers.
    """
    is_possible = any("add.s64" in line and ", -" in line for line in lines)
    function = read_function(lines) if is_possible else None
    if function is None:
        return lines
    registers = countdowns(function)
    if not registers:
        return lines
    uses = _uses(function, set(registers))
    possible = [_Countdown.of(function, register, uses[register]) for register in registers]
    found = _fitting(function, Values(function, facts, counters), list(filter(None, possible)))
    added: dict[int, list[str]] = {}
    declared: list[str] = []
    written = list(lines)
    for register, step, test, begins, _ in found:
        short = f"%kd_count{len(declared)}"
        declared.append(f"\t.reg .b32 {short};")
        end = int(test.operands[2])
        for begin in begins:
            copies = [f"\tcvt.u32.u64 {short}, {register};"]
            if end:
                copies.append(f"\tadd.s32 {short}, {short}, {-end};")
            added.setdefault(begin.line, []).extend(copies)
        written[step.line] = f"\tadd.s32 {short}, {short}, {step.operands[2]};"
        comparison = re.sub("[su]64", "s32", test.opcode).replace("b64", "b32")
        written[test.line] = f"\t{comparison} {test.operands[0]}, {short}, 0;"
    report("counter", "counted down in 32 bits", len(declared))
    text: list[str] = []
    for number, line in enumerate(written):
        text += [line, *added.get(number, ())]
        if number == function.opening:
            text += declared
    return text


class _Use(NamedTuple):
    """An instruction that reads or writes a register."""

    block: int
    instruction: Instruction
    is_begin: bool


class _Countdown(NamedTuple):
    """A counter: its step, its comparison with a number, and what it begins with."""

    register: str
    step: Instruction
    comparison: Instruction
    begins: list[Instruction]
    #: Initial values with which the counter fits 32 bits.
    bounds: Interval

    @classmethod
    def of(cls, function: Function, register: str, uses: list[_Use]) -> _Countdown | None:
        """Return how a register counts down; ``None`` if it does something else."""
        steps = [each for each in uses if _is_step(each.instruction, register)]
        if len(steps) != 1:
            return None
        block, step = steps[0].block, steps[0].instruction
        tests = [
            each.instruction
            for each in uses
            if each.block == block and _is_test(each.instruction, register)
        ]
        begins = [each for each in uses if each.is_begin]
        if len(tests) != 1 or not begins:
            return None
        (test,), decrease = tests, -int(step.operands[2])
        last = function.blocks[block].instructions[-1]
        if last.opcode.partition(".")[0] != "bra" or last.predicate.lstrip("!") != test.operands[0]:
            return None
        end = int(test.operands[2])
        if test.opcode == "setp.gt.s64":
            least = INT32[0] + decrease + end
        elif test.opcode == "setp.gt.u64":
            # The counter is never negative: the step comes after the test, and does not go below 0.
            least = 0
            if test.line > step.line or end < decrease - 1:
                return None
        else:
            # A counter that misses the end never reaches it, because a power of two divides 2**32.
            least = end
            if decrease & (decrease - 1):
                return None
        others = {
            each.block
            for each in uses
            if not each.is_begin and each.instruction not in (step, test)
        }
        homes = {each.block for each in begins}

        def following(number: int) -> set[int]:
            return {*function.blocks[number].followers} - homes

        after = reached(following(block), following)
        if block in others or not others.isdisjoint(after):
            return None
        made = [each.instruction for each in begins]
        return cls(register, step, test, made, (least, INT32[1] + end))


def countdowns(function: Function) -> dict[str, int]:
    """Return the registers that are decreased by numbers, and the blocks of these steps."""
    return {
        each.operands[0]: number
        for number, block in enumerate(function.blocks)
        for each in block.instructions
        if each.operands
        and _is_step(each, each.operands[0])
        and function.writes[each.operands[0]] > 1
    }


def _is_step(instruction: Instruction, register: str) -> bool:
    return (
        instruction.opcode == "add.s64"
        and not instruction.predicate
        and instruction.operands[:2] == (register, register)
        and re.fullmatch(r"-\d{1,9}", instruction.operands[2]) is not None
    )


def _is_test(instruction: Instruction, register: str) -> bool:
    return (
        instruction.opcode in ("setp.gt.s64", "setp.gt.u64", "setp.ne.b64", "setp.eq.b64")
        and not instruction.predicate
        and instruction.operands[1] == register
        and re.fullmatch(r"-?\d{1,9}", instruction.operands[2]) is not None
    )


def _uses(function: Function, registers: set[str]) -> dict[str, list[_Use]]:
    """Return the instructions that read or write registers."""
    found: dict[str, list[_Use]] = {register: [] for register in registers}
    for block in function.in_order():
        for each in function.blocks[block].instructions:
            for register in registers.intersection((*each.results, *each.reads)):
                is_begin = register in each.results and not _is_step(each, register)
                found[register].append(_Use(block, each, is_begin))
    return found


def _fitting(function: Function, values: Values, possible: list[_Countdown]) -> list[_Countdown]:
    """Return the counters that begin with numbers that fit."""
    begins = {each for counter in possible for each in counter.begins}
    for block in function.in_order() if begins else ():
        values.enter(block)
        for each in function.blocks[block].instructions:
            values.execute(each)
            if each in begins:
                possible = [
                    counter
                    for counter in possible
                    if each not in counter.begins
                    or is_within(values.interval(counter.register), counter.bounds)
                ]
    return possible
