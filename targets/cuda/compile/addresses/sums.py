"""Sums of 32 bits that a function computes: each of them once, and as parts of others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from kerneldsl.utilities.reached import reached
from targets.cuda.compile.addresses.arithmetic import Polynomial, add
from targets.cuda.compile.addresses.emission import Emitter, Expression, expression_of
from targets.cuda.compile.addresses.function import Function, Instruction
from targets.cuda.compile.addresses.values import Values

__all__ = ["ADDRESS", "MAX_IMMEDIATE", "Sums", "is_access", "least_offsets", "place_of"]


class Sums:
    """Computes polynomials of 32 bits in the block that is rewritten."""

    def __init__(self, function: Function, values: Values, emitter: Emitter) -> None:
        self._function = function
        self._values = values
        self._emitter = emitter
        self._needed = needed_registers(function)
        #: Sums that have been computed, by each of their products.
        self._sums: dict[tuple[str, ...], list[tuple[Polynomial, Expression]]] = {}
        #: The block.
        self.block = 0

    def expression(self, value: Polynomial, line: int) -> Expression:
        """Return an expression of a polynomial, with sums that have been computed as parts."""
        return expression_of(value, self._depth, lambda part: self._with_sums(part, line))

    def emitted(self, value: Polynomial, line: int) -> str:
        """Compute a polynomial before a line, and return its register or number."""
        expression = self.expression(value, line)
        self.remember(value, expression)
        return self._emitter.emit(expression, self.block, line)

    def low_half(self, operand: str, line: int) -> str | None:
        """Return a register with the low half of an operand; ``None`` if it is not known."""
        value = self._values.low_half(self._values.wide(operand))
        return None if value is None else self.emitted(value, line)

    def remember(self, value: Polynomial, expression: Expression) -> None:
        """Let a sum with a product be a part of others."""
        if len(value) > 1 and isinstance(expression, tuple):
            for term in value:
                if len(term) > 1:
                    self._sums.setdefault(term, []).append((value, expression))

    def note(self, instruction: Instruction) -> None:
        """Let what a register of 32 bits has be used again."""
        register = instruction.operands[0] if instruction.operands else ""
        if self._function.writes[register] != 1:
            return
        if register in self._needed:
            self._note_low_half(register, instruction.line)
        if instruction.opcode.endswith("32"):
            value = self._values.narrow(register)
            if value and value != {(register,): 1} and self._values.is_current(value):
                expression = self.expression(value, instruction.line)
                self.remember(value, expression)
                self._emitter.note(expression, self.block, instruction.line + 1, register)

    def _note_low_half(self, register: str, line: int) -> None:
        """Let sums have the low half of a register that the kernel has anyway as a part."""
        value, atom = self._values.low_half(self._values.wide(register)), f"l{register}"
        if value and value != {(atom,): 1}:
            expression: Expression = ("low", atom)
            self.remember(value, expression)
            self._emitter.note(expression, self.block, line + 1, atom)

    def _with_sums(self, value: Polynomial, line: int) -> Polynomial:
        """Return a polynomial in which sums that have been computed are atoms."""
        for term in [each for each in value if len(each) > 1]:
            for part, expression in self._sums.get(term, ()):
                factor = value.get(term, 0) // part[term]
                if not factor or any(value.get(t) != f * factor for t, f in part.items()):
                    continue
                register = self._emitter.find(expression, self.block, line)
                if register is not None:
                    value = add(add(value, part, -factor), {(register,): factor})
        return value

    def _depth(self, atom: str) -> int:
        home = self._values.homes.get(atom.removeprefix("l"), 0)
        return self._function.blocks[home].depth


# -- registers that a kernel needs, whatever addresses are computed from ---------------------------


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
    first: list[str] = []
    for block in function.in_order():
        for each in function.blocks[block].instructions:
            for register in each.results:
                makers.setdefault(register, []).append(each)
            if not _may_be_narrow(each.opcode):
                first += _read(each)

    def operands(register: str) -> Iterator[str]:
        for each in makers.get(register, ()):
            if _ARITHMETIC.match(each.opcode):
                yield from _read(each)

    return frozenset(reached(first, operands))


@lru_cache(maxsize=1 << 10)
def _may_be_narrow(opcode: str) -> bool:
    return bool(_ARITHMETIC.match(opcode) or _IN_32_BITS.match(opcode))


def _read(instruction: Instruction) -> Iterator[str]:
    """Yield the registers that an instruction reads, except an address in global memory."""
    place = place_of(instruction) if is_access(instruction) else None
    for operand in instruction.operands[len(instruction.results[:1]) :]:
        if place is None or not operand.startswith(f"[{place[0]}"):
            yield from _REGISTER.findall(operand)


# Addresses in registers that accesses in several blocks share, with immediate offsets.
#
# Such as the loads of a vector number by number, each if it is within the array. None of them is
# made before all others, so that none can be where their addresses are computed from.

#: The operand that is an address in a register, and its immediate offset.
ADDRESS = re.compile(r"\[(%\w+)(?:\+(-?\d+))?\]")
#: Immediate offsets of an access have 24 bits, with a sign.
MAX_IMMEDIATE = 2**23 - 1
_ACCESS = re.compile(r"(?:ld|st|atom|red)\.(?:[\w:]+\.)*global\b")


def is_access(instruction: Instruction) -> bool:
    """Return whether an instruction accesses global memory."""
    return "global" in instruction.opcode and _ACCESS.match(instruction.opcode) is not None


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
