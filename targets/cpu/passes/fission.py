"""Split a typed function at barriers and exchanges into loops over the threads of a block.

The result is a region that one worker runs for each block. Uniform operations run once. The others
are in ``threads`` operations, which are loops over the threads. A value that several loops need is
computed again if that is cheap. If not, it is stored in a slot, which has a place for each thread.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.ir.operations import TOGETHER, Effect, Function, Operation, Region, Value
from kerneldsl.ir.rewriter import clone
from kerneldsl.ir.simplify import simplify
from kerneldsl.ir.uniformity import uniformity_of
from kerneldsl.language.intrinsics.intrinsic import Scope

__all__ = ["split_at_barriers"]

#: What differs between the threads of a block.
VARYING = {
    "threadIdx.x": Scope.THREAD,
    "grid": Scope.THREAD,
    "laneid": Scope.THREAD,
}
#: Operations that are computed again in each loop, not stored.
_CHEAP = frozenset({"const", "cast", "numba", "array.size", "array.extent", "array.part", *VARYING})
_MOST_AGAIN = 6


def split_at_barriers(function: Function, threads: int) -> Region:
    """Return the region that runs for a block of so many threads along x."""
    fission = _Fission(uniformity_of(function, VARYING), threads)
    out = fission.split(function.body.operations[:-1], ())
    region = Region()
    region.operations = [*fission.slots, *out, Operation("yield", [])]
    _Crossing(fission, region).run()
    _narrow(region)
    simplify(region)
    return region


class _Fission:
    def __init__(self, scopes: Mapping[Value, Scope], threads: int) -> None:
        self.scopes = dict(scopes)
        self.threads = threads
        self.slots: list[Operation] = []
        #: Values that are read from a slot wherever a loop needs them.
        self.slot_of: dict[Value, Value] = {}

    def slot(self, kind: Any, name: str, *, beyond: int = 0) -> Value:
        made = Operation(
            "slot", [], (kind,), {"threads": self.threads + beyond}, effect=Effect.ALLOCATE
        )
        made.result.name = f"{name}_slot"
        self.slots.append(made)
        return made.result

    def is_block(self, value: Value) -> bool:
        return self.scopes.get(value, Scope.THREAD) >= Scope.BLOCK

    def split(self, operations: list[Operation], masks: tuple[Value, ...]) -> list[Operation]:
        out: list[Operation] = []
        group: list[Operation] = []

        def flush() -> None:
            if group:
                out.append(self.loop(list(group), masks))
                group.clear()

        for operation in operations:
            effects = operation.effects()
            if not effects & TOGETHER:
                is_uniform = all(map(self.is_block, operation.results)) and operation.results
                if (is_uniform and not effects) or effects == Effect.ALLOCATE:
                    out.append(operation)
                else:
                    group.append(operation)
            elif operation.effect & Effect.WAIT:
                if any(not self.is_block(mask) for mask in masks):
                    raise NotReadError("a barrier that not all threads reach")
                flush()
            elif operation.effect & Effect.EXCHANGE:
                taken = self.exchange(operation, group, masks)
                flush()
                group.append(taken)
            elif operation.effect & Effect.BLOCK:
                flush()
                out.append(operation)
            elif operation.name == "if":
                self.branch(operation, masks, out, flush)
            else:
                self.repeat(operation, masks, out, group, flush)
        flush()
        return out

    def loop(self, operations: list[Operation], masks: tuple[Value, ...]) -> Operation:
        region = Region()
        for mask in reversed(masks):
            inner, no = Region(), Region()
            inner.operations = [*operations, Operation("yield", [])]
            no.operations = [Operation("yield", [])]
            operations = [Operation("if", [mask], (), None, [inner, no])]
        region.operations = [*operations, Operation("yield", [])]
        return Operation("threads", [], (), {"threads": self.threads}, [region])

    def exchange(
        self, operation: Operation, group: list[Operation], masks: tuple[Value, ...]
    ) -> Operation:
        if operation.name != "shfl_down_sync" or self.threads % 32:
            raise NotReadError(operation.name)
        mask, value, delta = operation.operands
        made = mask.owner
        while isinstance(made, Operation) and made.name == "cast":
            made = made.operands[0].owner
        is_whole = isinstance(made, Operation) and made.attributes.get("value") == 0xFFFFFFFF
        if not is_whole or any(self.scopes[each] < Scope.WARP for each in masks):
            raise NotReadError("an exchange of some lanes of a warp")
        posted = self.slot(value.type, "posted", beyond=32)
        group.append(Operation("slot.store", [posted, value], effect=Effect.WRITE))
        taken = Operation(
            "lane.down",
            [posted, delta],
            (),
            {},
            effect=Effect.READ,
            place=operation.place,
        )
        taken.results = operation.results
        for result in taken.results:
            result.owner = taken
        return taken

    def branch(self, operation: Operation, masks: tuple[Value, ...], out: Any, flush: Any) -> None:
        (condition,) = operation.operands
        flush()
        places = [self.slot(each.type, each.name or "result") for each in operation.results]
        for result, place in zip(operation.results, places, strict=True):
            self.slot_of[result] = place
        is_uniform = self.is_block(condition)
        regions = []
        for number, region in enumerate(operation.regions):
            inner = [
                *region.operations[:-1],
                *(
                    Operation("slot.store", [place, value], effect=Effect.WRITE)
                    for place, value in zip(places, region.yielded, strict=True)
                ),
            ]
            if is_uniform:
                made = Region()
                made.operations = [*self.split(inner, masks), Operation("yield", [])]
                regions.append(made)
            elif inner:
                mask = condition
                if number:
                    raise NotReadError("else of a branch with an exchange")
                out += self.split(inner, (*masks, mask))
        if is_uniform:
            out.append(Operation("if", [condition], (), None, regions, place=operation.place))

    def repeat(
        self,
        operation: Operation,
        masks: tuple[Value, ...],
        out: list[Operation],
        group: list[Operation],
        flush: Any,
    ) -> None:
        """Split the body of a loop that all threads run as often."""
        first = {"while": 0, "for": 3, "for_each": 0}[operation.name]
        head = 0 if operation.name == "while" else 1
        if not all(map(self.is_block, operation.operands[:first])):
            raise NotReadError("a loop with a barrier that threads leave at different times")
        if operation.name == "while" and not self.is_block(operation.regions[0].yielded[0]):
            raise NotReadError("a loop with a barrier that threads leave at different times")
        body = operation.regions[-1]
        arguments = body.arguments[head:]
        kept = [n for n, value in enumerate(arguments) if self.is_block(value)]
        stores = []
        for number, argument in enumerate(arguments):
            if number in kept:
                continue
            place = self.slot(argument.type, argument.name or "carried")
            self.slot_of[argument] = self.slot_of[operation.results[number]] = place
            given = operation.operands[first + number]
            group.append(Operation("slot.store", [place, given], effect=Effect.WRITE))
            stores.append(
                Operation("slot.store", [place, body.yielded[number]], effect=Effect.WRITE)
            )
        flush()
        made = Region()
        made.arguments = [*body.arguments[:head], *(arguments[n] for n in kept)]
        made.operations = [
            *self.split([*body.operations[:-1], *stores], masks),
            Operation("yield", [body.yielded[n] for n in kept]),
        ]
        for value in made.arguments:
            value.owner = made
        regions = [made]
        if operation.name == "while":
            before = operation.regions[0]
            before.arguments = [before.arguments[n] for n in kept]
            regions.insert(0, before)
        again = Operation(
            operation.name,
            [*operation.operands[:first], *(operation.operands[first + n] for n in kept)],
            (),
            operation.attributes,
            regions,
            place=operation.place,
        )
        again.results = [operation.results[n] for n in kept]
        out.append(again)


class _Crossing:
    """Gives each loop over threads the values that it needs."""

    def __init__(self, fission: _Fission, region: Region) -> None:
        self.fission = fission
        self.region = region
        self.loops = [each for each in region.walk() if each.name == "threads"]
        #: The loop that defines a value.
        self.home = {
            value: loop
            for loop in self.loops
            for operation in loop.walk()
            for value in operation.results
        }
        self.stored: dict[Value, Value] = {}

    def run(self) -> None:
        for loop in self.loops:
            self.complete(loop)
        for value, place in self.stored.items():
            self.store(self.home[value].regions[0], value, place)
        self.region.operations[:0] = [
            each for each in self.fission.slots if each not in self.region.operations
        ]

    def complete(self, loop: Operation) -> None:
        (region,) = loop.regions
        own = {value for operation in loop.walk() for value in operation.results}
        own |= {
            value
            for operation in loop.walk()
            for inner in operation.regions
            for value in inner.arguments
        }
        values: dict[Value, Value] = {}
        front: list[Operation] = []
        for operation in list(region.walk()):
            for number, value in enumerate(operation.operands):
                if value in own or (operation.name == "slot.store" and number == 0):
                    continue
                if operation.name == "lane.down" and number == 0:
                    continue
                operation.operands[number] = self.here(value, values, front)
        region.operations[:0] = front

    def here(self, value: Value, values: dict[Value, Value], front: list[Operation]) -> Value:
        """Return a value of another loop in this one."""
        if value in values:
            return values[value]
        if self.fission.is_block(value):
            return value
        place = self.fission.slot_of.get(value) or self.stored.get(value)
        if place is None and self.cost(value) <= _MOST_AGAIN:
            made = value.owner
            assert isinstance(made, Operation)
            for operand in made.operands:
                self.here(operand, values, front)
            front.append(clone(made, values))
            return values[value]
        if place is None:
            place = self.stored[value] = self.fission.slot(value.type, value.name or "value")
        loaded = Operation("slot.load", [place], (value.type,), effect=Effect.READ)
        loaded.result.name = value.name
        front.append(loaded)
        values[value] = loaded.result
        return loaded.result

    def cost(self, value: Value) -> int:
        if self.fission.is_block(value):
            return 0
        made = value.owner
        if value in self.fission.slot_of or not isinstance(made, Operation):
            return 99
        if made.name not in _CHEAP or len(made.results) != 1:
            return 99
        return 1 + sum(map(self.cost, made.operands))

    def store(self, region: Region, value: Value, place: Value) -> None:
        for number, operation in enumerate(region.operations):
            if value in operation.results:
                region.operations.insert(
                    number + 1, Operation("slot.store", [place, value], effect=Effect.WRITE)
                )
                return
            for inner in operation.regions:
                self.store(inner, value, place)


# ------------------------------------------------------------------------- bounds of loops


def _narrow(region: Region) -> None:
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
