"""A function of PTX: its instructions, basic blocks, dominators and loops.

References
----------
Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", 2001; PTX ISA, sections "PTX
Statements" and "Control Flow Instructions".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from functools import lru_cache
from typing import NamedTuple

from kerneldsl.ir.recognize import reached
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.ptx_lines import REGISTER, VOLATILE, count_registers, registers_of

__all__ = [
    "Block",
    "Function",
    "Instruction",
    "read_function",
    "remove_dead_code",
]

_LABEL = re.compile(r"^([\w$]+):")
_INSTRUCTION = re.compile(
    r"^\s*(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*([^;{}]*(?:\{[^;{}]*\}[^;{}]*)?);"
)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^]]*\]|[^,\s][^,]*")
_WITHOUT_RESULT = re.compile(
    r"(st|red|bar|barrier|bra|ret|exit|membar|fence|trap|brkpt|prefetch|prefetchu|cp|mbarrier"
    r"|nanosleep|discard|griddepcontrol|pmevent|fns)\b"
)
#: Control flow that this graph of blocks does not represent.
_UNKNOWN_FLOW = re.compile(r"\bbrx\b")
#: Opcode of an instruction that is not understood.
UNKNOWN = "?"
_ENDS = ("bra", "ret", "exit", "trap")


class Instruction(NamedTuple):
    """An instruction."""

    #: Index of the line in the function.
    line: int
    #: Opcode with its types, such as ``add.s64``.
    opcode: str
    #: The operands; the result is first, if there is one.
    operands: tuple[str, ...]
    #: The predicate that decides if it is executed, with its sign; empty if it always is.
    predicate: str = ""
    #: The registers that it writes.
    results: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The registers that it reads; of what is not understood they are among the results."""
        names = registers_of(" ".join((*self.operands, self.predicate)))
        return names[len(self.results) :]


@dataclass
class Block:
    """A basic block."""

    #: Lines of the block; `last` is its branch, if it ends with one.
    first: int
    last: int
    #: Instructions in order.
    instructions: list[Instruction] = field(default_factory=list)
    #: Blocks that may follow it, by number.
    followers: list[int] = field(default_factory=list)
    #: The block that ends before each way to this one; itself for the entry.
    dominator: int = 0
    #: Position in an order in which dominators come first; -1 if the block is unreachable.
    rank: int = -1
    #: Number of loops around the block.
    depth: int = 0


@dataclass
class Function:
    """A function of PTX as basic blocks."""

    #: Lines of the function's text.
    lines: list[str]
    #: Line at which the body begins.
    opening: int
    #: Blocks in the order of the text.
    blocks: list[Block]
    #: Number of instructions that write each register.
    writes: Counter[str]
    #: Reachable predecessors of each block, by its number.
    before: dict[int, list[int]] = field(default_factory=dict)
    #: The blocks of each natural loop, by the block that it is entered at.
    loops: dict[int, set[int]] = field(default_factory=dict)

    def in_order(self) -> Iterator[int]:
        """Yield the numbers of the blocks that are reached, dominators first."""
        reached = [number for number, block in enumerate(self.blocks) if block.rank >= 0]
        return iter(sorted(reached, key=lambda number: self.blocks[number].rank))

    def dominates(self, one: int, other: int) -> bool:
        """Return whether every way to the block `other` goes through `one`."""
        while self.blocks[other].rank > self.blocks[one].rank:
            other = self.blocks[other].dominator
        return other == one


def read_function(lines: list[str]) -> Function | None:
    """Read a function; ``None`` if it branches in ways that are not followed here."""
    opening = next((n for n, line in enumerate(lines) if line.strip() == "{"), None)
    if opening is None or any("brx" in line and _UNKNOWN_FLOW.search(line) for line in lines):
        return None
    blocks: list[Block] = [Block(opening + 1, opening)]
    labels: dict[str, int] = {}
    writes: Counter[str] = Counter()
    is_assembly = False
    for number, line in enumerate(lines[opening + 1 :], opening + 1):
        text = line.strip()
        if text.startswith("// "):
            is_assembly = text == "// begin inline asm" or (is_assembly and "// end" not in text)
            continue
        if is_assembly:
            if ":" in text or "bra" in text:
                return None  # it may branch
            _add_unknown(blocks[-1], writes, number, text)
            continue
        if ":" in line and (found := _LABEL.match(line)):
            if blocks[-1].first < number:
                blocks.append(Block(number, number))
            labels[found[1]] = len(blocks) - 1
        parts = _parts(line)
        if parts is None:
            if not text.startswith("."):
                _add_unknown(blocks[-1], writes, number, line)
            continue
        blocks[-1].instructions.append(Instruction(number, *parts))
        blocks[-1].last = number
        for register in parts[3]:
            writes[register] += 1
        if parts[0].startswith(_ENDS) and parts[0].partition(".")[0] in _ENDS:
            blocks.append(Block(number + 1, number))
    for number, block in enumerate(blocks):
        block.followers = _followers(number, block, labels, len(blocks))
    function = Function(lines, opening, blocks, writes)
    _find_dominators(function)
    _find_loops(function)
    return function


