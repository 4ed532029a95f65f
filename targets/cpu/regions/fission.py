"""Split a typed function at barriers and exchanges into loops over the threads of a block.

The result is a region that one worker runs for each block. Uniform operations run once. The others
are in ``threads`` operations, which are loops over the threads.
"""

from __future__ import annotations

import math
from typing import Any

from numba import types

from kerneldsl.contract import Dim3, Specialization
from kerneldsl.ir.operations import TOGETHER, Effect, Function, Label, Operation, Region, Value
from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.ir.simplify import simplify
from kerneldsl.ir.typing import Typing
from kerneldsl.ir.uniformity import uniformity_of
from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.language.kinds import Kind
from targets.cpu.regions.control import GRID_BARRIER, split_branch, split_labeled, split_loop
from targets.cpu.regions.exchanges import Expansion
from targets.cpu.regions.ids import WARP, in_warps
from targets.cpu.regions.masks import (
    Code,
    Frame,
    Mask,
    constant,
    contain,
    exits_together,
    leave,
    store,
    under,
)
from targets.cpu.regions.memory import (
    VARYING,
    Crossing,
    check_dynamic_slices,
    name_local_memory,
    place_local_arrays,
)

__all__ = ["Fission", "split_at_barriers"]


def split_at_barriers(
    function: Function, spec: Specialization, typing: Typing, *, by_warps: bool = False
) -> Region:
    """Return the region that runs for a block.

    Each warp runs by itself if `by_warps`. If blocks wait for each other, no value of a block
    outlives a barrier of the grid.
    """
    assert spec.block_dim is not None
    name_local_memory(function.body)
    extents, group = (WARP, Scope.WARP) if by_warps else (spec.block_dim, Scope.BLOCK)
    waits = spec.traits.syncs_grid
    shares_loads = not (waits or spec.options.debug)
    fission = Fission(
        *(function, spec.kinds, extents, typing),
        group=group,
        waits=waits,
        shares_loads=shares_loads,
    )
    code = Code()
    fission.split(function.body.operations, code)
    fission.flush(code)
    region = Region.of([*fission.slots, *code.out])
    _Crossing(fission, region).run()
    place_local_arrays(region)
    check_dynamic_slices(region, by_threads=waits)
    simplify(region)
    if by_warps:
        slots = [each for each in region.operations if each.effect & Effect.ALLOCATE]
        others = [each for each in region.operations[:-1] if each not in slots]
        region.operations = [*slots, in_warps(others, spec), region.operations[-1]]
    return region


