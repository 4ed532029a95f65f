"""Launch statistics: the exact number of launches of each kernel, and sampled times.

Every launch is counted here, by one call of a C function. It is atomic under the interpreter's
lock: no thread waits for another and no count is lost. Native code counts its own launches. The
first launches are timed, ever less often, and then every 64th. A sample counts for all launches
since the previous one. These times are measured:

* on a device, the time between two events around the launch, which are read later; every 1024th
  native launch goes through Python for this;
* on a CPU, for native launches, the kernel's code alone: native code reads the clock before and
  after it, and times every launch of long kernels;
* on a CPU, for launches through Python, the call that runs the kernel, with some microseconds of
  Python. These samples count only while there are none of native launches.
"""

from __future__ import annotations

import ctypes
import itertools
import time
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kerneldsl.utilities.locks import ForkSafeLock

if TYPE_CHECKING:
    from kerneldsl.contract import Device, Executable, LaunchConfig, LaunchTimer

__all__ = [
    "EVERY",
    "LONG_NS",
    "CounterWord",
    "LaunchCounter",
    "Measured",
    "launch_and_time",
    "launch_counter_of",
    "launch_counters",
]

#: Launches from one timed launch to the next; the first ones are after 1, 2, 4… launches.
EVERY = 64
#: Every launch is timed by native code where kernels take so long: reading the clock, which costs
#: less than 80 ns, does not show there. Of shorter ones fewer are, in proportion.
LONG_NS = 8000
#: Interval in place of `EVERY` for launches by native code that Python has to time: the detour
#: costs more.
_EVERY_BY_PYTHON = 1024

#: The measured time: of a launch between two events on its device, of the kernel's code, or of the
#: call in Python that runs it.
Measured: TypeAlias = Literal["device events", "kernel code", "Python call"]


class CounterWord(IntEnum):
    """Words of a counter that native code reads and writes, under the interpreter's lock."""

    #: Launches made by native code.
    COUNT = 0
    #: Number of launches left until the next timed one.
    LEFT = 1
    #: Sum of the measured times, each multiplied by the number of launches that it represents, and
    #: the sum of these numbers.
    WEIGHTED_NS = 2
    WEIGHT = 3
    #: The number of launches that the next timed one represents.
    INTERVAL = 4


class LaunchCounter:
    """The launches of one kernel on one device."""

    __slots__ = (
        "_base",
        "_lock",
        "_quota",
        "_reads",
        "_warm_up_ns",
        "count",
        "device",
        "due",
        "interval",
        "is_due",
        "is_timed_by_native",
        "kernel",
        "pending",
        "pending_weight",
        "total_ns",
        "weight",
        "words",
    )

    def __init__(self, kernel: str, device: Device) -> None:
        #: Module and qualified name.
        self.kernel = kernel
        self.device = device
        #: Is advanced once for each launch that was started; see :meth:`arm`.
        self.count = itertools.count(1)
        #: The count from which on the next launch is timed, and whether it is.
        self.due = 1
        self.is_due = True
        self.pending: LaunchTimer | None = None
        self.pending_weight = 1
        #: See :class:`CounterWord`; and whether native code takes times, too.
        self.words = (ctypes.c_int64 * len(CounterWord))()
        self.is_timed_by_native = False
        self._lock = ForkSafeLock()
        #: Number of increments by reading the count, and the count at the last reset.
        self._reads = 0
        self._base = 0
        self._forget()

    def _forget(self) -> None:
        # Native code may launch no more before the next launch has been timed.
        self.words[1:] = [0, 0, 0, 1]
        self._quota = 1
        self._warm_up_ns: int | None = None
        #: Sum of the times of launches through Python, each multiplied by the launches that it
        #: represents, and the sum of these numbers.
        self.total_ns = 0
        self.weight = 0
        #: The number of launches that the next one timed by Python represents.
        self.interval = 1

    @property
    def launches(self) -> int:
        """Launches since the last reset."""
        with self._lock:
            return self._read() - self._base

    def _read(self) -> int:
        found = next(self.count) - 1 - self._reads + self.words[CounterWord.COUNT]
        self._reads += 1
        return found

    def reset(self) -> None:
        """Count from zero, and forget the times."""
        with self._lock:
            self._base = self._read()
            self._forget()
            self.is_due = True

    def add(self, nanoseconds: int, weight: int) -> None:
        """Add the time of a launch, with the number of launches that it counts for.

        The first time is kept apart: it may include costs of the first use.
        """
        with self._lock:
            if self._warm_up_ns is None:
                self._warm_up_ns = nanoseconds
            else:
                self.weight += weight
                self.total_ns += weight * nanoseconds

    def average(self) -> tuple[float, Measured] | tuple[None, None]:
        """Return the mean time of a launch in ns and how it was measured, or ``None`` twice."""
        self.collect()
        with self._lock:
            weight = self.words[CounterWord.WEIGHT]
            if weight:
                return self.words[CounterWord.WEIGHTED_NS] / weight, "kernel code"
            of: Measured = "Python call" if self.device.is_synchronous else "device events"
            if self.weight:
                return self.total_ns / self.weight, of
            return (None, None) if self._warm_up_ns is None else (float(self._warm_up_ns), of)

    def collect(self) -> bool:
        """Read the events of the last sample; return whether no sample is pending."""
        with self._lock:
            pending = self.pending
            if pending is None:
                return True
            elapsed = pending.elapsed_ns()
            if elapsed is None:
                return False
            self.pending = None
            if elapsed >= 0:
                self.add(elapsed, self.pending_weight)
            return True

    def refill(self) -> bool:
        """Permit native launches again if they were used up, and return whether they were.

        The next launch through Python is timed.
        """
        if self.is_timed_by_native or self.words[CounterWord.LEFT] > 0:
            return False
        self.is_due = True
        self.interval = self.words[CounterWord.LEFT] = self._quota
        self._quota = min(2 * self._quota, _EVERY_BY_PYTHON)
        return True

    def arm(self, count: int) -> None:
        """Time the next launch, and compute when the following one is due."""
        self.interval = min(count, EVERY)
        self.due = count + self.interval
        self.is_due = True


def launch_and_time(executable: Executable, config: LaunchConfig, parameters: Any) -> None:
    """Launch as `Executable.launch` does, and time it."""
    counter = executable.counter
    counter.is_due = False
    weight = counter.interval
    device = counter.device
    if device.is_synchronous:
        started = time.perf_counter_ns()
        executable.launch(config, parameters)
        counter.add(time.perf_counter_ns() - started, weight)
        return
    timer = device.start_timer(config.stream) if counter.collect() else None
    executable.launch(config, parameters)
    if timer is not None:
        timer.stop()
        counter.pending, counter.pending_weight = timer, weight


_launch_counters: dict[tuple[str, Device], LaunchCounter] = {}
_lock = ForkSafeLock()


def launch_counter_of(kernel: str, device: Device) -> LaunchCounter:
    """Return the counter of a kernel on a device; kernels of one name share it."""
    with _lock:
        counter = _launch_counters.get((kernel, device))
        if counter is None:
            counter = _launch_counters[kernel, device] = LaunchCounter(kernel, device)
        return counter


def launch_counters() -> tuple[LaunchCounter, ...]:
    """Return every counter of the process."""
    with _lock:
        return tuple(_launch_counters.values())
