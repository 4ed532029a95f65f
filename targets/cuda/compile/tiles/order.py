"""Let the threads of a block wait around operations on tiles.

A kernel means what it does when the block performs one operation after the other. Each thread
accesses its elements at its own pace. If two operations access the same memory, and one of them
writes, a thread may reach an element before the thread that accesses it first. So may it in the
next iteration of a loop, and in a store that computes its elements from what it writes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

import numpy as np
from numba import types

from kerneldsl.contract.promises import Promises
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.accesses import Accesses, join
from kerneldsl.ir.operations import LOOPS, Effect, Function, Operation, Region, Value
from kerneldsl.ir.recognize import operator_of, takes_all
from kerneldsl.ir.tiles.arguments import arguments_of_tiles, is_of_tiles
from kerneldsl.language.kinds import ArrayKind, Kind

__all__ = ["Turns", "order_tiles"]


def order_tiles(function: Function, kinds: Sequence[Kind], promises: Promises) -> None:
    """Put ``tile.wait`` where threads wait.

    A store with the attribute ``waits`` computes all elements before the first one is written, and
    threads wait between.

    - `function`: a kernel with tile operations.
    - `kinds`: kinds of the arguments.
    - `promises`: what holds of them: arrays that are not promised to be different memory may be the
      same.
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


# Find whether the iterations of a loop write a tile to the same places, or to others.
#
# A thread has the same elements of a tile in every iteration, so it writes the same place after
# itself. Two iterations write an element by two threads only if their tiles overlap in part.

_MAX_DEPTH = 32
_SIGNS = (operator.neg, operator.pos)
_SUMS = (operator.add, operator.sub)


class Turns:
    """Stores of tiles in the loops of one kernel.

    - `function`: the kernel.
    - `kinds`: kinds of the arguments.
    """

    def __init__(self, function: Function, kinds: Sequence[Kind]) -> None:
        arguments = function.body.arguments
        self._kinds = dict(zip(arguments, kinds, strict=False))
        if len(arguments) != len(kinds):
            self._kinds = {}
        #: Operation to the outermost loop that it is in, and loop to the values made in it.
        self._loops: dict[Operation, Operation] = {}
        self._made: dict[Operation, set[Value]] = {}
        #: Region to its operation.
        self._owners: dict[Region, Operation] = {}
        for each in function.body.walk():
            for region in each.regions:
                self._owners[region] = each
            if each.name in LOOPS and each not in self._loops:
                made = self._made[each] = set()
                for inner in each.walk():
                    made.update(inner.results)
                    for region in inner.regions:
                        made.update(region.arguments)
                    if inner is not each:
                        self._loops[inner] = each
        self._changed: set[Value] = set()

    def is_in_loop(self, operation: Operation) -> bool:
        """Return whether an operation may run several times."""
        return operation in self._loops

    def overlap(self, store: Operation) -> bool:
        """Return whether a store may write a part of what it wrote in another iteration."""
        loop = self._loops.get(store)
        if loop is None:
            return False
        self._changed = self._made[loop]
        shape = store.attributes["shape"]
        array, *at = store.operands[: 1 + len(shape)]
        return not (
            self._is_part(array)
            and all(self._is_steady(place, n) for place, n in zip(at, shape, strict=True))
        )

    def _is_part(self, array: Value) -> bool:
        """Return whether an array is the same in each iteration, or a row of one.

        Rows are equal or have no element in common, if no two places of the array are one.
        """
        kind = self._kinds.get(array)
        if kind is not None:
            return isinstance(kind, ArrayKind) and kind.layout != "A"
        made = array.owner
        if not isinstance(made, Operation):
            return False
        if made.name == "array.part" or (made.name == "array.view" and _is_of_rows(made)):
            return self._is_part(made.operands[0])
        return made.name == "shared.array"

    def _is_steady(self, value: Value, extent: int, depth: int = 0) -> bool:
        """Return whether an integer is the same in every iteration, except multiples of an extent.

        The extent of a tile of the block's size is 0: the integer is the same.
        """
        if extent == 1 or value not in self._changed:
            return True
        if depth > _MAX_DEPTH:
            return False
        made = value.owner
        if isinstance(made, Region):
            return self._is_steady_counter(value, made, extent, depth + 1)
        if made is None:
            return False

        def are_steady(values: Sequence[Value], extent: int) -> bool:
            return all(self._is_steady(each, extent, depth + 1) for each in values)

        match made.name:
            case "const":
                return True
            case "cast":
                return are_steady(made.operands, extent if _is_wider(made) else 0)
            case "array.extent" | "array.size":
                return made.operands[0] not in self._changed
            case "grid" | "gridsize":
                return True
            case "numba":
                function = operator_of(made)
                if function is operator.mul and any(_is_multiple(v, extent) for v in made.operands):
                    return True
                is_linear = function in (*_SIGNS, *_SUMS, operator.mul)
                if not all(isinstance(each.type, types.Number) for each in made.operands):
                    return False
                return are_steady(made.operands, extent if is_linear else 0)
        use = made.attributes.get("use")
        return isinstance(use, IntrinsicUse) and use.intrinsic.is_index

    def _is_steady_counter(self, value: Value, region: Region, extent: int, depth: int) -> bool:
        """Return whether a counter is: the first number of its range, and each step from there."""
        loop = self._owners[region]
        if loop.name != "for" or value is not region.arguments[0]:
            return False
        start, _, step = loop.operands[:3]
        return self._is_steady(start, extent, depth) and _is_multiple(step, extent)


def _is_of_rows(view: Operation) -> bool:
    """Return whether each index takes one element along an axis, or all of them."""
    return all(isinstance(v.type, types.Integer) or takes_all(v) for v in view.operands[1:])


def _is_wider(cast: Operation) -> bool:
    """Return whether a conversion keeps every integer."""
    kinds = cast.operands[0].type, cast.result.type
    if not all(isinstance(kind, types.Integer) for kind in kinds):
        return False
    source, target = kinds
    return bool(target.bitwidth >= source.bitwidth)


def _is_multiple(value: Value, extent: int) -> bool:
    """Return whether an integer is a multiple of an extent, by a constant in it."""
    made = value.owner
    if not isinstance(made, Operation):
        return False
    if made.name == "const":
        number = made.attributes["value"]
        if type(number) is not int and not isinstance(number, np.integer):
            return False
        return bool(number % extent == 0 if extent else number == 0)
    if made.name == "cast":
        return _is_wider(made) and _is_multiple(made.operands[0], extent)
    if made.name != "numba":
        return False
    function = operator_of(made)
    if function in _SIGNS:
        return _is_multiple(made.operands[0], extent)
    return function is operator.mul and any(_is_multiple(each, extent) for each in made.operands)
