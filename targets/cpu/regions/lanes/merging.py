"""Run two rows that a barrier parts strip by strip, if no strip needs what a later one does.

The threads of a scan in shared memory read, wait, and write::

    value = sums[t] + sums[t - step]
    syncthreads()
    sums[t] = value

As two rows each value goes through memory and back. A strip of threads may run both rows if no
other strip needs what it overwrites. If a thread `t` reads and a thread `u` writes one element,
their indices show the distance ``t - u``. It is `step` here, for all such pairs. If it is never
negative, strips run from the last to the first one. If it is never positive, they run from the
first to the last. What is known only at run time is tested then. In a strip the rows still run one
after the other, and what a thread keeps for the second one stays in a register.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from numba import types

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.ir.ranges import Interval
from kerneldsl.ir.recognize import constant_number, indices_of, is_shared_array
from kerneldsl.ir.rewriter import clone_inside, if_then
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, UNROLLED_AS_VECTORS
from targets.cpu.codegen.storage import may_share, root_of
from targets.cpu.regions.index_forms import Form, IndexForms
from targets.cpu.regions.lanes.slots import low_bits_only
from targets.cpu.regions.lanes.values import STRIP
from targets.cpu.regions.loop_writer import LoopWriter
from targets.cpu.regions.row_parts import as_a_whole

__all__ = ["merge_rows"]

_PLAIN = frozenset({"array.load", "array.store", "slot.load", "slot.store"})


class _Access(NamedTuple):
    array: Value
    #: Forms of its indices by the index of the thread.
    indices: list[Form | None]
    is_write: bool


def merge_rows(
    region: Region, known: Mapping[Value, Interval], parameters: Collection[Value]
) -> None:
    """Merge rows of a region that follow one another, in place.

    `known` has intervals of values, and `parameters` are those of the kernel.
    """
    _Merger(region, known, parameters).merge(region)


class _Merger:
    def __init__(
        self, region: Region, known: Mapping[Value, Interval], parameters: Collection[Value]
    ) -> None:
        self.known, self.parameters = known, parameters
        self.loads, self.stores = (
            Counter(e.operands[0] for e in region.walk() if e.name == name)
            for name in ("slot.load", "slot.store")
        )

    def merge(self, region: Region) -> None:
        out: list[Operation] = []
        first: int | None = None
        for operation in region.operations:
            if operation.name != "row":
                for inner in operation.regions:
                    self.merge(inner)
                if operation.effects() or operation.regions:
                    first = None
            elif first is not None and (found := self.merged(out[first], operation)):
                out[first : first + 1] = []
                out += found
                first = None
                continue
            else:
                first = len(out)
            out.append(operation)
        region.operations = out

    def merged(self, first: Operation, second: Operation) -> list[Operation] | None:
        """Return two rows as one that runs strips, with the rows as they are for other cases."""
        bounds = [constant_number(value) for row in (first, second) for value in row.operands]
        low, high, *others = bounds
        if low != 0 or high is None or others != [low, high] or high % STRIP or high <= STRIP:
            return None
        kept = _slots(first, "slot.store") & _slots(second, "slot.load")
        are_numbers = all(isinstance(each.type, types.Number | types.Boolean) for each in kept)
        if not kept or not are_numbers or not (_is_plain(first) and _is_plain(second)):
            return None
        out = LoopWriter()
        order = _order(first, second, self.parameters, out)
        if order is None:
            return None
        is_descending, tests = order
        # A strip keeps what the first row alone stores, and the second one alone loads.
        written = Counter(e.operands[0] for e in first.walk() if e.name == "slot.store")
        alone = {each for each in kept if written[each] == self.stores[each]}
        own = {place: place.type for place in alone if self.loads[place] == 1}
        for value in low_bits_only(second.regions[0]):
            made = value.owner
            if not isinstance(made, Operation) or made.name != "slot.load":
                continue
            if made.operands[0] in own:
                own[made.operands[0]] = types.int32
        strips = _Strips(high, own, is_descending=is_descending).written(first, second, self.known)
        if tests:
            strips = [if_then(out.all(tests), strips, [first, second])]
        return [*out.operations, *strips]


def _slots(row: Operation, name: str) -> set[Value]:
    return {each.operands[0] for each in row.walk() if each.name == name}


def _is_plain(row: Operation) -> bool:
    """Return whether a row only computes, and accesses elements, without loops."""
    for each in row.regions[0].walk():
        if each.name in ("for", "while", "row", "labeled", "leave"):
            return False
        if each.effect and each.name not in _PLAIN:
            return False
    return True


def _order(
    first: Operation, second: Operation, parameters: Collection[Value], out: LoopWriter
) -> tuple[bool, list[Value]] | None:
    """Return if strips run from the last to the first, and what must hold for that."""
    before, after = (_accesses(each) for each in (first, second))
    if before is None or after is None:
        return None
    distances: list[Form] = []
    for one in before:
        for other in after:
            is_read = not (one.is_write or other.is_write)
            if is_read or not may_share(one.array, other.array, parameters):
                continue
            if one.array is not other.array or not is_shared_array(one.array):
                return None
            distance = _distance(one, other)
            if distance is None:
                return None
            distances.append(distance)
    # The signs are guessed: what they would be, were all variables 1.
    signs = [each.constant + sum(each.terms.values()) for each in distances]
    is_descending = all(sign >= 0 for sign in signs)
    if not is_descending and any(sign > 0 for sign in signs):
        return None
    relation = operator.ge if is_descending else operator.le
    zero, unknown = out.constant(0), (each for each in distances if each.terms)
    return is_descending, [out.numba(relation, each.write(out), zero) for each in unknown]


def _accesses(row: Operation) -> list[_Access] | None:
    """Return the accesses of a row to arrays.

    It is ``None`` if an index may count from the end, or an array is a part of another.
    """
    (region,) = row.regions
    forms = IndexForms(region.arguments[0], row.defined(), {})
    found = []
    for each in region.walk():
        if each.name in ("array.load", "array.store"):
            array = each.operands[0]
            if not all(each.attributes["nonnegative"]) or root_of(array) is not array:
                return None
            indices = [forms.form(index) for index in indices_of(each)]
            found.append(_Access(array, indices, each.name == "array.store"))
    return found


def _distance(one: _Access, other: _Access) -> Form | None:
    """Return the distance of a thread from another one that accesses the same element."""
    for mine, yours in zip(one.indices, other.indices, strict=True):
        if mine is not None and yours is not None and mine.factor == yours.factor == 1:
            return yours.plus(mine, -1)
    return None


class _Strips:
    """Writes two rows of so many threads as a loop over strips."""

    def __init__(self, threads: int, own: dict[Value, Any], *, is_descending: bool) -> None:
        self.threads, self.is_descending = threads, is_descending
        self.places: dict[Value, Value] = {}
        self.slots: list[Operation] = []
        for place, kind in own.items():
            made = Operation("lane.slot", [], (kind,), {"threads": STRIP}, effect=Effect.ALLOCATE)
            made.result.name = place.name.replace("_slot", "_lanes")
            self.slots.append(made)
            self.places[place] = made.result

    def written(
        self, first: Operation, second: Operation, known: Mapping[Value, Interval]
    ) -> list[Operation]:
        out = LoopWriter()
        bounds = (0, self.threads, STRIP)
        if self.is_descending:
            bounds = (self.threads - STRIP, -STRIP, -STRIP)
        body = Region((types.int64,))
        body.arguments[0].name = "strip"
        inner = LoopWriter(body.operations)
        zero, width = inner.constant(0), inner.constant(STRIP)
        inner.operations += self.slots
        rows = [self.row(row, zero, width, body.arguments[0]) for row in (first, second)]
        inner.operations += as_a_whole(rows[0], known, rows[1])
        inner.end()
        out.operation("for", [out.constant(each) for each in bounds], (), None, [body])
        return out.operations

    def row(self, row: Operation, zero: Value, width: Value, strip: Value) -> Operation:
        region = Region((types.int64,))
        (lane,) = region.arguments
        lane.name = "lane"
        inner = LoopWriter(region.operations)
        index = inner.numba(operator.add, strip, lane)
        copy = clone_inside(row.regions[0], {row.regions[0].arguments[0]: index})
        for each in copy.walk():
            place = self.places.get(each.operands[0]) if each.name.startswith("slot.") else None
            if place is not None:
                each.name = each.name.replace("slot", "lane")
                each.operands[0], each.operands[-1] = place, lane
        inner.operations += copy.operations
        marks = (NOT_UNROLLED, UNROLLED_AS_VECTORS)
        return Operation("row", [zero, width], (), {"marks": marks}, [region])
