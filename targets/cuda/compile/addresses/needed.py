"""Registers of 64 bits that a kernel needs, whatever its addresses are computed from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from targets.cuda.compile.addresses.function import Function, Instruction, results
from targets.cuda.compile.addresses.sharing import is_access, place_of

__all__ = ["needed_registers"]

#: Integer arithmetic, which is needed if its result is.
_ARITHMETIC = re.compile(
    r"(?:mov|add|sub|neg|mul|mad|shl)\.[\w.]*64|mul\.wide|mad\.wide|cvt\.[su]64"
)
#: What may be computed from low halves instead.
_IN_32_BITS = re.compile(r"(?:setp|and|or|xor|shr|min|max|selp)\.[\w.]*64")
_REGISTER = re.compile(r"%rd\d+")


def needed_registers(function: Function) -> frozenset[str]:
    """Return the registers of 64 bits that are read by more than addresses in global memory."""
    makers: dict[str, list[Instruction]] = {}
    waiting: list[str] = []
    for block in function.in_order():
        for each in function.blocks[block].instructions:
            for register in results(each):
                makers.setdefault(register, []).append(each)
            if not (_ARITHMETIC.match(each.opcode) or _IN_32_BITS.match(each.opcode)):
                waiting += _read(each)
    needed: set[str] = set()
    while waiting:
        register = waiting.pop()
        if register not in needed:
            needed.add(register)
            for each in makers.get(register, ()):
                waiting += _read(each) if _ARITHMETIC.match(each.opcode) else ()
    return frozenset(needed)


def _read(instruction: Instruction) -> Iterator[str]:
    """Yield the registers that an instruction reads, except an address in global memory."""
    place = place_of(instruction) if is_access(instruction) else None
    for operand in instruction.operands[len(results(instruction)[:1]) :]:
        if place is None or not operand.startswith(f"[{place[0]}"):
            yield from _REGISTER.findall(operand)
