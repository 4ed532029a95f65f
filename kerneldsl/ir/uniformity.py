"""Uniformity, on values: for which group of threads a value is the same."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping

from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value
from kerneldsl.language.intrinsics.intrinsic import Scope

__all__ = ["uniformity_of"]

_WARP = 32
_QUOTIENTS = (operator.floordiv, operator.ifloordiv)
#: What threads do with memory, or with others, may give each of them something else.
_OF_THREADS = Effect.READ | Effect.WRITE | Effect.EXCHANGE


def uniformity_of(
    function: Function,
    of_names: Mapping[str, Scope],
    uniform_loads: Collection[Operation] = frozenset(),
) -> dict[Value, Scope]:
    """Return for each value the largest group of threads in which it is the same.

    `of_names` has the operations of the language with results that differ between threads. The
    others are uniform for the block if their operands are, and if they read no memory.
    `uniform_loads` give the threads that load at the same index the same.
    """
    walk = _Walk(of_names, uniform_loads)
    for value in function.body.arguments:
        walk.known[value] = Scope.BLOCK
    walk.region(function.body)
    return walk.known


class _Walk:
    def __init__(self, of_names: Mapping[str, Scope], uniform_loads: Collection[Operation]) -> None:
        self.of_names = of_names
        self.uniform_loads = uniform_loads
        self.known: dict[Value, Scope] = {}

    def get(self, value: Value) -> Scope:
        return self.known[value]

    def region(self, region: Region) -> None:
        for operation in region.operations:
            self.operation(operation)

    def operation(self, operation: Operation) -> None:
        found = min((self.get(value) for value in operation.operands), default=Scope.BLOCK)
        match operation.name:
            case "if":
                for region in operation.regions:
                    self.region(region)
                inner = [region for region in operation.regions if not region.is_left]
                for number, result in enumerate(operation.results):
                    ends = [self.get(region.yielded[number]) for region in inner]
                    self.known[result] = min([found, *ends])
                return
            case "labeled":
                (inner_region,) = operation.regions
                self.region(inner_region)
                # Threads may leave by different ways.
                ways = [Scope.THREAD] if any(operation.leaves()) else []
                for number, result in enumerate(operation.results):
                    ends = [] if inner_region.is_left else [self.get(inner_region.yielded[number])]
                    self.known[result] = min([*ways, *ends], default=Scope.BLOCK)
                return
            case "while" | "for" | "for_each":
                self.loop(operation)
                return
            case "numba" if operation.attributes["function"] in _QUOTIENTS:
                first, second = (value.owner for value in operation.operands)
                if isinstance(first, Operation) and first.name == "threadIdx.x":
                    divisor = second.attributes.get("value") if isinstance(second, Operation) else 0
                    if type(divisor) is int and divisor > 0 and divisor % _WARP == 0:
                        found = Scope.WARP
        for region in operation.regions:
            for argument in region.arguments:
                self.known[argument] = Scope.BLOCK
            self.region(region)
        declared = self.declared(operation)
        if operation.effect & Effect.BLOCK and operation.name != "tile.own":
            found = Scope.BLOCK
        elif operation.name in self.of_names:
            found = min(found, self.of_names[operation.name])
        elif declared is not None:
            found = declared
        elif operation.effect & _OF_THREADS and operation not in self.uniform_loads:
            found = Scope.THREAD
        for result in operation.results:
            self.known[result] = found

    def declared(self, operation: Operation) -> Scope | None:
        """Return in which group an operation of the language has one result for any operands."""
        if "use" not in operation.attributes:
            return None
        intrinsic = operation.attributes["use"].intrinsic
        found: Scope | None = intrinsic.uniform_in
        has_mask = intrinsic.scope is Scope.WARP and intrinsic.parameters[:1] == ("mask",)
        if found is None or not has_mask:
            return found
        # Lanes of one warp that name different masks have different results.
        return min(found, self.get(operation.operands[0]))

    def loop(self, operation: Operation) -> None:
        body = operation.regions[-1]
        first = len(operation.operands) - len(operation.results)
        head = len(body.arguments) - len(operation.results)
        bounds = min((self.get(v) for v in operation.operands[:first]), default=Scope.BLOCK)
        found = [self.get(value) for value in operation.operands[first:]]
        while True:
            for region in operation.regions:
                for argument, scope in zip(region.arguments[head:], found, strict=True):
                    self.known[argument] = scope
                self.known.update(dict.fromkeys(region.arguments[:head], bounds))
            for region in operation.regions:
                self.region(region)
            if body.is_left:
                break
            new = [min(a, self.get(v)) for a, v in zip(found, body.yielded, strict=True)]
            if new == found:
                break
            found = new
        control = bounds
        if operation.name == "while":
            control = self.get(operation.regions[0].yielded[0])
        for result, scope in zip(operation.results, found, strict=True):
            self.known[result] = min(scope, control)
