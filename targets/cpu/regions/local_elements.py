"""Elements of small local arrays become variables, if it is known which element is accessed.

Threads use the memory of a local array one after the other. With variables instead, they can run
together: each has the elements in lanes. Loops are written out if their counter enters an index.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from numba import types

from kerneldsl.ir.operations import CONTROL, LOOPS, Function, Label, Operation, Region, Value
from kerneldsl.ir.recognize import constant_number, constant_range, indices_of
from kerneldsl.ir.rewriter import clone, clone_region, replace_values
from kerneldsl.ir.simplify import decide_branches, simplify

__all__ = ["name_elements", "unroll_indices"]

_MOST_ELEMENTS = 64


def name_elements(function: Function, *, wraparound: bool) -> None:
    """Give elements of local arrays variables, in place, if all of them can have one."""
    body = function.body
    if not any(_arrays(body)):
        return
    copy = _copied(body)
    simplify(copy)  # extents are constants
    copied = list(_arrays(copy))
    if not all(_has_plain_uses(copy, each.result) for _, each in copied):
        return
    if not unroll_indices(copy, [each.result for _, each in copied]):
        return
    simplify(copy)
    copied = list(_arrays(copy))
    if not all(_known(copy, each.result, wraparound=wraparound) for _, each in copied):
        return
    for region, array in copied:
        _Elements(array, wraparound=wraparound).run(region, copy)
    simplify(copy)
    body.operations = copy.operations


def _arrays(region: Region) -> Iterator[tuple[Region, Operation]]:
    """Yield the small local arrays of a region and of its branches, with their regions."""
    for operation in region.operations:
        if _is_small(operation):
            yield region, operation
        if operation.name == "if":
            for inner in operation.regions:
                yield from _arrays(inner)


def _copied(body: Region) -> Region:
    """Return a copy of a function's body that reads the function's parameters."""
    copy = clone_region(body, {})
    replace_values(copy, dict(zip(copy.arguments, body.arguments, strict=True)))
    decide_branches(copy)
    return copy


def _is_small(operation: Operation) -> bool:
    if operation.name != "local.array":
        return False
    kind = operation.result.type.dtype
    return (
        isinstance(kind, types.Integer | types.Float | types.Boolean)
        and 0 < math.prod(operation.attributes["shape"]) <= _MOST_ELEMENTS
    )


def _has_plain_uses(body: Region, array: Value) -> bool:
    """Return whether an array is used for accesses of elements alone, in branches and loops."""
    for operation in body.walk():
        if operation.regions and operation.name not in CONTROL and array in operation.used():
            return False
        if array in operation.operands:
            is_access = operation.name in ("array.load", "array.store")
            if not is_access or array in operation.operands[1:]:
                return False
    return True


def _accesses(region: Region, array: Value) -> Iterator[Operation]:
    return (
        each
        for each in region.walk()
        if each.name in ("array.load", "array.store") and each.operands[0] is array
    )


def _known(region: Region, array: Value, *, wraparound: bool) -> bool:
    return all(_place(each, wraparound=wraparound) is not None for each in _accesses(region, array))


def _place(access: Operation, *, wraparound: bool) -> int | None:
    """Return the number of the element of an access, ``None`` if it is not known."""
    array = access.operands[0].owner
    assert isinstance(array, Operation)
    shape = array.attributes["shape"]
    found = 0
    for value, extent in zip(access.operands[1 : 1 + len(shape)], shape, strict=True):
        index = constant_number(value)
        if index is None:
            return None
        if index < 0 and wraparound:
            index += extent
        if not 0 <= index < extent:
            return None
        found = found * extent + index
    return found


class _Elements:
    """Replaces the accesses of one array by values."""

    def __init__(self, array: Operation, *, wraparound: bool) -> None:
        self.array, self.wraparound = array.result, wraparound
        self.kind = array.result.type.dtype
        self.count = math.prod(array.attributes["shape"])
        #: What operations are left with: the elements that they hand on.
        self.labels: dict[Label, list[int]] = {}
        self.values: dict[Value, Value] = {}

    def run(self, region: Region, body: Region) -> None:
        """Replace them in the region of the array, in a function's body."""
        number = next(n for n, each in enumerate(region.operations) if self.array in each.results)
        zero = Operation("const", [], (self.kind,), {"value": self.zero()})
        region.operations[number] = zero
        self.region(region, [zero.result] * self.count)
        replace_values(body, self.values)

    def zero(self) -> int | float | bool:
        """Return what is in an element before the first store."""
        if isinstance(self.kind, types.Boolean):
            return False
        return 0.0 if isinstance(self.kind, types.Float) else 0

    def region(self, region: Region, elements: list[Value]) -> list[Value]:
        """Replace them in a region that begins with some elements; return those at its end."""
        out: list[Operation] = []
        for operation in region.operations:
            is_access = operation.name in ("array.load", "array.store")
            if is_access and operation.operands[0] is self.array:
                place = _place(operation, wraparound=self.wraparound)
                assert place is not None
                if operation.name == "array.load":
                    self.values[operation.result] = self.values.get(
                        elements[place], elements[place]
                    )
                else:
                    elements = [*elements]
                    value = operation.operands[-1]
                    elements[place] = self.values.get(value, value)
                continue
            if operation.name == "leave":
                numbers = self.labels.get(operation.attributes["label"], [])
                operation.operands += [elements[number] for number in numbers]
            elif operation.name in CONTROL:
                elements = self.control(operation, elements)
            out.append(operation)
        region.operations = out
        return elements

    def control(self, operation: Operation, elements: list[Value]) -> list[Value]:
        """Replace them in a branch or loop; return the elements after it."""
        numbers = sorted(
            {
                place
                for region in operation.regions
                for each in _accesses(region, self.array)
                if each.name == "array.store"
                and (place := _place(each, wraparound=self.wraparound)) is not None
            }
        )
        if operation.name == "labeled":
            self.labels[operation.attributes["label"]] = numbers
        given = elements
        if operation.name in LOOPS:
            operation.operands += [elements[number] for number in numbers]
        for position, region in enumerate(operation.regions):
            inner = [*given]
            if operation.name in LOOPS:
                for number in numbers:
                    argument = Value(self.kind, region)
                    region.arguments.append(argument)
                    inner[number] = argument
            ends = self.region(region, inner)
            is_test = operation.name == "while" and position == 0
            if not region.is_left and not is_test:
                region.operations[-1].operands += [ends[number] for number in numbers]
        after = [*elements]
        for number in numbers:
            result = Value(self.kind, operation)
            operation.results.append(result)
            after[number] = result
        return after


