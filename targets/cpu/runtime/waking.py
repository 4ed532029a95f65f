"""Cost of sharing a launch among the threads of the pool, measured once for the process."""

from __future__ import annotations

import ctypes
import time

from targets.cpu.runtime.threads import ThreadingLayer

__all__ = ["wake_ns"]

#: Launches that are measured, fewer if they take longer than so many nanoseconds in all.
_SAMPLES, _LEAST_SAMPLES, _MOST_NS = 60, 24, 2_000_000
#: Those before them, for which threads may have to be made and woken.
_FIRST = 8
#: What the calling thread alone takes for such a launch where the planner's constants come from.
_ALONE_NS = 2300.0
_measured: dict[str, float] = {}


def wake_ns(layer: ThreadingLayer) -> float:
    """Return what it takes to share a launch, from its start to its end, beside the work.

    Parameters
    ----------
    layer : ThreadingLayer
        The pool.

    Returns
    -------
    float
        Nanoseconds of the machine that :func:`kerneldsl.planner.host.element_ns` speaks of.

    Notes
    -----
    A shared launch of nothing is compared with one in the calling thread, made in turns. Their
    ratio is the same when the machine is slow for a while, or another one, and so are decisions.
    The interpreter's part in both, half of the shared one with two threads, stands for what threads
    take until they are at work, which a launch of nothing does not wait for: on a machine of two
    cores, where this gives 4.7 µs, shared launches took 3 to 7 µs more than half of the serial
    time. The threads are awake already, as they are in a program that launches much; the first
    launches cost more.
    """
    known = _measured.get(layer.name)
    if known is None:
        known = _measured[layer.name] = _measure(layer)
    return known


def _measure(layer: ThreadingLayer) -> float:
    if layer.parallel_for is None or layer.thread_count < 2:
        return 0.0
    # A function of the interpreter that needs no lock, does nothing and looks at no argument.
    nothing = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value
    assert nothing is not None
    for _ in range(_FIRST):
        layer.run(nothing, 0, layer.thread_count, parallel=True)
    alone: list[int] = []
    shared: list[int] = []
    while len(shared) < _SAMPLES and (len(shared) < _LEAST_SAMPLES or sum(shared) < _MOST_NS):
        for samples, parallel in ((alone, False), (shared, True)):
            began = time.perf_counter_ns()
            layer.run(nothing, 0, layer.thread_count, parallel=parallel)
            samples.append(time.perf_counter_ns() - began)
    # What else runs on the machine only makes some samples longer.
    return _ALONE_NS * _lower_quartile(shared) / max(1.0, _lower_quartile(alone))


def _lower_quartile(samples: list[int]) -> float:
    return sorted(samples)[len(samples) // 4]  # statistics takes longer to import than this
