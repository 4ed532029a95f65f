"""Mark the loops that arrays of a thread's own are indexed by: registers have no index.

Unless such a loop is unrolled in full, the array is in local memory, which is the device's. LLVM
unrolls short loops by itself. A longer one needs the mark.
"""

from __future__ import annotations

from kerneldsl.contract import Report
from kerneldsl.ir.operations import Effect, Function, Operation, Value
from kerneldsl.ir.recognize import constant_number
from kerneldsl.lowering.loop_marks import FULLY_UNROLLED
from targets.cuda.compile.regions.walks import leads_to, location, made_of, own_loops

__all__ = ["unroll_loops"]

#: Elements of an array that may be in registers. A thread has 255.
MAX_TURNS = 64
_ACCESSES = {"array.load": None, "array.store": -1}


def unroll_loops(function: Function, report: Report) -> None:
    """Mark such loops.

    They and the loops in them have a small known number of iterations. They have no early exit.
    Functions that they call may have other loops.
    """
    operations = list(function.body.walk())
    arrays = {each.result for each in operations if each.name == "local.array"}
    if not arrays:
        return
    accesses = [
        each for each in operations if each.name in _ACCESSES and each.operands[0] in arrays
    ]
    in_memory = {each.operands[0] for each in accesses if _is_loaded(_indices(each))}
    report(
        "local array", "kept in memory: an index of it is loaded", len(in_memory), is_missed=True
    )
    arrays -= in_memory
    for loop in operations:
        turns = _turns(loop) if loop.name == "for" else None
        if turns is None or turns > MAX_TURNS:
            continue
        (body,) = loop.regions
        if body.effects() & Effect.LEAVE:
            continue
        if any(
            each.operands[0] in arrays and leads_to(body.arguments[0], _indices(each))
            for each in body.walk()
            if each.name in _ACCESSES
        ):
            loop.attributes["unroll"] = FULLY_UNROLLED
            report("loop", "unrolled in full, for a local array", where=[location(function, loop)])


def _indices(access: Operation) -> list[Value]:
    return access.operands[1 : _ACCESSES[access.name]]


def _is_loaded(indices: list[Value]) -> bool:
    return any(
        isinstance(each.owner, Operation) and each.owner.name in ("array.load", "item")
        for index in indices
        for each in made_of(index)
    )


def _turns(loop: Operation) -> int | None:
    """Return the number of iterations of a loop, times those of the longest in it, if known."""
    numbers = [constant_number(value) for value in loop.operands[:3]]
    inner = [_turns(each) for each in own_loops(loop)]
    if loop.name != "for" or None in numbers or None in inner:
        return None
    start, stop, step = (number or 0 for number in numbers)
    if not step:
        return None
    return len(range(start, stop, step)) * max((each or 1 for each in inner), default=1)
