"""Blocks that come back and are taken again by native code, without a call of a pool's.

What repeats launches makes arrays of the same forms again and again, and lets go of them as often.
A pool in Python, with its lock and its backend, takes longer for each than the launch. So forms
whose arrays are small have a `Shelf` of their device's default pool: a few blocks of one size, from
which :mod:`kerneldsl.launch.native.emit_forms` takes and to which it puts back, counting as the
pool does. To the pool's backend they are in use all the time; to everybody else, in statistics too,
they are free, and `MemoryPool.trim` gives them back.

Native code runs under the interpreter's lock, and so do the methods here: each takes or puts one
block at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerneldsl.contract.locations import Location

if TYPE_CHECKING:
    from kerneldsl.memory.device_memory import Counts
    from kerneldsl.memory.pools import MemoryPool

__all__ = ["MAX_BLOCKS", "MAX_SHELF_BYTES", "Shelf", "find_shelf"]

#: Blocks of one shelf, bytes of each, and shelves of a pool: 256 MiB at most.
MAX_BLOCKS, MAX_SHELF_BYTES, _MAX_SHELVES = 8, 1 << 19, 64


class Shelf:
    """Blocks of one size that are used in the default stream alone.

    Attributes
    ----------
    blocks : list
        Where they are; what came last is taken first.
    nbytes : int
        Size of each.
    pool : MemoryPool
        The default pool of a device.
    counts, sums : Counts
        Of the pool and of its device.
    is_open : bool
        Whether blocks may be taken and put: not where the pool has a limit.
    """

    __slots__ = ("blocks", "counts", "is_open", "nbytes", "pool", "sums")

    def __init__(self, pool: MemoryPool, nbytes: int) -> None:
        self.blocks: list[Location] = []
        self.nbytes = nbytes
        self.pool = pool
        self.counts: Counts = pool._counts
        self.sums: Counts = pool._memory.sums
        self.is_open = pool.limit is None

    def clear(self) -> None:
        """Give all blocks back to the backend; the caller holds the device's lock."""
        backend = self.pool._backend
        while True:
            try:
                location = self.blocks.pop()
            except IndexError:
                return
            backend.release(location, self.nbytes, None, ())


def find_shelf(pool: MemoryPool, nbytes: int) -> Shelf | None:
    """Return the shelf for blocks of a size; ``None`` where the pool has none for these.

    The oldest one makes room for another size.
    """
    memory = pool._memory
    is_for_shelf = 0 < nbytes <= MAX_SHELF_BYTES and pool._backend.gives_out_at_once
    if not is_for_shelf or pool is not memory.default:
        return None
    shelves = pool._shelves
    found = shelves.get(nbytes)
    if found is None:
        with memory.lock:
            found = shelves.setdefault(nbytes, Shelf(pool, nbytes))
            while len(shelves) > _MAX_SHELVES:
                oldest = shelves.pop(next(iter(shelves)))
                oldest.is_open = False
                memory.clear_shelves((oldest,))
    return found
