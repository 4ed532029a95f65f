"""Sharing of a launch on the CPU among threads.

Three times decide: that of the work in one thread, that of waking the pool, and that of starting a
step. Work that ends before the pool is awake stays in the calling thread. Otherwise each thread
gets several steps, so that others can take over the steps of a delayed thread. Steps are long
enough that starting them takes a negligible time.
"""

from __future__ import annotations

import math

from kerneldsl.contract import HostShare
from kerneldsl.planner.rates import NUMBERS, Arithmetic, Quantity
from kerneldsl.planner.work import SECTOR_BYTES, ElementWork

__all__ = ["describe_share", "element_ns", "host_ns", "share_on_host"]

#: Operations of a core per nanosecond if the loop over indices is vectorized, and in a loop of the
#: kernel. There most operations wait for the previous one.
_OPERATIONS_PER_NS, _OPERATIONS_PER_NS_IN_LOOPS = 40.0, 1.8
#: Operations up to which LLVM unrolls loops of known lengths, so that the one over indices is
#: vectorized nevertheless (its ``UnrollThreshold``).
_UNROLLED_OPERATIONS = 300.0
#: Bytes of all data, and bytes that a core moves per nanosecond for that size. Values between these
#: points, and those of the next table, are interpolated linearly over logarithms.
_BYTES_PER_NS = ((1 << 20, 72.0), (1 << 24, 56.0), (1 << 25, 22.0))
#: Time of an access to a cache line that neighbours do not share, by the same sizes.
_LINE_NS = ((1 << 18, 0.4), (1 << 20, 0.5), (1 << 22, 1.0), (1 << 24, 1.8), (1 << 26, 8.0))
#: Lines at this distance in bytes are in few sets of a cache. If they span more than the first
#: cache, they evict each other. Then an access takes longer by this factor, at most as long as
#: memory.
_CONFLICTING_BYTES, _FIRST_CACHE_BYTES, _CONFLICT = 512, 32 << 10, 3.5
_ATOMIC_NS = 5.0
#: Time to begin a row of the last axis: its bounds, its addresses, and the remainder of vectors.
_ROW_NS = 20.0
#: The least time of one index.
_LEAST_NS = 0.005
#: Largest number of steps of a thread, and smallest one above one. A late thread with two steps has
#: half of its work left, and the data of that work is in its cache.
_STEPS_PER_THREAD, _FEWEST_STEPS = 8, 4
#: Nanoseconds of the shortest step: starting a shorter one takes longer than it saves.
_SHORTEST_STEP_NS = 3_000.0
#: The smallest gain from sharing for which the pool is woken.
_GAIN = 1.25


def element_ns(
    work: ElementWork, extent: tuple[Quantity, ...], m: Arithmetic = NUMBERS
) -> Quantity:
    """Return the nanoseconds that a core takes for one index, roughly.

    The last axis of the extent is the innermost loop.

    Notes
    -----
    The constants come from one thread's times of the kernels of ``benchmarks/planner.py --cpu``
    and of transpositions of 60² to 2048² elements. The processor was an AMD EPYC with caches of
    32 KiB, 512 KiB and 32 MiB. An error of a third hardly changes their result: whether to share,
    and in how many steps.
    """
    itemsize = work.narrowest_bytes or 4
    apart = work.scattered_bytes / SECTOR_BYTES
    crossed = work.crossed_bytes / itemsize
    beside = m.largest(0, work.device_bytes - work.scattered_bytes)
    held = m.named(
        "held_bytes", math.prod(extent) * (beside + apart * itemsize + work.crossed_bytes)
    )
    operations = work.operations + 2 * work.double_operations
    # Narrower elements fit into a vector in greater numbers.
    operations *= min(1, (work.widest_bytes or 4) / 4)
    is_vectorized = not work.has_unknown_loop and work.loop_operations <= _UNROLLED_OPERATIONS
    rate = _OPERATIONS_PER_NS if is_vectorized else _OPERATIONS_PER_NS_IN_LOOPS
    line = m.named("line_ns", m.on_table(_LINE_NS, held)) if apart or crossed else 0
    moved = beside / m.named("bytes_per_ns", m.on_table(_BYTES_PER_NS, held)) if beside else 0
    return (
        _LEAST_NS
        + m.largest(operations / rate, moved)
        + apart * line
        + crossed * _across_ns(line, extent, itemsize, m)
        + work.atomics * _ATOMIC_NS
        + (_ROW_NS / m.largest(extent[-1], 1) if len(extent) > 1 else 0)
    )


def _across_ns(
    line: Quantity, extent: tuple[Quantity, ...], itemsize: int, m: Arithmetic
) -> Quantity:
    """Return the nanoseconds of an access to a column; its lines may displace each other."""
    if len(extent) == 1:
        return line
    apart_bytes = extent[-2] * itemsize
    displaced = m.largest(line, m.least(line * _CONFLICT, _LINE_NS[-1][1]))
    spanned = m.select(extent[-1] * apart_bytes > _FIRST_CACHE_BYTES, displaced, line)
    return m.select(m.is_multiple(apart_bytes, _CONFLICTING_BYTES), spanned, line)


def host_ns(indices: Quantity, each_ns: Quantity, threads: Quantity, wake_ns: Quantity) -> Quantity:
    """Return the nanoseconds of a launch with work that some threads share.

    To share anything costs `wake_ns` nanoseconds.
    """
    return indices * each_ns / threads + wake_ns


def share_on_host(indices: int, each_ns: float, threads: int, wake_ns: float) -> HostShare:
    """Share work among threads.

    An index takes `each_ns` nanoseconds. There are `threads` in the pool, the calling one among
    them; to share anything costs `wake_ns` nanoseconds.

    Examples
    --------
    >>> share_on_host(1000, 0.1, 8, 2000.0)
    HostShare(threads=1, chunk=1000)
    >>> share_on_host(10_000_000, 0.5, 8, 2000.0)
    HostShare(threads=8, chunk=156250)
    """
    total_ns = indices * each_ns
    if threads < 2 or indices < 2 or total_ns < _GAIN * host_ns(indices, each_ns, threads, wake_ns):
        return HostShare(1, max(indices, 1))
    # Each thread gets the same number of steps, so that none has one more.
    each = math.floor(total_ns / (threads * _SHORTEST_STEP_NS))
    steps = threads * (min(_STEPS_PER_THREAD, each) if each >= _FEWEST_STEPS else 1)
    return HostShare(threads, max(1, -(-indices // steps)))


def describe_share(share: HostShare, threads: int, wake_ns: float) -> tuple[str, ...]:
    """Say in words why a launch is shared so."""
    cost = f"waking {threads} threads takes {wake_ns / 1e3:.1f} µs here"
    if share.is_parallel:
        return (f"The work is worth sharing: {cost}.",)
    if threads < 2:
        return ("There is one thread.",)
    return (f"The work is over sooner in the calling thread: {cost}.",)
