"""Load elements once before a loop of a strip that stores to other arrays.

::

    for m in range(n):
        phases[m, i] += g[m] * positions[i, 0]

loads ``positions[i, 0]`` in each iteration, as a gather: the store may change it if the arrays
overlap. Each lane loads it before the loop if their memory is found to be disjoint. That is tested
beside the row, with the arguments of a launch; without it the strips are as they were. Each thread
has the values that it had.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from numba import types

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.ir.recognize import constant_number
from kerneldsl.ir.rewriter import clone
from targets.cpu.codegen.storage import root_of
from targets.cpu.regions.emitter import CpuEmitter, write_apart
from targets.cpu.regions.lanes.choice import Choice
from targets.cpu.regions.lanes.values import LaneValues
from targets.cpu.regions.loop_writer import LoopWriter
from targets.cpu.regions.row_regions import computes_cheaply

__all__ = ["HANDLERS", "with_loads_hoisted"]

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
        #: Whether a loop has a version without loads.
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
