"""Integers of 64 bits that fit 32, computed in 32 bits."""

from __future__ import annotations

import operator
import re

from kerneldsl.analysis.interval_arithmetic import Interval, hull, interval_of
from kerneldsl.contract import Report
from targets.cuda.compile.addresses.arithmetic import INT32, OPERATORS, is_within
from targets.cuda.compile.addresses.countdowns import countdowns
from targets.cuda.compile.addresses.emission import Emitter, Sums
from targets.cuda.compile.addresses.function import Function, Instruction
from targets.cuda.compile.addresses.values import Values

__all__ = ["Narrowing"]

#: Operations with results that fit 32 bits if their operands do.
_IN_32_BITS = frozenset(
    {
        *("and.b64", "or.b64", "xor.b64", "shr.s64", "shr.u64", "selp.b64"),
        *("min.s64", "max.s64", "min.u64", "max.u64"),
    }
)
_COMPARISON = re.compile(r"setp\.(eq|ne|lt|le|gt|ge|lo|ls|hi|hs)\.([sub])64")
_TO_FLOAT = re.compile(r"(cvt\.r[nzmp]\.f(?:32|64))\.([su])64")


class Narrowing:
    """Writes operations of a function in 32 bits, into its lines."""

    def __init__(
        self,
        function: Function,
        values: Values,
        emitter: Emitter,
        sums: Sums,
        lines: list[str],
        report: Report,
    ) -> None:
        self._values = values
        self._emitter = emitter
        self._sums = sums
        self._lines = lines
        self._report = report
        #: Registers with comparisons that are left to :func:`shorten_countdowns`.
        self._countdowns = countdowns(function)

    def narrow(self, instruction: Instruction) -> Instruction:
        """Write an operation on integers of 64 bits in 32 if they fit; return what it is."""
        opcode, operands, line = instruction.opcode, instruction.operands, instruction.line
        if instruction.predicate or not opcode.endswith("64"):
            return instruction
        if found := _COMPARISON.fullmatch(opcode):
            is_left = any(self._countdowns.get(each) == self._sums.block for each in operands)
            if len(operands) == 3 and not is_left and all(map(self._fits, operands[1:])):
                one, other = (self._sums.low_half(each, line) for each in operands[1:])
                if one is not None and other is not None:
                    text = f"\tsetp.{found[1]}.{found[2]}32 {operands[0]}, {one}, {other};"
                    self._lines[line] = text
                    self._report_narrow()
        elif opcode in _IN_32_BITS:
            return self._narrow_operation(instruction)
        elif found := _TO_FLOAT.fullmatch(opcode):
            # A negative number is a large one to a conversion without a sign.
            fits = self._fits(operands[1], INT32 if found[2] == "s" else (0, INT32[1]))
            one = self._sums.low_half(operands[1], line) if fits else None
            if one is not None:
                self._lines[line] = f"\t{found[1]}.s32 {operands[0]}, {one};"
                self._report_narrow()
        elif opcode in ("shl.b64", "mul.lo.s64", "mad.lo.s64"):
            self._widen_product(instruction)
        return instruction

    def _report_narrow(self) -> None:
        self._report("integer operation", "computed in 32 bits")

    def _fits(self, operand: str, bounds: Interval = INT32) -> bool:
        return is_within(self._values.interval(operand), bounds)

    def _narrow_operation(self, instruction: Instruction) -> Instruction:
        """Write an operation in 32 bits if its result fits them."""
        opcode, operands, line = instruction.opcode, instruction.operands, instruction.line
        name = opcode.partition(".")[0]
        bounds = self._bounds_of(name, operands, is_unsigned=opcode.endswith("u64"))
        if bounds is None:
            return instruction
        one, other = (self._sums.low_half(each, line) for each in operands[1:3])
        if one is None or other is None:
            return instruction
        narrow = self._emitter.register(32)
        rest = "".join(f", {each}" for each in operands[3:])
        self._emitter.insert(line, f"{opcode[:-2]}32 {narrow}, {one}, {other}{rest};")
        # ptxas computes the high half of a number with a sign.
        extension = "cvt.u64.u32" if bounds[0] >= 0 else "cvt.s64.s32"
        self._lines[line] = f"\t{extension} {operands[0]}, {narrow};"
        self._values.define(narrow, None, bounds)
        self._report_narrow()
        return Instruction(line, extension, (operands[0], narrow), results=(operands[0],))

    def _bounds_of(
        self, name: str, operands: tuple[str, ...], *, is_unsigned: bool
    ) -> Interval | None:
        """Return the bounds of an operation's result, where 32 bits are enough for it."""
        one, other = (self._values.interval(each) for each in operands[1:3])
        nonnegative = (0, INT32[1])
        if name == "and" and self._values.is_unmasked(operands):
            return None
        if name == "and" and (is_within(one, nonnegative) or is_within(other, nonnegative)):
            # The high half of one is zeros, and so is that of the result.
            known = [each[1] for each in (one, other) if each is not None and each[0] >= 0]
            return 0, min(known)
        if one is None or other is None or not is_within(hull(one, other), INT32):
            return None
        if name == "shr":
            count = other[0] if other[0] == other[1] else -1
            is_known = 0 <= count < 32 and (one[0] >= 0 or not is_unsigned)
            return interval_of(operator.rshift, [one, other]) if is_known else None
        if name in ("min", "max") and (not is_unsigned or min(one[0], other[0]) >= 0):
            return interval_of(OPERATORS[name], [one, other])
        if name in ("selp", "min", "max"):
            return hull(one, other)
        return nonnegative if min(one[0], other[0]) >= 0 else INT32

    def _widen_product(self, instruction: Instruction) -> None:
        """Write a product of integers of 64 bits as one of 32 that gives 64."""
        opcode, operands, line = instruction.opcode, instruction.operands, instruction.line
        nonnegative = (0, INT32[1])
        if not self._fits(operands[1], nonnegative):
            return
        factor = operands[2]
        if opcode == "shl.b64":
            if not factor.isdigit() or int(factor) > 30:
                return
            other: str | None = str(1 << int(factor))
        elif self._fits(factor, nonnegative):
            other = self._sums.low_half(factor, line)
        else:
            return
        one = self._sums.low_half(operands[1], line)
        if one is None or other is None or one.isdigit():
            return
        rest = "".join(f", {each}" for each in operands[3:])
        name = "mad" if opcode.startswith("mad") else "mul"
        self._lines[line] = f"\t{name}.wide.u32 {operands[0]}, {one}, {other}{rest};"
        self._report_narrow()
