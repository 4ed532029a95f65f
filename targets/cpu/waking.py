"""What it costs to share a launch among the threads of the pool, measured once for the process."""

from __future__ import annotations

import ctypes
import statistics
import time

from targets.cpu.threads import ThreadingLayer

__all__ = ["wake_ns"]

#: Launches that wake the threads, and those that are measured then.
_WARMING, _SAMPLES = 5, 25
_measured: dict[str, float] = {}


def wake_ns(layer: ThreadingLayer) -> float:
    """Nanoseconds from a shared launch of nothing to its end.

    Measured with threads that are awake already, as they are in a program that launches much; the
    first launches cost more. What else runs on the machine only makes some samples longer, so the
    lower quartile counts. The interpreter's part in them, some 3 µs, stands for what threads take
    until they are at work, which a launch of nothing does not wait for: on a machine of two cores,
    shared launches took 3 to 7 µs more than half of the serial time, where this is 5 µs.

    Parameters
    ----------
    layer : ThreadingLayer
        The pool.

    Returns
    -------
    float
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
    samples = []
    for _ in range(_WARMING + _SAMPLES):
        began = time.perf_counter_ns()
        layer.run(nothing, 0, layer.thread_count, parallel=True)
        samples.append(time.perf_counter_ns() - began)
    return statistics.quantiles(samples[_WARMING:], n=4)[0]
