"""From what compiled code was promised to the conditions under which it may be launched again.

Code is compiled for promises (:class:`~kerneldsl.contract.Promises`), which are less than all that
held of the arguments when it was chosen. A native launch checks no more than what the code counts
on, and that the arguments' addresses are no better aligned than those it was chosen for, so that
better ones get the code that makes use of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

from kerneldsl.contract.abi import ArrayParameters
from kerneldsl.contract.promises import MAX_ALIGNMENT, NARROW, ArrayPromises, Promises
from kerneldsl.launch.native.conditions import Aligned, Condition, Distinct, Few, Same, Within

__all__ = ["conditions_of"]


def conditions_of(
    compiled: Promises,
    found: Promises,
    arrays: Sequence[ArrayParameters],
    integers: Sequence[int],
    extent: tuple[int, ...],
    written: Collection[int],
) -> list[Condition]:
    """Say under which conditions code may be launched.

    `compiled` is what the code was compiled for, `found` what held of the arguments that it was
    chosen for, and `written` holds the positions of arguments that the kernel may write. `integers`
    are the parameters that pass int64 scalars. Conditions are of parameters by their numbers.
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
            conditions += map(Same, array.numbers, arrays[same_as].numbers)
        if compiled.is_narrow and not promised.is_extent:
            conditions.append(Few(array.extents.start, array.kind.ndim, NARROW - 1))
        if found.arrays and promised.alignment <= found.array(number).alignment < MAX_ALIGNMENT:
            conditions += _no_better(array, found.array(number).alignment)
    if compiled.has_narrow_integers:
        conditions += [Within(number, 0, NARROW - 1) for number in integers]
    if compiled.is_disjoint:
        conditions += _disjoint(compiled, arrays, written)
    return conditions


def _of_array(
    promised: ArrayPromises, array: ArrayParameters, extent: tuple[int, ...]
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


def _no_better(array: ArrayParameters, alignment: int) -> Iterator[Condition]:
    """Yield the condition that the address is no better aligned, where no stride limits it."""
    if array.kind.ndim <= 1 and array.kind.layout != "A":
        yield Aligned(array.pointer, 2 * alignment, rest=alignment)


def _disjoint(
    compiled: Promises, arrays: Sequence[ArrayParameters], written: Collection[int]
) -> Iterator[Condition]:
    """Yield conditions that written arrays share no memory with others; equal ones count as one."""
    groups: dict[int, list[ArrayParameters]] = {}
    for number, array in enumerate(arrays):
        same_as = compiled.array(number).same_as
        groups.setdefault(number if same_as is None else same_as, []).append(array)
    for first, second in combinations(groups.values(), 2):
        if any(array.position in written for array in (*first, *second)):
            yield Distinct(first[0], second[0])
