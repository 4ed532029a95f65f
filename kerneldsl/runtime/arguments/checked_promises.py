"""What holds of a launch's arguments: everything that compiled code may be promised.

This is the definition of :class:`~kerneldsl.target.Promises` in executable form. It is asked where
a launch is planned; a launch of code that is there already checks no more than that code counts on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from kerneldsl.language.kinds import ArrayKind, Kind, TupleKind
from kerneldsl.runtime.arguments.binding import flat_count
from kerneldsl.runtime.memory.strided import byte_bounds, contiguous_strides
from kerneldsl.target.promises import MAX_ALIGNMENT, ArrayPromises, Promises, is_narrow

__all__ = ["promises_of"]


def promises_of(
    kinds: Sequence[Kind],
    values: Sequence[Any],
    extent: tuple[int, ...] = (),
    *,
    written: Collection[int],
) -> Promises:
    """Find all that holds of a launch's arguments.

    Parameters
    ----------
    kinds : sequence of Kind
        Kinds of the arguments.
    values : sequence
        Their flat values, as :attr:`~kerneldsl.abi.ParameterLayout.parameters` orders them: the
        addresses are those that the kernel will see.
    extent : tuple of int
        Of ``forall``; empty for an explicit launch.
    written : collection of int
        Positions of the arguments that the kernel may write
        (:attr:`~kerneldsl.analysis.traits.KernelTraits.written`).

    Returns
    -------
    Promises

    Examples
    --------
    >>> from kerneldsl.language.kinds import parse_signature
    >>> kinds = parse_signature("float32[::1], float32[::1]")
    >>> found = promises_of(kinds, [4096, 100, 8200, 100], (100,), written={1})
    >>> found.is_disjoint, found.array(0).alignment, found.array(1).alignment
    (True, 16, 8)
    """
    arrays = list(_arrays(kinds, values))
    promises: list[ArrayPromises] = []
    for number, array in enumerate(arrays):
        same = next((i for i in range(number) if arrays[i].is_same(array)), None)
        promises.append(
            ArrayPromises(
                array.alignment(), array.unit_axis(), same, bool(extent) and array.shape == extent
            )
        )
    return Promises(
        tuple(promises),
        _is_disjoint(arrays, promises, written),
        is_narrow(extent, (array.shape for array in arrays)),
    )


class _Array(NamedTuple):
    """One array of a launch."""

    kind: ArrayKind
    #: Of the argument that it is, or is in.
    position: int
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def itemsize(self) -> int:
        return self.kind.element.nbytes

    def is_same(self, other: _Array) -> bool:
        """Whether both are one array."""
        return (self.kind, self.pointer, self.shape, self.strides) == (
            other.kind,
            other.pointer,
            other.shape,
            other.strides,
        )

    def unit_axis(self) -> int | None:
        """The longest axis along which elements stand side by side, of an array of layout "A"."""
        if self.kind.layout != "A":
            return None
        found = [axis for axis, stride in enumerate(self.strides) if stride == self.itemsize]
        return max(found, key=lambda axis: self.shape[axis], default=None)

    def alignment(self) -> int:
        """The largest power of two that divides the address and every stride but one."""
        skipped = self.unit_axis()
        if self.kind.layout == "C":
            skipped = self.kind.ndim - 1
        elif self.kind.layout == "F":
            skipped = 0
        bits = self.pointer | MAX_ALIGNMENT
        for axis, stride in enumerate(self.strides):
            if axis != skipped:
                bits |= stride
        return bits & -bits

    def byte_range(self) -> tuple[int, int]:
        """First and past-the-last address; two equal ones where there are no elements."""
        return byte_bounds(self.pointer, self.shape, self.strides, self.itemsize)


def _arrays(kinds: Sequence[Kind], values: Sequence[Any]) -> Iterator[_Array]:
    remaining = iter(values)
    for position, kind in enumerate(kinds):
        yield from _arrays_in(kind, position, remaining)


def _arrays_in(kind: Kind, position: int, values: Iterator[Any]) -> Iterator[_Array]:
    if isinstance(kind, TupleKind):
        for element in kind.elements:
            yield from _arrays_in(element, position, values)
    elif isinstance(kind, ArrayKind):
        pointer = next(values)
        shape = tuple(next(values) for _ in range(kind.ndim))
        if kind.layout == "A":
            strides = tuple(next(values) for _ in range(kind.ndim))
        else:
            strides = contiguous_strides(shape, kind.element.nbytes, kind.layout)
        yield _Array(kind, position, pointer, shape, strides)
    else:
        for _ in range(flat_count(kind)):
            next(values)


def _is_disjoint(
    arrays: Sequence[_Array], promises: Sequence[ArrayPromises], written: Collection[int]
) -> bool:
    """Whether no array that may be written shares memory with a different one."""
    ranges: dict[int, tuple[int, int]] = {}
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
