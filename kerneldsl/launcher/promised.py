"""From what compiled code was promised to the conditions under which it may be launched again.

Code is compiled for promises (:class:`~kerneldsl.target.Promises`), which are less than all that
held of the arguments when it was chosen. A native launch checks no more than what the code counts
on, and that the arguments' addresses are no better aligned than those it was chosen for, so that
better ones get the code that makes use of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations

from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind, TupleKind
from kerneldsl.launcher.conditions import (
    Aligned,
    ArrayAt,
    Condition,
    Distinct,
    Few,
    Same,
    Within,
)
from kerneldsl.runtime.arguments.binding import flat_count
from kerneldsl.target.promises import MAX_ALIGNMENT, NARROW, ArrayPromises, Promises

__all__ = ["PlacedArray", "conditions_of", "placed_arrays"]


class PlacedArray:
    """An array of a launch and where it is passed.

    Parameters
    ----------
    kind : ArrayKind
        What it is.
    position : int
        Of the argument that it is, or is in.
    parameter : int
        Number of its pointer.
    """

    def __init__(self, kind: ArrayKind, position: int, parameter: int) -> None:
        self.kind = kind
        self.position = position
        self.pointer = parameter
        self.item_bytes = kind.element.nbytes
        self.extents = range(parameter + 1, parameter + 1 + kind.ndim)
        end = self.extents.stop
        self.strides = range(end, end + (kind.ndim if kind.layout == "A" else 0))

    @property
    def place(self) -> ArrayAt:
        """Where it is, as conditions say it."""
        return ArrayAt(self.pointer, self.kind.ndim, self.item_bytes, bool(self.strides))

    def words(self) -> Iterator[int]:
        """Numbers of all its parameters."""
        yield from (self.pointer, *self.extents, *self.strides)


def placed_arrays(kinds: tuple[Kind, ...]) -> list[PlacedArray]:
    """Every array of a launch, those in tuples included, in the order of the parameters."""
    found = []
    parameter = 0
    for position, kind in enumerate(kinds):
        for leaf in _leaves(kind):
            if isinstance(leaf, ArrayKind):
                found.append(PlacedArray(leaf, position, parameter))
            parameter += flat_count(leaf)
    return found


def _leaves(kind: Kind) -> Iterator[ScalarKind | ArrayKind]:
    if isinstance(kind, TupleKind):
        for element in kind.elements:
            yield from _leaves(element)
    else:
        yield kind


def conditions_of(
    compiled: Promises,
    found: Promises,
    arrays: list[PlacedArray],
    extent: tuple[int, ...],
    written: Collection[int],
) -> list[Condition]:
    """Say under which conditions code may be launched.

    Parameters
    ----------
    compiled : Promises
        What the code was compiled for.
    found : Promises
        What held of the arguments that it was chosen for.
    arrays : list of PlacedArray
        Of the launch.
    extent : tuple of int
        Of ``forall``; empty for an explicit launch.
    written : collection of int
        Positions of arguments that the kernel may write.

    Returns
    -------
    list of Condition
        Of parameters by their numbers.
    """
    conditions: list[Condition] = []
    for number, array in enumerate(arrays):
        promised = compiled.array(number)
        conditions += _of_array(promised, array, extent)
        same_as = promised.same_as
        if same_as is None and not compiled.is_disjoint:
            # It may be for two arrays being one that the code was not promised that they are apart:
            # others would get better code.
            same_as = found.array(number).same_as
        if same_as is not None:
            conditions += map(Same, array.words(), arrays[same_as].words())
        if compiled.is_narrow and not promised.is_extent:
            conditions.append(Few(array.extents.start, array.kind.ndim, NARROW - 1))
        if found.arrays and promised.alignment <= found.array(number).alignment < MAX_ALIGNMENT:
            conditions += _no_better(array, found.array(number).alignment)
    if compiled.is_disjoint:
        conditions += _disjoint(compiled, arrays, written)
    return conditions


def _of_array(
    promised: ArrayPromises, array: PlacedArray, extent: tuple[int, ...]
) -> Iterator[Condition]:
    kind, alignment = array.kind, promised.alignment
    if alignment > 1:
        yield Aligned(array.pointer, alignment)
        if kind.layout == "A":
            for axis, stride in enumerate(array.strides):
                if axis != promised.unit_axis:
                    yield Aligned(stride, alignment)
        elif kind.ndim > 1 and alignment > array.item_bytes:
            # All strides are multiples of that of the longest contiguous runs.
            run = array.extents[-1] if kind.layout == "C" else array.extents[0]
            yield Aligned(run, alignment // array.item_bytes)
    if promised.unit_axis is not None:
        stride = array.strides[promised.unit_axis]
        yield Within(stride, array.item_bytes, array.item_bytes, is_of_array=True)
    if promised.is_extent:
        for parameter, n in zip(array.extents, extent, strict=True):
            yield Within(parameter, n, n, is_of_array=True)


def _no_better(array: PlacedArray, alignment: int) -> Iterator[Condition]:
    """The address, if that was it that was no better aligned, is so again."""
    if array.kind.ndim <= 1 and array.kind.layout != "A":
        yield Aligned(array.pointer, 2 * alignment, rest=alignment)


def _disjoint(
    compiled: Promises, arrays: list[PlacedArray], written: Collection[int]
) -> Iterator[Condition]:
    """That no array that is written shares memory with another; those that are one count as one."""
    groups: dict[int, list[PlacedArray]] = {}
    for number, array in enumerate(arrays):
        same_as = compiled.array(number).same_as
        groups.setdefault(number if same_as is None else same_as, []).append(array)
    for first, second in combinations(groups.values(), 2):
        if any(array.position in written for array in (*first, *second)):
            yield Distinct(first[0].place, second[0].place)