class Fission:
    """Splits one function."""

    def __init__(
        self,
        function: Function,
        kinds: tuple[Kind, ...],
        extents: Dim3,
        typing: Typing,
        *,
        group: Scope,
        waits: bool,
        shares_loads: bool,
    ) -> None:
        self.typing = typing
        #: Whether the block has values; otherwise only its threads and its memory have them.
        self.has_values = not waits
        #: The group of threads that run together.
        self.uniform = group
        found = uniformity_of(function, kinds, (group,), trusts_loads=shares_loads)
        #: Loads with the same result in all threads.
        self.uniform_loads = found.uniform_loads
        self.scopes: dict[Value, Scope] = found.scopes(function)
        if extents[0] % WARP_SIZE and extents[0] != math.prod(extents):
            # A warp is not a part of a row.
            of_warps = [value for value, scope in self.scopes.items() if scope is Scope.WARP]
            self.scopes.update(dict.fromkeys(of_warps, Scope.THREAD))
        #: Threads that run together, along each axis and all of them.
        self.extents = extents
        self.threads = math.prod(extents)
        #: Operations that give memory of the block.
        self.slots: list[Operation] = []
        #: Values that are read from a slot wherever a loop needs them.
        self.slot_of: dict[Value, Value] = {}
        #: Values that the block has.
        self.available: set[Value] = set(function.body.arguments)
        #: Cells with values that the block had.
        self.cell_of: dict[Value, Value] = {}
        #: Masks of the active threads, outermost condition first.
        self.masks: list[Mask] = []
        #: Masks that some thread is known to pass.
        self.checked: list[Mask] = []
        #: Operations around that threads may leave, and the innermost of them.
        self.frames: dict[Label, Frame] = {}
        self.innermost: Frame | None = None
        self.expansion = Expansion(self)

    # -- values -----------------------------------------------------------------------------------

    def is_uniform(self, value: Value) -> bool:
        """Return whether all threads of the block have the same value."""
        return self.scopes.get(value, Scope.THREAD) >= self.uniform

    def keeps(self, value: Value) -> bool:
        """Return whether the block has a value that a branch or loop hands on."""
        return self.has_values and self.is_uniform(value)

    def is_block(self, value: Value) -> bool:
        """Return whether the block has a value, so that no thread must have it."""
        return value in self.available

    def of_block(self, value: Value, code: Code) -> Value:
        """Return a value that all threads agree on as one of the block.

        What threads have, each of those that are here writes to the same memory.
        """
        if value in self.available:
            return value
        if value in self.cell_of:
            return self._load(self.cell_of[value], value, code)
        cell = self.memory("cell", value.type)
        if self.masks and isinstance(value.type, types.Integer | types.Boolean):
            nothing = False if value.type == types.boolean else 0
            zero = Operation("const", [], (value.type,), {"value": nothing})
            code.out += [zero, Operation("cell.store", [cell, zero.result], effect=Effect.BLOCK)]
        code.group.append(Operation("cell.store", [cell, value], effect=Effect.WRITE))
        self.flush(code)
        return self._load(cell, value, code)

    def _load(self, cell: Value, value: Value, code: Code) -> Value:
        loaded = Operation("cell.load", [cell], (value.type,), effect=Effect.BLOCK)
        loaded.result.name = value.name
        code.out.append(loaded)
        self.available.add(loaded.result)
        return loaded.result

    def any_thread(self, code: Code) -> Value:
        """Return whether any thread passes the masks."""
        cell = self.memory("cell", types.boolean)
        no, yes = constant(False), constant(True)
        code.out += [no, Operation("cell.store", [cell, no.result], effect=Effect.BLOCK)]
        found = Operation("cell.store", [cell, yes.result], effect=Effect.WRITE)
        code.out.append(self.loop([yes, found], self.masks))
        return self._load(cell, yes.result, code)

    def memory(self, name: str, kind: Any, attributes: dict[str, Any] | None = None) -> Value:
        """Return memory of the block, which it has while it runs."""
        made = Operation(name, [], (kind,), attributes, effect=Effect.ALLOCATE)
        self.slots.append(made)
        self.available.add(made.result)
        return made.result

    def slot(self, kind: Any, name: str) -> Value:
        """Return memory for a value of each thread."""
        made = self.memory("slot", kind, {"threads": self.threads})
        made.name = f"{name}_slot"
        return made

    def flag(self, name: str) -> Value:
        """Return memory for a truth value of each thread."""
        return self.slot(types.boolean, name)

    def take_results(self, made: Operation, operation: Operation, kept: list[int]) -> None:
        """Give an operation of the block the results that the block has of an operation."""
        made.take_results([operation.results[number] for number in kept])
        self.available.update(made.results)

    # -- operations -------------------------------------------------------------------------------

    def flush(self, code: Code) -> None:
        """End what threads do before they wait for each other."""
        if code.group:
            code.out.append(self.loop(code.group, self.masks))
            code.group = []

    def loop(self, operations: list[Operation], masks: list[Mask]) -> Operation:
        """Return a loop over the threads that pass some masks."""
        return Operation("threads", [], (), {}, [Region.of(under(masks, operations))])

    def split(self, operations: list[Operation], code: Code) -> None:
        """Split operations; the ``yield`` at their end is dropped."""
        pending = operations[::-1]
        while pending:
            operation = pending.pop()
            effects = operation.effects()
            if operation.name == "leave":
                leave(self, operation, code)
            elif operation.name in ("yield", "unreachable"):
                continue
            elif not effects & (TOGETHER | Effect.LEAVE):
                self.place(operation, effects, code)
            elif operation.effect & Effect.WAIT:
                self.flush(code)
            elif operation.name == GRID_BARRIER:
                self.flush(code)
                code.out.append(operation)
            elif operation.effect & Effect.EXCHANGE:
                pending += self.exchange(operation)[::-1]
            elif operation.effect & Effect.BLOCK:
                self.together(operation, code)
            elif not effects & TOGETHER:
                if exits_together(self, operation):
                    split_branch(self, operation, code)
                else:
                    contain(self, operation, code)
            elif operation.name == "if":
                split_branch(self, operation, code)
            elif operation.name == "labeled":
                split_labeled(self, operation, code)
            else:
                pending += split_loop(self, operation, code)[::-1]

    def place(self, operation: Operation, effects: Effect, code: Code) -> None:
        """Place an operation without a barrier: once for the block, or in the loop over threads."""
        is_of_block = bool(operation.effect & Effect.ALLOCATE) or (
            self.has_values
            and (not effects or (effects == Effect.READ and self.may_load(operation)))
            and bool(operation.results)
            and all(map(self.is_uniform, operation.results))
            and all(map(self.is_block, _outside_values(operation)))
        )
        if is_of_block:
            code.out.append(operation)
            self.available.update(operation.results)
        else:
            code.group.append(operation)

    def may_load(self, operation: Operation) -> bool:
        """Return whether the block may load once what an operation loads for all of its threads."""
        is_any = not self.masks or self.checked == self.masks
        loads = (each for each in operation.walk() if each.effect & Effect.READ)
        return is_any and all(each in self.uniform_loads for each in loads)

    def together(self, operation: Operation, code: Code) -> None:
        """Place what the block does once, for all of its threads."""
        values = {
            value: self.of_block(value, code) for value in dict.fromkeys(_outside_values(operation))
        }
        for each in operation.walk():
            each.operands = [values.get(value, value) for value in each.operands]
        if not _prepares(operation, code.group):
            self.flush(code)
        code.out.append(operation)
        if self.has_values:
            self.available.update(operation.results)
            return
        for value in operation.results:
            self.cell_of[value] = cell = self.memory("cell", value.type)
            code.out.append(Operation("cell.store", [cell, value], effect=Effect.BLOCK))

    def waits(self, operation: Operation) -> bool:
        """Return whether all threads of the block must be in an operation."""
        return any(
            each.effect & Effect.BLOCK
            or (
                "use" in each.attributes
                and each.attributes["use"].intrinsic.synchronizes(Scope.BLOCK)
            )
            for each in operation.walk()
        )

    def exchange(self, operation: Operation) -> list[Operation]:
        """Return what takes the place of an exchange, or of a vote."""
        mask = operation.operands[0] if operation.operands else None
        is_whole = mask is not None and _is_whole(mask) and self.are_warps_whole()
        if not operation.name.startswith("shfl") or self.threads % WARP_SIZE or not is_whole:
            return self.expansion.expand(operation, is_guarded=bool(self.masks))
        _, value, given = operation.operands
        kind = operation.result.type
        attributes = {"threads": self.threads + WARP_SIZE, "before": WARP_SIZE}
        posted = self.memory("slot", kind, attributes)
        posted.name = "posted_slot"
        converted = Operation("cast", [value], (kind,), place=operation.place)
        taken = Operation(
            *("lane.read", [posted, given], (), {"mode": operation.name}),
            effect=Effect.READ,
            place=operation.place,
        )
        taken.take_results(operation.results)
        wait = Operation("exchange.wait", [], effect=Effect.WAIT)
        return [converted, store(posted, converted.result), wait, taken]

    def are_warps_whole(self) -> bool:
        """Return whether the lanes of a warp are all here, or none of them."""
        return not any(
            mask.is_slot or self.scopes.get(mask.condition, Scope.THREAD) < Scope.WARP
            for mask in self.masks
        )


