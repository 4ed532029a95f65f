"""The tensor maps by which results of warpgroups are stored, in boxes: copies from shared memory.

The threads of a warpgroup write a box of their rows to shared memory. One of them begins the copy
to the array, and all go on. Such a copy is not ordered with other accesses. So the kernel has no
other access of the array, and stores each tile at most once.

References
----------
PTX ISA, sections "cp.async.bulk.tensor" and "Async proxy".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from numba import types

from kerneldsl.contract import Specialization
from kerneldsl.contract.tensor_maps import MAP_ALIGNMENT, MAP_DTYPES, MAX_MAP_RANK, TensorMap
from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.mma.mapped_loads import arguments_of, end_of, whole_of
from targets.cuda.compile.mma.wgmma import ROW_BYTES, WARPGROUP_ROWS

__all__ = ["BOX_BYTES", "CHUNK_COLUMNS", "BoxStore", "find_box_stores", "has_few_tiles"]

#: Size of a box: the rows of an instruction.
BOX_BYTES = WARPGROUP_ROWS * ROW_BYTES
#: Columns of a part of a tile that threads exchange as results, and boxes that it takes.
CHUNK_COLUMNS, _RESULT_BITS = 64, 32
_CHUNK_BOXES = WARPGROUP_ROWS * CHUNK_COLUMNS * _RESULT_BITS // 8 // BOX_BYTES
#: Operations on tiles that need no shared memory, if no axes are exchanged.
_IN_REGISTERS = frozenset({"tile.load", "tile.map", "tile.mma", "tile.place", "tile.store"})


@dataclass(frozen=True)
class BoxStore:
    """A store of a tile in boxes."""

    #: Number of its tensor map.
    tensor_map: int
    #: Elements of a row of a box.
    row_elements: int
    #: Boxes of a warpgroup in the tile, and the fewest that it needs in shared memory.
    count: int
    least: int = 1
    #: Whether a function of one tile is computed in pairs of neighbouring elements.
    is_of_neighbours: bool = False


def find_box_stores(
    function: Function,
    specialization: Specialization,
    uses: Mapping[Value, list[Operation]],
    warpgroups: int,
    maps: list[TensorMap],
) -> dict[Operation, BoxStore]:
    """Return the stores that boxes fit; `maps` gets their maps."""
    found = {}
    for store in _stores(function.body):
        wanted = _map_of(function, specialization, uses, store)
        rows, columns = (*store.attributes["shape"], 0)[:2]
        if wanted is None or rows % (WARPGROUP_ROWS * warpgroups) or columns % wanted.box[0]:
            continue
        count = rows // (WARPGROUP_ROWS * warpgroups) * (columns // wanted.box[0])
        if _is_of_neighbours(store):
            if end_of(store.operands[0]) is not None:
                continue
            if columns % CHUNK_COLUMNS == 0 and _reads_constants(function, specialization, store):
                about = (len(maps), wanted.box[0], _CHUNK_BOXES, _CHUNK_BOXES)
                found[store] = BoxStore(*about, is_of_neighbours=True)
                maps.append(wanted)
            continue
        found[store] = BoxStore(len(maps), wanted.box[0], count)
        maps.append(wanted)
    return found


def _is_of_neighbours(store: Operation) -> bool:
    """Return whether a store is of a function of one tile, which may run in any thread."""
    (region,), tiles = store.regions, store.operands[store.attributes["first"] :]
    if all(each.name in ("cast", "yield") for each in region.operations) or len(tiles) != 1:
        return False
    (tile,) = tiles
    return (
        tile.type.shape == store.attributes["shape"]
        and tile.type.dtype.bitwidth == _RESULT_BITS
        and not region.effects() & ~Effect.READ
    )


def _reads_constants(function: Function, specialization: Specialization, store: Operation) -> bool:
    """Return whether a function of elements reads arguments alone, which the kernel only reads."""
    numbers = arguments_of(function, specialization)
    for each in store.regions[0].walk():
        for array in (whole_of(value)[0] for value in each.operands if _is_array(value)):
            number = numbers.get(array)
            if number is None:
                return False
            if specialization.layout.arrays[number].position in specialization.traits.written:
                return False
    return True


def _is_array(value: Value) -> bool:
    return isinstance(value.type, types.Array)


def has_few_tiles(function: Function, factors: set[Operation]) -> bool:
    """Return whether no tile but factors is in shared memory."""
    for each in function.body.walk():
        if not each.name.startswith("tile."):
            continue
        is_factor = each.name != "tile.load" or each in factors
        if each.name not in _IN_REGISTERS or not is_factor or any(_exchanged(each)):
            return False
    return True


def _exchanged(operation: Operation) -> tuple[bool, ...]:
    found: tuple[bool, ...] = operation.attributes.get("transposed", ())
    return found


def _stores(body: Region) -> Iterator[Operation]:
    """Return the stores that run once for each tile of the result."""
    for operation in body.operations:
        if operation.name == "for" and "tiles" in operation.attributes:
            inner = operation.regions[0].operations
            yield from (each for each in inner if each.name == "tile.store")


def _map_of(
    function: Function,
    specialization: Specialization,
    uses: Mapping[Value, list[Operation]],
    store: Operation,
) -> TensorMap | None:
    """Return the map by which a tile is stored, ``None`` if there is none."""
    array = store.operands[0]
    whole, parts = whole_of(array)
    number = arguments_of(function, specialization).get(whole)
    if number is None or array.type.ndim != 2 or len(parts) > 1:
        return None
    kind, promises = whole.type, specialization.promises
    last, about = kind.ndim - 1, promises.array(number)
    unit_axis = last if kind.layout == "C" else about.unit_axis
    if unit_axis != last or about.alignment % MAP_ALIGNMENT or not promises.is_disjoint:
        return None
    if str(kind.dtype) not in MAP_DTYPES or kind.ndim > MAX_MAP_RANK:
        return None
    if any(_exchanged(store)) or store.attributes.get("waits"):
        return None
    if not _is_alone(uses, whole, store):
        return None
    box = (ROW_BYTES * 8 // kind.dtype.bitwidth, WARPGROUP_ROWS, *[1] * (kind.ndim - 2))
    return TensorMap(number, tuple(range(last, -1, -1)), box, ROW_BYTES)


def _is_alone(uses: Mapping[Value, list[Operation]], array: Value, store: Operation) -> bool:
    """Return whether nothing else accesses an array."""
    for each in uses.get(array, ()):
        if each.name == "array.part" or (each.results and end_of(each.result) is not None):
            if not _is_alone(uses, each.result, store):
                return False
        elif each.name != "array.extent" and (each is not store or array in each.operands[1:]):
            return False
    return True
