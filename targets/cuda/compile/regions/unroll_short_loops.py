"""Mark short loops that LLVM finds too long to unroll in full.

LLVM counts the instructions of an iteration, those of addresses too. It unrolls a loop over sixteen
distances in three dimensions by two. NVVM unrolls it in full. Then the numbers of the iterations
and the distances of addresses are constants.
"""

from __future__ import annotations

from kerneldsl.contract import Report
from kerneldsl.ir.operations import Effect, Function, Operation
from kerneldsl.ir.recognize import constant_number
from kerneldsl.lowering.loop_marks import FULLY_UNROLLED
from targets.cuda.compile.regions.walks import LOOPS, affects_others, location

__all__ = ["unroll_short_loops"]

_MOST_TURNS = 16
#: Operations of all iterations.
_MOST = 256
_COUNTED = frozenset(("numba", "array.load", "array.store"))


def unroll_short_loops(function: Function, report: Report) -> None:
    """Mark such loops. They have a known number of iterations, and no loop inside."""
    for loop in function.body.walk():
        if loop.name != "for" or "unroll" in loop.attributes or not _is_fit(loop):
            continue
        loop.attributes["unroll"] = FULLY_UNROLLED
        report("short loop", "unrolled in full", where=[location(function, loop)])


def _is_fit(loop: Operation) -> bool:
    bounds = [constant_number(value) for value in loop.operands[:3]]
    numbers = [number for number in bounds if number is not None]
    if len(numbers) < len(bounds) or not numbers[2]:
        return False
    inside = list(loop.regions[0].walk())
    if loop.regions[0].effects() & Effect.LEAVE or any(each.name in LOOPS for each in inside):
        return False
    if any(map(affects_others, inside)):
        return False
    turns = len(range(*numbers))
    count = sum(each.name in _COUNTED for each in inside)
    return 1 < turns <= _MOST_TURNS and turns * count <= _MOST
