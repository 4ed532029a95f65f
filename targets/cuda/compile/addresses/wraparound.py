"""Indices that may be negative, and then count from the end of an axis.

The number of an element is ``index + (extent if index < 0 else 0)``: a comparison, a choice and a
sum. If the element is accessed, the index is at least ``-extent``. Then the number is the smaller
one of ``index`` and ``index + extent``, as integers of 32 bits without signs. A negative index is
at least 2**31 there. That is one instruction of an sm_90, and two of others.
"""

from __future__ import annotations

from typing import NamedTuple

from targets.cuda.compile.addresses.arithmetic import Polynomial, add, scale, wrap
from targets.cuda.compile.addresses.emission import Emitter, Sums
from targets.cuda.compile.addresses.function import Function, Instruction
from targets.cuda.compile.addresses.values import Values

__all__ = ["Wraparound"]

_EXTENTS = (0, 2**31 - 1)


class _Sign(NamedTuple):
    """A predicate, or a mask, that is set if an index is negative; or if it is not.

    `value` is the index.
    """

    value: Polynomial
    is_negative: bool


class Wraparound:
    """Finds what is added to negative indices, and replaces it where an element is accessed."""

    def __init__(self, function: Function, values: Values, emitter: Emitter, sums: Sums) -> None:
        self._function = function
        self._values = values
        self._emitter = emitter
        self._sums = sums
        self._signs: dict[str, _Sign] = {}
        #: Maps the atom of an added number to the polynomial of the sum less the index.
        self._replaced: dict[str, Polynomial] = {}

    def note(self, instruction: Instruction) -> None:
        """Take note of an instruction that has been executed, as the kernel has it."""
        operands = instruction.operands
        if instruction.predicate or not operands or self._function.writes[operands[0]] != 1:
            return
        if sign := self._sign(instruction):
            self._signs[operands[0]] = sign
        elif extent := self._added(instruction):
            self._replace(instruction, *extent)

    def _sign(self, instruction: Instruction) -> _Sign | None:
        opcode, operands = instruction.opcode, instruction.operands
        name, _, rest = opcode.partition(".")
        bits = 64 if opcode.endswith("64") else 32
        if name == "setp" and rest[:-2] in ("lt.s", "gt.s", "ge.s") and len(operands) == 3:
            is_negative = rest.startswith("lt")
            if operands[2] != ("-1" if rest.startswith("gt") else "0"):
                return None
        elif opcode in ("shr.s64", "shr.s32") and operands[2] == str(bits - 1):
            is_negative = True
        else:
            return None
        if bits == 32:
            return _Sign(self._values.narrow(operands[1]), is_negative)
        index = self._values.low_half(self._values.wide(operands[1]))
        return None if index is None else _Sign(index, is_negative)

    def _added(self, instruction: Instruction) -> tuple[Polynomial, str] | None:
        """Return an index, and what an instruction gives if it is negative, and 0 if not."""
        opcode, operands = instruction.opcode, instruction.operands
        if opcode in ("selp.b64", "selp.b32") and (sign := self._signs.get(operands[3])):
            extent, other = operands[1:3] if sign.is_negative else operands[2:0:-1]
            return (sign.value, extent) if other == "0" else None
        if opcode in ("and.b64", "and.b32"):
            for mask, extent in (operands[1:], operands[:0:-1]):
                if sign := self._signs.get(mask):
                    return sign.value, extent
        return None

    def _replace(self, instruction: Instruction, index: Polynomial, extent: str) -> None:
        if not self._values.is_current(index):
            return
        register, line = instruction.operands[0], instruction.line
        interval = self._values.interval(extent)
        if interval is None or not _EXTENTS[0] <= interval[0] <= interval[1] <= _EXTENTS[1]:
            return
        if instruction.opcode.endswith("64"):
            added = self._values.low_half(self._values.wide(register))
            number = self._values.low_half(self._values.wide(extent))
        else:
            added, number = self._values.narrow(register), self._values.narrow(extent)
        if added is None or number is None or len(added) != 1 or not index:
            return
        (((atom, *rest), factor),) = added.items()
        if rest or factor != 1:
            return
        one = self._sums.emitted(index, line)
        other = self._sums.emitted(wrap(add(index, number), 32), line)
        least = self._emitter.register(32)
        self._emitter.insert(line, f"min.u32 {least}, {one}, {other};")
        self._values.define(least, None, _EXTENTS)
        self._replaced[atom] = wrap(add({(least,): 1}, index, -1), 32)

    def element(self, number: Polynomial) -> Polynomial:
        """Return the number of an element that is accessed, with what replaces a sum."""
        for term, factor in number.items():
            for atom in term:
                if (replacement := self._replaced.get(atom)) is None:
                    continue
                rest = list(term)
                rest.remove(atom)
                product = scale(
                    {tuple(sorted((*each, *rest))): f for each, f in replacement.items()}, factor
                )
                simpler = wrap(add(add(number, {term: factor}, -1), product), 32)
                if len(simpler) < len(number):
                    return self.element(simpler)
        return number
