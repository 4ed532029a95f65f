"""Exchange two values by a choice and a conditional move.

``if b < a: a, b = b, a`` is a comparison and two choices. All three are on the ALU pipe, which
takes one instruction of a warp every other cycle. So the pipe limits a sorting network. A move is
also on the FMA pipe. ptxas (seen with 13.0) writes a move with a predicate as a choice. If PTX
branches around the move, it writes a move with a predicate.

References
----------
PTX ISA, sections "Comparison and Selection Instructions: selp" and "Predicated Execution"; NVIDIA,
"Nsight Compute: Kernel Profiling Guide", section "Pipelines".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kerneldsl.contract import Report
from targets.cuda.compile.ptx_lines import LABEL, branch_of, on_functions

__all__ = ["move_exchanges"]

_CHOICE = re.compile(r"^\s*selp\.[bf]32\s+(%r\d+), (%r\d+), (%r\d+), (%p\d+);$")
#: Exchanges of a basic block that are worth it: those of a network of four values.
_LEAST = 5


@on_functions("selp.")
def move_exchanges(lines: list[str], report: Report) -> list[str]:
    """Return a module in which blocks with many exchanges move one of two values.

    Examples
    --------
    >>> one = '''selp.f32 %r3, %r1, %r2, %p1;
    ... selp.f32 %r4, %r2, %r1, %p1;'''
    >>> written = move_exchanges(chr(10).join([one] * 5)).split(chr(10))
    >>> print(chr(10).join(written[:5]).replace(chr(9), ""))
    selp.f32 %r3, %r1, %r2, %p1;
    mov.b32 %r4, %r1;
    @!%p1 bra $KD_exchange0;
    mov.b32 %r4, %r2;
    $KD_exchange0:
    """
    count = 0
    written: list[str] = []
    for block in _blocks(lines):
        places = set(_exchanges(block))
        if len(places) < _LEAST:
            written += block
            continue
        for place, line in enumerate(block):
            written += _moved(line, count) if place in places else [line]
            count += place in places
    report("exchange", "of a choice and a move", count)
    return written


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    block: list[str] = []
    for line in lines:
        if LABEL.match(line) and block:
            yield block
            block = []
        block.append(line)
        if branch_of(line):
            yield block
            block = []
    yield block


def _exchanges(block: list[str]) -> Iterator[int]:
    """Yield the second lines of exchanges."""
    before: tuple[str, ...] | None = None
    for place, line in enumerate(block):
        found = _CHOICE.match(line)
        if found is None:
            before = None
            continue
        result, one, other, predicate = found.groups()
        if before is not None:
            is_exchange = before[1:] == (other, one, predicate) and one != other
            if is_exchange and not {before[0], result} & {one, other} and before[0] != result:
                yield place
                before = None
                continue
        before = result, one, other, predicate


def _moved(line: str, number: int) -> list[str]:
    """Return a choice as a move that is branched around."""
    found = _CHOICE.match(line)
    assert found is not None
    result, one, other, predicate = found.groups()
    return [
        f"\tmov.b32 \t{result}, {other};",
        f"\t@!{predicate} bra \t$KD_exchange{number};",
        f"\tmov.b32 \t{result}, {one};",
        f"$KD_exchange{number}:",
    ]
