"""Launch statistics: the exact number of launches of each kernel, and sampled times.

This is on the path of every launch: counting is one call of a C function that is atomic under the
interpreter's lock, so no thread waits for another and no count is lost. Native code counts its own
launches. Time is taken of the first launches, ever less often, and then of every 64th, of native
ones of every 1024th: on a CPU by the host's clock around the launch, on a device by two events
around it, which are read later.
"""

from __future__ import annotations

import ctypes
import itertools
import time

from kerneldsl.contract import Device, Executable, LaunchConfig, LaunchTimer
from kerneldsl.utilities.locks import ForkSafeLock

__all__ = ["LaunchCounter", "launch_and_time", "launch_counter_of", "launch_counters"]

#: Every so many launches one is timed; the first ones after 1, 2, 4… launches.
_EVERY = 64
#: The same of launches by native code, which cost so little that timing them would show.
_EVERY_NATIVE = 1024


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
        "is_due",
        "kernel",
        "pending",
        "samples",
        "total_ns",
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
        #: Launches made by native code, which counts under the interpreter's lock, and how many of
        #: them are left before one has to come by here to be timed.
        self.words = (ctypes.c_int64 * 2)()
        self._lock = ForkSafeLock()
        #: What reading the count has advanced it by, and what it was when it was last reset.
        self._reads = 0
        self._base = 0
        self._forget()

    def _forget(self) -> None:
        # Native code may launch no more before the next launch has been timed.
        self.words[1] = 0
        self._quota = 1
        self._warm_up_ns: int | None = None
        self.samples = 0
        self.total_ns = 0

    @property
    def launches(self) -> int:
        """Launches since the last reset."""
        with self._lock:
            return self._read() - self._base

    def _read(self) -> int:
        found = next(self.count) - 1 - self._reads + self.words[0]
        self._reads += 1
        return found

    def reset(self) -> None:
        """Count from zero, and forget the times."""
        with self._lock:
            self._base = self._read()
            self._forget()
            self.is_due = True

    def add(self, nanoseconds: int) -> None:
        """Take up a measured launch; the first may hold costs that no later one has."""
        with self._lock:
            if self._warm_up_ns is None:
                self._warm_up_ns = nanoseconds
            else:
                self.samples += 1
                self.total_ns += nanoseconds

    def average_ns(self) -> float | None:
        """Return the mean time of a launch over the samples, in ns; ``None`` without any."""
        self.collect()
        with self._lock:
            if self.samples:
                return self.total_ns / self.samples
            return None if self._warm_up_ns is None else float(self._warm_up_ns)

    def collect(self) -> bool:
        """Read the events of the last sample; say whether none is left waiting."""
        with self._lock:
            pending = self.pending
            if pending is None:
                return True
            elapsed = pending.elapsed_ns()
            if elapsed is None:
                return False
            self.pending = None
            if elapsed >= 0:
                self.add(elapsed)
            return True

    def refill(self) -> bool:
        """Let native code launch again, if it may no more, and say whether that was so.

        The next launch through Python is timed.
        """
        if self.words[1] > 0:
            return False
        self.is_due = True
        self.words[1] = self._quota
        self._quota = min(2 * self._quota, _EVERY_NATIVE)
        return True

    def arm(self, count: int) -> None:
        """Have the next launch timed, now that the count has come to what was due."""
        self.due = count + min(count, _EVERY)
        self.is_due = True


def launch_and_time(
    counter: LaunchCounter, executable: Executable, config: LaunchConfig, parameters: bytes
) -> None:
    """Launch as `Executable.launch` does, and take the time of it."""
    counter.is_due = False
    device = counter.device
    if device.is_synchronous:
        started = time.perf_counter_ns()
        executable.launch(config, parameters)
        counter.add(time.perf_counter_ns() - started)
        return
    timer = device.start_timer(config.stream) if counter.collect() else None
    executable.launch(config, parameters)
    if timer is not None:
        timer.stop()
        counter.pending = timer


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