def _add_unknown(block: Block, writes: Counter[str], number: int, line: str) -> None:
    """Add what is not understood, which may write each register in it, and more than once."""
    registers = registers_of(line)
    if registers:
        block.instructions.append(Instruction(number, UNKNOWN, registers, results=registers))
        block.last = number
        writes.update(registers * 2)


# Several passes read the same lines, so what they are is found once.
@lru_cache(maxsize=1 << 14)
def _parts(line: str) -> tuple[str, tuple[str, ...], str, tuple[str, ...]] | None:
    """Return what an `Instruction` has after its number, if a line is one."""
    found = _INSTRUCTION.match(line)
    if found is None or line.lstrip().startswith("."):
        return None
    negated, predicate, opcode, rest = found.groups()
    operands = tuple(each.strip() for each in _OPERAND.findall(rest))
    has_result = operands and _WITHOUT_RESULT.match(opcode) is None
    results = tuple(REGISTER.findall(operands[0])) if has_result else ()
    return opcode, operands, f"{negated or ''}{predicate or ''}", results


def _followers(number: int, block: Block, labels: dict[str, int], count: int) -> list[int]:
    found = []
    last = block.instructions[-1] if block.instructions else None
    name = last.opcode.partition(".")[0] if last is not None else ""
    if last is not None and name == "bra" and last.operands[0] in labels:
        found.append(labels[last.operands[0]])
    if (name not in _ENDS or (last is not None and last.predicate)) and number + 1 < count:
        found.append(number + 1)
    return found


def _find_dominators(function: Function) -> None:
    blocks, before = function.blocks, function.before
    order: list[int] = []
    seen = {0}
    stack = [(0, iter(blocks[0].followers))]
    while stack:
        number, rest = stack[-1]
        following = next((each for each in rest if each not in seen), None)
        if following is None:
            order.append(number)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(blocks[following].followers)))
    order.reverse()
    for rank, number in enumerate(order):
        blocks[number].rank = rank
    for number in order:
        for each in blocks[number].followers:
            before.setdefault(each, []).append(number)
    found = {0: 0}

    def common(one: int, other: int) -> int:
        while one != other:
            if blocks[one].rank > blocks[other].rank:
                one = found[one]
            else:
                other = found[other]
        return one

    is_changing = True
    while is_changing:
        is_changing = False
        for number in order[1:]:
            known = [each for each in before[number] if each in found]
            best = known[0]
            for each in known[1:]:
                best = common(best, each)
            is_changing = is_changing or found.get(number) != best
            found[number] = best
    for number, each in found.items():
        blocks[number].dominator = each


def _find_loops(function: Function) -> None:
    """Find the natural loops, and count those that each block is in."""
    for head, sources in function.before.items():
        latches = [each for each in sources if function.dominates(head, each)]
        if latches:
            function.loops[head] = _body(function, head, latches)
    for body in function.loops.values():
        for number in body:
            function.blocks[number].depth += 1


def _body(function: Function, head: int, latches: list[int]) -> set[int]:
    """Return the blocks of a loop, from those that the next turn follows."""

    def before(number: int) -> list[int]:
        return [] if number == head else function.before.get(number, [])

    return {head, *reached(latches, before)}


# Removal of instructions with results that nothing reads.

#: An instruction on integers, or one that reads a parameter, and its result.
_PURE = re.compile(
    r"^\s*(?:ld\.param(?:\.[bu]\d+)?|mov\.[bu](?:32|64)"
    r"|(?:add|sub|neg|mul|mad|shl|shr|and|or|xor|not|min|max|selp|cvt)(?:\.(?:lo|wide))?"
    r"(?:\.[bsu](?:8|16|32|64))+)\s+(%\w+),[^;]*;\s*$"
)


@lru_cache(maxsize=1 << 14)
def _pure_result(line: str) -> str | None:
    """Return the register that such an instruction writes."""
    found = _PURE.match(line)
    return found[1] if found is not None and not VOLATILE.search(line) else None


def remove_dead_code(lines: list[str]) -> list[str]:
    """Return a function without them; inline assembly is kept as it is written.

    Examples
    --------
    >>> remove_dead_code(["{", "add.s32 %r2, %r1, 1;", "mul.lo.s32 %r3, %r2, 2;", "}"])
    ['{', '}']
    """
    uses = count_registers(lines)
    makers: dict[str, list[int]] = {}
    results: dict[int, str] = {}
    is_assembly = False
    for number, line in enumerate(lines):
        if "inline asm" in line:
            is_assembly = "begin" in line
        elif not is_assembly and (register := _pure_result(line)):
            results[number] = register
            makers.setdefault(register, []).append(number)
    removed: set[int] = set()
    waiting = list(results)
    while waiting:
        number = waiting.pop()
        if number in removed or uses[results[number]] > 1:
            continue
        removed.add(number)
        for register in registers_of(lines[number]):
            uses[register] -= 1
            waiting += makers.get(register, ())
    return [line for number, line in enumerate(lines) if number not in removed]
