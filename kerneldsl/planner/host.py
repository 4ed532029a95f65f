"""How a launch on the CPU is shared among threads.

Three numbers decide: how long the work would take one thread, what it costs to wake the pool, and
what it costs to take up a step of it. Work that is over before the others are awake stays in the
calling thread; else each thread gets several steps, so that one that was held up leaves the rest to
others, but none so short that taking it up would count.
"""

from __future__ import annotations

import math

from kerneldsl.planner.work import ElementWork
from kerneldsl.target import HostShare

__all__ = ["describe_share", "element_ns", "share_on_host"]

#: Operations that a core does in a nanosecond where the loop over indices is vectorized, and in a
#: loop of the kernel's own, where each mostly waits for the one before.
_OPERATIONS_PER_NS, _OPERATIONS_PER_NS_IN_LOOPS = 32.0, 1.8
#: Bytes of all arrays together, and what a core moves in a nanosecond up to there; the last is that
#: of memory.
_BYTES_PER_NS = ((1 << 20, 64.0), (1 << 24, 24.0), (math.inf, 10.0))
#: Of an access to wherever data says, by the same sizes.
_SCATTERED_NS = ((1 << 20, 0.5), (1 << 24, 1.5), (math.inf, 8.0))
_ATOMIC_NS = 5.0
#: Of one index, whatever it does.
_LEAST_NS = 0.03
#: Steps for each thread, at most.
_STEPS_PER_THREAD = 8
#: A step that is shorter costs more to take up than it evens out, nanoseconds.
_SHORTEST_STEP_NS = 25_000.0
#: By how much sharing has to win before it is worth waking others.
_GAIN = 1.5


def element_ns(work: ElementWork, indices: int) -> float:
    """Nanoseconds that a core takes for one index, roughly.

    Parameters
    ----------
    work : ElementWork
        What the body does.
    indices : int
        How many indices there are; few have their data in a cache.

    Returns
    -------
    float
    """
    held = indices * work.device_bytes
    operations = work.operations + 2.0 * work.double_operations
    rate = _OPERATIONS_PER_NS_IN_LOOPS if work.loop_rounds else _OPERATIONS_PER_NS
    memory = work.device_bytes / _of_size(_BYTES_PER_NS, held)
    scattered = work.scattered_bytes / 32.0 * _of_size(_SCATTERED_NS, held)
    return _LEAST_NS + max(operations / rate, memory) + scattered + work.atomics * _ATOMIC_NS


def _of_size(table: tuple[tuple[float, float], ...], nbytes: float) -> float:
    return next(value for limit, value in table if nbytes <= limit)


def share_on_host(indices: int, each_ns: float, threads: int, wake_ns: float) -> HostShare:
    """Share work among threads.

    Parameters
    ----------
    indices : int
        How many indices there are.
    each_ns : float
        What one takes, nanoseconds.
    threads : int
        Threads of the pool, the calling one among them.
    wake_ns : float
        What it costs to share anything, nanoseconds.

    Returns
    -------
    HostShare

    Examples
    --------
    >>> share_on_host(1000, 0.1, 8, 2000.0)
    HostShare(threads=1, chunk=1000)
    >>> share_on_host(10_000_000, 0.5, 8, 2000.0)
    HostShare(threads=8, chunk=156250)
    """
    total_ns = indices * each_ns
    if threads < 2 or indices < 2 or total_ns < _GAIN * (total_ns / threads + wake_ns):
        return HostShare(1, max(indices, 1))
    steps = max(threads, min(threads * _STEPS_PER_THREAD, math.floor(total_ns / _SHORTEST_STEP_NS)))
    return HostShare(threads, max(1, -(-indices // steps)))


def describe_share(share: HostShare, threads: int, wake_ns: float) -> tuple[str, ...]:
    """Say in words why a launch is shared so.

    Parameters
    ----------
    share : HostShare
        What was decided.
    threads : int
        Threads of the pool.
    wake_ns : float
        What it costs to share anything, nanoseconds.

    Returns
    -------
    tuple of str
    """
    cost = f"waking {threads} threads takes {wake_ns / 1e3:.1f} µs here"
    if share.is_parallel:
        return (f"The work is worth sharing: {cost}.",)
    if threads < 2:
        return ("There is one thread.",)
    return (f"The work is over sooner in the calling thread: {cost}.",)
