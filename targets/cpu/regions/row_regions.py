"""The operation ``row``: a loop over neighbouring elements or threads, in any order.

::

    row %low, %high { (%i: int64) … }

What all iterations share is computed before it. An element kernel has one for each part of a row of
elements, from ``row.low`` to ``row.high``. ``if i < n:`` around everything that a row does becomes
the bound ``min(high, n)``: no test is left in the loop. A condition that all iterations share is
tested before the loop.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from numba import types

from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value
from kerneldsl.ir.overflow import overflowing_values
from kerneldsl.ir.ranges import Interval, ranges_of_region
from kerneldsl.ir.recognize import (
    OPERATORS,
    both_of,
    constant_number,
    indices_of,
    operands_of,
    operator_of,
)
from kerneldsl.ir.rewriter import (
    clone,
    clone_region,
    drop_unused,
    if_then,
    replace_operations,
    replace_values,
)
from kerneldsl.ir.simplify import simplify
from kerneldsl.language.intrinsics.intrinsic import Effect as LanguageEffect
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.regions.index_forms import Bounds, IndexForms
from targets.cpu.regions.loop_writer import LoopWriter

__all__ = [
    "computes_cheaply",
    "element_rows",
    "has_effects",
    "hoist_shared_loads",
    "hoist_shared_values",
    "loop_takes_any_order",
    "make_row",
    "narrow_bounds",
    "replace_rows",
    "row_with_body",
    "version_nonnegative_starts",
]

#: Operations without effects that take little time.
_CHEAP = frozenset(
    {
        *("const", "cast", "numba", "array.size", "array.extent", "array.stride"),
        *("gridsize", "grid.x", "grid.y", "grid.z", "tuple.make", "tuple.member"),
        *(f"{name}.{axis}" for name in ("blockIdx", "gridDim", "extent") for axis in "xyz"),
    }
)
_FUNCTIONS = OPERATORS | {min, max, abs, bool}


def make_row(low: Value, high: Value, region: Region) -> Operation:
    return Operation("row", [low, high], (), {}, [region])


def row_with_body(row: Operation, region: Region, bounds: Sequence[Value] = ()) -> Operation:
    """Return a row like another one, with another body, and with its bounds if none are given."""
    return Operation("row", [*(bounds or row.operands)], (), dict(row.attributes), [region])


def replace_rows(region: Region, write: Callable[[Operation], list[Operation]]) -> None:
    """Replace each row by the operations that a function returns, in place."""
    replace_operations(region, lambda each: write(each) if each.name == "row" else None)


def element_rows(function: Function, axes: str) -> Value:
    """Put the body of an element kernel into a row, in place; return the index of the row.

    `axes` are the axes of rows that the axes of ``grid`` are.
    """
    body = function.body
    low, high = (Operation(f"row.{each}", [], (types.int64,)) for each in ("low", "high"))
    region = Region((types.int64,))
    (index,) = region.arguments
    index.name = "x"
    found: dict[Value, Value] = {}
    others: dict[str, Operation] = {}
    for operation in body.walk():
        if operation.name != "grid":
            continue
        axis = axes[operation.attributes.get("axis", 0)]
        if axis == "x":
            found[operation.result] = index
        else:
            if axis not in others:
                others[axis] = Operation(f"grid.{axis}", [], (types.int64,))
                others[axis].result.name = axis
            found[operation.result] = others[axis].result
    replace_values(body, found)
    drop_unused(body)
    region.operations = body.operations
    row = make_row(low.result, high.result, region)
    shared = hoist_shared_values(row)
    body.operations = [low, high, *others.values(), *shared, row, Operation("yield", [])]
    return index


def hoist_shared_values(row: Operation) -> list[Operation]:
    """Move what all iterations share out of a row, and return it."""
    return _SharedValues(row).hoist()


class _SharedValues:
    """Moves what all iterations share in front of a row, also out of branches."""

    def __init__(self, row: Operation) -> None:
        self.row = row
        self.inside = row.defined()
        self.moved: list[Operation] = []
        self.same: dict[Value, Value] = {}
        self._known: dict[Any, Operation] = {}

    def hoist(self) -> list[Operation]:
        """Take the operations with shared values out of the row; return them in their order."""
        self.hoist_from(self.row.regions[0])
        return self.moved

    def hoist_from(self, region: Region) -> None:
        kept = []
        for operation in region.operations:
            operation.operands = [self.same.get(each, each) for each in operation.operands]
            for inner in operation.regions:
                self.hoist_from(inner)
            if self.is_shared(operation):
                self.add(operation)
            else:
                kept.append(operation)
        region.operations = kept

    def is_shared(self, operation: Operation) -> bool:
        if operation.effect or not self.inside.isdisjoint(operation.operands):
            return False
        if operation.name == "if":
            regions = operation.regions
            yielded = [value for region in regions for value in region.yielded]
            return (
                bool(operation.results)
                and all(len(region.operations) == 1 for region in regions)
                and not any(region.is_left for region in regions)
                and self.inside.isdisjoint(yielded)
            )
        return computes_cheaply(operation)

    def add(self, operation: Operation) -> None:
        self.inside -= set(operation.results)
        key = _key(operation)
        found = self._known.setdefault(key, operation) if key is not None else operation
        if found is operation:
            self.moved.append(operation)
        else:
            self.same[operation.result] = found.result


def computes_cheaply(operation: Operation) -> bool:
    """Return whether an operation only computes a value, and takes little time."""
    if operation.name == "numba":
        kinds = [value.type for value in (*operands_of(operation), *operation.results)]
        are_numbers = all(isinstance(kind, types.Number | types.Boolean) for kind in kinds)
        return are_numbers and operator_of(operation) in _FUNCTIONS
    return operation.name in _CHEAP


def _key(operation: Operation) -> Any:
    """Return a key that operations with the same result have, or ``None``."""
    if operation.regions or len(operation.results) != 1:
        return None
    attributes: tuple[Any, ...]
    match operation.name:
        case "const":
            if not isinstance(operation.result.type, types.Number | types.Boolean):
                return None
            value = operation.attributes["value"]
            attributes = (type(value), repr(value))
        case "numba":
            attributes = (operator_of(operation), operation.attributes["signature"])
        case "tuple.make" | "tuple.member" | "gridsize":
            return None
        case _:
            attributes = (operation.attributes.get("axis"),)
    return operation.name, operation.result.type, attributes, tuple(operation.operands)


def has_effects(operations: Iterable[Operation]) -> bool:
    """Return whether operations do more than compute and read."""
    return any(each.effects() & ~Effect.READ for each in operations)


def hoist_shared_loads(row: Operation) -> list[Operation]:
    """Return a row in which shared elements are loaded before it, if it has iterations.

    ``distance[i, k] + distance[k, j]`` in a row over ``j`` loads its first element for each vector:
    LLVM cannot see that no iteration writes to it. Between two barriers threads may take turns
    after any instruction, so all of them may load it before the first one writes. This is done to
    what each iteration evaluates in any case, before anything that it writes.
    """
    (region,) = row.regions
    if not loop_takes_any_order(region):
        return [row]
    inside = row.defined()
    loads: list[Operation] = []
    known: dict[Any, Operation] = {}
    same: dict[Value, Value] = {}
    for operation in region.operations:
        if operation.effects() & ~Effect.READ:
            break
        if not _is_shared(operation, inside):
            continue
        found = known.setdefault(tuple(operation.operands), operation)
        if found is operation:
            loads.append(operation)
        else:
            same[operation.result] = found.result
    if not loads:
        return [row]
    left = {*loads, *(value.owner for value in same)}
    region.operations = [each for each in region.operations if each not in left]
    for each in region.walk():
        each.operands = [same.get(value, value) for value in each.operands]
    out: list[Operation] = []
    test = LoopWriter(out).numba(operator.lt, *row.operands)
    return [*out, if_then(test, [*loads, row])]


def _is_shared(operation: Operation, inside: set[Value]) -> bool:
    """Return whether an operation loads a number at a place that all iterations share."""
    return (
        operation.name == "array.load"
        and inside.isdisjoint(operation.operands)
        and isinstance(operation.result.type, types.Number | types.Boolean)
    )


def loop_takes_any_order(region: Region) -> bool:
    """Return whether the threads of a loop may take turns after any instruction.

    They share what the CPU target does for atomics, for exchanges and in local arrays, one thread
    after the other.
    """
    return not any(map(_is_kept_in_order, region.walk()))


def _is_kept_in_order(operation: Operation) -> bool:
    if operation.name == "local.array":
        return not operation.attributes.get("is_copied")
    use = operation.attributes.get("use")
    return operation.name.startswith(("exchange.", "fault")) or (
        use is not None
        and bool(use.intrinsic.effect & (LanguageEffect.ATOMIC | LanguageEffect.FENCE))
    )


# -- bounds ----------------------------------------------------------------------------------------


@dataclass
class _Layer:
    """Operations, and a condition under which what follows them runs."""

    operations: list[Operation]
    condition: Value
    truth: bool


def narrow_bounds(row: Operation, known: Mapping[Value, Interval]) -> list[Operation]:
    """Return a row with bounds in the place of its guards.

    `known` has intervals of values.
    """
    (region,) = row.regions
    layers, body = _layers(region)
    copied = {value for layer in layers for each in layer.operations for value in each.results}
    forms = IndexForms(region.arguments[0], row.defined() | copied, known)
    bounds, is_left = Bounds(), []
    for layer in layers:
        found = forms.bounds_of(layer.condition, truth=layer.truth)
        is_left.append(found is None)
        if found is not None:
            bounds.add(found)
    if all(is_left):
        return [row]
    out: list[Operation] = []
    make = LoopWriter(out)
    assumed = bounds.write_assumptions(make)
    # The second version is a copy of the original row, which runs if an assumption does not hold.
    careful = row_with_body(row, clone_region(row.regions[0], {})) if assumed else None
    for layer, stays in zip(layers[::-1], is_left[::-1], strict=True):
        if stays:
            branch = if_then(layer.condition, *((body, ()) if layer.truth else ((), body)))
            body = [branch]
        body = [*layer.operations, *body]
    region.operations = [*body, Operation("yield", [])]
    simplify(region)  # conditions have been copied
    inner = _within(row, bounds)
    if careful is None:
        return [*out, *inner]
    careful.attributes["rare"] = True
    out.append(if_then(make.all(assumed), inner, [careful]))
    return out


def _within(row: Operation, bounds: Bounds) -> list[Operation]:
    """Return a row within bounds, if the conditions hold."""
    out: list[Operation] = []
    make = LoopWriter(out)
    inner = row_with_body(row, row.regions[0], bounds.write_within(make, *row.operands))
    conditions = bounds.write_conditions(make)
    out.append(if_then(make.all(conditions), [inner]) if conditions else inner)
    return out


def _layers(region: Region) -> tuple[list[_Layer], list[Operation]]:
    """Return the conditions around everything that a region does, and what it does under them."""
    layers: list[_Layer] = []
    operations = region.operations[:-1]
    while operations:
        *before, branch = operations
        if branch.name != "if" or branch.results or has_effects(before):
            break
        yes, no = branch.regions
        if yes.is_left or no.is_left:
            break
        if len(no.operations) == 1:
            truth, inner = True, yes
        elif len(yes.operations) == 1:
            truth, inner = False, no
        else:
            break
        parts = list(_parts(branch.operands[0], truth))
        if any(has_effects(each.operations) for each in parts):
            break
        parts[0].operations[:0] = before
        layers += parts
        operations = inner.operations[:-1]
    return layers, operations


def _parts(condition: Value, truth: bool) -> Iterator[_Layer]:
    """Yield the parts of ``and``, with what is computed for each.

    What a region of ``and`` computes is copied, because its result may have other uses.
    """
    both = both_of(condition) if truth else None
    if both is None:
        yield _Layer([], condition, truth)
        return
    first, second = both
    yield from _parts(first, True)
    values: dict[Value, Value] = {}
    assert isinstance(condition.owner, Operation)
    copied = [clone(each, values) for each in condition.owner.regions[0].operations[:-1]]
    inner = list(_parts(values.get(second, second), True))
    inner[0].operations[:0] = copied
    yield from inner


# -- loops ----------------------------------------------------------------------------------------


# Version loops on a nonnegative start, where their counter indexes arrays.
#
# An index below 0 counts from the end of its axis, which takes three or four instructions at each
# access. A counter that goes up is not negative if its loop does not start below 0 ::
#
# for k in range(starts[i], starts[i + 1]): total += values[k]
#
# runs with ``values[k]`` without that test if ``starts[i] >= 0``. Other indices may then not be
# negative, too, such as the sum of the counter and the index of a row in the loop. Innermost loops
# alone have two versions, so that code grows by little.


def version_nonnegative_starts(region: Region) -> None:
    """Write two versions of such loops, in place."""
    replace_operations(region, lambda each: _versions(each) if _is_innermost(each) else None)


def _is_innermost(operation: Operation) -> bool:
    return operation.name == "for" and not any(
        each.name in ("for", "while", "threads")
        for inner in operation.regions
        for each in inner.walk()
    )


def _versions(loop: Operation) -> list[Operation]:
    start, _, step, *_ = loop.operands
    if not start.type.signed or (constant_number(step) or 0) <= 0:
        return [loop]
    upward = clone(loop, {})
    given = {start: (0, int(start.type.maxval))}
    region = Region((), [upward])
    overflowing = overflowing_values(region)
    known = ranges_of_region(region, overflowing=overflowing, given=given)
    if not sum(_mark(each, known) for each in upward.walk()):
        return [loop]
    out: list[Operation] = []
    make = LoopWriter(out)
    test = make.numba(operator.ge, make.cast(start), make.constant(0))
    results, loop.results = loop.results, [Value(v.type, loop) for v in loop.results]
    regions = [Region.of([each], *each.results) for each in (upward, loop)]
    return [*out, Operation("if", [test], (), None, regions).take_results(results)]


def _mark(access: Operation, known: Mapping[Value, Interval]) -> bool:
    """Mark indices of an access by their intervals; return whether that changes a mark."""
    marks = access.attributes.get("nonnegative")
    if marks is None or access.name not in ("array.load", "array.store"):
        return False
    pairs = zip(marks, indices_of(access), strict=False)
    found = tuple(is_marked or known.get(value, (-1, -1))[0] >= 0 for is_marked, value in pairs)
    access.attributes["nonnegative"] = found
    return bool(found != marks)
