"""Instructions that compute polynomials of 32 bits, in the blocks that run least often.

References
----------
Click, "Global Code Motion, Global Value Numbering", 1995.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from kerneldsl.ir.recognize import reached
from targets.cuda.compile.addresses.arithmetic import Polynomial, add, constant
from targets.cuda.compile.addresses.function import Function, Instruction
from targets.cuda.compile.addresses.values import Values

__all__ = [
    "ADDRESS",
    "MAX_IMMEDIATE",
    "Emitter",
    "Expression",
    "Sums",
    "expression_of",
    "is_access",
    "least_offsets",
    "place_of",
]

#: An atom, a number, or an operation and its operands.
Expression: TypeAlias = "str | int | tuple[str, *tuple[Expression, ...]]"
_OPCODES = {"add": "add.s32", "sub": "sub.s32", "mul": "mul.lo.s32", "mad": "mad.lo.s32"}


class Emitter:
    """Adds instructions to a function.

    An added instruction serves all later uses that it dominates.
    """

    def __init__(self, function: Function, values: Values, entry_name: str) -> None:
        self._function = function
        self._values = values
        self._entry_name = entry_name
        #: Instructions added before a line, by its number.
        self.added: dict[int, list[str]] = {}
        #: Blocks, lines and registers in which expressions have been computed.
        self._known: dict[Expression, list[tuple[int, int, str]]] = {}
        self._counts = {"r": 0, "d": 0}

    def register(self, bits: int) -> str:
        letter = "d" if bits == 64 else "r"
        self._counts[letter] += 1
        return f"%kd_{letter}{self._counts[letter] - 1}"

    def declarations(self) -> list[str]:
        """Return what declares the registers."""
        types = {"r": ".b32", "d": ".b64"}
        return [
            f"\t.reg {types[letter]} %kd_{letter}<{count}>;"
            for letter, count in self._counts.items()
            if count
        ]

    def insert(self, line: int, text: str) -> None:
        """Add an instruction before a line."""
        self.added.setdefault(line, []).append(f"\t{text}")

    def cost(self, expression: Expression, block: int, line: int) -> int:
        """Return how many instructions an expression needs that are not there."""
        if not isinstance(expression, tuple) or self.find(expression, block, line):
            return 0
        return 1 + sum(self.cost(each, block, line) for each in expression[1:])

    def emit(self, expression: Expression, block: int, line: int) -> str:
        """Return the operand that is an expression before a line of a block."""
        if isinstance(expression, int):
            return str(expression)
        if isinstance(expression, str) and expression[0] == "%":
            return expression.partition("@")[0]
        found = self.find(expression, block, line)
        if found is not None:
            return found
        home, at = self.place(expression, block, line)
        if isinstance(expression, tuple):
            parts = [self.emit(each, home, at) for each in expression[1:]]
            opcode = _OPCODES[expression[0]]
        elif expression.startswith("lp"):
            parts = [f"[{self._entry_name}_param_{expression[2:]}]"]
            opcode = "ld.param.b32"
        else:
            parts, opcode = [expression[1:].partition("@")[0]], "cvt.u32.u64"
        register = self.register(32)
        self._values.homes[register] = home
        self.insert(at, f"{opcode} {register}, {', '.join(parts)};")
        self._known.setdefault(expression, []).append((home, at, register))
        return register

    def note(self, expression: Expression, block: int, line: int, register: str) -> None:
        """Use a register of the function for an expression, from a line of a block on."""
        if isinstance(expression, tuple):
            self._known.setdefault(expression, []).append((block, line, register))

    def parameter(self, number: int, block: int, line: int) -> str:
        """Return the register of 64 bits with a parameter."""
        atom = f"p{number}"
        found = self.find(atom, block, line)
        if found is None:
            found = self.register(64)
            self.insert(line, f"ld.param.b64 {found}, [{self._entry_name}_param_{number}];")
            self._known.setdefault(atom, []).append((block, line, found))
        return found

    def find(self, expression: Expression, block: int, line: int) -> str | None:
        """Return the register that has an expression before a line of a block."""
        for home, at, register in self._known.get(expression, ()):
            if (home == block and at <= line) or (
                home != block and self._function.dominates(home, block)
            ):
                return register
        return None

    def place(
        self, expression: Expression, block: int, line: int, *, is_early: bool = False
    ) -> tuple[int, int]:
        """Return where to compute an expression for a line of a block: a block, and a line in it.

        Of the blocks that have the operands it is the latest of those in the fewest loops. With
        `is_early` it is the one before that. Otherwise ptxas (seen with 13.0) begins the block with
        arithmetic, while it waits for a parameter of the address.
        """
        blocks, home = self._function.blocks, self._home(expression)
        if not self._function.dominates(home, block):
            return block, line  # an operand is not defined on every way to the block
        best = at = block
        before = blocks[block].dominator
        if is_early and block != home and blocks[before].depth == blocks[block].depth:
            best = at = before
        while at != home:
            at = blocks[at].dominator
            if blocks[at].depth < blocks[best].depth:
                best = at
        return best, line if best == block else self._end(best)

    def _home(self, expression: Expression) -> int:
        """Return the first block in which an expression can be computed."""
        blocks = self._function.blocks
        if isinstance(expression, int):
            return 0
        if isinstance(expression, tuple):
            homes = [self._home(each) for each in expression[1:]]
            return max(homes, key=lambda each: blocks[each].rank)
        atom = expression.removeprefix("l")
        return 0 if atom.startswith("p") else self._values.homes[atom]

    def _end(self, block: int) -> int:
        """Return the line before which the end of a block is."""
        found = self._function.blocks[block]
        if found.instructions and found.instructions[-1].opcode.startswith("bra"):
            return found.last
        return found.last + 1


def expression_of(
    value: Polynomial, depth: Callable[[str], int], simplify: Callable[[Polynomial], Polynomial]
) -> Expression:
    """Return an expression of few operations, that begins with what changes in the fewest loops.

    A product that does not change in the innermost loop is computed before it if the loop then
    computes less.

    - `value`: a value of 32 bits.
    - `depth`: takes an atom, and returns in how many loops it gets its value.
    - `simplify`: takes a polynomial, and returns an equal one in which what has been computed is an
      atom.
    """
    value = simplify(value)
    whole = _expression_of(value, depth, simplify)
    inner, outer = _split(value, depth)
    if not inner or not any(len(term) > 1 for term in outer):
        return whole  # a sum of three numbers is one instruction
    added = _sum_of(_expression_of(outer, depth, simplify), _expression_of(inner, depth, simplify))
    deepest = max(depth(atom) for term in inner for atom in term)
    is_less = _count(added, depth, deepest) < _count(whole, depth, deepest)
    return added if is_less else whole


def _split(value: Polynomial, depth: Callable[[str], int]) -> tuple[Polynomial, Polynomial]:
    """Return the terms that change in the innermost loop, and the others."""
    depths = {term: max((depth(atom) for atom in term), default=0) for term in value}
    deepest = max(depths.values(), default=0)
    inner = {term: factor for term, factor in value.items() if depths[term] == deepest > 0}
    return inner, {term: factor for term, factor in value.items() if term not in inner}


def _sum_of(outer: Expression, inner: Expression) -> Expression:
    if isinstance(inner, tuple) and inner[0] == "mul":
        return ("mad", *inner[1:], outer)
    return ("add", outer, inner)


def _count(expression: Expression, depth: Callable[[str], int], least: int) -> int:
    """Return how many operations an expression has that change in a loop of some depth."""
    if not isinstance(expression, tuple):
        return 0
    return (_depth_of(expression, depth) >= least) + sum(
        _count(each, depth, least) for each in expression[1:]
    )


def _depth_of(expression: Expression, depth: Callable[[str], int]) -> int:
    if isinstance(expression, tuple):
        return max(_depth_of(each, depth) for each in expression[1:])
    return 0 if isinstance(expression, int) else depth(expression)


def _expression_of(
    value: Polynomial, depth: Callable[[str], int], simplify: Callable[[Polynomial], Polynomial]
) -> Expression:
    value = simplify(value)
    terms = [(term, factor) for term, factor in value.items() if term]
    number = value.get((), 0)
    if not terms:
        return number
    counts = Counter(atom for term, _ in terms for atom in set(term))
    most = max(counts.values())
    if most > 1 or max(len(term) for term, _ in terms) > 1:
        factor_atom = min(
            (atom for term, _ in terms if len(term) > 1 or most > 1 for atom in term),
            key=lambda atom: (-counts[atom], depth(atom), atom),
        )
        quotient: Polynomial = {}
        rest: Polynomial = constant(number)
        for term, factor in terms:
            if factor_atom in term:
                left = list(term)
                left.remove(factor_atom)
                quotient[tuple(left)] = factor
            else:
                rest[term] = factor
        return _mad(
            expression_of(quotient, depth, simplify),
            factor_atom,
            expression_of(rest, depth, simplify),
        )
    terms.sort(key=lambda each: (depth(each[0][0]), -each[1], each[0]))
    total: Expression | None = None
    for (atom,), factor in terms:
        if total is None:
            total = atom if factor == 1 else ("mul", atom, factor)
        elif factor == 1:
            total = ("add", total, atom)
        elif factor == -1:
            total = ("sub", total, atom)
        else:
            total = ("mad", atom, factor, total)
    assert total is not None
    return ("add", total, number) if number else total


def _mad(one: Expression, other: Expression, rest: Expression) -> Expression:
    if one == 1:
        return other if rest == 0 else ("add", other, rest)
    if one == -1 and rest != 0:
        return ("sub", rest, other)
    return ("mul", other, one) if rest == 0 else ("mad", other, one, rest)


# Sums that a function computes: each of them once, and as parts of others.


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
#: Instructions that may be replaced by ones on the low halves.
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
# An example is the loads of a vector number by number, each under a bounds test. None of them
# dominates all others, so no load is a base from which the other addresses can be computed.

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
