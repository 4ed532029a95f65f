"""Rewrite the rows of a kernel: what runs in strips, and what is left of a row after them.

Threads use the memory of a local array one after the other, so they cannot run together. With
``ring[j % 8]`` as ``ring[j % 8, lane]``, each thread of a strip has its own elements side by side
with its neighbours'. A loop over ``j`` that all threads make together can then run outside the loop
over lanes, and reads and writes whole vectors. This is done to an array that is used for elements
alone, if each loop that accesses it runs for a whole strip.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from numba import types

from kerneldsl.ir.operations import LOOPS, Effect, Operation, Region, Value
from kerneldsl.ir.recognize import constant_number
from kerneldsl.ir.rewriter import clone, if_then
from kerneldsl.language.element_types import ELEMENT_TYPES
from targets.cpu.codegen.storage import root_of
from targets.cpu.regions.emitter import CpuEmitter, write_apart
from targets.cpu.regions.lanes.masked import LANES, masked_loop
from targets.cpu.regions.lanes.slots import NotStrippedError
from targets.cpu.regions.lanes.strips import Strip
from targets.cpu.regions.lanes.values import (
    IN_REGISTERS,
    STRIP,
    Choice,
    LaneValues,
    loads_of_bounds,
)
from targets.cpu.regions.loop_writer import LoopWriter
from targets.cpu.regions.row_regions import computes_cheaply

__all__ = ["HANDLERS", "in_strips", "runs_as_one", "with_loads_hoisted"]

_INT64 = types.int64
#: Threads of a row that are run as one strip, at most.
_LONGEST = 1024


def in_strips(row: Operation) -> list[Operation]:
    """Return a row of threads in strips, or as it is if no loop of it profits."""
    region = row.regions[0]
    if "rare" in row.attributes or any(each.name == "row" for each in region.walk()):
        return [row]
    if any(map(is_of_one_thread, region.walk())):
        return with_loads_hoisted(row, lambda each: _with_arrays(each) or [each])
    arrays = [each for each in region.operations if each.name == "shared.array"]
    region.operations = [each for each in region.operations if each not in arrays]
    return [*arrays, *with_loads_hoisted(row, _strips_of_row)]


def _strips_of_row(row: Operation) -> list[Operation]:
    _begin_late(row.regions[0])
    lanes = _lanes(row)
    found = None if lanes is None else _written(row, lanes)
    return found or [row]


def runs_as_one(row: Operation) -> bool:
    """Return whether a row is one strip, with more lanes than registers hold."""
    lanes = _lanes(row)
    return lanes is not None and lanes > IN_REGISTERS


def _with_arrays(row: Operation) -> list[Operation] | None:
    """Return the strips of threads that have arrays, ``None`` if the row is not run in strips."""
    if any(each.name == "shared.array" for each in row.walk()) or not LaneArrays.suit(row):
        return None
    # The row stays as it is if it does not profit.
    row = clone(row, {})
    _begin_late(row.regions[0])
    arrays = LaneArrays(row)
    lanes = _lanes(row)
    if lanes is not None and not arrays.fit(lanes):
        lanes = min(lanes, STRIP)
    if lanes is None or not arrays.fit(lanes) or not arrays.profit():
        return None
    found = _written(row, lanes, arrays.first)
    return None if found is None else [*arrays.declare(lanes), *found]


def _written(row: Operation, lanes: int, first: Value | None = None) -> list[Operation] | None:
    """Return the strips of a row, ``None`` if lanes cannot keep a value.

    `first` is what the row reads as the first thread of a strip.
    """
    low, _ = row.operands
    length = _length(row)
    writer = LoopWriter()
    try:
        if length is not None and length <= lanes:
            _write(row, first, writer, low, writer.constant(length), length)
        else:
            _write_loop(row, first, writer, lanes, length)
    except NotStrippedError:
        return None
    return writer.operations


def _begin_late(region: Region) -> None:
    """Begin each ``labeled`` operation with the first operation that may leave it."""
    out: list[Operation] = []
    for operation in region.operations:
        for inner in operation.regions:
            _begin_late(inner)
        if operation.name == "labeled":
            leaves = set(operation.leaves())
            inside = operation.regions[0].operations
            count = next(
                (n for n, each in enumerate(inside) if not leaves.isdisjoint(each.walk())),
                len(inside) - 1,
            )
            out += inside[:count]
            del inside[:count]
        out.append(operation)
    region.operations = out


def _lanes(row: Operation) -> int | None:
    """Return how many threads a strip of a row has, ``None`` if no loop profits."""
    values = LaneValues(row)
    choice = Choice(values)
    moved = list(choice.moved_loops(row.regions[0]))
    most = _longest(row)
    if moved:
        is_whole = any(choice.takes_turns(each) or not choice.keeps_folds(each) for each in moved)
        return most if is_whole and most <= _LONGEST else min(STRIP, most)
    return (
        min(LANES, most)
        if any(masked_loop(each, values) for each in row.regions[0].operations)
        else None
    )


def _length(row: Operation) -> int | None:
    low, high = map(constant_number, row.operands)
    return None if low is None or high is None else high - low


def _longest(row: Operation) -> int:
    """Return how many threads a row has at most."""
    low, high = row.operands
    ends, first = [high], constant_number(low)
    if isinstance(high.owner, Operation) and high.owner.name == "int.min":
        ends = high.owner.operands
    numbers = [number for each in ends if (number := constant_number(each)) is not None]
    return max(min(numbers) - first, 1) if numbers and first is not None else _LONGEST + 1


def _write(
    row: Operation, first: Value | None, writer: LoopWriter, start: Value, width: Value, lanes: int
) -> None:
    """Write a strip from a thread on."""
    zero = writer.constant(0)
    copy = clone(row, {} if first is None else {first: start})
    writer.operations += Strip(copy, start, width, lanes, zero).operations()


def _write_loop(
    row: Operation, first: Value | None, writer: LoopWriter, lanes: int, length: int | None
) -> None:
    """Write a loop over full strips, and what is left after them."""
    low, high = row.operands
    step = writer.constant(lanes)
    # A guard may give the row any end, also the least integers, so the difference must not wrap.
    end = writer.difference(high, writer.constant(lanes - 1))
    is_whole = length is not None and length % lanes == 0
    body = Region((_INT64,) if is_whole else (_INT64, _INT64))
    strip = body.arguments[0]
    strip.name = "strip"
    inner = LoopWriter(body.operations)
    _write(row, first, inner, strip, inner.constant(lanes), lanes)
    if is_whole:
        inner.end()
        writer.operation("for", [low, end, step], (), None, [body])
        return
    inner.end(inner.numba(operator.add, strip, step))
    loop = writer.operation("for", [low, end, step, low], (_INT64,), None, [body])
    rest = loop.result
    rest.name = "rest"
    last = LoopWriter()
    _write(row, first, last, rest, last.numba(operator.sub, high, rest), lanes)
    writer.operations.append(if_then(writer.numba(operator.lt, rest, high), last.operations))


# -- local arrays ----------------------------------------------------------------------------------


#: Bytes of the arrays of a strip: more are not kept in the fastest cache.
_MOST_BYTES = 32 * 1024
_ELEMENTS = (types.Integer, types.Float, types.Boolean)


def is_of_one_thread(operation: Operation) -> bool:
    """Return whether an operation gives memory that threads use one after the other."""
    return operation.name == "local.array" and not operation.attributes.get("is_copied")


class LaneArrays:
    """The arrays of a row, which get a last axis of lanes, in place; `first` is lane 0's thread."""

    def __init__(self, row: Operation) -> None:
        (region,) = row.regions
        self.row = row
        self.first = Value(types.int64, None, "first")
        self.declared = [each for each in region.operations if is_of_one_thread(each)]
        self.values = {each.result for each in self.declared}
        front = LoopWriter()
        lane = front.numba(operator.sub, region.arguments[0], self.first)
        for each in region.walk():
            if each.operands and each.operands[0] in self.values:
                end = len(each.operands) - (each.name == "array.store")
                each.operands.insert(end, lane)
                each.attributes["nonnegative"] = (*each.attributes["nonnegative"], True)
        for each in self.declared:
            each.attributes["memory"] = each
            each.result.type = each.result.type.copy(ndim=each.result.type.ndim + 1)
        rest = [each for each in region.operations if each not in self.declared]
        region.operations = [*front.operations, *rest]

    @staticmethod
    def suit(row: Operation) -> bool:
        """Return whether the arrays of a row are used for elements alone."""
        (region,) = row.regions
        declared = [each for each in region.walk() if is_of_one_thread(each)]
        arrays = {each.result for each in declared}
        return all(
            each in region.operations and isinstance(each.result.type.dtype, _ELEMENTS)
            for each in declared
        ) and all(_is_plain(each, arrays) for each in region.walk())

    def declare(self, lanes: int) -> list[Operation]:
        """Return what declares the arrays for a strip."""
        for each in self.declared:
            each.attributes["lanes"] = lanes
        return self.declared

    def fit(self, lanes: int) -> bool:
        """Return whether the arrays of a strip are small enough."""
        return lanes * sum(map(_nbytes, self.declared)) <= _MOST_BYTES

    def profit(self) -> bool:
        """Return whether loops access the arrays, and all of them run for a whole strip."""
        choice = Choice(LaneValues(self.row, loads_of_bounds(self.row)))
        operations = self.row.regions[0].operations
        return any(map(self._is_looped, operations)) and self._run_together(operations, choice)

    def _run_together(self, operations: Sequence[Operation], choice: Choice) -> bool:
        for each in operations:
            inside = [inner for region in each.regions for inner in region.operations]
            if choice.takes_turns(each):
                is_bad = any(map(self._is_looped, inside))
            elif choice.is_moved(each):
                is_bad = not self._run_together(inside, choice)
            else:
                is_bad = self._is_looped(each)
            if is_bad:
                return False
        return True

    def _is_looped(self, operation: Operation) -> bool:
        """Return whether an operation has a loop that accesses one of the arrays."""
        return any(
            loop.name in LOOPS and not self.values.isdisjoint(loop.used())
            for loop in operation.walk()
        )


