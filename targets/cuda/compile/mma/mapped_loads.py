"""The tensor map by which a factor of a product is copied, or the reason why there is none.

A factor is a tile of an argument, or of a part of one at some indices: of a head, or of a page.
The map is of the whole argument. So a box has one element along the first axes, and a copy takes
the indices of the part, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from numba import types

from kerneldsl.contract import Specialization
from kerneldsl.contract.tensor_maps import MAP_ALIGNMENT, MAP_DTYPES, MAX_MAP_RANK, TensorMap
from kerneldsl.ir.operations import Function, Operation, Region, Value
from kerneldsl.ir.recognize import slice_bounds
from kerneldsl.language.kinds import ArrayKind, array_kinds
from targets.cuda.compile.mma.wgmma import ROW_BYTES

__all__ = [
    "NotPlanned",
    "arguments_of",
    "end_of",
    "find_lines",
    "is_transposed",
    "map_of",
    "readers_in",
    "whole_of",
]

#: Most rows of a box.
_MAX_BOX = 256


class NotPlanned(Exception):
    """The reason why the tiles of a kernel are multiplied otherwise."""


def map_of(
    function: Function, specialization: Specialization, load: Operation, *, is_line: bool = False
) -> TensorMap:
    """Return the map by which a tile is copied: in panels, or a tile of one row as it is.

    Raises
    ------
    NotPlanned
        With the reason why it is not copied by one.
    """
    array, other = load.operands[:2]
    whole, _ = whole_of(array)
    number = arguments_of(function, specialization).get(whole)
    if number is None:
        raise NotPlanned("a factor is loaded from another array than an argument")
    kind = whole.type
    itemsize = kind.dtype.bitwidth // 8
    promises, last = specialization.promises, kind.ndim - 1
    unit_axis = last if kind.layout == "C" else promises.array(number).unit_axis
    if kind.layout == "F":
        unit_axis = 0
    across, along = load.attributes["shape"]
    axes = tuple(range(last, -1, -1))
    if unit_axis == 0 and kind.ndim == 2 and not is_line:
        across, along, axes = along, across, (0, 1)
    made = getattr(load.result.type, "dtype", load.result.type)
    is_as_stored = str(kind.dtype) in MAP_DTYPES and kind.dtype == made
    if not is_as_stored or array.type.ndim != 2 or kind.ndim > MAX_MAP_RANK:
        raise NotPlanned("a factor is converted when it is loaded, or has not two axes")
    if is_line and end_of(array) is not None:
        raise NotPlanned("a row is one of the first rows of an array")
    if not _is_zero(other):
        raise NotPlanned("a factor has other elements than zeros beyond its array")
    unit, rows = (MAP_ALIGNMENT, 1) if is_line else (ROW_BYTES, 8)
    if along * itemsize % unit or max(across, along * is_line) > _MAX_BOX or across % rows:
        shape = load.attributes["shape"]
        raise NotPlanned(f"a tile {shape} of {kind.dtype} is not of whole boxes")
    if unit_axis != axes[0]:
        raise NotPlanned("the rows of a factor have gaps between their elements")
    if promises.array(number).alignment % MAP_ALIGNMENT:
        raise NotPlanned("the address or the rows of a factor are no multiples of 16 bytes")
    if not promises.is_disjoint:
        raise NotPlanned("arguments overlap")
    if specialization.layout.arrays[number].position in specialization.traits.written:
        raise NotPlanned("the kernel writes an array of factors")
    row, swizzle = (along, 0) if is_line else (ROW_BYTES // itemsize, ROW_BYTES)
    return TensorMap(number, axes, (row, across, *[1] * (kind.ndim - 2)), swizzle)


def is_transposed(wanted: TensorMap) -> bool:
    """Return whether an array has its columns side by side; its map is of the transpose."""
    return wanted.axes == (0, 1)


def whole_of(array: Value) -> tuple[Value, list[Operation]]:
    """Return the array that another one is a part of, and what takes parts, the last one first.

    First rows of an array have the places that they have in the whole one.
    """
    parts = []
    if end_of(array) is not None and isinstance(array.owner, Operation):
        array = array.owner.operands[0]
    while isinstance(array.owner, Operation) and array.owner.name == "array.part":
        parts.append(array.owner)
        array = array.owner.operands[0]
    return array, parts


def end_of(array: Value) -> Value | None:
    """Return where the first rows of an array end, ``None`` if it is no such part of one."""
    view = array.owner
    if not isinstance(view, Operation) or view.name != "array.view" or len(view.operands) != 2:
        return None
    first, *ends = slice_bounds(view.operands[1]) or [view.operands[1]]
    return ends[0] if first.type == types.none and len(ends) == 1 else None


def arguments_of(function: Function, specialization: Specialization) -> dict[Value, int]:
    """Return the arguments that are arrays, with their numbers."""
    return dict(_numbered(function, specialization))


def _numbered(function: Function, specialization: Specialization) -> Iterator[tuple[Value, int]]:
    number = 0
    for value, kind in zip(function.body.arguments, specialization.kinds, strict=True):
        if isinstance(kind, ArrayKind):
            yield value, number
            number += 1
        else:
            number += sum(1 for _ in array_kinds((kind,)))


def _is_zero(value: Value) -> bool:
    """Return whether a value is the constant 0."""
    owner = value.owner
    while isinstance(owner, Operation) and owner.name == "cast":
        owner = owner.operands[0].owner
    return isinstance(owner, Operation) and owner.name == "const" and not owner.attributes["value"]


def find_lines(
    function: Function,
    specialization: Specialization,
    region: Region,
    uses: Mapping[Value, Sequence[Operation]],
) -> Iterator[tuple[Operation, TensorMap]]:
    """Return the loads of rows that are copied into a ring beside the factors, with their maps.

    A pipelined loop may load a tile of one row, such as statistics of columns. The producer copies
    it, too, if only expressions read it, for the columns of larger tiles. So threads neither load
    it nor wait for each other.
    """
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
