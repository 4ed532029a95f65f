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

#: Operations that a core does in a nanosecond where loops are vectorized, and functions' share.
_OPERATIONS_PER_NS = 8.0
_BYTES_PER_NS = 12.0
_SCATTERED_NS = 1.5
_ATOMIC_NS = 5.0
#: Of one index, whatever it does.
_LEAST_NS = 0.03
#: Steps for each thread, at most.
_STEPS_PER_THREAD = 16
#: A step that is shorter costs more to take up than it evens out, nanoseconds.
_SHORTEST_STEP_NS = 8_000.0
#: By how much sharing has to win before it is worth waking others.
_GAIN = 1.25


def element_ns(work: ElementWork) -> float:
    """Nanoseconds that a core takes for one index, roughly.

    Parameters
    ----------
    work : ElementWork
        What the body does.

    Returns
    -------
    float
    """
    operations = work.operations + 2.0 * work.double_operations
    arithmetic = operations / _OPERATIONS_PER_NS + work.loop_rounds * 0.1
    scattered = work.scattered_bytes / 32.0 * _SCATTERED_NS
    memory = work.device_bytes / _BYTES_PER_NS
    return _LEAST_NS + max(arithmetic, memory) + scattered + work.atomics * _ATOMIC_NS


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
    HostShare(threads=8, chunk=78125)
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
