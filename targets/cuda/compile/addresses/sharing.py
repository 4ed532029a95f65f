"""Addresses in registers that accesses in several blocks share, with immediate offsets.

Such as the loads of a vector number by number, each if it is within the array. None of them is made
before all others, so that none can be where their addresses are computed from.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from targets.cuda.compile.addresses.function import Function, Instruction

__all__ = ["ADDRESS", "MAX_IMMEDIATE", "is_access", "least_offsets", "place_of"]

#: The operand that is an address in a register, and its immediate offset.
ADDRESS = re.compile(r"\[(%\w+)(?:\+(-?\d+))?\]")
#: Immediate offsets of an access have 24 bits, with a sign.
MAX_IMMEDIATE = 2**23 - 1
_ACCESS = re.compile(r"(?:ld|st|atom|red)\.(?:[\w:]+\.)*global\b")


def is_access(instruction: Instruction) -> bool:
    """Return whether an instruction accesses global memory."""
    return _ACCESS.match(instruction.opcode) is not None


def place_of(instruction: Instruction) -> tuple[str, int] | None:
    """Return the register and the immediate offset of the address that an instruction has."""
    found = next(filter(None, map(ADDRESS.fullmatch, instruction.operands)), None)
    return None if found is None else (found[1], int(found[2] or 0))


class _Use(NamedTuple):
    """An access through a register, the block that it is in, and its immediate offset."""

    block: int
    instruction: Instruction
    immediate: int


def least_offsets(function: Function) -> dict[str, int]:
    """Return the least immediate offset of each register that accesses share."""
    uses: dict[str, list[_Use]] = {}
    for block in function.in_order():
        for instruction in filter(is_access, function.blocks[block].instructions):
            place = place_of(instruction)
            if place is not None and function.writes[place[0]] == 1:
                uses.setdefault(place[0], []).append(_Use(block, instruction, place[1]))
    found = {}
    for register, accesses in uses.items():
        offsets = [each.immediate for each in accesses]
        is_near = max(offsets) - min(offsets) <= MAX_IMMEDIATE
        if len(accesses) > 1 and is_near and not _is_one_first(function, accesses):
            found[register] = min(offsets)
    return found


def _is_one_first(function: Function, accesses: list[_Use]) -> bool:
    """Return whether an access is made before each of the others."""
    first = accesses[0]  # in an order in which dominators come before
    return not first.instruction.predicate and all(
        function.dominates(first.block, each.block) for each in accesses
    )