def _is_plain(operation: Operation, arrays: set[Value]) -> bool:
    """Return whether an operation uses no array, or an element of it."""
    if operation.name in ("array.load", "array.store"):
        return arrays.isdisjoint(operation.operands[1:])
    return arrays.isdisjoint(operation.operands)


def _nbytes(array: Operation) -> int:
    static = array.attributes["use"].static
    shape: tuple[int, ...] = static["shape"]
    return math.prod(shape) * ELEMENT_TYPES[static["dtype"]].nbytes


# -- loads before a loop of a strip that stores to other arrays ------------------------------------

# The following loop loads ``positions[i, 0]`` in each iteration, as a gather: the store may change
# it if the arrays overlap ::


_DISJOINT = "array.disjoint"


def with_loads_hoisted(
    row: Operation, write: Callable[[Operation], list[Operation]]
) -> list[Operation]:
    """Return what a function writes for a row, with versions of loops in which loads are hoisted.

    The function returns the row as it is if it is not run in strips.
    """
    names = {each.name for each in row.walk()}
    if not {"for", "array.load", "array.store"} <= names:
        return write(row)
    copy = clone(row, {})
    hoisting = _Hoisting(copy)
    hoisting.region(copy.regions[0])
    strips = write(copy) if hoisting.found else [copy]
    return write(row) if copy in strips else [*hoisting.tests.operations, *strips]


