"""Elements of small local arrays become variables, if it is known which element is accessed.

Threads use the memory of a local array one after the other. With variables instead, they can run
together: each has the elements in lanes. Loops are written out if their counter enters an index.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import NamedTuple

from numba import types

from kerneldsl.ir.operations import CONTROL, LOOPS, Function, Label, Operation, Region, Value
from kerneldsl.ir.recognize import constant_number, constant_range, indices_of, slice_bounds
from kerneldsl.ir.rewriter import clone, clone_region, replace_values
from kerneldsl.ir.simplify import decide_branches, simplify
from targets.cpu.codegen.storage import root_of

__all__ = ["name_elements"]

_MOST_ELEMENTS = 64
_ACCESSES = ("array.load", "array.store")
_PARTS = ("array.part", "array.view")


def name_elements(function: Function, *, wraparound: bool) -> None:
    """Give elements of local arrays variables, in place, if all of them can have one.

    Else those outside loops have one, if all of these can.
    """
    for around in (CONTROL, ("if",)):
        if _name_within(function.body, around, wraparound=wraparound):
            return


def _name_within(body: Region, around: Collection[str], *, wraparound: bool) -> bool:
    """Name the elements of the arrays in a body and in some operations in it, if all can be."""
    if not any(_arrays(body, around)):
        return False
    copy = _copied(body)
    simplify(copy)  # extents are constants
    copied = list(_arrays(copy, around))
    if not all(_has_plain_uses(copy, each.result) for _, each in copied):
        return False
    if not unroll_indices(copy, [each.result for _, each in copied]):
        return False
    simplify(copy)
    copied = list(_arrays(copy, around))
    if not all(_known(copy, each.result, wraparound=wraparound) for _, each in copied):
        return False
    for region, array in copied:
        _Elements(array, wraparound=wraparound).run(region, copy)
    simplify(copy)
    body.operations = copy.operations
    return True


def _arrays(region: Region, around: Collection[str]) -> Iterator[tuple[Region, Operation]]:
    """Yield the small local arrays of a region and of some operations in it, with their regions."""
    for operation in region.operations:
        if _is_small(operation):
            yield region, operation
        if operation.name in around:
            for inner in operation.regions:
                yield from _arrays(inner, around)


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
    """Return whether an array and its parts are used for accesses of elements alone.

    They may be in branches and loops.
    """
    parts = {array}
    for operation in body.walk():
        is_other = bool(operation.regions) and operation.name not in CONTROL
        if is_other and not parts.isdisjoint(operation.used()):
            return False
        if parts.isdisjoint(operation.operands):
            continue
        if not _selects(operation) or not parts.isdisjoint(operation.operands[1:]):
            return False
        if operation.name in _PARTS:
            parts.add(operation.result)
    return True


def _selects(operation: Operation) -> bool:
    """Return whether an operation accesses an element of its array, or gives a part of it."""
    return operation.name in _ACCESSES or operation.name in _PARTS


def _accesses(region: Region, array: Value) -> Iterator[Operation]:
    return (
        each
        for each in region.walk()
        if each.name in _ACCESSES and root_of(each.operands[0]) is array
    )


def _known(region: Region, array: Value, *, wraparound: bool) -> bool:
    return all(_place(each, wraparound=wraparound) is not None for each in _accesses(region, array))


class _Part(NamedTuple):
    """Elements of an array: the number of the first, and what each axis adds to it."""

    first: int
    axes: list[range]

    def select(self, indices: list[Value], *, wraparound: bool) -> _Part | None:
        """Return the part at some indices, ``None`` if it is not known."""
        first, axes = self.first, self.axes[len(indices) :]
        kept = []
        for index, axis in zip(indices, self.axes, strict=False):
            if isinstance(index.type, types.SliceType):
                bounds = _slice(index)
                if bounds is None:
                    return None
                kept.append(axis[bounds])
                continue
            number = constant_number(index)
            if number is None or not (-len(axis) if wraparound else 0) <= number < len(axis):
                return None
            first += axis[number]
        return _Part(first, [*kept, *axes])


def _slice(value: Value) -> slice | None:
    """Return a constant slice."""
    bounds = slice_bounds(value)
    numbers = [None if each.type == types.none else constant_number(each) for each in bounds]
    is_known = all(
        number is not None or bound.type == types.none
        for number, bound in zip(numbers, bounds, strict=True)
    )
    return slice(*numbers) if bounds and is_known else None


def _part(array: Value, *, wraparound: bool) -> _Part | None:
    """Return the elements of a local array, or of a part of one, ``None`` if they are not known."""
    made = array.owner
    assert isinstance(made, Operation)
    if made.name in _PARTS:
        whole = _part(made.operands[0], wraparound=wraparound)
        return whole and whole.select(made.operands[1:], wraparound=wraparound)
    shape = made.attributes["shape"]
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    axes = [range(0, n * step, step) for n, step in zip(shape, steps, strict=True)]
    return _Part(0, axes)


def _place(access: Operation, *, wraparound: bool) -> int | None:
    """Return the number of the element of an access, ``None`` if it is not known."""
    array, *rest = access.operands
    found = _part(array, wraparound=wraparound)
    found = found and found.select(rest[: array.type.ndim], wraparound=wraparound)
    return None if found is None else found.first


class _Elements:
    """Replaces the accesses of one array by values."""

    def __init__(self, array: Operation, *, wraparound: bool) -> None:
        self.array, self.wraparound = array.result, wraparound
        self.kind = array.result.type.dtype
        self.count = math.prod(array.attributes["shape"])
        #: Numbers of the elements that the operation of each label hands on.
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
            if operation.name in _ACCESSES and root_of(operation.operands[0]) is self.array:
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


# -- loops that are written out --------------------------------------------------------------------


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


def _indexing_loops(region: Region, arrays: set[Value]) -> Iterator[tuple[Region, Operation]]:
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
        if _selects(each) and root_of(each.operands[0]) in arrays:
            indices = each.operands[1:] if each.name in _PARTS else indices_of(each)
            if not depending.isdisjoint([each.operands[0], *indices]):
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
