"""The promises of a launch's arguments: everything that compiled code may rely on, by number.

:func:`promises_of` defines :class:`~kerneldsl.contract.Promises` in executable form. It takes
longer than a launch. So the answer is remembered for addresses, shapes, strides and extents, and
the number that stands for it is quick to hash.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.contract import NO_PROMISES
from kerneldsl.contract.locations import Location, alignment_number
from kerneldsl.contract.promises import (
    MAX_ALIGNMENT,
    ArrayPromises,
    Promises,
    has_narrow_integers,
    is_narrow,
)
from kerneldsl.launch.arguments.binding import Binding, PassedArray
from kerneldsl.utilities.locks import ForkSafeLock

__all__ = ["NOTHING", "PromiseTable", "promises_of"]

#: The number of `NO_PROMISES`.
NOTHING = 0
#: Arguments that are remembered; a program with more finds them again.
_MAX_KNOWN = 256


class PromiseTable:
    """The promises that were found for one kernel.

    - `traits`: traits with the arrays that the kernel writes.
    """

    def __init__(self, traits: KernelTraits) -> None:
        self._traits = traits
        self._found: list[Promises] = [NO_PROMISES]
        self._numbers: dict[Promises, int] = {NO_PROMISES: NOTHING}
        self._known: dict[tuple[Any, ...], int] = {}
        self._places: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._lock = ForkSafeLock()

    def __getitem__(self, number: int) -> Promises:
        return self._found[number]

    def number_of(
        self, binding: Binding, extent: tuple[int, ...] | None, threads: tuple[int, ...] = ()
    ) -> int:
        """Return the number of all that holds of a launch's arguments.

        - `binding`: the arguments, with the addresses that the kernel will see.
        - `extent`: extent of ``forall``.
        - `threads`: threads of an explicit launch along each axis.
        """
        places = self._places.get(binding.codes)
        if places is None:
            places = tuple(place for array in binding.arrays for place in array.numbers)
            self._places[binding.codes] = places
        values = binding.values
        is_narrow = has_narrow_integers(binding.integers)
        key = (binding.codes, extent, threads, is_narrow, *[values[place] for place in places])
        number = self._known.get(key)
        return self._find(binding, extent, threads, key) if number is None else number

    def _find(
        self,
        binding: Binding,
        extent: tuple[int, ...] | None,
        threads: tuple[int, ...],
        key: tuple[Any, ...],
    ) -> int:
        arrays, written = binding.passed_arrays(), self._traits.written
        found = promises_of(
            arrays,
            extent or (),
            threads,
            binding.integers,
            written=written,
            are_mapped=self._traits.uses_products,
        )
        number = self.number(found)
        with self._lock:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[key] = number
        return number

    def number(self, promises: Promises) -> int:
        """Return the number that stands for some promises."""
        with self._lock:
            number = self._numbers.get(promises)
            if number is None:
                number = self._numbers[promises] = len(self._found)
                self._found.append(promises)
        return number


def promises_of(
    arrays: Sequence[PassedArray],
    extent: tuple[int, ...] = (),
    threads: tuple[int, ...] = (),
    integers: Collection[int] = (),
    *,
    written: Collection[int],
    are_mapped: bool = False,
) -> Promises:
    """Find all that holds of a launch's arguments.

    - `arrays`: the arrays among the arguments, with the addresses that the kernel will see.
    - `extent`: extent of ``forall``; empty for an explicit launch.
    - `threads`: threads of an explicit launch along each axis; empty for ``forall``.
    - `integers`: the int64 scalars among the arguments.
    - `written`: positions of the arguments that the kernel may write
      (:attr:`~kerneldsl.analysis.traits.KernelTraits.written`).
    - `are_mapped`: whether only arrays that a tensor map can describe are promised to be aligned.

    Examples
    --------
    >>> from kerneldsl.contract.abi import array_parameters
    >>> from kerneldsl.language.signatures import parse_signature
    >>> from kerneldsl.launch.arguments.binding import passed_arrays
    >>> two = array_parameters(parse_signature("float32[::1], float32[::1]"))
    >>> arrays = passed_arrays(two, [4096, 100, 8200, 100])
    >>> found = promises_of(arrays, (100,), written={1})
    >>> found.is_disjoint, found.array(0).alignment, found.array(1).alignment
    (True, 16, 8)
    """
    if are_mapped:
        from kerneldsl.contract.tensor_maps import can_be_mapped
    promises: list[ArrayPromises] = []
    for number, array in enumerate(arrays):
        same = next((i for i in range(number) if arrays[i].is_same(array)), None)
        unit_axis = _unit_axis(array)
        is_extent = bool(extent) and array.shape[: len(extent)] == extent
        alignment = _alignment(array, unit_axis)
        if are_mapped and not can_be_mapped(array.shape, array.strides, _skipped(array, unit_axis)):
            alignment = 1
        promises.append(ArrayPromises(alignment, unit_axis, same, is_extent))
    return Promises(
        tuple(promises),
        _is_disjoint(arrays, promises, written),
        is_narrow(extent, (array.shape for array in arrays), threads),
        has_narrow_integers(integers),
    )


def _unit_axis(array: PassedArray) -> int | None:
    """Return the longest axis with a stride of one element, of an array of layout "A"."""
    if array.kind.layout != "A":
        return None
    found = [axis for axis, stride in enumerate(array.strides) if stride == array.itemsize]
    return max(found, key=lambda axis: array.shape[axis], default=None)


def _alignment(array: PassedArray, unit_axis: int | None) -> int:
    """Return the largest power of two that divides the location and every stride but one."""
    skipped = _skipped(array, unit_axis)
    bits = alignment_number(array.location) | MAX_ALIGNMENT
    for axis, stride in enumerate(array.strides):
        if axis != skipped:
            bits |= stride
    return bits & -bits


def _skipped(array: PassedArray, unit_axis: int | None) -> int | None:
    """Return the axis along which elements are side by side."""
    if array.kind.layout == "C":
        return array.kind.ndim - 1
    return 0 if array.kind.layout == "F" else unit_axis


def _is_disjoint(
    arrays: Sequence[PassedArray], promises: Sequence[ArrayPromises], written: Collection[int]
) -> bool:
    """Return whether no array that may be written shares memory with a different one."""
    ranges: dict[int, tuple[Location, Location]] = {}
    may_write: set[int] = set()
    for number, (array, promise) in enumerate(zip(arrays, promises, strict=True)):
        group = number if promise.same_as is None else promise.same_as
        ranges[group] = array.byte_range()
        if array.position in written:
            may_write.add(group)
    for group in may_write:
        low, high = ranges[group]
        for other, (begin, end) in ranges.items():
            if other != group and max(low, begin) < min(high, end):
                return False
    return True
