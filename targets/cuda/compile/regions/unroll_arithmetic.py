"""Mark loops of a medium size that ptxas cannot unroll: LLVM unrolls them by four.

LLVM unrolls a loop by eight, four or two, so that its body has a limited size. Of a loop with
twelve operations that is two, and ptxas does not unroll the result again. NVVM unrolls such loops
by four. Loops with fewer operations are left to LLVM and ptxas. Most loops that access arrays are,
too: there the number of loads at once matters, and ptxas decides it. It cannot unroll a loop that
keeps a branch, such as one before a square root (:mod:`targets.cuda.compile.square_roots`).

References
----------
LLVM Language Reference, "llvm.loop.unroll.count".
"""

from __future__ import annotations

import math
import operator

from kerneldsl.contract import Report
from kerneldsl.ir.operations import Function, Operation, Region, Value
from kerneldsl.ir.recognize import constant_number, operator_of
from kerneldsl.lowering.loop_marks import UNROLLED_BY_FOUR

__all__ = ["unroll_arithmetic"]

#: Operations in an iteration of a loop that is unrolled by four.
_LEAST, _MOST = 12, 40
_ALLOWED = frozenset(("const", "cast", "if", "yield", "numba"))
_READING = frozenset(("array.load", "array.part", "array.size", "array.extent"))
_OPERATORS = frozenset(
    value for name, value in vars(operator).items() if callable(value) and name[0] != "_"
)
#: Conversions of a condition, which are no instruction.
_FREE = (operator.truth, operator.not_)
#: What takes many instructions.
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
        if operations is not None and _LEAST <= operations <= _MOST:
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
