"""Values of registers as polynomials of others, and between which numbers they lie.

Atoms of a polynomial of 64 bits are registers, and ``p3`` for the parameter number 3. ``z%r1`` and
``s%r1`` are a register of 32 bits that is extended by zeros or by its sign. Atoms of a polynomial
of 32 bits are registers, and ``l%rd1`` and ``lp3`` for low halves. A register that is written more
than once is ``%rd1@4.2`` in the block number 4 after the second write there.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from kerneldsl.analysis.interval_arithmetic import Interval, hull, interval_of
from kerneldsl.contract.promises import NARROW_THREADS
from targets.cuda.compile.addresses.arithmetic import (
    INT32,
    OPERATORS,
    Polynomial,
    add,
    common,
    constant,
    degree,
    is_within,
    multiply,
    scale,
    signed,
    wrap,
)
from targets.cuda.compile.addresses.facts import ParameterFacts
from targets.cuda.compile.addresses.function import Function, Instruction

__all__ = ["NO_COUNTERS", "Values", "is_literal", "parameter_number"]

_MAX_TERMS, _MAX_DEGREE = 12, 4
_UINT32: Interval = (0, 2**32 - 1)
_INT64: Interval = (-(2**63), 2**63 - 1)
_PARAMETER = re.compile(r"\[[\w$]+_param_(\d+)\]")
#: Names of registers of 64 bits. A conversion from 32 bits may read one: cvt.s64.s32 %rd2, %rd1.
_WIDE = ("%rd", "%kd_d")
_LITERAL = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)")
#: Bounds of special registers (PTX ISA, section "Special Registers").
_SPECIAL = {
    "%tid": (0, 1023),
    "%ntid": (1, 1024),
    "%ctaid": (0, 2**31 - 2),
    "%nctaid": (1, 2**31 - 1),
    "%laneid": (0, 31),
}
_SPECIAL_YZ = {"%ctaid": (0, 65534), "%nctaid": (1, 65535)}
#: Special registers with a product that is a block's first thread, or the threads of a grid.
_COUNTS = ({"%ctaid", "%ntid"}, {"%nctaid", "%ntid"})
NO_COUNTERS: Mapping[str, Interval] = MappingProxyType({})
#: Interval of these products where the grid is narrow.
_NARROW_START: Interval = (0, NARROW_THREADS)


_WIDE_PRODUCTS = ("wide.u32", "wide.s32")
#: Instructions other than arithmetic that write known values.
_READ = frozenset(("ld.param.b64", "ld.param.b32", "bfe.u32", "mov.u32", "mov.b32"))
_CONVERSIONS = ("u64.u32", "s64.s32", "u32.u64")
_ARITHMETIC = ("min", "max", "selp", "and", "mov", "add", "sub", "neg", "mul", "mad", "shl")
_TYPES = ("s64", "b64", "lo.s64", "s32", "b32", "lo.s32")


@lru_cache(maxsize=1 << 10)
def _is_read(opcode: str) -> bool:
    """Return whether something may be known of what an instruction writes."""
    name, _, rest = opcode.partition(".")
    if name == "cvt":
        return rest in _CONVERSIONS
    return opcode in _READ or rest in _WIDE_PRODUCTS or (name in _ARITHMETIC and rest in _TYPES)


@lru_cache(maxsize=1 << 14)
def is_literal(operand: str) -> bool:
    return _LITERAL.fullmatch(operand) is not None


def parameter_number(operand: str) -> int | None:
    """Return the number of the parameter that an operand reads from its start."""
    found = _PARAMETER.fullmatch(operand)
    return int(found[1]) if found is not None else None


class Values:
    """Known values of the registers of a function, block by block."""

    def __init__(
        self,
        function: Function,
        facts: ParameterFacts,
        counters: Mapping[str, Interval] = NO_COUNTERS,
    ) -> None:
        self._function = function
        #: Intervals of registers that loops count in.
        self._counters = counters
        self._facts = facts
        self._block = 0
        #: Polynomials of registers that are written once, and of others since the block began.
        self._polynomials: dict[str, Polynomial] = {}
        self._intervals: dict[str, Interval] = {}
        #: Writes since the block began, of registers that are written more than once.
        self.versions: dict[str, int] = {}
        #: Number of writes so far of registers that are written more than once, and their value if
        #: it is the same in all writes.
        self._repeated: dict[str, tuple[int, Polynomial]] = {}
        #: Special registers in others.
        self._special: dict[str, str] = {}
        #: The block in which an atom has its value.
        self.homes: dict[str, int] = {}

    def enter(self, block: int) -> None:
        """Begin with a block."""
        for register in self.versions:
            self._polynomials.pop(register, None)
            self._intervals.pop(register, None)
            self._special.pop(register, None)
        self._block = block
        self.versions = {}

    # ------------------------------------------------------------------------------ reading

    def wide(self, operand: str) -> Polynomial:
        """Return the value of an operand of 64 bits."""
        if is_literal(operand):
            return constant(int(operand, 0))
        return self._polynomial(operand)

    def narrow(self, operand: str) -> Polynomial:
        """Return the value of an operand of 32 bits."""
        if is_literal(operand):
            return constant(signed(int(operand, 0), 32))
        return self._polynomial(operand)

    def low_half(self, value: Polynomial) -> Polynomial | None:
        """Return the low 32 bits of a value of 64; ``None`` if that takes too many terms."""
        total: Polynomial = {}
        for term, factor in value.items():
            product = constant(factor)
            for atom in term:
                product = multiply(product, self._low_half_of(atom))
            total = add(total, product)
        total = wrap(total, 32)
        return total if _is_small(total) else None

    def interval(self, operand: str) -> Interval | None:
        """Return between which numbers an operand of 64 bits is."""
        found, counted = self._intervals.get(operand), self._counters.get(operand)
        if found is None and counted is None:
            return (int(operand, 0),) * 2 if is_literal(operand) else None
        return common(found, counted)

    def interval_of(self, value: Polynomial) -> Interval | None:
        """Return between which numbers a polynomial of 64 bits is, if it does not wrap."""
        total: Interval = (0, 0)
        for term, factor in value.items():
            product: Interval = (factor, factor)
            for atom in term:
                known = self.interval_of_atom(atom)
                if known is None:
                    return None
                product = interval_of(operator.mul, [product, known])
            total = interval_of(operator.add, [total, product])
        return total if is_within(total, _INT64) else None

    def interval_of_atom(self, atom: str) -> Interval | None:
        """Return between which numbers an atom of 64 bits is."""
        if atom.startswith("p"):
            return (0, 2**31 - 1) if int(atom[1:]) in self._facts.extents else None
        if atom[0] in "zs":
            return self._extended(atom[1:], is_signed=atom[0] == "s")
        return common(self._intervals.get(atom), self._counters.get(atom.partition("@")[0]))

    def is_current(self, value: Polynomial) -> bool:
        """Return whether the registers of a value have not been written since."""
        for term in value:
            for atom in term:
                if "@" in atom and not self._is_current(atom):
                    return False
        return True

    def _is_current(self, atom: str) -> bool:
        register, _, version = atom.lstrip("lzs").partition("@")
        return version == f"{self._block}.{self.versions.get(register, 0)}"

    def _is_stable(self, register: str) -> bool:
        return self._function.writes[register] <= 1

    def _atom(self, register: str) -> str:
        if self._is_stable(register):
            self.homes.setdefault(register, self._block)
            return register
        atom = f"{register}@{self._block}.{self.versions.setdefault(register, 0)}"
        self.homes[atom] = self._block
        return atom

    def _polynomial(self, register: str) -> Polynomial:
        known = self._polynomials.get(register)
        if known is None and register not in self.versions:
            count, same = self._repeated.get(register, (0, None))
            known = same if count == self._function.writes[register] else None
        if known is None or not self.is_current(known):
            return {(self._atom(register),): 1}
        return known

    def _low_half_of(self, atom: str) -> Polynomial:
        if atom[0] not in "zs":
            return {(f"l{atom}",): 1}
        register, _, version = atom[1:].partition("@")
        if version:
            return {(atom[1:],): 1}
        return self._polynomial(register)

    def _extended(self, register: str, *, is_signed: bool) -> Interval:
        bounds = INT32 if is_signed else _UINT32
        known = self._intervals.get(register.partition("@")[0])
        return known if known is not None and is_within(known, bounds) else bounds

    def _extension(self, operand: str, *, is_signed: bool) -> Polynomial:
        """Return the value in 64 bits of an operand of 32."""
        if is_literal(operand):
            number = int(operand, 0)
            return constant(signed(number, 32) if is_signed else number % 2**32)
        known = self._intervals.get(operand)
        is_either = is_within(known, (0, INT32[1]))
        atom = f"{'s' if is_signed and not is_either else 'z'}{self._atom(operand)}"
        self.homes[atom] = self.homes[atom[1:]]
        return {(atom,): 1}

    # ------------------------------------------------------------------------------ writing

    def execute(self, instruction: Instruction) -> None:
        """Take note of what an instruction writes."""
        written = instruction.results
        found = self._result(instruction) if not instruction.predicate else None
        for register in written:
            self.homes[register] = self._block
            if not self._is_stable(register):
                self.versions[register] = self.versions.get(register, 0) + 1
                self._polynomials.pop(register, None)
                self._intervals.pop(register, None)
                self._special.pop(register, None)
        if found is None or len(written) != 1:
            return
        (register,), (value, interval) = written, found
        if value is not None and _is_small(value) and self.is_current(value):
            self._polynomials[register] = value
            self._repeat(register, value)
        if interval is not None:
            self._intervals[register] = interval
        if instruction.opcode == "mov.u32" and instruction.operands[1].startswith("%"):
            self._special[register] = instruction.operands[1]

    def _repeat(self, register: str, value: Polynomial) -> None:
        """Take note of a value that each write of a register may give it."""
        if self._is_stable(register):
            return
        count, known = self._repeated.get(register, (0, value))
        is_fixed = all("@" not in atom for term in value for atom in term)
        if is_fixed and known == value:
            self._repeated[register] = count + 1, value

    def define(self, register: str, value: Polynomial | None, interval: Interval | None) -> None:
        """Take note of a register that has been added to the block."""
        self.homes[register] = self._block
        if value is not None:
            self._polynomials[register] = value
        if interval is not None:
            self._intervals[register] = interval

    def _result(self, instruction: Instruction) -> tuple[Polynomial | None, Interval | None] | None:
        operands = instruction.operands[1:]
        if not operands or not _is_read(instruction.opcode):
            return None
        name, _, rest = instruction.opcode.partition(".")
        if instruction.opcode == "ld.param.b64":
            return self._parameter(operands[0])
        if instruction.opcode == "ld.param.b32":
            number = parameter_number(operands[0])
            is_extent = number is not None and number in self._facts.extents
            return ({(f"lp{number}",): 1}, (0, INT32[1])) if is_extent else None
        if instruction.opcode == "bfe.u32" and is_literal(operands[2]):
            return None, (0, 2 ** min(int(operands[2]), 32) - 1)
        if instruction.opcode in ("mov.u32", "mov.b32") and operands[0].startswith("%"):
            bounds = _special_bounds(operands[0])
            if bounds is not None:
                return None, bounds
        if name == "cvt":
            return self._conversion(rest, operands[0])
        if rest in _WIDE_PRODUCTS:
            return self._wide_product(operands, is_signed=rest.endswith("s32"))
        if rest not in _TYPES:
            return None
        return self._arithmetic(name, operands, 64 if rest.endswith("64") else 32)

    def _parameter(self, operand: str) -> tuple[Polynomial | None, Interval | None] | None:
        number = parameter_number(operand)
        if number is None:
            return None
        atom = f"p{number}"
        self.homes[atom] = 0
        return {(atom,): 1}, self.interval_of_atom(atom)

    def _conversion(
        self, types: str, operand: str
    ) -> tuple[Polynomial | None, Interval | None] | None:
        if types in ("u64.u32", "s64.s32"):
            if operand.startswith(_WIDE):
                return self._extended_low_half(operand, INT32 if types[0] == "s" else _UINT32)
            value = self._extension(operand, is_signed=types[0] == "s")
            ((term, factor),) = value.items() if value else (((), 0),)
            interval = self.interval_of_atom(term[0]) if term else (factor, factor)
            return value, interval
        if types == "u32.u64":
            interval = self.interval(operand)
            is_kept = is_within(interval, INT32) or is_within(interval, _UINT32)
            return self.low_half(self.wide(operand)), interval if is_kept else None
        return None

    def _extended_low_half(
        self, register: str, bounds: Interval
    ) -> tuple[Polynomial | None, Interval]:
        """Return the low half of a register of 64 bits, which a conversion extends again."""
        known = self.interval(register)
        if known is not None and is_within(known, bounds):
            return self.wide(register), known
        return None, bounds

    def _wide_product(
        self, operands: tuple[str, ...], *, is_signed: bool
    ) -> tuple[Polynomial | None, Interval | None]:
        one, other = (self._extension(each, is_signed=is_signed) for each in operands[:2])
        bounds = [self._interval_of_extension(each) for each in (one, other)]
        value, interval = multiply(one, other), interval_of(operator.mul, bounds)
        if self._starts_block(operands):
            interval = common(interval, _NARROW_START) or interval
        if len(operands) > 2:
            value = add(value, self.wide(operands[2]))
            third = self.interval(operands[2])
            known = None if third is None else [interval, third]
            interval = _INT64 if known is None else interval_of(operator.add, known)
        return wrap(value, 64), interval if is_within(interval, _INT64) else None

    def _interval_of_extension(self, value: Polynomial) -> Interval:
        if not value:
            return 0, 0
        ((term, factor),) = value.items()
        found = self.interval_of_atom(term[0]) if term else (factor, factor)
        assert found is not None
        return found

    def _starts_block(self, operands: tuple[str, ...]) -> bool:
        """Return whether two operands' product counts threads along an axis of a narrow grid."""
        names = {self._special.get(each, "") for each in operands[:2]}
        axes = {name.partition(".")[2] for name in names}
        kinds = {name.partition(".")[0] for name in names}
        return self._facts.is_grid_narrow and kinds in _COUNTS and len(axes) == 1

    def _arithmetic(
        self, name: str, operands: tuple[str, ...], bits: int
    ) -> tuple[Polynomial | None, Interval | None] | None:
        read = self.wide if bits == 64 else self.narrow
        bounds = [self._bounds(each, bits) for each in operands]
        if name in ("min", "max", "selp"):
            one, other = bounds[:2]
            if (
                one is None
                or other is None
                or (bits == 32 and not is_within(hull(one, other), INT32))
            ):
                return None
            if name == "selp":
                return None, hull(one, other)
            return None, interval_of(OPERATORS[name], [one, other])
        if name == "and":
            return self._masked(operands, bits)
        if name not in ("mov", "add", "sub", "neg", "mul", "mad", "shl"):
            return None
        values = [read(each) for each in operands]
        if name == "shl":
            if not is_literal(operands[1]) or not 0 <= int(operands[1], 0) < bits:
                return None
            factor = 1 << int(operands[1], 0)
            value, interval = scale(values[0], factor), bounds[0]
            if interval is not None:
                interval = interval_of(operator.mul, [interval, (factor, factor)])
        else:
            value = _combined(name, values)
            interval = _combined_interval(name, bounds)
        if name in ("mul", "mad") and bits == 32 and self._starts_block(operands):
            # Along y and z a grid has so few blocks that it is even narrower.
            interval = common(_combined_interval("mul", bounds[:2]), _NARROW_START)
            if name == "mad":
                interval = _combined_interval("add", [interval, bounds[2]])
        if bits == 64:
            is_known = is_within(interval, _INT64)
        else:
            is_known = is_within(interval, INT32) or is_within(interval, _UINT32)
        return wrap(value, bits), interval if is_known else None

    def _bounds(self, operand: str, bits: int) -> Interval | None:
        if bits == 32 and is_literal(operand):
            return (signed(int(operand, 0), 32),) * 2
        return self.interval(operand)

    def is_unmasked(self, operands: tuple[str, ...]) -> bool:
        """Return whether ``and`` changes nothing, as of the extents that are known to be small."""
        mask = int(operands[2], 0) if is_literal(operands[2]) else 0
        return mask == INT32[1] and is_within(self.interval(operands[1]), (0, mask))

    def _masked(
        self, operands: tuple[str, ...], bits: int
    ) -> tuple[Polynomial | None, Interval | None] | None:
        if not is_literal(operands[1]):
            return None
        if self.is_unmasked(("", *operands)):
            value = self.wide(operands[0]) if bits == 64 else self.narrow(operands[0])
            return value, self.interval(operands[0])
        mask = int(operands[1], 0)
        return (None, (0, mask)) if mask >= 0 else None


def _is_small(value: Polynomial) -> bool:
    return len(value) <= _MAX_TERMS and degree(value) <= _MAX_DEGREE


def _special_bounds(register: str) -> Interval | None:
    name, _, axis = register.partition(".")
    if axis in ("y", "z") and name in _SPECIAL_YZ:
        return _SPECIAL_YZ[name]
    return _SPECIAL.get(name)


def _combined(name: str, values: list[Polynomial]) -> Polynomial:
    if name == "mov":
        return values[0]
    if name == "neg":
        return scale(values[0], -1)
    if name in ("add", "sub"):
        return add(values[0], values[1], 1 if name == "add" else -1)
    product = multiply(values[0], values[1])
    return add(product, values[2]) if name == "mad" else product


def _combined_interval(name: str, bounds: list[Interval | None]) -> Interval | None:
    known = [each for each in bounds if each is not None]
    if len(known) != len(bounds):
        return None
    if name == "mov":
        return known[0]
    if name == "mad":
        return interval_of(operator.add, [interval_of(operator.mul, known[:2]), known[2]])
    return interval_of(OPERATORS[name], known)
