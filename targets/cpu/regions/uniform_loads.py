"""Find loads that give all threads of a group the same element.

Threads that load an element of one index get the same if no thread writes to that memory between
the barriers around the load. Two walks find which memory is written since the last barrier, and
which is written until the next one.
"""

from __future__ import annotations

from numba import types

from kerneldsl.ir.operations import Effect, Function, Label, Operation, Region, Value
from kerneldsl.language.intrinsics.intrinsic import Scope

__all__ = ["uniform_loads"]

#: Memory: a parameter, a shared array, or ``None`` for any.
_Memory = Value | None
_Written = frozenset[_Memory]
_NOTHING: _Written = frozenset()
_LOOPS = ("for", "for_each", "while")
_VIEWS = ("array.part", "array.view", "array.transpose", "cast")


def uniform_loads(function: Function, group: Scope) -> set[Operation]:
    """Return the loads of memory that no thread of a group writes between two barriers."""
    parameters = frozenset(function.body.arguments)
    before, after = (_Walk(group, parameters, forward=forward) for forward in (True, False))
    for walk in (before, after):
        walk.region(function.body, _NOTHING)
    loads = {each for each in function.body.walk() if each.name == "array.load"}
    found = set()
    for load in loads:
        written = before.seen[load] | after.seen[load]
        memory = _memory(load.operands[0], parameters)
        if not written or (not written & {memory, None} and memory is not None):
            found.add(load)
    return found


def _memory(value: Value, parameters: frozenset[Value]) -> _Memory:
    """Return what memory an array has."""
    while value not in parameters:
        made = value.owner
        if not isinstance(made, Operation):
            return None
        if made.name in ("shared.array", "local.array"):
            return value
        if made.name not in _VIEWS:
            return None
        value = made.operands[0]
    return value


class _Walk:
    """Collects for each load what is written on the way to it from a barrier, or from it to one."""

    def __init__(self, group: Scope, parameters: frozenset[Value], *, forward: bool) -> None:
        self.group = group
        self.parameters = parameters
        self.forward = forward
        self.seen: dict[Operation, _Written] = {}
        #: What is written on the way of those that leave an operation.
        self.left: dict[Label, _Written] = {}

    def region(self, region: Region, written: _Written) -> _Written:
        """Walk through a region; return what is written at its other end."""
        operations = region.operations if self.forward else reversed(region.operations)
        for operation in operations:
            written = self.operation(operation, written)
        return written

    def operation(self, operation: Operation, written: _Written) -> _Written:
        self.seen[operation] = self.seen.get(operation, _NOTHING) | written
        name = operation.name
        if name == "if":
            ends = [self.region(region, written) for region in operation.regions]
            return ends[0] | ends[1]
        if name in _LOOPS:
            return self.loop(operation, written)
        if name == "labeled":
            return self.labeled(operation, written)
        if name == "leave":
            label = operation.attributes["label"]
            if not self.forward:
                return self.left[label]
            self.left[label] = self.left.get(label, _NOTHING) | written
            return _NOTHING
        for region in operation.regions:
            written = self.region(region, written)
        use = operation.attributes.get("use")
        if use is not None and use.intrinsic.synchronizes(self.group):
            return _NOTHING
        return written | self.writes(operation)

    def loop(self, operation: Operation, written: _Written) -> _Written:
        """Walk through a loop until what is written before its test is known."""
        *tests, body = operation.regions
        head = written if self.forward else _NOTHING
        while True:
            if self.forward:
                end = head
                for test in tests:
                    end = self.region(test, end)
                following = head | self.region(body, end)
            else:
                end = written | self.region(body, head)
                for test in tests:
                    end = self.region(test, end)
                following = head | end
            if following == head:
                return end if self.forward else head
            head = following

    def labeled(self, operation: Operation, written: _Written) -> _Written:
        label = operation.attributes["label"]
        (region,) = operation.regions
        if not self.forward:
            self.left[label] = written
            return self.region(region, written)
        self.left[label] = _NOTHING
        return self.region(region, written) | self.left[label]

    def writes(self, operation: Operation) -> _Written:
        """Return the memory that an operation writes."""
        if not operation.effect & Effect.WRITE or operation.name in ("shared.array", "local.array"):
            return _NOTHING
        return frozenset(
            _memory(value, self.parameters) if isinstance(value.type, types.Array) else None
            for value in operation.operands
            if not isinstance(value.type, types.Number | types.Boolean)
        )
