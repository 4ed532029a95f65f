"""Rows of numbers that are copied into a ring beside the factors of products.

A pipelined loop may load a tile of one row, such as statistics of columns. The producer copies it,
too, if only expressions read it, for the columns of larger tiles. So threads neither load it nor
wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kerneldsl.contract import Specialization
from kerneldsl.contract.tensor_maps import TensorMap
from kerneldsl.ir.operations import Function, Operation, Region, Value
from targets.cuda.compile.mma.mapped_loads import NotPlanned, map_of

__all__ = ["find_lines", "readers_in"]


def find_lines(
    function: Function,
    specialization: Specialization,
    region: Region,
    uses: Mapping[Value, Sequence[Operation]],
) -> Iterator[tuple[Operation, TensorMap]]:
    """Return the loads of such rows in the body of a loop, with their maps."""
    for load in region.operations:
        if load.name != "tile.load" or not _is_repeated(load.result, uses):
            continue
        try:
            yield load, map_of(function, specialization, load, is_line=True)
        except NotPlanned:
            continue


def _is_repeated(tile: Value, uses: Mapping[Value, Sequence[Operation]]) -> bool:
    """Return whether only expressions of more rows read a tile of one row."""
    shape = tile.type.shape
    return (
        len(shape) == 2
        and shape[0] == 1
        and all(
            each.name == "tile.map"
            and not any(each.attributes["transposed"])
            and each.attributes["shape"][0] > 1
            and tile in each.operands[each.attributes["first"] :]
            for each in uses.get(tile, ())
        )
    )


def readers_in(
    region: Region, loads: Sequence[Operation], uses: Mapping[Value, Sequence[Operation]]
) -> set[Operation]:
    """Return the operations of a region that read loads, or have such operations inside."""
    wanted = {each for load in loads for each in uses.get(load.result, ())}
    return {each for each in region.operations if not wanted.isdisjoint(each.walk())}
