"""Which kernels are compiled by the region IR; the others are compiled by syntax trees."""

from __future__ import annotations

from enum import Enum, auto

from kerneldsl.contract import Specialization

__all__ = ["KernelClass", "class_of", "is_by_regions"]


class KernelClass(Enum):
    """Kernels that change their path together."""

    #: Kernels that use only ``grid``.
    ELEMENTS = auto()
    #: Kernels with blocks.
    BLOCKS = auto()
    #: Kernels with tiles, also in debug mode.
    TILES = auto()
    #: All other kernels in debug mode.
    DEBUG = auto()


_BY_REGIONS: frozenset[KernelClass] = frozenset(
    {KernelClass.TILES, KernelClass.ELEMENTS, KernelClass.DEBUG}
)


def class_of(specialization: Specialization) -> KernelClass:
    """Return the class of a kernel."""
    if specialization.traits.uses_tiles:
        return KernelClass.TILES
    if specialization.options.debug:
        return KernelClass.DEBUG
    return KernelClass.ELEMENTS if specialization.traits.uses_grid_only else KernelClass.BLOCKS


def is_by_regions(specialization: Specialization) -> bool:
    """Return whether a kernel is compiled by the region IR."""
    return class_of(specialization) in _BY_REGIONS
