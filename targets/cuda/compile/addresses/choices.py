"""Intervals of registers that are copies of others, or chosen from them, at several places."""

from __future__ import annotations

from collections.abc import Mapping

from targets.cuda.compile.addresses.function import Function, Instruction, results
from targets.cuda.compile.addresses.intervals import Interval, hull

__all__ = ["choice_intervals"]

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
            for register in results(each):
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
