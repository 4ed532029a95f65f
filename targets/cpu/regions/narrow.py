"""Guards of whole loops over threads: bounds of the loops."""

from __future__ import annotations

import operator

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from targets.cpu.regions.varying import VARYING

__all__ = ["narrow"]


def narrow(region: Region) -> None:
    """Turn what guards a whole loop over threads into its bounds."""
    for loop in list(region.walk()):
        if loop.name == "threads":
            while _narrow_once(loop):
                pass


def _narrow_once(loop: Operation) -> bool:
    (region,) = loop.regions
    if len(region.operations) < 2:
        return False
    *before, branch, _ = region.operations
    if branch.name != "if" or branch.results:
        return False
    yes, no = branch.regions
    if len(no.operations) > 1:
        return False
    if any(each.effects() & Effect.WRITE for each in before):
        return False
    bounds = _bounds_of(branch.operands[0])
    if bounds is None:
        return False
    low, high = bounds
    if low is not None:
        loop.attributes["low"] = max(loop.attributes.get("low", 0), low)
    if isinstance(high, int):
        loop.attributes["threads"] = min(loop.attributes["threads"], high)
    else:
        loop.operands.append(high)
    region.operations = [*before, *yes.operations]
    return True


def _bounds_of(condition: Value) -> tuple[int | None, int | Value] | None:
    """Return the threads along x that pass a condition: from a constant to a constant or value."""
    test = condition.owner
    if not isinstance(test, Operation) or test.name != "numba" or len(test.operands) != 2:
        return None
    function = test.attributes["function"]
    one, two = test.operands
    left = one.owner
    if not isinstance(left, Operation):
        return None
    right = two.owner
    number = (
        right.attributes["value"]
        if isinstance(right, Operation) and right.name == "const"
        else None
    )
    if left.name == "threadIdx.x":
        if function is operator.lt and not _is_varying(two):
            return None, number if isinstance(number, int) else two
        if function is operator.eq and isinstance(number, int) and number >= 0:
            return number, number + 1
    if (
        left.name == "numba"
        and left.attributes["function"] in (operator.floordiv, operator.ifloordiv)
        and function is operator.eq
        and isinstance(number, int)
    ):
        thread, divisor = (value.owner for value in left.operands)
        if isinstance(thread, Operation) and thread.name == "threadIdx.x":
            by = divisor.attributes.get("value") if isinstance(divisor, Operation) else None
            if type(by) is int and by > 0 and number >= 0:
                return number * by, (number + 1) * by
    return None


def _is_varying(value: Value) -> bool:
    made = value.owner
    if not isinstance(made, Operation):
        return False
    return (
        made.name in VARYING
        or made.name in ("slot.load", "array.load")
        or any(map(_is_varying, made.operands))
    )
