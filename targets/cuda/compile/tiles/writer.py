"""Write the tile operations of a function, with the memory and the order of its tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.emission import Emitter
from kerneldsl.ir.operations import Function, Operation, Region, Value
from kerneldsl.ir.tiles.handing_on import drop_casts, drop_unread, hand_on_by_copies
from kerneldsl.ir.tiles.placement import Place, Placement
from kerneldsl.lowering.tile_plan import Layout
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.tiles import elements, folds, memory, scans, sort_places, sorts
from targets.cuda.compile.tiles.thread_code import Memory, Slot, ThreadCode
from targets.cuda.intrinsics.tile_memory import ArrayElements

__all__ = ["Storage", "TileWriter"]

_I64 = ir.IntType(64)


@dataclass(frozen=True)
class Storage:
    """The memory of a tile."""

    place: Place
    memory: Memory

    @property
    def is_shared(self) -> bool:
        return self.place.is_shared

    def get(self, slot: Slot) -> ir.Value:
        """Return one of the thread's own elements."""
        return self.memory.get(slot.index if self.is_shared else slot.slot)

    def set(self, slot: Slot, value: ir.Value) -> None:
        """Set one of the thread's own elements."""
        self.memory.set(slot.index if self.is_shared else slot.slot, value)


class TileWriter:
    """Writes the tile operations of one function.

    Parameters
    ----------
    emitter : Emitter
        Writes all other operations.
    function : Function
        The kernel. Branches and loops hand on its tiles by copies afterwards.
    block_dim : tuple of int
        Threads of the block along x, y and z.
    """

    def __init__(
        self, emitter: Emitter, function: Function, block_dim: tuple[int, int, int]
    ) -> None:
        self.emitter = emitter
        self.code = ThreadCode(emitter.context, emitter.builder, block_dim)
        drop_casts(function)
        drop_unread(function)
        self._placement = Placement(function, self.code.threads)
        hand_on_by_copies(function, self._placement)
        self._memories: dict[int, Memory] = {}
        self._rooms: dict[tuple[Operation, str], Memory] = {}
        #: Loops around what is written.
        self.loop_depth = 0

    def write(self, operation: Operation) -> None:
        """Write an operation."""
        _WRITE[operation.name](self, operation)

    # -- sizes and memory -------------------------------------------------------------------------

    def shape(self, operation: Operation) -> tuple[int, ...]:
        """Return the shape of an operation's tile."""
        return self._placement.shape(operation.attributes["shape"])

    def layout(self, operation: Operation) -> Layout:
        """Return how the elements of an operation's tile belong to threads."""
        return Layout(math.prod(self.shape(operation)), self.code.threads)

    def layout_of(self, place: Place) -> Layout:
        """Return how the elements of a tile in a place belong to threads."""
        return Layout(place.count, self.code.threads)

    def storage(self, value: Value) -> Storage:
        """Return the memory of a tile."""
        place = self._placement[value]
        found = self._memories.get(place.number)
        if found is None:
            if place.is_shared:
                found = self.code.shared(place.kind, place.count, columns=place.columns)
            else:
                found = self.registers(place).memory
            self._memories[place.number] = found
        return Storage(place, found)

    def room(self, operation: Operation, kind: Any, count: int, name: str = "") -> Memory:
        """Return shared memory that one operation needs."""
        found = self._rooms.get((operation, name))
        if found is None:
            found = self._rooms[operation, name] = self.code.shared(kind, count)
        return found

    @contextmanager
    def written(self, storage: Storage) -> Iterator[None]:
        """Let threads wait around what writes a tile in shared memory."""
        if storage.is_shared:
            self.code.wait()
        yield
        if storage.is_shared:
            self.code.wait()

    # -- elements ---------------------------------------------------------------------------------

    def region(self, region: Region, *arguments: ir.Value) -> ir.Value:
        """Write a region for some arguments; return what it yields."""
        self.emitter.values.update(zip(region.arguments, arguments, strict=True))
        (found,) = self.emitter.region(region)
        return self.emitter.plain(found, region.yielded[0].type)

    def element(self, operation: Operation, slot: Slot) -> ir.Value:
        """Write the region of an operation for one of the thread's elements."""
        return elements.element(self, operation, slot)

    @contextmanager
    def elements(self, operation: Operation) -> Iterator[tuple[Slot, ir.Value]]:
        """Repeat code for each of the thread's elements of an operation's region."""
        with self.code.slots(self.layout(operation)) as slot:
            yield slot, self.element(operation, slot)

    def held(self, operation: Operation, kind: Any) -> Memory:
        """Return registers with the thread's elements of an operation's region."""
        return elements.held(self, operation, kind)

    def registers(self, place: Place) -> Storage:
        """Return registers for the thread's elements of a place."""
        layout = self.layout_of(place)
        own = self.code.local(place.kind, layout.rounds * layout.group)
        return Storage(replace(place, is_shared=False, columns=0), own)

    # -- arrays -----------------------------------------------------------------------------------

    def array(self, value: Value) -> ArrayElements:
        """Return the elements of an array."""
        context, builder = self.code.context, self.code.builder
        found = self.emitter.get(value)
        if not isinstance(found, ArrayParts):
            found = ArrayParts.of_structure(context, builder, value.type, found)
        strides = found.byte_strides(context, builder)
        return ArrayElements(context, builder, value.type, found.data, found.shape, strides)

    def own_elements(self, own: Memory) -> ArrayElements:
        """Return a thread's elements of a tile, as those of an array."""
        array = types.Array(own.kind, 1, "C")
        return ArrayElements(self.code.context, self.code.builder, array, own.data, [], [])


_WRITE: dict[str, Callable[[TileWriter, Operation], None]] = {
    "tile.argsort": sort_places.write_argsort,
    "tile.copy": elements.write_copy,
    "tile.fold": folds.write_fold,
    "tile.load": memory.write_load,
    "tile.map": elements.write_map,
    "tile.of": elements.write_of,
    "tile.own": elements.write_own,
    "tile.place": memory.write_place,
    "tile.scan": scans.write_scan,
    "tile.sort": sorts.write_sort,
    "tile.store": memory.write_store,
    "tile.take": elements.write_take,
    "tile.wait": lambda writer, operation: writer.code.wait(),
}
#: The operations that are written here.
NAMES = frozenset(_WRITE)