class _Hoisting:
    """Moves loads out of the loops of a row that all lanes run together, in place."""

    def __init__(self, row: Operation) -> None:
        self.choice = Choice(LaneValues(row))
        self.inside = row.defined()
        #: Whether some loop has a version without these loads.
        self.found = False
        #: Tests of arrays that must not overlap, before the row.
        self.tests = LoopWriter()
        self._known: dict[tuple[Value, Value], Value] = {}

    def region(self, region: Region) -> None:
        out: list[Operation] = []
        for operation in region.operations:
            is_moved = operation.name == "for" and self.choice.is_moved(operation)
            if is_moved or self.choice.is_common(operation):
                for inner in operation.regions:
                    self.region(inner)
            out += self.without_loads(operation) if is_moved else [operation]
        region.operations = out

    def without_loads(self, loop: Operation) -> list[Operation]:
        """Return a loop after its loads, which run if it has iterations."""
        stored = _stored(loop)
        if not stored:
            return [loop]
        inside, fixed, loads = loop.defined(), [], []
        for operation in loop.regions[0].operations:
            is_load = operation.name == "array.load" and self.is_free(operation, stored)
            if (is_load or computes_cheaply(operation)) and inside.isdisjoint(operation.operands):
                inside -= set(operation.results)
                fixed.append(operation)
                if is_load and not self.choice.is_contiguous(operation):
                    loads.append(operation)
        if not loads or not _has_known_step(loop):
            return [loop]
        self.found = True
        needed = set(loads)
        for each in reversed(fixed):
            if each in needed:
                needed |= {value.owner for value in each.operands if value.owner in fixed}
        plain, body = clone(loop, {}), loop.regions[0]
        before = [each for each in fixed if each in needed]
        body.operations = [each for each in body.operations if each not in needed]
        out = LoopWriter()
        conditions = [_runs(loop, out), *self.conditions(needed, stored)]
        results, loop.results = loop.results, [Value(each.type, loop) for each in loop.results]
        versions = [*before, loop], [plain]
        regions = [Region.of(each, *each[-1].results) for each in versions]
        out.operation("if", [out.all(conditions)], (), None, regions).take_results(results)
        return out.operations

    def conditions(self, needed: set[Any], stored: set[Value]) -> list[Value]:
        """Return whether the arrays that some operations load from overlap none that are stored."""
        found: dict[tuple[Value, Value], None] = {}
        for each in needed:
            if each.name == "array.load":
                found |= dict.fromkeys(self.tested(each, stored) or ())
        for pair in found:
            if pair not in self._known:
                self._known[pair] = self.tests.add(_DISJOINT, *pair, kind=types.boolean)
        return [self._known[pair] for pair in found]

    def is_free(self, load: Operation, stored: set[Value]) -> bool:
        """Return whether no store of a loop changes what it loads, if tests find arrays apart."""
        is_number = isinstance(load.result.type, types.Number | types.Boolean)
        return is_number and "hint" not in load.attributes and self.tested(load, stored) is not None

    def tested(self, load: Operation, stored: set[Value]) -> list[tuple[Value, Value]] | None:
        """Return the pairs of arrays to test, ``None`` if that is impossible."""
        root, found = root_of(load.operands[0]), []
        for other in stored:
            is_own = isinstance(other.owner, Operation) and other.owner.name == "local.array"
            is_apart = is_own and other in self.inside and root not in self.inside
            if is_apart:
                continue
            if root is other or not self.inside.isdisjoint((root, other)):
                return None
            if not all(isinstance(each.type, types.Array) for each in (root, other)):
                return None
            found.append((root, other))
        return found


def _stored(loop: Operation) -> set[Value] | None:
    """Return the arrays that a loop stores to, ``None`` if it does more than load and store."""
    found = set()
    for each in loop.walk():
        if each.effect & ~(Effect.READ | Effect.WRITE) or "use" in each.attributes:
            return None
        if each.effect & Effect.WRITE:
            if each.name != "array.store":
                return None
            found.add(root_of(each.operands[0]))
    return found


def _has_known_step(loop: Operation) -> bool:
    start, stop, step, *_ = loop.operands
    return bool(constant_number(step)) and start.type == stop.type


def _runs(loop: Operation, out: LoopWriter) -> Value:
    """Return whether a loop has iterations."""
    start, stop, step, *_ = loop.operands
    return out.numba(operator.lt if (constant_number(step) or 0) > 0 else operator.gt, start, stop)


def _write_test(emitter: CpuEmitter, operation: Operation) -> None:
    emitter.set(operation, write_apart(emitter, *operation.operands))


HANDLERS = {_DISJOINT: _write_test}
