"""Write exchanges between threads as what each thread does, and what the block does once.

An exchange has two halves. In the first one, each thread that comes *posts*: it writes what the
others need to memory of the block, a *room*. In the second one it *takes* its result. Between
them all threads have posted. A result that the block shares is taken once.

A vote counts threads in a *cell*, memory of the block for one value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.ir.operations import Effect, Operation, Value
from kerneldsl.ir.rewriter import clone_region
from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.lowering.groups import WrittenOperation
from targets.cpu.intrinsics.table import Cut, Exchange, Together, lowering_of
from targets.cpu.intrinsics.units import WARP_SIZE

if TYPE_CHECKING:
    from targets.cpu.regions.fission import Fission

__all__ = ["Expansion"]

#: Parameters of exchanges that threads post; those who take know their types alone.
_POSTED = frozenset({"value", "predicate", "x", "keys", "values"})


class Expansion:
    """Expands the exchanges of one kernel; its memory is with the slots of the block."""

    def __init__(self, fission: Fission) -> None:
        self.fission = fission
        self._room: Value | None = None

    def expand(self, operation: Operation, *, is_guarded: bool) -> list[Operation]:
        """Return what takes the place of an exchange; with a guard some threads may not come."""
        lowering = lowering_of(operation.attributes["use"].intrinsic)
        match lowering:
            case Cut(form=str(form)):
                return self._vote(operation, form)
            case Together():
                return self._together(operation)
            case Exchange():
                return self._exchange(operation, lowering, is_guarded=is_guarded)
        raise NotReadError(operation.name)

    def _vote(self, operation: Operation, form: str) -> list[Operation]:
        cell = self.fission.memory("cell", types.int32)
        zero = Operation("const", [], (types.int32,), {"value": 0})
        self.fission.scopes[zero.result] = Scope.BLOCK
        return [
            zero,
            Operation("cell.store", [cell, zero.result], effect=Effect.BLOCK),
            Operation(
                "vote.count",
                [cell, operation.operands[0]],
                (),
                {"is_true": form not in ("and", "all")},
                effect=Effect.READ | Effect.WRITE,
                place=operation.place,
            ),
            _with_results(Operation("vote", [cell], (), {"form": form}), operation, Effect.BLOCK),
        ]

    def _together(self, operation: Operation) -> list[Operation]:
        attributes = {**operation.attributes, "of": operation.name}
        made = Operation("chain", operation.operands, (), attributes, operation.regions)
        return [_with_results(made, operation, Effect.BLOCK)]

    def _exchange(
        self, operation: Operation, lowering: Exchange, *, is_guarded: bool
    ) -> list[Operation]:
        room = self.room(lowering.words)
        threads = 0 if is_guarded else self.fission.threads
        attributes = {**operation.attributes, "of": operation.name}

        def step(name: str, operands: list[Value], effect: Effect) -> Operation:
            regions = [clone_region(region, {}) for region in operation.regions]
            return Operation(
                *(name, [room, *operands], (), dict(attributes)),
                *(regions, effect, operation.place),
            )

        begin = Operation("exchange.begin", [room], (), {"threads": threads}, effect=Effect.BLOCK)
        post = step("exchange.post", operation.operands, Effect.WRITE)
        post.attributes["arrives"] = is_guarded
        made = [begin, post]
        if lowering.combine is not None:
            made.append(step("exchange.combine", [], Effect.BLOCK))
        use = operation.attributes["use"]
        if use.intrinsic.uniform_in is not None and use.intrinsic.uniform_in >= Scope.BLOCK:
            taken = step("exchange.take", [], Effect.BLOCK)
            taken.attributes["is_common"] = True
            return [*made, _with_results(taken, operation, Effect.BLOCK)]
        made.append(Operation("exchange.wait", [], effect=Effect.WAIT))
        taken = step("exchange.take", self._remembered(operation, made), Effect.NONE)
        taken.attributes["is_common"] = False
        return [*made, _with_results(taken, operation, Effect.READ | Effect.WRITE)]

    def _remembered(self, operation: Operation, made: list[Operation]) -> list[Value]:
        """Return the operands that a thread needs to take its result, not what it has posted."""
        parameters = iter(operation.attributes["use"].intrinsic.parameters)
        operands = iter(operation.operands)
        found = []
        for kind in operation.attributes["signature"].args:
            parameter = next(parameters)
            if isinstance(kind, WrittenOperation):
                continue
            value = next(operands)
            if parameter in _POSTED and value.type != types.none:
                made.append(Operation("undefined", [], (value.type,)))
                value = made[-1].result
            found.append(value)
        return found

    def room(self, words: int) -> Value:
        """Return the memory of exchanges, with so many words for each thread."""
        warps = -(-self.fission.threads // WARP_SIZE)
        if self._room is None:
            attributes = {"words": 0, "warps": warps}
            self._room = self.fission.memory("exchange.room", types.voidptr, attributes)
        made = self._room.owner
        assert isinstance(made, Operation)
        made.attributes["words"] = max(made.attributes["words"], words * warps * WARP_SIZE)
        return self._room


def _with_results(made: Operation, operation: Operation, effect: Effect) -> Operation:
    """Give an operation the results of the one that it takes the place of."""
    made.results, made.effect, made.place = operation.results, effect, operation.place
    for result in made.results:
        result.owner = made
    return made
