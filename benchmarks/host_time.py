"""Times of launches on a CPU, and the bandwidth of a copy by all threads."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import numba
import numpy as np
from numba import prange

__all__ = ["in_turns", "measure_copy"]

_COPIED = 1 << 24


def in_turns(
    launches: Mapping[str, Callable[[], object]], rounds: int, count: int
) -> dict[str, list[float]]:
    """Return samples of each launch; in every other round they go in the reverse order."""
    samples: dict[str, list[float]] = {name: [] for name in launches}
    for turn in range(-1, rounds):
        for name in launches if turn % 2 == 0 else reversed(launches):
            started = time.perf_counter()
            for _ in range(count):
                launches[name]()
            if turn >= 0:  # the first warms up
                samples[name].append((time.perf_counter() - started) / count)
    return samples


def measure_copy(rounds: int) -> float:
    """Return the bandwidth of a copy by all threads, read and written bytes, in GB/s."""
    x = np.ones(_COPIED, np.float32)
    out = np.zeros_like(x)
    samples = in_turns({"copy": lambda: _copy(x, out)}, rounds, 1)["copy"]
    return 2 * x.nbytes / statistics.median(samples) / 1e9


@numba.njit(parallel=True)
def _copy(x, out):
    for i in prange(x.size):
        out[i] = x[i]
