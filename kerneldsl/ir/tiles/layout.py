"""The thread that has each element of a tile, and the order in which elements are combined.

Element ``i`` of a tile, counted along its last axis first, belongs to a thread of the block.
Threads take groups of :attr:`Layout.group` neighbours in turn. Each thread combines its elements
place by place of the group. Then it combines the places in a binary tree, neighbours first. Threads
meet as in ``kd.block.sum``. Every target keeps that order, so that sums of equal elements are equal
in bits.

Sums up to each element are made in *segments*: what the threads of a warp take at a time. In a
segment each thread adds its neighbours one after the other, and what it has then meets that of the
others as in ``kd.warp.inclusive_scan``. An element's sum has three parts: the sum of all segments
before its own, one after the other, the sum of the threads before its own, and that of its thread.
Along axis 1 a segment is as many neighbours of a row as a warp has lanes. Along axis 0 rows are
added one after the other.
"""

from __future__ import annotations

from typing import Protocol

from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Layout", "TileLayout"]

#: Most neighbours that one thread takes at a time: 16 bytes of float32.
_MAX_GROUP = 4


class TileLayout(Protocol):
    """A layout of a tile in the registers of threads."""

    @property
    def count(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def group(self) -> int: ...
    @property
    def rounds(self) -> int: ...
    @property
    def is_even(self) -> bool: ...
    @property
    def slot_count(self) -> int: ...


@dataclass(frozen=True)
class Layout:
    """Ownership of a tile's elements by the threads of a block."""

    #: Elements of the tile.
    count: int
    #: Threads of the block.
    threads: int

    @property
    def group(self) -> int:
        """Neighbours that a thread takes at a time."""
        sizes = (_MAX_GROUP, _MAX_GROUP // 2)
        return next((n for n in sizes if self.count % (n * self.threads) == 0), 1)

    @property
    def places(self) -> int:
        """Elements that the block takes at a time."""
        return self.threads * self.group

    @property
    def rounds(self) -> int:
        """Times that it does so; in the last one not all threads may have an element."""
        return -(-self.count // self.places)

    @property
    def is_even(self) -> bool:
        """True if every thread has as many elements."""
        return self.count % self.places == 0

    @property
    def slot_count(self) -> int:
        """Elements of a thread, or fewer."""
        return self.rounds * self.group
