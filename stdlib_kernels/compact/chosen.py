"""The kernel under compactions: elements that are chosen move together, in one pass.

References
----------
Markus Billeter, Ola Olsson and Ulf Assarsson, "Efficient Stream Compaction on Wide SIMD Many-Core
Architectures", High Performance Graphics 2009: counting, and a scan of the counts.
Duane Merrill and Michael Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back",
NVIDIA Technical Report NVR-2016-002, 2016: both in one pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import Array, allocate, is_on_host

__all__ = ["begins_run", "choose", "is_not_zero", "is_zero"]

#: Threads of a block, and its steps, on a GPU, and on a host.
BLOCK, ITEMS = 256, 16
HOST_BLOCK, HOST_ITEMS = 1, 4096
#: Elements that int32 counts; blocks hand on what they have counted in fewer words then.
MAX_NARROW = 1 << 31


@kd.kernel(wraparound=False)
def move_chosen(flags, x, out, total, state, *, block, items, number, is_chosen, gives_places):
    """Move what `is_chosen`: ``flags[n], x[n], out[≤ n], total[1], state[3 * blocks]``.

    A block finds the place of each element among its own, and then what the blocks before chose.
    """
    part, t = kd.chain.next(state), kd.threadIdx.x
    held = kd.shared.array(items * block, kd.int32)
    first, count = part * items * block + t, kd.int32(0)
    for k in range(items):
        i = first + k * block
        chosen = kd.int32(0)
        if i < flags.size:
            chosen = kd.int32(is_chosen(flags, i))
        through = kd.block.inclusive_scan(chosen)
        held[k * block + t] = count + through - 1 if chosen else -1
        count += kd.block.broadcast(through, block - 1)
    before = kd.chain.before(state, part, number(count))
    for k in range(items):
        i, place = first + k * block, held[k * block + t]
        if place >= 0:
            out[before + place] = i if gives_places else x[i]
    if t == 0 and part == kd.gridDim.x - 1:
        total[0] = before + count


def is_not_zero(flags: Any, i: Any) -> Any:
    """Choose elements that are not zero."""
    return flags[i] != 0


def is_zero(flags: Any, i: Any) -> Any:
    """Choose elements that are zero."""
    return flags[i] == 0


def begins_run(x: Any, i: Any) -> Any:
    """Choose elements that differ from the one before; NaN are equal to each other."""
    if i == 0:
        return True
    a, b = x[i - 1], x[i]
    return a != b and (a == a or b == b)  # noqa: PLR0124 - NaN alone differs


def choose(flags: Array, x: Array | None, is_chosen: Any, out: Array | None = None) -> Array:
    """Return the elements of one axis that are chosen, or without `x` their places.

    `flags` is what `is_chosen` looks at. `out` has room for all of them.
    """
    n = flags.size
    dtype = np.dtype(np.int64) if x is None else x.dtype
    found = allocate(flags, (n,), dtype) if out is None else out
    if not n:
        return found
    block, items = (HOST_BLOCK, HOST_ITEMS) if is_on_host(flags) else (BLOCK, ITEMS)
    blocks = -(-n // (block * items))
    total = allocate(flags, (1,), np.dtype(np.int64))
    state = allocate(flags, (3 * blocks,), np.dtype(np.uint64), zero=True)
    move_chosen[blocks, block](
        flags,
        flags if x is None else x,
        found,
        total,
        state,
        block=block,
        items=items,
        number=np.int32 if n < MAX_NARROW else np.int64,
        is_chosen=is_chosen,
        gives_places=x is None,
    )
    return found[: int(total[0])]
