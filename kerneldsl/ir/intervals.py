"""Find which memory may be written in the barrier interval of an operation.

A *barrier interval* is what runs between two barriers. Within one, threads run in any order. So a
load at one index gives every thread the same only if nothing in its interval can write there. One
walk finds what is written since the last barrier, another what is written until the next one.
"""

from __future__ import annotations

from collections.abc import Mapping

from kerneldsl.ir.accesses import Accesses, Owner, is_of_block, is_own
from kerneldsl.ir.operations import LOOPS, Function, Label, Operation, Region
from kerneldsl.language.intrinsics.intrinsic import Scope

__all__ = ["CHANGING", "Intervals", "doubt_of_memory"]

_Written = frozenset[Owner]
_NOTHING: _Written = frozenset()
#: Source of a load that some threads may execute before a write, and others after it.
CHANGING = "memory that may be written before the next or after the last barrier"


class Intervals:
    """The barrier intervals of a kernel.

    - `function`: the kernel.
    - `accesses`: memory that its operations write.
    - `group`: the threads that the barriers are between.
    """

    def __init__(self, function: Function, accesses: Accesses, group: Scope) -> None:
        self._walks = [_Walk(accesses, group, forward=forward) for forward in (True, False)]
        for walk in self._walks:
            walk.region(function.body, _NOTHING)

    def written(self, operation: Operation) -> frozenset[Owner]:
        """Return the memory that may be written between the barriers around an operation."""
        return _NOTHING.union(*(walk.seen.get(operation, _NOTHING) for walk in self._walks))


def doubt_of_memory(
    owners: frozenset[Owner], operation: Operation, intervals: Mapping[Scope, Intervals] | None
) -> tuple[Scope, str] | None:
    """Return for which threads memory is the same, if not for all, and what memory it is.

    - `owners`: the memory.
    - `operation`: loads from it.
    - `intervals`: intervals by group of threads; ``None`` if loads are never uniform.
    """
    if any(map(is_own, owners)):
        return Scope.THREAD, "a thread's own array"
    if intervals is None:
        return (Scope.THREAD, CHANGING) if owners else None
    for group, each in intervals.items() if owners else ():
        if group > Scope.BLOCK and any(map(is_of_block, owners)):
            return Scope.BLOCK, "memory that each block has for itself"
        if owners & each.written(operation):
            return (Scope.BLOCK if group > Scope.BLOCK else Scope.THREAD), CHANGING
    return None


class _Walk:
    """Collects for each operation what is written on the way to it from a barrier, or to one."""

    def __init__(self, accesses: Accesses, group: Scope, *, forward: bool) -> None:
        self.accesses = accesses
        self.group = group
        self.forward = forward
        self.seen: dict[Operation, _Written] = {}
        #: Memory written on the paths that leave each labeled operation.
        self.left: dict[Label, _Written] = {}

    def region(self, region: Region, written: _Written) -> _Written:
        """Walk through a region; return what is written at its other end."""
        operations = region.operations if self.forward else reversed(region.operations)
        for operation in operations:
            written = self.operation(operation, written)
        return written

    def operation(self, operation: Operation, written: _Written) -> _Written:
        name = operation.name
        if name == "if":
            ends = [self.region(region, written) for region in operation.regions]
            return ends[0] | ends[1]
        if name in LOOPS:
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
        own = self.accesses.elements(operation).written
        self.seen[operation] = self.seen.get(operation, _NOTHING) | written | own
        use = operation.attributes.get("use")
        if use is not None and use.intrinsic.orders_memory(self.group):
            return _NOTHING
        return written | own

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
