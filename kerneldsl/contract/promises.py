"""Promises: facts that a launch has checked of its arguments, and compiled code may rely on.

Promises are part of what code is compiled for. Found for a launch's arguments by
:func:`kerneldsl.launch.arguments.checked_promises.promises_of`, they say all that holds; code
compiled for weaker ones (:meth:`Promises.cover`) runs for these arguments too. No promise is ever
wrong to leave out, and :data:`NO_PROMISES` holds always.

Arrays are counted through all arguments, those in tuples included, in the order of the parameters:
the first array is number 0.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from kerneldsl.utilities.dataclasses import dataclass

if TYPE_CHECKING:
    from kerneldsl.contract.element_mapping import ElementMapping

__all__ = [
    "MAX_ALIGNMENT",
    "NARROW",
    "NARROW_THREADS",
    "NO_PROMISES",
    "ArrayPromises",
    "Promises",
    "has_narrow_integers",
    "is_narrow",
]

#: Largest alignment that promises distinguish, in bytes: that of the widest memory access.
MAX_ALIGNMENT = 16
#: Upper bound of narrow lengths, so that 31 bits hold them.
NARROW = 2**31
#: Most threads of a narrow grid along an axis. With a few blocks more, as in a loop over a block
#: and its borders, an index still fits 31 bits.
NARROW_THREADS = NARROW - 2**16


@dataclass(frozen=True, slots=True)
class ArrayPromises:
    """Facts that hold of one array.

    Parameters
    ----------
    alignment : int
        Bytes, a power of two up to :data:`MAX_ALIGNMENT`: the first element's address and the
        strides along all axes but `unit_axis` are multiples of it. 1 promises nothing (the size
        of an element's part holds anyway).
    unit_axis : int or None
        For an array of layout "A": an axis along which its elements are side by side.
    same_as : int or None
        The number of an earlier array with the same kind, address, shape and strides. It is the
        first such array.
    is_extent : bool
        Its shape begins with the extent of ``forall``: its first axes are as long.
    """

    alignment: int = 1
    unit_axis: int | None = None
    same_as: int | None = None
    is_extent: bool = False

    def covers(self, other: ArrayPromises) -> bool:
        """Return whether everything that the other promises holds where these hold."""
        return (
            self.alignment % other.alignment == 0
            and other.unit_axis in (None, self.unit_axis)
            and other.same_as in (None, self.same_as)
            and (self.is_extent or not other.is_extent)
        )


@dataclass(frozen=True, slots=True)
class Promises:
    """Facts that hold of a launch's arguments.

    Parameters
    ----------
    arrays : tuple of ArrayPromises
        For each array; empty promises nothing of any.
    is_disjoint : bool
        No array that the kernel may write shares memory with another array, those that are
        `same_as` each other counting as one. LLVM then gets ``noalias``, and arrays that are
        only read go through the non-coherent cache.
    is_narrow : bool
        Extents, lengths and the grid of an explicit launch are narrow; see :func:`is_narrow`.
    has_narrow_integers : bool
        There are int64 among the scalars, and all of them are from 0 to :data:`NARROW` - 1.
    """

    arrays: tuple[ArrayPromises, ...] = ()
    is_disjoint: bool = False
    is_narrow: bool = False
    has_narrow_integers: bool = False

    def array(self, number: int) -> ArrayPromises:
        """Return the facts that hold of one array."""
        return self.arrays[number] if self.arrays else _NOTHING

    def cover(self, other: Promises) -> bool:
        """Return whether everything that the other promises holds where these hold.

        If ``is_disjoint`` was found with arrays counting as one, it covers only promises that have
        the same `same_as`.
        """
        if other.is_disjoint and not self.is_disjoint:
            return False
        if other.is_disjoint and any(
            self.array(i).same_as != other.array(i).same_as
            for i in range(max(len(self.arrays), len(other.arrays)))
        ):
            return False
        return (
            all(self.array(i).covers(each) for i, each in enumerate(other.arrays))
            and (self.is_narrow or not other.is_narrow)
            and (self.has_narrow_integers or not other.has_narrow_integers)
        )

    def for_mapping(
        self, mapping: ElementMapping, *, is_wide: bool = False, tests_extent: bool = False
    ) -> Promises:
        """Return what code with a mapping makes use of, so that it exists in few forms.

        Alignment serves accesses of several elements alone. A thread that works on one element
        gains nothing from two arrays being one. If a length is the extent, it tests its index once.

        Parameters
        ----------
        mapping : ElementMapping
            Of the code.
        is_wide : bool
            Whether the kernel's threads access several elements at once whatever the mapping.
        tests_extent : bool
            Whether a thread that works on one element tests whether its index is in the extent.
        """
        if mapping.vector > 1:
            return self
        if not mapping.is_one_each:
            arrays = tuple(
                replace(each, alignment=_widest(each) if is_wide else 1) for each in self.arrays
            )
            return replace(self, arrays=arrays)
        units = tuple(
            ArrayPromises(
                _widest(each) if is_wide else 1,
                each.unit_axis,
                is_extent=each.is_extent and tests_extent,
            )
            for each in self.arrays
        )
        return Promises(
            units if any(each != _NOTHING for each in units) else (),
            self.is_disjoint and all(each.same_as is None for each in self.arrays),
            self.is_narrow,
            self.has_narrow_integers,
        )


def _widest(array: ArrayPromises) -> int:
    """Return the largest alignment or none, so that few forms of the code exist."""
    return MAX_ALIGNMENT if array.alignment == MAX_ALIGNMENT else 1


def is_narrow(
    extent: tuple[int, ...], shapes: Iterable[tuple[int, ...]], threads: tuple[int, ...] = ()
) -> bool:
    """Return whether extents, grid, and each array's lengths and number of elements are narrow.

    Parameters
    ----------
    extent : tuple of int
        Of ``forall``; empty for an explicit launch. How many indices there are in all does not
        matter.
    shapes : iterable of tuple of int
        Of the arrays.
    threads : tuple of int
        Of an explicit launch: blocks of the grid times threads of a block, along each axis.
    """
    return all(n <= NARROW_THREADS for n in (*extent, *threads)) and all(
        max(math.prod(shape), *shape) < NARROW for shape in shapes if shape
    )


def has_narrow_integers(integers: Collection[int]) -> bool:
    """Return whether there are integers, all of them narrow and not negative."""
    return bool(integers) and all(0 <= each < NARROW for each in integers)


_NOTHING = ArrayPromises()
#: Promises that hold for any arguments.
NO_PROMISES = Promises()
