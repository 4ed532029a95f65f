"""The operations that compute the arguments of operations on tiles."""

from __future__ import annotations

from collections import Counter

from kerneldsl.ir.operations import TOGETHER, Effect, Function, Operation, Value

__all__ = ["arguments_of_tiles", "is_of_tiles"]


def is_of_tiles(operation: Operation) -> bool:
    """Return whether the threads of a block perform an operation on tiles together."""
    return operation.name.startswith("tile.") and bool(operation.effect & Effect.BLOCK)


def arguments_of_tiles(function: Function) -> dict[Operation, list[Operation]]:
    """Return the operations that compute the arguments of each tile operation, from a read on.

    They are part of it: threads may have to wait for what they read. These are the operations of
    one expression. Nothing else reads their results, and no variable holds them.
    """
    uses: Counter[Value] = Counter()
    for operation in function.body.walk():
        uses.update(operation.operands)
    found: dict[Operation, list[Operation]] = {}

    def visit(operations: list[Operation]) -> None:
        for number, operation in enumerate(operations):
            if is_of_tiles(operation):
                found[operation] = _run_before(operations, number, uses)
            else:
                for region in operation.regions:
                    visit(region.operations)

    visit(function.body.operations)
    return found


def _run_before(operations: list[Operation], number: int, uses: Counter[Value]) -> list[Operation]:
    read = Counter(operations[number].used())
    start = first = number
    while start > 0:
        operation = operations[start - 1]
        effects = operation.effects()
        is_argument = bool(operation.results) and not effects & (Effect.WRITE | TOGETHER)
        if not is_argument or any(v.name or read[v] < uses[v] for v in operation.results):
            break
        start -= 1
        read.update(operation.used())
        if effects & Effect.READ:
            first = start
    return operations[first:number]
