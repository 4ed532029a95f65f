"""Mark loops that LLVM is to unroll: in full, or by four.

Registers have no index. Unless a loop that indexes an array of a thread is unrolled in full, the
array is in local memory, which is the device's. LLVM unrolls short loops by itself. A longer one
needs the mark.
"""

from __future__ import annotations

import math
import operator

from kerneldsl.analysis.index_forms import IndexForm
from kerneldsl.contract import Report
from kerneldsl.ir.loop_trips import tested_variable, trips_of
from kerneldsl.ir.operations import LOOPS, Effect, Function, Operation, Region, Value
from kerneldsl.ir.recognize import constant_number, constant_range, indices_of, operator_of
from kerneldsl.lowering.loop_marks import FULLY_UNROLLED, UNROLLED_BY_FOUR
from targets.cuda.compile.regions.walks import (
    affects_others,
    leads_to,
    location,
    made_of,
    own_loops,
    statements_in,
)

__all__ = ["unroll_arithmetic", "unroll_divisors", "unroll_loops", "unroll_short_loops"]


# LLVM unrolls a loop by eight, four or two, so that its body has a limited size. Of a loop with
# twelve operations that is two, and ptxas does not unroll the result again. NVVM unrolls such loops
# by four. Loops with fewer operations are left to LLVM and ptxas. Most loops that access arrays
# are, too: there the number of loads at once matters, and ptxas decides it. It cannot unroll a loop
# that keeps a branch, such as one before a square root (:mod:`targets.cuda.compile.square_roots`).
#
# References: LLVM Language Reference, "llvm.loop.unroll.count".

#: Operations in an iteration of a loop that is unrolled by four.
_LEAST, _MOST_OPERATIONS = 12, 40
_ALLOWED = frozenset(("const", "cast", "if", "yield", "numba"))
_READING = frozenset(("array.load", "array.part", "array.size", "array.extent"))
_OPERATORS = frozenset(
    value for name, value in vars(operator).items() if callable(value) and name[0] != "_"
)
#: Conversions of a condition, which are no instruction.
_FREE = (operator.truth, operator.not_)
#: Operators that take many instructions.
_LONG = (operator.truediv, operator.floordiv, operator.mod, operator.pow)


def unroll_arithmetic(function: Function, report: Report) -> None:
    """Mark such loops. They count by one to a bound that is no number."""
    count = rooted = 0
    for loop in function.body.walk():
        if loop.name != "for" or "unroll" in loop.attributes:
            continue
        _, stop, step = (constant_number(value) for value in loop.operands[:3])
        if stop is not None or step != 1:
            continue
        has_root = _has_guarded_root(loop.regions[0])
        operations = _operations(loop.regions[0], may_load=has_root)
        if operations is not None and _LEAST <= operations <= _MOST_OPERATIONS:
            loop.attributes["unroll"] = UNROLLED_BY_FOUR
            count += not has_root
            rooted += has_root
    report("loop", "unrolled by four, as it only computes", count)
    report("loop", "unrolled by four, as it tests before it takes a square root", rooted)


def _has_guarded_root(body: Region) -> bool:
    return any(
        operator_of(each) is math.sqrt
        for branch in body.walk()
        if branch.name == "if"
        for each in branch.regions[0].walk()
    )


def _operations(body: Region, *, may_load: bool) -> int | None:
    """Return how many operations a region makes; ``None`` if it does more than compute.

    With `may_load` it may also read arrays and take square roots.
    """
    count = 0
    for operation in body.walk():
        if operation.name not in _ALLOWED:
            if may_load and operation.name in _READING:
                continue
            return None
        if operation.name == "numba":
            function = operator_of(operation)
            if function is bool or function in _FREE:
                continue
            if may_load and function is math.sqrt:
                continue
            if all(map(_is_constant, operation.operands)):
                continue
            if function not in _OPERATORS or function in _LONG:
                return None
            count += 1
    return count


