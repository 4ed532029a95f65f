"""Instructions that compute polynomials of 32 bits, in the blocks that run least often.

References
----------
Click, "Global Code Motion, Global Value Numbering", 1995.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from targets.cuda.compile.addresses.arithmetic import Polynomial, constant
from targets.cuda.compile.addresses.function import Function
from targets.cuda.compile.addresses.values import Values

__all__ = ["Emitter", "Expression", "expression_of"]

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
        #: What comes before a line.
        self.added: dict[int, list[str]] = {}
        #: Where expressions have been computed: blocks, lines and registers.
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

    - `value`: of 32 bits.
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