# -- loops that are written out
# ----------------------------------------------------------------------


#: Rounds of a loop that is written out, and operations of all.
_MOST_ROUNDS, _MOST_WRITTEN = 64, 1024


def unroll_indices(region: Region, arrays: Collection[Value]) -> bool:
    """Write the loops of a region out, in place; return ``False`` if there would be too much."""
    found = next(_indexing_loops(region, set(arrays)), None)
    written = 0
    while found is not None:
        owner, loop = found
        written += len(_rounds(loop) or ()) * sum(1 for _ in loop.walk())
        if written > _MOST_WRITTEN:
            return False
        values: dict[Value, Value] = {}
        number = owner.operations.index(loop)
        owner.operations[number : number + 1] = _written_out(loop, values)
        replace_values(region, values)
        decide_branches(region)
        found = next(_indexing_loops(region, set(arrays)), None)
    return True


def _indexing_loops(region: Region, arrays: set[Value]):  # type: ignore[no-untyped-def]
    """Yield the outermost of such loops, with the regions that they are in."""
    for operation in region.operations:
        is_known = operation.name == "for" and _rounds(operation) is not None
        if is_known and _indexes(operation, arrays):
            yield region, operation
        for inner in operation.regions:
            yield from _indexing_loops(inner, arrays)


def _rounds(loop: Operation) -> range | None:
    """Return the values of a counter, ``None`` if they are not known or too many."""
    found = constant_range(loop)
    is_short = found is not None and len(found) <= _MOST_ROUNDS
    return found if is_short and not loop.regions[0].is_left else None


def _indexes(loop: Operation, arrays: set[Value]) -> bool:
    """Return whether indices of arrays depend on the counter of a loop."""
    depending = {loop.regions[0].arguments[0]}
    for each in loop.walk():
        is_access = each.name in ("array.load", "array.store") and each.operands[0] in arrays
        if is_access and not depending.isdisjoint(indices_of(each)):
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
