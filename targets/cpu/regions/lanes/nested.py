"""Variables of nested loops that are one variable: it needs one slot.

In ``for p: for q: total += …`` the inner loop begins with the outer one's value, and its result is
the outer one's next value. With two slots, lanes would copy the value for each iteration of the
outer loop, in and out.
"""

from __future__ import annotations

from kerneldsl.ir.operations import Operation, Value, given_to

__all__ = ["shared_slots"]


def shared_slots(outer: Operation) -> dict[Value, Value]:
    """Return results of loops in a loop's body that can be in a slot of that loop's.

    Each has the argument of the loop that the slot is for.
    """
    if outer.name != "for":
        return {}
    body = outer.regions[0]
    count = len(outer.results)
    found: dict[Value, Value] = {}
    for argument, last in zip(body.arguments[-count:] if count else (), body.yielded, strict=True):
        inner = last.owner
        if not isinstance(inner, Operation) or inner not in body.operations or inner.name != "for":
            continue
        if body.yielded.count(last) == 1 and _is_used_before(body.operations, inner, argument):
            found[last] = argument
    return found


def _is_used_before(operations: list[Operation], inner: Operation, argument: Value) -> bool:
    """Return whether nothing reads an argument after a loop has begun."""
    first = operations.index(inner)
    reads = [value for region in inner.regions for each in region.walk() for value in each.operands]
    reads += inner.operands[: len(inner.operands) - len(given_to(inner))]
    reads += [value for each in operations[first + 1 :] for value in each.used()]
    # Another variable of the loop may begin with it, too.
    return argument not in reads and given_to(inner).count(argument) <= 1
