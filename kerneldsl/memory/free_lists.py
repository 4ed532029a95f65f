"""Free lists of small blocks, for native code: it allocates and frees without a call of a pool.

A repeated call allocates and frees arrays of the same forms each time. A pool in Python, with its
lock and its backend, takes longer for each than the launch. So forms of small arrays have a
`FreeList` of their device's default pool: a few blocks of one size.
:mod:`kerneldsl.launch.native.emit_forms` takes blocks from it and puts them back, and counts as the
pool does. For the pool's backend these blocks are in use. In statistics they are free, and
`MemoryPool.trim` frees them.

Native code runs under the interpreter's lock, and so do the methods here: each takes or puts one
block at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerneldsl.contract.locations import Location

if TYPE_CHECKING:
    from kerneldsl.memory.device_memory import Counts
    from kerneldsl.memory.pools import MemoryPool

__all__ = ["MAX_BLOCKS", "MAX_LISTED_BYTES", "FreeList", "find_free_list"]

#: Blocks of one list, bytes of each, and lists of a pool: 256 MiB at most.
MAX_BLOCKS, MAX_LISTED_BYTES, _MAX_LISTS = 8, 1 << 19, 64


class FreeList:
    """Free blocks of one size that only the default stream uses.

    - `blocks`: their addresses; the last one is taken first.
    - `nbytes`: size of each.
    - `pool`: the default pool of a device.
    - `counts`, `sums`: of the pool and of its device.
    - `is_open`: whether blocks may be taken and put: no if the pool has a limit.
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


def find_free_list(pool: MemoryPool, nbytes: int) -> FreeList | None:
    """Return the free list for blocks of a size; ``None`` if the pool has none for them.

    The oldest list makes room for another size.
    """
    memory = pool._memory
    is_listed = 0 < nbytes <= MAX_LISTED_BYTES and pool._backend.gives_out_at_once
    if not is_listed or pool is not memory.default:
        return None
    free_lists = pool._free_lists
    found = free_lists.get(nbytes)
    if found is None:
        with memory.lock:
            found = free_lists.setdefault(nbytes, FreeList(pool, nbytes))
            while len(free_lists) > _MAX_LISTS:
                oldest = free_lists.pop(next(iter(free_lists)))
                oldest.is_open = False
                memory.clear_free_lists((oldest,))
    return found
