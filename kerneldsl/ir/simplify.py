"""Drop what nothing reads: operations, results of branches and loops."""

from __future__ import annotations

from kerneldsl.ir.operations import TOGETHER, Effect, Operation, Region, Value

__all__ = ["simplify"]

_NEEDED = Effect.WRITE | Effect.LEAVE | TOGETHER
#: Operations that their effects on other threads do not need if nothing reads their results.
_PURE_TOGETHER = ("tile.load", "tile.map", "tile.fold")


def simplify(region: Region) -> None:
    """Drop what nothing reads, also in inner regions, in place."""
    _drop(region, set())


def _drop(region: Region, used: set[Value]) -> None:
    """Drop operations, last first; `used` are the values that are read after the region."""
    kept: list[Operation] = []
    for operation in reversed(region.operations):
        if operation.name in ("yield", "leave", "unreachable"):
            used.update(operation.operands)
            kept.append(operation)
            continue
        is_read = any(value in used for value in operation.results)
        if not is_read and not operation.effects() & _NEEDED:
            continue
        if operation.name in ("if", "labeled"):
            numbers = [n for n, value in enumerate(operation.results) if value in used]
            if len(numbers) < len(operation.results):
                operation.results = [operation.results[n] for n in numbers]
                ends = [r.operations[-1] for r in operation.regions if not r.is_left]
                if operation.name == "labeled":
                    ends += operation.leaves()
                for last in ends:
                    last.operands = [last.operands[n] for n in numbers]
        if operation.name in ("while", "for", "for_each"):
            # An argument of a loop may be read in another iteration.
            for inner in operation.regions:
                used.update(inner.yielded)
                for each in inner.walk():
                    used.update(each.operands)
        for inner in operation.regions:
            _drop(inner, used)
        used.update(operation.operands)
        kept.append(operation)
    region.operations = kept[::-1]