def _is_constant(value: Value) -> bool:
    """Return whether LLVM computes a value, such as ``2.0**-24``."""
    made = value.owner
    if not isinstance(made, Operation) or made.name not in ("const", "cast", "numba"):
        return False
    return all(map(_is_constant, made.operands))


# The stages of a Fourier transform, or of a sort, divide by a distance that each of them doubles.
# Where the loop is unrolled, quotients and remainders become shifts and masks, and quotients of
# floats become products.

#: Largest numbers of statements and of iterations of a loop that is unrolled fully.
_MOST_STATEMENTS, _MOST_CHANGES = 16, 12
_STEPS = (operator.mul, operator.floordiv, operator.lshift, operator.rshift)
_DIVISIONS = (operator.truediv, operator.floordiv, operator.mod)


def unroll_divisors(function: Function, report: Report) -> None:
    """Mark such loops.

    The variable begins with a number, and is multiplied or divided by a number at the end of each
    iteration.
    """
    count = 0
    for loop in function.body.walk():
        if loop.name == "while" and _divides(loop):
            loop.attributes["unroll"] = FULLY_UNROLLED
            count += 1
    report("loop", "unrolled, as it divides by what it multiplies", count)


def _divides(loop: Operation) -> bool:
    tested = tested_variable(loop)
    if tested is None or tested.relation is operator.ne:
        return False
    update, (variable, by) = tested.update, tested.update.operands
    factor = constant_number(by)
    if operator_of(update) not in _STEPS or factor is None or not 0 < factor <= 64:
        return False
    turns = trips_of(loop, lambda value: IndexForm(constant=constant_number(value)))
    is_short = turns is not None and turns <= _MOST_CHANGES
    return is_short and _divides_by(variable, loop.regions[1], update)


def _divides_by(variable: Value, body: Region, update: Operation) -> bool:
    """Return whether a straight body divides by a variable."""
    inside = list(body.walk())
    if body.effects() & Effect.LEAVE or any(each.name in LOOPS for each in inside):
        return False
    return statements_in(body) <= _MOST_STATEMENTS and any(
        operator_of(each) in _DIVISIONS and leads_to(variable, each.operands[1:])
        for each in inside
        if each is not update
    )


#: Elements of an array that may be in registers. A thread has 255.
MAX_TURNS = 64
_ACCESSES = ("array.load", "array.store")


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
    in_memory = {each.operands[0] for each in accesses if _is_loaded(indices_of(each))}
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
            each.operands[0] in arrays and leads_to(body.arguments[0], indices_of(each))
            for each in body.walk()
            if each.name in _ACCESSES
        ):
            loop.attributes["unroll"] = FULLY_UNROLLED
            report("loop", "unrolled in full, for a local array", where=[location(function, loop)])


def _is_loaded(indices: list[Value]) -> bool:
    return any(
        isinstance(each.owner, Operation) and each.owner.name in ("array.load", "item")
        for index in indices
        for each in made_of(index)
    )


def _turns(loop: Operation) -> int | None:
    """Return the number of iterations of a loop, times those of the longest in it, if known."""
    numbers = constant_range(loop) if loop.name == "for" else None
    inner = [_turns(each) for each in own_loops(loop)]
    if numbers is None or None in inner:
        return None
    return len(numbers) * max((each or 1 for each in inner), default=1)


# LLVM counts the instructions of an iteration, those of addresses too. It unrolls a loop over
# sixteen distances in three dimensions by two. NVVM unrolls it in full. Then the numbers of the
# iterations and the distances of addresses are constants.
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
    numbers = constant_range(loop)
    if numbers is None:
        return False
    inside = list(loop.regions[0].walk())
    if loop.regions[0].effects() & Effect.LEAVE or any(each.name in LOOPS for each in inside):
        return False
    if any(map(affects_others, inside)):
        return False
    turns = len(numbers)
    count = sum(each.name in _COUNTED for each in inside)
    return 1 < turns <= _MOST_TURNS and turns * count <= _MOST
