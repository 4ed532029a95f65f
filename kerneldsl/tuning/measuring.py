"""Measure the time of a launch until the result can be trusted.

Before a timed launch, the last cache of the device is emptied by writing more than it holds. The
same writing keeps a GPU at work while short launches are queued, so the host's speed plays no part.

References
----------
J.-Y. Le Boudec, "Performance Evaluation of Computer and Communication Systems", EPFL Press 2010,
section 2.2.2 (a confidence interval of the median from order statistics).
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping

import numpy as np

from kerneldsl.contract import Device
from kerneldsl.errors import AttributeUnavailableError, OutOfMemoryError
from kerneldsl.launch.measured import Measured
from kerneldsl.memory.creation import empty
from kerneldsl.placement.described import device_info
from kerneldsl.streams.current import BaseStream
from kerneldsl.streams.events import Event

__all__ = ["Stopwatch", "make_flush", "median_interval"]

#: A sample lasts at least so long, in nanoseconds, or has this many launches.
_MIN_SAMPLE_NS, _MOST_LAUNCHES = 200_000.0, 256
#: Samples of a measurement, and nanoseconds after which the fewest are enough.
_FEWEST, _MOST, _LONG_NS = 7, 60, 300_000_000.0
#: Half the width of the interval, of the median, that is narrow enough.
_NARROW = 0.01
#: Factor to the best time above which a plan is certainly given up early.
_SLOWER = 1.03
#: Samples of each launch in alternating measurements, and nanoseconds of all of them.
_TURNS, _TURNS_NS = 21, 300_000_000.0
#: Seconds after which no further round begins: emptying a cache may take longer than a launch.
_MOST_SECONDS = 1.0
#: Most times that memory is written before a sample: about 2 ms.
_MOST_WAITS = 64
#: Seconds after which a device has no queue, but writes these at once. A GPU queues them in less
#: than a millisecond; a busy host may hold that up for a while.
_QUEUING_SECONDS = 0.1
#: Quantile of the normal distribution for an interval of 95 %.
_QUANTILE = 1.96

#: Bytes written to empty a cache, as a multiple of its size: replacement is not by age alone.
_TIMES = 2
#: Bytes of a cache of unknown size.
_ASSUMED_BYTES = 64 << 20


class Stopwatch:
    """Times launches by the device's clock.

    - `stream`: stream of the launches.
    - `before`: called before each launch that is timed, and not timed: to empty a cache.
    - `make_wait`: returns what keeps the device at work while launches are queued. It is not used
      with `before`.
    """

    def __init__(
        self,
        stream: BaseStream | None,
        before: Callable[[], object] | None = None,
        make_wait: Callable[[], Callable[[], object]] | None = None,
    ) -> None:
        self._stream = stream
        self._before = before
        self._begin, self._end = Event(), Event()
        self._make_wait = None if before else make_wait
        self._waits: list[Callable[[], object]] = []

    def measure(self, launch: Callable[[], object], best_ns: float = math.inf) -> Measured:
        """Time a launch that has been compiled and run before.

        - `launch`: starts it.
        - `best_ns`: the best time so far: a plan that is slower for certain is not measured
          further.
        """
        count = 1
        self._sample(launch, count)  # one that finds nothing ready is not counted
        sample = self._sample(launch, count)
        if self._before is None:
            while sample * count < _MIN_SAMPLE_NS and count < _MOST_LAUNCHES:
                count = min(_MOST_LAUNCHES, count * 2)
                sample = self._sample(launch, count)
        samples = [sample]
        while True:
            samples.append(self._sample(launch, count))
            if len(samples) < _FEWEST:
                continue
            median, low, high = median_interval(samples)
            is_narrow = high - low <= 2 * _NARROW * median
            is_long = sum(samples) * count > _LONG_NS
            if is_narrow or is_long or low > best_ns * _SLOWER or len(samples) == _MOST:
                return Measured(median, low, high, len(samples))

    def in_turns(
        self, launches: Mapping[int, Callable[[], object]], median_ns: float
    ) -> dict[int, Measured]:
        """Time launches in turns, each round in another order. They take about `median_ns`.

        The result is empty if there is no time for the fewest samples.
        """
        count = 1
        if self._before is None:
            count = min(_MOST_LAUNCHES, math.ceil(_MIN_SAMPLE_NS / median_ns))
        turns = int(min(_TURNS, _TURNS_NS / (median_ns * count * len(launches))))
        if turns < _FEWEST:
            return {}
        samples: dict[int, list[float]] = {number: [] for number in launches}
        order, shuffle = list(launches), random.Random(0).shuffle
        end = time.perf_counter() + _MOST_SECONDS
        for turn in range(turns):
            if time.perf_counter() > end:
                if turn < _FEWEST:
                    return {}
                break
            shuffle(order)
            for number in order:
                samples[number].append(self._sample(launches[number], count))
        return {
            number: Measured(*median_interval(each), len(each)) for number, each in samples.items()
        }

    def _sample(self, launch: Callable[[], object], count: int) -> float:
        """Return the nanoseconds of a launch, as the mean over several."""
        while True:
            if self._before is not None:
                self._before()
            queuing = time.perf_counter()
            for each in self._waits:
                each()
            if self._waits and time.perf_counter() - queuing > _QUEUING_SECONDS:
                self._waits, self._make_wait = [], None
            if self._make_wait is not None:
                launch()
            self._begin.record(self._stream)
            for _ in range(count):
                launch()
            self._end.record(self._stream)
            has_begun = self._make_wait is not None and self._begin.query()
            elapsed = max(self._begin.elapsed_ms(self._end) * 1e6 / count, 1.0)
            if not has_begun or not self._wait_longer():
                return elapsed

    def _wait_longer(self) -> bool:
        """Double the time that the device is kept at work, unless that is long."""
        if len(self._waits) >= _MOST_WAITS or self._make_wait is None:
            return False
        try:
            self._waits = 2 * self._waits or [self._make_wait()]
        except OutOfMemoryError:
            self._make_wait = None
            return False
        return True


def median_interval(samples: list[float]) -> tuple[float, float, float]:
    """Return the median of some samples, and bounds of that of what they are drawn from.

    Examples
    --------
    >>> median_interval([5.0, 1.0, 2.0, 3.0, 4.0, 6.0, 7.0])
    (4.0, 1.0, 7.0)
    """
    ordered = sorted(samples)
    n = len(ordered)
    reach = _QUANTILE * math.sqrt(n) / 2
    low = max(0, math.floor(n / 2 - reach) - 1)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    return middle, ordered[low], ordered[n - 1 - low]


def make_flush(device: Device, stream: BaseStream | None) -> Callable[[], None]:
    """Return what leaves nothing of other arrays in the last cache of a device.

    - `device`: where. On the CPU the calling thread writes, so the inner caches of other cores keep
      what they hold.
    - `stream`: the stream that writes.
    """
    nbytes = _TIMES * _last_cache_bytes(device)
    if device.shares_host_memory:
        host = np.zeros(nbytes, np.uint8)
        return lambda: host.fill(1)
    scratch = empty(nbytes, np.uint8, device=device)
    return lambda: scratch.fill(1, stream)


def _last_cache_bytes(device: Device) -> int:
    info = device_info(device)
    for name in ("l3_cache_bytes", "l2_cache_bytes") if device.is_host else ("l2_cache_bytes",):
        try:
            found = getattr(info, name)
        except AttributeUnavailableError:
            continue
        if found:
            return int(found)
    return _ASSUMED_BYTES
