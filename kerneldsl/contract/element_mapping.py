"""Mapping of the indices of ``forall`` to threads.

An element kernel is compiled for one mapping. Every mapping runs the body exactly once for each
index; mappings differ in the thread and in the order. Only kernels that read their index by
``grid`` alone (:attr:`~kerneldsl.analysis.traits.KernelTraits.uses_grid_only`) can have another
mapping than :data:`ONE_EACH`.
"""

from __future__ import annotations

from typing import Any, Literal, NoReturn, TypeAlias

from kerneldsl.contract.limits import Dim3
from kerneldsl.errors.kernels import wrong_value
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["ONE_EACH", "Axes", "ElementMapping"]

#: Some of the axes x, y and z, in this order.
Axes: TypeAlias = Literal["", "x", "y", "z", "xy", "xz", "yz", "xyz"]

_AXES = ("", "x", "y", "z", "xy", "xz", "yz", "xyz")


@dataclass(frozen=True, slots=True)
class ElementMapping:
    """A mapping of threads to indices of an extent.

    A block of ``(bx, by, bz)`` threads computes a *tile* of ``(bx * ix, by * iy, bz * iz)``
    indices, with ``(ix, iy, iz)`` the items. Along x, the items of a thread are groups of `vector`
    consecutive ones. In tiles inside of the extent, items run without a bounds check. In other
    tiles each item is checked.

    Parameters
    ----------
    items : tuple of int
        Items per thread along x, y and z; powers of two, at most 16 each and 64 together.
    vector : int
        Consecutive items along x for one memory access: a power of two that divides ``items[0]``.
        LLVM vectorizes the accesses if the promises permit
        (:class:`~kerneldsl.contract.promises.Promises`), up to 16 bytes.
    order : {"strided", "contiguous"}
        The order of a thread's groups. ``"strided"``: neighbouring threads have neighbouring
        groups, and a thread's next group along an axis is one block further. ``"contiguous"``: all
        items of a thread are next to each other. Both are the same for one group.
    axes : tuple of int or None
        The axis of the extent along x, then y, then z. By default the target chooses: the last axis
        is along x.
    grid_stride : str
        The axes, such as ``"yz"``, along which the grid may be smaller than the extent: threads
        continue from tile to tile. Along the others the launch must have enough blocks.

    Raises
    ------
    ArgumentValueError
        If a value is invalid.

    Examples
    --------
    >>> mapping = ElementMapping(items=(8, 1, 1), vector=4)
    >>> mapping.tile((256, 1, 1))
    (2048, 1, 1)
    >>> mapping.blocks((1_000_000,), (256, 1, 1))
    (489, 1, 1)
    """

    items: Dim3 = (1, 1, 1)
    vector: int = 1
    order: Literal["strided", "contiguous"] = "strided"
    axes: tuple[int, ...] | None = None
    grid_stride: Axes = "yz"

    def __post_init__(self) -> None:
        items, vector, axes = self.items, self.vector, self.axes
        if not _are_ints(items, 3, 3) or any(not _is_power_of_two(n) or n > 16 for n in items):
            self._refuse("items", items, "It must be 3 powers of two up to 16, 64 together")
        if self.item_count > 64:
            self._refuse("items", items, "It must be 3 powers of two up to 16, 64 together")
        if not _are_ints((vector,), 1, 1) or not _is_power_of_two(vector) or items[0] % vector:
            self._refuse(
                "vector", vector, f"It is not a power of two, or does not divide {items[0]}"
            )
        if not isinstance(self.order, str) or self.order not in ("strided", "contiguous"):
            self._refuse("order", self.order, 'It must be "strided" or "contiguous"')
        if axes is not None and (
            not _are_ints(axes, 1, 3) or sorted(axes) != list(range(len(axes)))
        ):
            self._refuse("axes", axes, "It is not a permutation of the axes of an extent")
        if not isinstance(self.grid_stride, str) or self.grid_stride not in _AXES:
            self._refuse("grid_stride", self.grid_stride, f"It must be one of {_AXES}")

    @staticmethod
    def _refuse(name: str, value: Any, limit: str) -> NoReturn:
        raise wrong_value(name, value, limit)

    @property
    def item_count(self) -> int:
        """The number of items per thread in each tile."""
        return self.items[0] * self.items[1] * self.items[2]

    @property
    def is_one_each(self) -> bool:
        """True if each thread has one index."""
        return self.item_count == 1

    def axes_of(self, ndim: int) -> tuple[int, ...]:
        """Return the axis of an extent of this rank along x, then y, then z."""
        if self.axes is None:
            return tuple(reversed(range(ndim)))
        if len(self.axes) != ndim:
            raise ValueError(f"axes {self.axes} order no extent of rank {ndim}")
        return self.axes

    def tile(self, block_dim: Dim3) -> Dim3:
        """Return the indices that a block computes at a time, along x, y and z."""
        x, y, z = (threads * items for threads, items in zip(block_dim, self.items, strict=True))
        return x, y, z

    def blocks(self, extent: tuple[int, ...], block_dim: Dim3) -> Dim3:
        """Return the number of blocks along x, y and z that compute each tile of an extent once.

        Parameters
        ----------
        extent : tuple of int
            One to three extents > 0, in the user's order.
        block_dim : tuple of int
            Threads of a block along x, y and z.

        Returns
        -------
        tuple of int
            Along the axes of `grid_stride` a launch may have fewer blocks, at least 1. Along the
            others it must have exactly these.
        """
        along = [extent[axis] for axis in self.axes_of(len(extent))] + [1, 1]
        x, y, z = (-(-n // t) for n, t in zip(along[:3], self.tile(block_dim), strict=True))
        return x, y, z


def _are_ints(values: Any, least: int, most: int) -> bool:
    """Return whether a value is a tuple of `least` to `most` ints."""
    return (
        isinstance(values, tuple)
        and least <= len(values) <= most
        and all(type(n) is int for n in values)
    )


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


#: One index for each thread; the target chooses the axes.
ONE_EACH = ElementMapping()
