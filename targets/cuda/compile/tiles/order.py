"""Let the threads of a block wait around operations on tiles.

A kernel means what it does when the block performs one operation after the other. Each thread
accesses its elements at its own pace. If two operations access the same memory, and one of them
writes, a thread may reach an element before the thread that accesses it first. So may it in the
next iteration of a loop, and in a store that computes its elements from what it writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kerneldsl.contract.promises import Promises
from kerneldsl.ir.accesses import Accesses, join
from kerneldsl.ir.operations import Effect, Function, Operation, Region
from kerneldsl.ir.tiles.arguments import arguments_of_tiles, is_of_tiles
from kerneldsl.language.kinds import Kind
from targets.cuda.compile.tiles.turns import Turns

__all__ = ["order_tiles"]


def order_tiles(function: Function, kinds: Sequence[Kind], promises: Promises) -> None:
    """Put ``tile.wait`` where threads wait.

    A store with the attribute ``waits`` computes all elements before the first one is written, and
    threads wait between.

    Parameters
    ----------
    function : Function
        A kernel with tile operations.
    kinds : sequence of Kind
        Of its arguments.
    promises : Promises
        What holds of them: arrays that are not promised to be different memory may be the same.
    """
    accesses = Accesses(function, kinds, promises)
    turns = Turns(function, kinds)
    arguments = arguments_of_tiles(function)
    taken = {each for found in arguments.values() for each in found}
    tiles, others = [], []
    for operation in _outside_tiles(function.body.operations):
        if is_of_tiles(operation):
            parts = (*arguments[operation], operation)
            tiles.append((operation, join(map(accesses.with_regions, parts))))
        elif operation not in taken:
            others.append(accesses.of(operation))
    outside = join(others)
    before, after = set[Operation](), set[Operation]()
    for operation, own in tiles:
        itself = accesses.of(operation)
        is_store = operation.name == "tile.store"
        computes_from_itself = is_store and bool(own.read & itself.written)
        if computes_from_itself:
            operation.attributes["waits"] = True
        if own.meets(outside):
            before.add(operation)
            after.add(operation)
        if any(own.meets(its) for other, its in tiles if other is not operation):
            before.add(operation)
        # Functions in the elements may write anywhere.
        is_plain = is_store and not computes_from_itself and own.written == itself.written
        is_repeated = own.written and turns.is_in_loop(operation)
        if is_repeated and not (is_plain and not turns.overlap(operation)):
            before.add(operation)
    starts = {next(iter((*arguments[each], each))) for each in before}
    _insert(function.body, starts, after)


def _outside_tiles(operations: Sequence[Operation]) -> Iterator[Operation]:
    """Return operations and those in their regions, but not those of tile expressions."""
    for operation in operations:
        yield operation
        if not operation.name.startswith("tile."):
            for region in operation.regions:
                yield from _outside_tiles(region.operations)


def _insert(region: Region, starts: set[Operation], after: set[Operation]) -> None:
    """Insert barriers before some operations, and after others."""
    out: list[Operation] = []
    for operation in region.operations:
        if operation in starts:
            out.append(_wait(operation))
        out.append(operation)
        if operation in after:
            out.append(_wait(operation))
        if not operation.name.startswith("tile."):
            for inner in operation.regions:
                _insert(inner, starts, after)
    region.operations = out


def _wait(operation: Operation) -> Operation:
    return Operation("tile.wait", [], effect=Effect.WAIT, place=operation.place)
