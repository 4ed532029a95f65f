"""Write loops out in which indices of local arrays depend on the counter."""

from __future__ import annotations

from collections.abc import Collection

from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.ir.recognize import constant_number
from kerneldsl.ir.rewriter import clone, replace_values
from kerneldsl.ir.simplify import decide_branches

__all__ = ["unroll_indices"]

#: Rounds of a loop that is written out, and operations of all.
_MOST_ROUNDS, _MOST_OPERATIONS = 64, 1024


def unroll_indices(region: Region, arrays: Collection[Value]) -> bool:
    """Write the loops of a region out, in place; return ``False`` if there would be too much."""
    found = next(_loops(region, set(arrays)), None)
    written = 0
    while found is not None:
        owner, loop = found
        written += len(_rounds(loop) or ()) * sum(1 for _ in loop.walk())
        if written > _MOST_OPERATIONS:
            return False
        values: dict[Value, Value] = {}
        number = owner.operations.index(loop)
        owner.operations[number : number + 1] = _written_out(loop, values)
        replace_values(region, values)
        decide_branches(region)
        found = next(_loops(region, set(arrays)), None)
    return True


def _loops(region: Region, arrays: set[Value]):  # type: ignore[no-untyped-def]
    """Yield the outermost of such loops, with the regions that they are in."""
    for operation in region.operations:
        is_known = operation.name == "for" and _rounds(operation) is not None
        if is_known and _indexes(operation, arrays):
            yield region, operation
        for inner in operation.regions:
            yield from _loops(inner, arrays)


def _rounds(loop: Operation) -> range | None:
    """Return the values of a counter, ``None`` if they are not known or too many."""
    bounds = [constant_number(each) for each in loop.operands[:3]]
    if None in bounds or not bounds[2] or loop.regions[0].is_left:
        return None
    found = range(*bounds)  # type: ignore[arg-type]
    return found if len(found) <= _MOST_ROUNDS else None


def _indexes(loop: Operation, arrays: set[Value]) -> bool:
    """Return whether indices of arrays depend on the counter of a loop."""
    depending = {loop.regions[0].arguments[0]}
    for each in loop.walk():
        is_access = each.name in ("array.load", "array.store") and each.operands[0] in arrays
        if is_access:
            count = each.operands[0].type.ndim
            if not depending.isdisjoint(each.operands[1 : 1 + count]):
                return True
        if each.name in ("numba", "cast", "tuple.make", "for") and not depending.isdisjoint(
            each.operands
        ):
            depending.update(each.results)
            depending.update(value for region in each.regions for value in region.arguments[:1])
    return False


def _written_out(loop: Operation, values: dict[Value, Value]) -> list[Operation]:
    """Return all rounds of a loop; `values` gets what takes the place of its results."""
    body = loop.regions[0]
    counter, *arguments = body.arguments
    carried = loop.operands[3:]
    out: list[Operation] = []
    for number in _rounds(loop) or ():
        made = Operation("const", [], (counter.type,), {"value": number}, place=loop.place)
        out.append(made)
        inner = {counter: made.result, **dict(zip(arguments, carried, strict=True))}
        out += [clone(each, inner) for each in body.operations[:-1]]
        carried = [inner.get(value, value) for value in body.yielded]
    values.update(zip(loop.results, carried, strict=True))
    return out
