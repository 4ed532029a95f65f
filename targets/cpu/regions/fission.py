"""Split a typed function at barriers and exchanges into loops over the threads of a block.

The result is a region that one worker runs for each block. Uniform operations run once. The others
are in ``threads`` operations, which are loops over the threads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kerneldsl.contract import Dim3
from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.ir.operations import TOGETHER, Effect, Function, Operation, Region, Value
from kerneldsl.ir.simplify import simplify
from kerneldsl.ir.uniformity import uniformity_of
from kerneldsl.language.intrinsics.intrinsic import Scope
from targets.cpu.regions.crossing import Crossing
from targets.cpu.regions.expansion import Expansion
from targets.cpu.regions.local_arrays import name_local_memory, place_local_arrays
from targets.cpu.regions.narrow import narrow
from targets.cpu.regions.varying import VARYING

__all__ = ["split_at_barriers"]


def split_at_barriers(function: Function, extents: Dim3) -> Region:
    """Return the region that runs for a block of so many threads along x, y and z."""
    name_local_memory(function.body)
    fission = Fission(uniformity_of(function, VARYING), extents)
    out = fission.split(function.body.operations[:-1], ())
    region = Region()
    region.operations = [*fission.slots, *out, Operation("yield", [])]
    Crossing(fission, region).run()
    place_local_arrays(region)
    narrow(region)
    simplify(region)
    return region


class Fission:
    def __init__(self, scopes: Mapping[Value, Scope], extents: Dim3) -> None:
        self.scopes = dict(scopes)
        self.extents = extents
        self.threads = math.prod(extents)
        self.slots: list[Operation] = []
        #: Values that are read from a slot wherever a loop needs them.
        self.slot_of: dict[Value, Value] = {}
        self.expansion = Expansion(self)

    def slot(self, kind: Any, name: str, *, beyond: int = 0, count: int | None = None) -> Value:
        count = self.threads + beyond if count is None else count
        made = Operation("slot", [], (kind,), {"threads": count}, effect=Effect.ALLOCATE)
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

        pending = list(operations)
        while pending:
            operation = pending.pop(0)
            effects = operation.effects()
            if not effects & TOGETHER:
                is_uniform = all(map(self.is_block, operation.results)) and operation.results
                if (is_uniform and not effects) or effects == Effect.ALLOCATE:
                    out.append(operation)
                else:
                    group.append(operation)
            elif operation.name == "exchange.wait":
                flush()
            elif operation.effect & Effect.WAIT:
                if any(not self.is_block(mask) for mask in masks):
                    raise NotReadError("a barrier that not all threads reach")
                flush()
            elif operation.effect & Effect.EXCHANGE:
                pending[:0] = self.exchange(operation, masks)
            elif operation.effect & Effect.BLOCK:
                fetched = self.fetch(operation, group)
                flush()
                out += [*fetched, operation]
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
        attributes = {"low": (0, 0, 0), "high": self.extents, "bounds": ""}
        return Operation("threads", [], (), attributes, [region])

    def fetch(self, operation: Operation, group: list[Operation]) -> list[Operation]:
        """Give an operation of the block what threads have; return what loads it.

        All threads have the same.
        """
        inner = {value for each in operation.walk() for value in each.results}
        for each in operation.walk():
            inner.update(value for region in each.regions for value in region.arguments)
        values: dict[Value, Value] = {}
        loads = []
        for value in dict.fromkeys(operation.used()):
            if value in inner or self.is_block(value):
                continue
            place = self.slot(value.type, value.name or "given", count=1)
            attributes = {"of_block": True}
            stored = Operation("slot.store", [place, value], (), attributes, effect=Effect.WRITE)
            group.append(stored)
            kinds = (value.type,)
            loaded = Operation("slot.load", [place], kinds, attributes, effect=Effect.READ)
            loads.append(loaded)
            values[value] = loaded.result
            self.scopes[loaded.result] = Scope.BLOCK
        for each in operation.walk():
            each.operands = [values.get(value, value) for value in each.operands]
        return loads

    def exchange(self, operation: Operation, masks: tuple[Value, ...]) -> list[Operation]:
        """Return what takes the place of an exchange, or of a vote."""
        mask = operation.operands[0] if operation.operands else None
        is_whole = mask is not None and _is_whole(mask)
        if operation.name != "shfl_down_sync" or self.threads % 32 or not is_whole:
            is_guarded = any(not self.is_block(each) for each in masks)
            return self.expansion.expand(operation, is_guarded=is_guarded)
        if any(self.scopes[each] < Scope.WARP for each in masks):
            return self.expansion.expand(operation, is_guarded=True)
        mask, value, delta = operation.operands
        posted = self.slot(value.type, "posted", beyond=32)
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
        return [
            Operation("slot.store", [posted, value], effect=Effect.WRITE),
            Operation("exchange.wait", [], effect=Effect.WAIT),
            taken,
        ]

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


def _is_whole(mask: Value) -> bool:
    """Return whether a mask is a constant that names all lanes of a warp."""
    made = mask.owner
    while isinstance(made, Operation) and made.name == "cast":
        made = made.operands[0].owner
    value = made.attributes.get("value") if isinstance(made, Operation) else None
    return value in (0xFFFFFFFF, -1)
