"""Give tiles memory of the block, before a kernel is split at barriers.

Afterwards no value is a tile. An operation that gives one has the memory of its result as its first
operand, and ``shapes`` of the tiles that it reads. What a thread gives to a tile, or takes from it,
is an access of an element.
"""

from __future__ import annotations

import math

from numba import types

from kerneldsl.contract import Specialization
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.accesses import Accesses
from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value
from kerneldsl.ir.rewriter import Builder
from kerneldsl.ir.tiles.arguments import arguments_of_tiles
from kerneldsl.ir.tiles.handing_on import drop_casts, drop_unread, hand_on_by_copies
from kerneldsl.ir.tiles.live_ranges import is_tile
from kerneldsl.ir.tiles.placement import Placement
from kerneldsl.ir.tiles.shapes import check_fit
from kerneldsl.ir.typing import Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from targets.cpu.codegen.storage import root_of
from targets.cpu.regions.ids import position_of

__all__ = ["place_tiles"]


def place_tiles(function: Function, specialization: Specialization, typing: Typing) -> None:
    """Give the tiles of a kernel memory, in place.

    - raises `UnsupportedConstructError` if a tile with an element for each thread does not fit the
      block.
    """
    if not any(operation.name.startswith("tile.") for operation in function.body.walk()):
        return
    block_dim = specialization.block_dim
    assert block_dim is not None
    placing = _Placing(function, specialization, typing, block_dim)
    placing.region(function.body)
    function.body.operations[:0] = placing.memories.values()


class _Placing:
    def __init__(
        self,
        function: Function,
        specialization: Specialization,
        typing: Typing,
        block_dim: tuple[int, int, int],
    ) -> None:
        self._typing = typing
        self._block_dim = block_dim
        threads = math.prod(block_dim)
        check_fit(function, threads)
        drop_casts(function)
        drop_unread(function)
        accesses = Accesses(function, specialization.kinds, specialization.promises)
        for operation in function.body.walk():
            if operation.name == "tile.store":
                _mark_store(operation, accesses, function)
        self._placement = Placement(function, threads, in_registers=False)
        hand_on_by_copies(function, self._placement)
        #: Operations before and after which threads wait. They read the value from memory that a
        #: thread gives to a tile.
        self._first: set[Operation] = set()
        self._last: set[Operation] = set()
        for operation, before in arguments_of_tiles(function).items():
            if operation.name == "tile.of" and before:
                self._first.add(before[0])
                self._last.add(operation)
        #: The declaration of each memory, by its number.
        self.memories: dict[int, Operation] = {}

    def region(self, region: Region) -> None:
        """Rewrite the operations of a region, in place."""
        out: list[Operation] = []
        for operation in region.operations:
            if operation in self._first:
                out.append(_wait(operation))
            if operation.name == "tile.own":
                out += self._own(operation)
            elif operation.name == "tile.of":
                out += self._of(operation)
            elif operation.name == "undefined" and is_tile(operation.result):
                continue
            else:
                if operation.name.startswith("tile."):
                    self._place(operation)
                else:
                    for inner in operation.regions:
                        self.region(inner)
                out.append(operation)
            if operation in self._last:
                out.append(_wait(operation))
        region.operations = out

    def _memory(self, tile: Value) -> Value:
        place = self._placement[tile]
        made = self.memories.get(place.number)
        if made is None:
            kind = types.Array(place.kind, 1, "C")
            static = {"shape": (place.count,), "dtype": str(place.kind)}
            use = IntrinsicUse(INTRINSICS["shared.array"], static)
            attributes = {**static, "use": use}
            made = Operation("shared.array", [], (kind,), attributes, effect=Effect.ALLOCATE)
            made.result.name = tile.name or "tile"
            self.memories[place.number] = made
        return made.result

    def _place(self, operation: Operation) -> None:
        """Let an operation read and write memory."""
        attributes = operation.attributes
        shape = self._placement.shape
        if operation.name == "tile.copy":
            targets = [self._memory(target) for target in attributes.pop("targets")]
            operation.operands = [*map(self._memory, operation.operands), *targets]
            return
        if "shape" in attributes:
            attributes["shape"] = shape(attributes["shape"])
        if operation.name == "tile.take":
            attributes["extent"] = shape(operation.operands[0].type.shape)[-1]
        if "transposed" in attributes:
            tiles = operation.operands[attributes["first"] :]
            attributes["shapes"] = tuple(shape(tile.type.shape) for tile in tiles)
        operation.operands = [self._memory(v) if is_tile(v) else v for v in operation.operands]
        if any(map(is_tile, operation.results)):
            operation.operands.insert(0, self._memory(operation.result))
            operation.results = []
            attributes["first"] = attributes.get("first", 0) + 1

    # -- the elements of threads ------------------------------------------------------------------

    def _own(self, operation: Operation) -> list[Operation]:
        (tile,) = operation.operands
        build = Builder(self._typing)
        operands = [self._memory(tile), position_of(build, self._block_dim)]
        made = Operation("array.load", operands, (), {"nonnegative": (True,)}, effect=Effect.READ)
        made.place = operation.place
        return [*build.operations, made.take_results(operation.results)]

    def _of(self, operation: Operation) -> list[Operation]:
        (value,) = operation.operands
        build = Builder(self._typing)
        operands = [self._memory(operation.result), position_of(build, self._block_dim), value]
        made = Operation("array.store", operands, (), {"nonnegative": (True,)})
        made.effect, made.place = Effect.WRITE, operation.place
        return [*build.operations, made]


def _wait(operation: Operation) -> Operation:
    use = IntrinsicUse(INTRINSICS["syncthreads"], {})
    return Operation("syncthreads", [], (), {"use": use}, None, Effect.WAIT, operation.place)


# ------------------------------------------------------------ stores that read what they write


def _mark_store(operation: Operation, accesses: Accesses, function: Function) -> None:
    """Mark a store with elements that may be computed from memory that it writes.

    The elements are computed before the first one is written, unless the arrays that are read turn
    out to be other memory. They are operands before the tiles; ``waits`` is their number. It is 0
    if they are not known before a launch.
    """
    read = accesses.with_regions(operation).read
    if not read & accesses.of(operation).written:
        return
    found: dict[Value, None] = {}
    is_known = True
    for inner in operation.regions[0].walk():
        if not accesses.of(inner).read:
            continue
        for value in inner.operands:
            if accesses.memory(value):
                root = root_of(value)
                is_known &= root in function.body.arguments
                found[root] = None
    arrays = list(found) if is_known else []
    if not all(isinstance(each.type, types.Array) for each in arrays):
        arrays = []
    first = operation.attributes["first"]
    operation.operands[first:first] = arrays
    operation.attributes |= {"waits": len(arrays), "first": first + len(arrays)}
