"""Measure the time of a launch, quickly, for a notebook."""

from __future__ import annotations

import time
from collections.abc import Callable

from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import format_duration
from kerneldsl.utilities.shown import Shown

__all__ = ["Timing", "measure"]

#: A sample lasts at least so long, so that the clock and one synchronization do not count.
_MIN_SAMPLE_NS = 1_000_000
_MAX_LAUNCHES = 10_000


@dataclass(frozen=True, slots=True)
class Timing(Shown):
    """Measured times of one launch.

    Parameters
    ----------
    median_ns, min_ns : float
        Median and smallest time of a launch over the samples, in nanoseconds.
    samples : int
        Number of samples.
    launches : int
        Number of launches in each sample, started one after the other, with one wait at the end.
    device : str
        The device.
    includes : str
        What the time includes.

    Examples
    --------
    >>> from kerneldsl import Timing
    >>> print(Timing(2500.0, 2400.0, 7, 512, "cpu", "the kernel"))
    2.5 µs a launch on cpu (median of 7 samples of 512; best 2.4 µs); the kernel
    """

    median_ns: float
    min_ns: float
    samples: int
    launches: int
    device: str
    includes: str

    def __str__(self) -> str:
        return (
            f"{format_duration(self.median_ns)} a launch on {self.device} (median of "
            f"{self.samples} samples of {self.launches}; best {format_duration(self.min_ns)}); "
            f"{self.includes}"
        )

    def __repr__(self) -> str:
        return f"<Timing: {self}>"


def measure(
    launch: Callable[[], object],
    wait: Callable[[], object],
    *,
    samples: int,
    device: str,
    includes: str,
) -> Timing:
    """Time a launch that has been compiled.

    - `launch`: starts it.
    - `wait`: waits until it has finished.
    - `samples`: number of samples, at least 1.
    - `device`, `includes`: for the report.
    """

    def sample(launches: int) -> int:
        started = time.perf_counter_ns()
        for _ in range(launches):
            launch()
        wait()
        return time.perf_counter_ns() - started

    sample(1)
    launches, elapsed = 1, sample(1)
    while elapsed < _MIN_SAMPLE_NS and launches < _MAX_LAUNCHES:
        launches = min(_MAX_LAUNCHES, launches * 2)
        elapsed = sample(launches)
    times = [sample(launches) / launches for _ in range(samples)]
    from statistics import median  # it imports fractions and random

    return Timing(median(times), min(times), samples, launches, device, includes)
