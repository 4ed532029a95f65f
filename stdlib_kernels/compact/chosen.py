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
from kerneldsl.repeating.recorded_calls import launch, launch_over
from stdlib_kernels.arrays import allocate, computed, is_on_host
from stdlib_kernels.checks import Array, Out
from stdlib_kernels.functions import repeated_function

__all__ = ["begins_run", "choose", "front", "is_not_zero", "is_zero", "lengths_of", "move"]

#: Threads of a block on a GPU, and elements of a thread by their size in bytes. A multiprocessor
#: has shared memory and registers for four such blocks.
BLOCK, ITEMS = 256, {1: 20, 2: 20, 4: 20, 8: 16, 16: 8}
HOST_BLOCK, HOST_ITEMS = 1, 4096
#: Number of elements that int32 can count; then blocks publish their counts in fewer words.
MAX_NARROW = 1 << 31


@kd.kernel(wraparound=False, launch_bounds=(BLOCK, 4))
def move_chosen(
    flags, x, out, total, state, *, block, items, number, element, is_chosen, holds, gives
):
    """Move what `is_chosen`: ``flags[n], x[n], out[≤ n], total[1], state[3 * blocks]``.

    A warp votes on each of its elements, and has 32 of them in a word. Those of a block that it has
    chosen lie in shared memory in their order, so that neighbouring threads store neighbours. It
    holds ``"elements"`` or ``"places"`` of the type `element`, and gives the one or the other.
    """
    part, t, lane = kd.chain.next(state), kd.threadIdx.x, kd.laneid
    lanes = min(32, block)
    held = kd.shared.array(items * block, element)
    moved = kd.local.array(items, element)
    votes = kd.local.array(items, kd.uint32)
    wanted = kd.local.array(items, kd.int32)
    first, mine = part * items * block, t // 32 * lanes * items + lane
    rest = kd.int32(min(flags.size - first, items * block))
    count = kd.int32(0)
    # A vote waits for what it is of, so all that it needs is loaded before.
    if rest == items * block:
        for k in range(items):
            wanted[k] = is_chosen(flags, first + mine + lanes * k)
    else:
        for k in range(items):
            i = mine + lanes * k
            wanted[k] = i < rest and is_chosen(flags, first + i)
    # The loads are in flight while the block counts and looks back.
    if holds == "elements":
        for k in range(items):
            if wanted[k]:
                moved[k] = x[first + mine + lanes * k]
    for k in range(items):
        votes[k] = kd.ballot_sync(0xFFFFFFFF, wanted[k])
        count += kd.popc(votes[k])
    through = kd.block.inclusive_scan(kd.int32(count) if lane == 0 else kd.int32(0))
    chosen = kd.block.broadcast(through, block - 1)
    kd.chain.publish(state, part, number(chosen))
    place = through - count
    for k in range(items):
        if votes[k] >> kd.uint32(lane) & kd.uint32(1):
            at = place + kd.popc(kd.uint32(votes[k] & kd.lanemask_lt()))
            if holds == "elements":
                held[at] = moved[k]
            else:
                held[at] = mine + lanes * k
        place += kd.popc(votes[k])
    kd.syncthreads()
    before = kd.chain.before(state, part, number(chosen))
    if holds == "elements":
        for k in range(items):
            if k * block + t < chosen:
                out[before + k * block + t] = held[k * block + t]
    else:
        for i in range(t, chosen, block):
            if gives == "elements":  # a statement, of which one branch is compiled: types differ
                out[before + i] = x[first + held[i]]
            else:
                out[before + i] = first + held[i]
    if t == 0 and part == kd.gridDim.x - 1:
        total[0] = before + chosen


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


def choose(flags: Array, x: Array | None, is_chosen: Any, out: Out = None) -> Array:
    """Return the elements of one axis that are chosen, or without `x` their places.

    `flags` is what `is_chosen` looks at. `out` has room for all of them.
    """
    return front(*move(flags, x, is_chosen, out))


def front(found: Array, total: Array) -> Array:
    """Return the part of an array that was moved to its front, for which the host waits."""
    return found[: int(computed(total, 0))]


@repeated_function
def move(flags: Array, x: Array | None, is_chosen: Any, out: Out = None) -> tuple[Array, Array]:
    """Move what is chosen to the front of an array, and return that with its number.

    See `choose`.
    """
    n, dtype = flags.size, np.dtype(np.int64) if x is None else x.dtype
    found = allocate(flags, (n,), dtype) if out is None else out
    total = allocate(flags, (1,), np.dtype(np.int64), zero=not n)
    if not n:
        return found, total
    gives = "places" if x is None else "elements"
    # A GPU has elements on their way early; a host would only copy them once more.
    holds = "places" if is_on_host(flags) else gives
    element = dtype if holds == "elements" else np.dtype(np.uint16)
    block, items = BLOCK, ITEMS[element.itemsize]
    if is_on_host(flags):
        block, items = HOST_BLOCK, HOST_ITEMS
    blocks = -(-n // (block * items))
    state = allocate(flags, (3 * blocks,), np.dtype(np.uint64), zero=True)
    how = {"block": block, "items": items, "is_chosen": is_chosen, "holds": holds, "gives": gives}
    how |= {"number": np.int32 if n < MAX_NARROW else np.int64, "element": element.type}
    arrays = (flags, flags if x is None else x, found, total, state)
    launch(move_chosen, blocks, block, *arrays, **how)
    return found, total


@kd.kernel(wraparound=False)
def measure_runs(starts, n, lengths):
    """Find the lengths of runs by their starts: ``starts[m], lengths[m]``."""
    i = kd.grid(1)
    lengths[i] = (starts[i + 1] if i + 1 < starts.size else n) - starts[i]


def lengths_of(starts: Array, count: int) -> Array:
    """Return the lengths of runs that begin at some places of as many elements."""
    lengths = allocate(starts, starts.shape, np.dtype(np.int64))
    if starts.size:
        launch_over(measure_runs, (starts.size,), starts, count, lengths)
    return lengths
