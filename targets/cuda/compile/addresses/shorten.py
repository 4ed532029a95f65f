"""Compute addresses with fewer instructions: in 32 bits, and from those of neighbours.

An address in an array is its pointer and an offset. If the array has fewer than 2**31 elements, the
number of an element that is accessed fits 31 bits. It is computed in 32 bits, because sums and
products wrap. One instruction (IMAD.WIDE) multiplies it by the size of an element and adds it to
the pointer.

Two accesses in a block are both made, so the distance of their elements fits 32 bits too. One
address is computed from the other if that takes fewer instructions. If the distance is a number, it
is an immediate offset. Distances of addresses that belong to no array are computed in 64 bits.

ptxas (seen with 13.0) does not find this itself: it does not know that numbers are small, and
computes in 64 bits what PTX does.

References
----------
PTX ISA, sections "Integer Arithmetic Instructions: mul, mad" and "Addresses as Operands".
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kerneldsl.contract import Report, ignore_remark
from targets.cuda.compile.addresses.arithmetic import INT32, Polynomial, add, is_within, scale, wrap
from targets.cuda.compile.addresses.countdowns import shorten_countdowns
from targets.cuda.compile.addresses.counters import counter_intervals
from targets.cuda.compile.addresses.emission import (
    ADDRESS,
    MAX_IMMEDIATE,
    Emitter,
    Expression,
    Sums,
    is_access,
    least_offsets,
    place_of,
)
from targets.cuda.compile.addresses.facts import ParameterFacts
from targets.cuda.compile.addresses.function import (
    Function,
    Instruction,
    read_function,
    remove_dead_code,
)
from targets.cuda.compile.addresses.narrowing import Narrowing
from targets.cuda.compile.addresses.values import Values
from targets.cuda.compile.addresses.wraparound import Wraparound

__all__ = ["shorten_addresses"]

_ENTRY = re.compile(r"^\.visible \.entry ([\w$]+)\(", re.M)
#: Remarks on addresses.
_FROM_NEIGHBOUR = "computed from a neighbour"
_WITHOUT_FACTS = (
    "computed in 64 bits: no array is known to be contiguous, with fewer than 2**31 elements"
)
#: A load of several elements, which a test of a whole vector is before.
_VECTOR_LOAD = re.compile(r"ld\.(?:\w+\.)*global\.(?:[\w:]+\.)*v\d")
#: Opcode that advances an address from one iteration of a loop to the next.
_STEP = "add.s64"


def shorten_addresses(ptx: str, facts: ParameterFacts, report: Report = ignore_remark) -> str:
    """Return a module with an entry that computes addresses with fewer instructions."""
    found = _ENTRY.search(ptx)
    if found is None:
        return ptx
    lines = ptx.split("\n")
    first = ptx.count("\n", 0, found.start())
    last = _end(lines, first)
    function = read_function(lines[first:last])
    if function is None:
        return ptx
    written = _Shortening(function, facts, found[1], report).written()
    return "\n".join([*lines[:first], *written, *lines[last:]])


def _end(lines: list[str], first: int) -> int:
    """Return the line after a function."""
    is_assembly = False
    for number, line in enumerate(lines[first:], first):
        if "inline asm" in line:
            is_assembly = "begin" in line
        elif line == "}" and not is_assembly:
            return number + 1
    return len(lines)


class _Access(NamedTuple):
    """An access to global memory.

    `value` is its address with the immediate offset. Of an element in an array, `element` is the
    number, and `rest` are bytes from its start.
    """

    instruction: Instruction
    register: str
    immediate: int
    value: Polynomial
    versions: dict[str, int]
    array: int | None
    element: Polynomial
    rest: int


class _Base(NamedTuple):
    """An address in a register, from which others are computed."""

    block: int
    line: int
    register: str
    #: Writes of the register in the block before; ``None`` if it is written once.
    version: int | None
    access: _Access


class _Shortening:
    def __init__(
        self, function: Function, facts: ParameterFacts, entry_name: str, report: Report
    ) -> None:
        self._report = report
        self._function = function
        self._facts = facts
        self._counters = counter_intervals(function, facts)
        self._values = Values(function, facts, self._counters)
        self._emitter = Emitter(function, self._values, entry_name)
        self._lines: list[str] = list(function.lines)
        #: Bases by array, or by the one register of an address that belongs to no array.
        self._bases: dict[str, list[_Base]] = {}
        self._block = 0
        #: Least immediate offset by address register, for registers that several accesses share.
        self._least_offsets = least_offsets(function)
        #: Registers that were computed in place of those, and the amount by which offsets grow.
        self._shared: dict[str, tuple[str, int]] = {}
        self._sums = Sums(function, self._values, self._emitter)
        self._narrowing = Narrowing(
            function, self._values, self._emitter, self._sums, self._lines, report
        )
        self._wraparound = Wraparound(function, self._values, self._emitter, self._sums)

    def written(self) -> list[str]:
        """Return the text of the function."""
        for block in self._function.in_order():
            self._block = self._sums.block = block
            self._values.enter(block)
            accesses = []
            for instruction in self._function.blocks[block].instructions:
                access = self._access(instruction)
                if access is not None:
                    accesses.append(access)
                narrowed = self._narrowing.narrow(instruction)
                self._values.execute(narrowed)
                self._wraparound.note(instruction)
                self._share(narrowed)
                self._sums.note(narrowed)
            self._shorten(accesses)
            if not self._facts.arrays:
                self._report("address", _WITHOUT_FACTS, len(accesses), is_missed=True)
        text: list[str] = []
        for number, line in enumerate(self._lines):
            text += self._emitter.added.get(number, ())
            text.append(line)
            if number == self._function.opening:
                text += self._emitter.declarations()
        text = remove_dead_code(text)
        if not self._function.loops:
            return text
        return shorten_countdowns(text, self._facts, self._counters, self._report)

    def _access(self, instruction: Instruction) -> _Access | None:
        if instruction.opcode == _STEP and not instruction.predicate:
            return self._step(instruction)
        place = place_of(instruction) if is_access(instruction) else None
        if place is None:
            return None
        access = self._access_through(instruction, *place)
        element = self._wraparound.element(access.element)
        if element is not access.element:
            self._report("wraparound", "computed as a minimum")
        return access._replace(element=element)

    def _access_through(self, instruction: Instruction, register: str, immediate: int) -> _Access:
        value = wrap(add(self._values.wide(register), {(): immediate}), 64)
        array, element, rest = self._element(value)
        versions = dict(self._values.versions)
        return _Access(instruction, register, immediate, value, versions, array, element, rest)

    def _share(self, instruction: Instruction) -> None:
        """Compute an address that accesses share, where the kernel computes it.

        It is that of the access with the least offset, which may not be made. The distance of
        another access from it is positive, so that its number fits 32 bits if one of them is made.
        """
        for register in instruction.results:
            least = self._least_offsets.get(register)
            if least is not None and not instruction.predicate:
                access = self._access_through(instruction, register, least)
                if access.array is not None:
                    base = self._fresh(access, instruction.line)
                    self._shared[register] = base.register, access.rest - least

    def _step(self, instruction: Instruction) -> _Access | None:
        """Return the address that a register of others is moved on to, or begins with."""
        register, one, other = instruction.operands
        if self._function.writes[register] < 2:
            return None
        value = wrap(add(self._values.wide(one), self._values.wide(other)), 64)
        immediate = self._first_immediate(instruction)
        if immediate is not None:
            first = wrap(add(value, {(): immediate}), 64)
            array, element, rest = self._element(first)
            if array is not None and set(element) - {()}:
                versions = dict(self._values.versions)
                return _Access(
                    instruction, register, immediate, first, versions, array, element, rest
                )
        if set(add(value, self._values.wide(register), -1)) <= {()}:
            return None
        return _Access(instruction, register, 0, value, dict(self._values.versions), None, {}, 0)

    def _first_immediate(self, instruction: Instruction) -> int | None:
        """Return the immediate offset of the access that is always the next use of an address.

        It is in the only block that may follow, and so on. ``None`` if there is no such access.
        """
        register, blocks = instruction.operands[0], self._function.blocks
        block = blocks[self._block]
        after = [each for each in block.instructions if each.line > instruction.line]
        seen = {self._block}
        while len(block.followers) == 1 and block.followers[0] not in seen:
            seen.add(block.followers[0])
            block = blocks[block.followers[0]]
            after += block.instructions
        for each in after:
            place = place_of(each)
            is_made = is_access(each) and not each.predicate
            if is_made and place is not None and place[0] == register:
                return place[1]
            if register in each.results:
                return None
        return None

    def _element(self, address: Polynomial) -> tuple[int | None, Polynomial, int]:
        """Return the array and the number of the element that an address is of."""
        pointers = [
            term
            for term in address
            if any(
                a[1:].isdigit() and a[0] == "p" and int(a[1:]) in self._facts.arrays for a in term
            )
        ]
        if len(pointers) != 1 or len(pointers[0]) != 1 or address[pointers[0]] != 1:
            return None, {}, 0
        array = int(pointers[0][0][1:])
        size = self._facts.arrays[array]
        offset = {term: factor for term, factor in address.items() if term != pointers[0]}
        number, rest = divmod(offset.pop((), 0), size)
        if any(factor % size for factor in offset.values()):
            return None, {}, 0
        wide = {term: factor // size for term, factor in offset.items()}
        if number:
            wide[()] = number
        narrow = self._values.low_half(wide)
        return (None, {}, 0) if narrow is None else (array, narrow, rest)

    def _shorten(self, accesses: list[_Access]) -> None:
        for access in accesses:
            if access.instruction.opcode != _STEP and access.register in self._shared:
                self._write_shared(access)
            elif access.array is not None and access.instruction.opcode == _STEP:
                self._begin_element(access)
            elif access.array is not None:
                self._shorten_element(access, accesses)
            else:
                self._shorten_other(access)

    def _write_shared(self, access: _Access) -> None:
        register, more = self._shared[access.register]
        self._write(access, register, access.immediate + more)
        is_first = access.array is not None and access.immediate + more == access.rest
        if is_first and not access.instruction.predicate:
            base = _Base(self._block, access.instruction.line, register, None, access)
            self._bases.setdefault(f"array {access.array}", []).append(base)

    def _shorten_element(self, access: _Access, others: list[_Access]) -> None:
        """Compute the address of an element."""
        assert access.array is not None
        line, size = access.instruction.line, self._facts.arrays[access.array]
        key = f"array {access.array}"
        base, distance = self._nearest(key, access)
        if base is None:
            # An access of the block without a constant offset is nearest to the others.
            first = self._middle(access, others)
            base = self._fresh(first, line)
            if not first.instruction.predicate:
                self._bases.setdefault(key, []).append(base)
            distance = self._distance(base, access)
        if set(distance) <= {()}:
            immediate = size * distance.get((), 0) + access.rest
            if abs(immediate) <= MAX_IMMEDIATE:
                self._write(access, base.register, immediate)
                if base.access is not access:
                    self._report("address", _FROM_NEIGHBOUR)
                return
        fresh = self._sums.expression(access.element, line)
        from_base = self._scaled(distance, line)
        cost = self._emitter.cost
        if cost(from_base[0], self._block, line) <= cost(fresh, self._block, line):
            self._report("address", _FROM_NEIGHBOUR)
            register = self._moved(base.register, *from_base, size, self._block, line)
            made = _Base(self._block, line, register, None, access)
        else:
            made = self._fresh(access, line)
        if not access.instruction.predicate:
            self._bases[key].append(made)
        self._write(access, made.register, access.rest)

    def _begin_element(self, access: _Access) -> None:
        """Compute an address that a loop begins with."""
        line = access.instruction.line
        base = self._fresh(access, line)
        rest = access.rest - access.immediate
        self._lines[line] = f"\tadd.s64 {access.register}, {base.register}, {rest};"

    def _middle(self, access: _Access, others: list[_Access]) -> _Access:
        """Return the access of the same array, in the same block, that others are nearest to."""
        if access.instruction.predicate:
            return access
        near = [
            each
            for each in others
            if each.array == access.array
            and each.instruction.opcode != _STEP
            and not each.instruction.predicate
            and self._is_known(each.element, access)
        ]
        return min(near, key=lambda each: len(each.element))

    def _is_known(self, value: Polynomial, access: _Access) -> bool:
        """Return whether the atoms of a value have it before an access."""
        mine = {atom for term in access.element for atom in term}
        return all(atom in mine for term in value for atom in term)

    def _fresh(self, access: _Access, line: int) -> _Base:
        """Compute an element's address from its array, outside of loops if possible."""
        assert access.array is not None
        expression, factor = self._scaled(access.element, line)
        is_vector = _VECTOR_LOAD.match(access.instruction.opcode) is not None
        block, at = self._emitter.place(expression, self._block, line, is_early=is_vector)
        key: Expression = ("address", access.array, factor, expression)
        register = self._emitter.find(key, block, at)
        if register is None:
            self._report("address", "computed in 32 bits")
            pointer = self._emitter.parameter(access.array, block, at)
            size = self._facts.arrays[access.array]
            register = self._moved(pointer, expression, factor, size, block, at)
            self._emitter.note(key, block, at, register)
            if factor == 1:
                self._sums.remember(access.element, expression)
        return _Base(self._block, line, register, None, access)

    def _scaled(self, value: Polynomial, line: int) -> tuple[Expression, int]:
        """Return an expression of 32 bits, and a number that its extension is multiplied by."""
        if len(value) == 1:
            ((term, factor),) = value.items()
            if len(term) == 1 and factor != 1 and self._is_small_atom(term[0]):
                return term[0], factor
        if all(factor < 0 for term, factor in value.items()):
            # The magnitude is below 2**31, like every distance in an array.
            return self._sums.expression(scale(value, -1), line), -1
        return self._sums.expression(value, line), 1

    def _is_small_atom(self, atom: str) -> bool:
        """Return whether an atom fits 32 bits with its sign."""
        if atom.startswith("l"):
            return is_within(self._values.interval_of_atom(atom[1:]), INT32)
        return is_within(self._values.interval(atom), INT32)

    def _moved(
        self,
        register: str,
        expression: Expression,
        factor: int,
        size: int,
        block: int,
        line: int,
    ) -> str:
        """Add a number of elements to an address."""
        if expression == 0:
            return register
        operand = self._emitter.emit(expression, block, line)
        result = self._emitter.register(64)
        if operand.lstrip("-").isdigit():
            total = int(operand) * factor * size
            self._emitter.insert(line, f"add.s64 {result}, {register}, {total};")
            return result
        offset = self._emitter.register(64)
        # A product and a sum are IMAD.WIDE, with the pointer in registers; a sum alone needs none.
        scaled = (
            f"cvt.s64.s32 {offset}, {operand};"
            if factor * size == 1
            else f"mul.wide.s32 {offset}, {operand}, {factor * size};"
        )
        self._emitter.insert(line, scaled)
        self._emitter.insert(line, f"add.s64 {result}, {register}, {offset};")
        return result

    def _nearest(self, key: str, access: _Access) -> tuple[_Base | None, Polynomial]:
        """Return the address that has the least distance, of those that are known there."""
        best: tuple[int, _Base | None, Polynomial] = (0, None, {})
        for base in reversed(self._bases.get(key, ())):
            if not self._is_available(base, access):
                continue
            distance = self._distance(base, access)
            if not self._is_known_distance(distance, access):
                continue
            if set(distance) <= {()}:
                return base, distance
            line = access.instruction.line
            expression, _ = self._scaled(distance, line)
            cost = 1 + self._emitter.cost(expression, self._block, line)
            if best[1] is None or cost < best[0]:
                best = cost, base, distance
        return best[1], best[2]

    def _is_available(self, base: _Base, access: _Access) -> bool:
        if base.block != self._block:
            return base.version is None and self._function.dominates(base.block, self._block)
        if base.line > access.instruction.line:
            return False
        return base.version in (None, access.versions.get(base.register, 0))

    def _distance(self, base: _Base, access: _Access) -> Polynomial:
        return wrap(add(access.element, base.access.element, -1), 32)

    def _is_known_distance(self, distance: Polynomial, access: _Access) -> bool:
        atoms = {atom for term in (*access.element, *access.value) for atom in term}
        return all("@" not in atom or atom in atoms for term in distance for atom in term)

    def _write(self, access: _Access, register: str, immediate: int) -> None:
        line = access.instruction.line
        place = f"[{register}{f'+{immediate}' if immediate else ''}]"
        self._lines[line] = ADDRESS.sub(lambda _: place, self._lines[line], count=1)

    def _shorten_other(self, access: _Access) -> None:
        """Compute an address that is no element's from one that it is near to.

        That is not known to fit 32 bits; so the distance is a number, or a multiple of one that is.
        """
        line, register = access.instruction.line, access.register
        is_step = access.instruction.opcode == _STEP
        version = None
        if self._function.writes[register] > 1:
            version = access.versions.get(register, 0)
        keys = [atom for term in access.value if len(term) == 1 for atom in term]
        is_made_here = self._values.homes.get(register) == self._block
        if is_step or (version is None and is_made_here and len(access.value) > 1):
            for base in (base for key in keys for base in reversed(self._bases.get(key, ()))):
                distance = wrap(add(access.value, base.access.value, -1), 64)
                if self._is_available(base, access) and self._move_other(access, base, distance):
                    return
        if not is_step and not access.instruction.predicate:
            # The value of the register, without the immediate offset.
            value = wrap(add(access.value, {(): access.immediate}, -1), 64)
            own = access._replace(value=value)
            for key in keys:
                self._bases.setdefault(key, []).append(
                    _Base(self._block, line, register, version, own)
                )

    def _move_other(self, access: _Access, base: _Base, distance: Polynomial) -> bool:
        """Compute an address from another, if their distance is as simple as that; say whether."""
        line = access.instruction.line
        number = distance.get((), 0)
        terms = [(term, factor) for term, factor in distance.items() if term]
        if len(terms) > 1 or abs(number) > MAX_IMMEDIATE or base.register == access.register:
            return False
        register = base.register
        if terms:
            (((atom, *rest), factor),) = terms
            interval = self._values.interval_of_atom(atom)
            if rest or not is_within(interval, INT32) or not is_within((factor,) * 2, INT32):
                return False
            narrow = self._values.low_half({(atom,): 1})
            if narrow is None:
                return False
            expression = self._sums.expression(narrow, line)
            register = self._moved(register, expression, factor, 1, self._block, line)
        self._report("address", _FROM_NEIGHBOUR)
        if access.instruction.opcode == _STEP:
            self._lines[line] = f"\tadd.s64 {access.register}, {register}, {number};"
        else:
            self._write(access, register, number)
            value = add(access.value, {(): number}, -1)
            made = _Base(self._block, line, register, None, access._replace(value=value))
            for key in {atom for term in value if len(term) == 1 for atom in term}:
                self._bases.setdefault(key, []).append(made)
        return True