def _outside_values(operation: Operation) -> list[Value]:
    """Return the values that an operation takes from outside of its regions."""
    own = operation.defined()
    return [value for value in operation.used() if value not in own]


def _is_whole(mask: Value) -> bool:
    """Return whether a mask is a constant that names all lanes of a warp."""
    made = mask.owner
    while isinstance(made, Operation) and made.name == "cast":
        made = made.operands[0].owner
    value = made.attributes.get("value") if isinstance(made, Operation) else None
    return value in (0xFFFFFFFF, -1)


def _prepares(operation: Operation, group: list[Operation]) -> bool:
    """Return whether an operation prepares memory that no thread of a group uses."""
    if operation.name not in ("cell.store", "exchange.begin"):
        return False
    memory = operation.operands[0]
    return not any(memory in each.used() for each in group)


# -- values that several loops over threads need ---------------------------------------------------


#: Operations that are computed again in each loop, not stored.
_CHEAP = frozenset({"const", "cast", "numba", "array.size", "array.extent", "array.part", *VARYING})
#: Prefixes of the names of block values that are recomputed: a block that waits has no values.
_OF_BLOCK = ("blockIdx.", "gridDim.", "extent.")


class _Crossing(Crossing):
    """Completes the loops over the threads of a block."""

    def __init__(self, fission: Fission, region: Region) -> None:
        super().__init__([each for each in region.walk() if each.name == "threads"])
        self.fission, self.region = fission, region

    def run(self) -> None:
        self.share(self.region)
        super().run()
        self.region.operations[:0] = [
            each for each in self.fission.slots if each not in self.region.operations
        ]

    def share(self, region: Region) -> None:
        """Store what a variable gets at the end of a region when it is computed, if that is safe.

        In a loop with barriers, ``total += …`` has a slot for the sum of the iterations before. The
        new sum can be there at once, if nothing reads the old one from there on. Nothing may read
        the new one after the variable has got it: the variable may change again.
        """
        operations = region.operations
        for last, loop in enumerate(operations):
            for inner in loop.regions if loop.name != "threads" else ():
                self.share(inner)
            stores = loop.regions[0].operations if loop.name == "threads" else []
            for each in [each for each in stores if each.name == "slot.store"]:
                place, value, *_ = each.operands
                home = self.home.get(value)
                if home is None or home is loop or home not in operations[:last]:
                    continue
                is_plain = value.owner in home.regions[0].operations
                later = operations[operations.index(home) + 1 : last + 1]
                is_last = not any(value in other.used() for other in operations[last + 1 :])
                is_free = is_plain and is_last and value not in self.stored
                if is_free and not self.uses(place, later, each):
                    self.stored[value] = place
                    stores.remove(each)
        region.operations = [each for each in operations if not _is_empty(each)]

    def uses(self, place: Value, operations: list[Operation], store: Operation) -> bool:
        """Return whether operations other than a store use what is in a slot."""
        return any(
            value is place or self.fission.slot_of.get(value) is place
            for operation in operations
            for each in operation.walk()
            if each is not store
            for value in each.operands
        )

    def is_given(self, value: Value) -> bool:
        return self.fission.is_block(value)

    def place_of(self, value: Value) -> Value | None:
        fission = self.fission
        return fission.cell_of.get(value) or fission.slot_of.get(value) or self.stored.get(value)

    def new_place(self, value: Value) -> Value:
        return self.fission.slot(value.type, value.name or "value")

    def is_cheap(self, made: Operation) -> bool:
        return made.name in _CHEAP or made.name.startswith(_OF_BLOCK)


def _is_empty(operation: Operation) -> bool:
    """Return whether an operation is a loop over threads that does nothing."""
    return operation.name == "threads" and len(operation.regions[0].operations) == 1
