"""Compute again after a loop what parameters alone decide, instead of keeping it during the loop.

LLVM computes the count and the stride of the rest of an unrolled loop before the loop. Each of them
is in a register meanwhile. ptxas (seen with 13.0) aims at 32 registers, and has fewer of them for
loads in flight. Parameters are in constant memory, so a short computation of them can be repeated.

References
----------
Briggs, Cooper and Torczon, "Rematerialization", 1992.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from kerneldsl.contract import Report
from targets.cuda.compile.addresses.function import (
    Function,
    Instruction,
    read_function,
    remove_dead_code,
)
from targets.cuda.compile.ptx_lines import declare, has_loops, on_functions

__all__ = ["recompute_late"]

#: Instructions that are repeated for one value.
_MOST = 5
_CHEAP = re.compile(
    r"ld\.param\.[bu](?:32|64)|mov\.b(?:32|64)|cvt\.[su](?:32|64)\.[su](?:32|64)|bfe\.u(?:32|64)"
    r"|(?:add|sub|neg|and|or|shl|shr|mul\.lo|mul\.wide)\.[bsu](?:32|64)"
)
#: Numbers and parameters. The address of shared memory takes instructions that wait.
_LEAF = re.compile(r"-?\d+|\[[\w$]+_param_\d+\]")
#: An opcode and operands: numbers, parameters, and the computations of registers.
_Computation: TypeAlias = "tuple[str, *tuple[str | _Computation, ...]]"


@on_functions("ld.global")
def recompute_late(lines: list[str], report: Report) -> list[str]:
    """Return a module in which such values are computed after loops that read memory."""
    if not has_loops(lines):
        return lines
    function = read_function(lines)
    if function is None:
        return lines
    loops = function.loops
    heads = [
        head
        for head, body in loops.items()
        if _reads_memory(function, body)
        and not any(other != head and other in body for other in loops)
    ]
    if not heads:
        return lines
    writer = _Writer(function)
    for head in heads:
        writer.relieve(head, loops[head], loops)
    if not writer.count:
        return lines
    report("value", "computed again after a loop", writer.count)
    return remove_dead_code(writer.written())


def _reads_memory(function: Function, body: set[int]) -> bool:
    return any(
        each.opcode.startswith("ld.global")
        for number in body
        for each in function.blocks[number].instructions
    )


class _Writer:
    """Writes a function with values that are computed again."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._lines: list[str] = list(function.lines)
        self._added: dict[int, list[str]] = {}
        self._removed: set[int] = set()
        self._registers: list[str] = []
        self._known: dict[tuple[int, str], str] = {}
        #: Values that were computed again.
        self.count = 0
        self._writes: dict[str, list[tuple[int, Instruction]]] = {}
        self._reads: dict[str, list[tuple[int, Instruction]]] = {}
        for number in function.in_order():
            for each in function.blocks[number].instructions:
                for name in each.results:
                    self._writes.setdefault(name, []).append((number, each))
                for name in each.reads:
                    self._reads.setdefault(name, []).append((number, each))

    def relieve(self, head: int, body: set[int], loops: dict[int, set[int]]) -> None:
        """Compute after a loop what is only read after it."""
        for register, reads in self._reads.items():
            writes = self._writes.get(register, [])
            if len(writes) != self._function.writes[register] or not writes:
                continue
            blocks = {number for number, _ in (*reads, *writes)}
            if blocks & body or not any(self._is_before(each, head) for each, _ in writes):
                continue
            if self._begins_a_loop(register, head, body, loops):
                continue
            computation = self._same([each for _, each in writes])
            if computation is None:
                continue
            for number, each in reads:
                place = self._place(number, head, body)
                if place is not None and each.opcode != "?":
                    self._replace(each, register, computation, place)

    def _begins_a_loop(
        self, register: str, head: int, body: set[int], loops: dict[int, set[int]]
    ) -> bool:
        """Begin a counter of a later loop before that loop; say whether a register is one."""
        writes, reads = self._writes[register], self._reads[register]
        blocks = self._function.blocks
        for other, inside in loops.items():
            steps = [each for number, each in writes if number in inside]
            begins = [each for number, each in writes if number not in inside]
            if not steps or not begins or any(number not in inside for number, _ in reads):
                continue
            entries = [
                number
                for number in self._function.in_order()
                if other in self._function.blocks[number].followers and number not in inside
            ]
            computation = self._same(begins)
            is_begun_each_time = any(
                self._function.dominates(number, other)
                and blocks[number].depth == blocks[other].depth - 1
                for number, _ in writes
            )
            if (
                len(entries) == 1
                and computation is not None
                and is_begun_each_time
                and self._is_after(entries[0], head, body)
            ):
                source = self._emitted(computation, entries[0])
                bits = "64" if _is_wide(computation) else "32"
                self._insert(entries[0], f"mov.b{bits} {register}, {source};")
                self._removed.update(each.line for each in begins)
                self.count += 1
            return True
        return False

    def _is_before(self, block: int, head: int) -> bool:
        return block != head and self._function.dominates(block, head)

    def _is_after(self, block: int, head: int, body: set[int]) -> bool:
        """Return whether a block is outside a loop, and not only before it."""
        return block not in body and not self._function.dominates(block, head)

    def _place(self, block: int, head: int, body: set[int]) -> int | None:
        """Return the block to compute a value in for another one, outside of later loops."""
        blocks = self._function.blocks
        depth = blocks[head].depth - 1
        while blocks[block].depth > depth and blocks[block].dominator != block:
            block = blocks[block].dominator
        return block if self._is_after(block, head, body) else None

    def _same(self, writes: list[Instruction]) -> _Computation | None:
        """Return what all of some instructions compute of parameters, if it is the same."""
        found = {self._expanded(each, _MOST) for each in writes}
        computation = found.pop() if len(found) == 1 else None
        return computation if computation and _size(computation) <= _MOST else None

    def _expanded(self, instruction: Instruction, depth: int) -> _Computation | None:
        if not depth or instruction.predicate or not _CHEAP.fullmatch(instruction.opcode):
            return None
        if instruction.operands[0].startswith("{"):  # a half of a number
            return None
        operands: list[str | _Computation] = []
        for each in instruction.operands[1:]:
            if _LEAF.fullmatch(each):
                operands.append(each)
                continue
            writes = self._writes.get(each, [])
            if len(writes) != 1 or self._function.writes[each] != 1:
                return None
            made = self._expanded(writes[0][1], depth - 1)
            if made is None:
                return None
            operands.append(made)
        return instruction.opcode, *operands

    def _replace(
        self, read: Instruction, register: str, computation: _Computation, block: int
    ) -> None:
        source = self._known.get((block, register))
        if source is None:
            source = self._known[block, register] = self._emitted(computation, block)
            self.count += 1
        line = self._lines[read.line]
        self._lines[read.line] = re.sub(rf"{re.escape(register)}\b", source, line)

    def _emitted(self, computation: _Computation, block: int) -> str:
        """Compute a value at the start of a block, or at its end; return its register."""
        opcode, *operands = computation
        names = [each if isinstance(each, str) else self._emitted(each, block) for each in operands]
        is_wide = _is_wide(computation)
        register = f"%kd_late{len(self._registers)}"
        self._registers.append(f".b{64 if is_wide else 32} {register}")
        self._insert(block, f"{opcode} {register}, {', '.join(names)};")
        return register

    def _insert(self, block: int, text: str) -> None:
        """Add an instruction before the first of a block that is no label."""
        instructions = self._function.blocks[block].instructions
        line = instructions[0].line if instructions else self._function.blocks[block].first
        self._added.setdefault(line, []).append(f"\t{text}")

    def written(self) -> list[str]:
        """Return the lines of the function."""
        return declare(list(self._text()), self._registers)

    def _text(self) -> Iterator[str]:
        for number, line in enumerate(self._lines):
            yield from self._added.get(number, ())
            if number not in self._removed:
                yield line


def _is_wide(computation: _Computation) -> bool:
    kinds = computation[0].split(".")
    kind = kinds[1] if kinds[0] == "cvt" else kinds[-1]
    return kind.endswith("64") or "wide" in kinds


def _size(computation: _Computation) -> int:
    return 1 + sum(_size(each) for each in computation[1:] if not isinstance(each, str))
