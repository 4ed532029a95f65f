"""Plan copies of what functions of results read of matrices: through the ring of the factors.

A function of results may read a matrix at the places of the results, as a residual is added. The
producer copies these elements after the factors of the tile, into the next slots of the ring. So
they are there when the last products end, and need no more shared memory. A slot has as
many *panels* as it has room for: the rows of all warpgroups, and the columns of a part of the tile.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Set

from numba import types

from kerneldsl.contract import Specialization
from kerneldsl.contract.tensor_maps import TensorMap
from kerneldsl.ir.operations import Function, Operation
from kerneldsl.ir.recognize import operands_of, operator_of
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.mma.mapped_loads import NotPlanned, is_transposed, map_of
from targets.cuda.compile.mma.mapped_stores import CHUNK_COLUMNS, BoxStore
from targets.cuda.compile.mma.result_reads import early_reads
from targets.cuda.compile.mma.wgmma import ROW_BYTES, WARPGROUP_ROWS

__all__ = ["Panels", "columns_of", "find_panels"]


@dataclass(frozen=True)
class Panels:
    """The panels of a store of a function of results."""

    #: The loads of the function, and the tensor map of each.
    loads: dict[Operation, int]
    #: Parts of the tile, those beside each other, and those that a slot has.
    count: int
    beside: int
    together: int
    #: Rows of a panel.
    rows: int

    @property
    def nbytes(self) -> int:
        """Size of a panel."""
        return self.rows * ROW_BYTES

    @property
    def of_part(self) -> list[tuple[int, int]]:
        """The tensor map of each panel of a part, and the panel's first column in the part."""
        return [
            (number, first)
            for load, number in self.loads.items()
            for first in range(0, CHUNK_COLUMNS, columns_of(load))
        ]

    @property
    def slots(self) -> list[range]:
        """The parts of each slot."""
        starts = range(0, self.count, self.together)
        return [range(each, min(each + self.together, self.count)) for each in starts]


def columns_of(load: Operation) -> int:
    """Return the elements of a row of a panel."""
    nbits: int = load.operands[0].type.dtype.bitwidth
    return ROW_BYTES * 8 // nbits


def find_panels(
    function: Function,
    specialization: Specialization,
    stores: Mapping[Operation, BoxStore],
    factors: Set[Operation],
    room: int,
    sharing: int,
    maps: list[TensorMap],
) -> dict[Operation, Panels]:
    """Return the panels of stores, for slots of so many bytes; `maps` gets their maps."""
    # Places that factors have, too, so the producer knows them.
    places = {value for load in factors for value in load.operands[2:]}
    rows, found = WARPGROUP_ROWS * sharing, {}
    for store, boxes in stores.items():
        if not boxes.is_of_neighbours or not places.issuperset(store.operands[1:3]):
            continue
        wanted = {
            load: _map_of(function, specialization, load, rows)
            for load in early_reads(store)
            if _is_at_results(store, load)
        }
        loads = {load: each for load, each in wanted.items() if each is not None}
        nbytes = sum(CHUNK_COLUMNS // columns_of(load) for load in loads) * rows * ROW_BYTES
        if not loads or room < nbytes:
            continue
        maps += [each for each in dict.fromkeys(loads.values()) if each not in maps]
        numbers = {load: maps.index(each) for load, each in loads.items()}
        height, width = store.attributes["shape"]
        beside = width // CHUNK_COLUMNS
        count = height // rows * beside
        slots = -(-count // (room // nbytes))
        found[store] = Panels(numbers, count, beside, -(-count // slots), rows)
    return found


def _is_at_results(store: Operation, load: Operation) -> bool:
    """Return whether a function loads each element of a matrix at the place of its result."""
    elements, indices = store.regions[0].arguments[1:], load.operands[1:]
    if store.attributes["axes"] != (0, 1) or load.attributes.get("hint") is not None:
        return False
    for index, place, element in zip(indices, store.operands[1:3], elements, strict=True):
        made = index.owner
        if not isinstance(made, Operation) or operator_of(made) is not operator.add:
            return False
        added = operands_of(made)
        if added not in ([place, element], [element, place]) or index.type != types.int64:
            return False
    return True


def _map_of(
    function: Function, specialization: Specialization, load: Operation, rows: int
) -> TensorMap | None:
    """Return the map of panels, ``None`` if there is none."""
    zero = Operation("const", [], (types.int64,), {"value": 0})
    about = {"shape": (rows, CHUNK_COLUMNS)}
    array = load.operands[0]
    tile = Operation("tile.load", [array, zero.result], (load.result.type,), about)
    try:
        wanted = map_of(function, specialization, tile)
    except NotPlanned:
        return None
    return None if is_transposed(wanted) or wanted.box[0] > CHUNK_COLUMNS else wanted
