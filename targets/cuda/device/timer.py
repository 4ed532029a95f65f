"""The time of a launch on a CUDA device: two events around it, which are read when both are done.

This is sampled on the path of launches, so it goes through the driver module (cuda.core would have
to be imported for it) and uses its pairs of events again.

References
----------
CUDA Driver API, section "Event Management".
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import LaunchTimer
from kerneldsl.errors import DriverError
from targets.cuda.device.streams import stream_handle
from targets.cuda.driver.fork import fork_guard

if TYPE_CHECKING:
    from targets.cuda.driver.driver import Driver

__all__ = ["CudaTimer", "start_timer"]

#: Pairs of events that wait for their next use, by number of the device. A deque, because timers
#: that are dropped give theirs back from finalizers.
_idle: dict[int, deque[tuple[Any, Any]]] = {}


class CudaTimer(LaunchTimer):
    """Two events in one stream.

    The first event is recorded now.

    Raises `DriverError` where the events cannot be made or recorded.
    """

    def __init__(self, driver: Driver, index: int, stream: int) -> None:
        self._driver = driver
        self._index = index
        self._stream = stream
        idle = _idle.setdefault(index, deque())
        with driver.current(index):
            try:
                self._events = idle.popleft()
            except IndexError:
                self._events = (self._make_event(), self._make_event())
            # Recording an event that is still in use moves it, so pairs may come back at any time.
            weakref.finalize(self, idle.append, self._events).atexit = False
            driver.call(driver.api.cuEventRecord, self._events[0], stream, doing="time a launch")
        self._is_stopped = False

    def _make_event(self) -> Any:
        api = self._driver.api
        flags = int(api.CUevent_flags.CU_EVENT_DEFAULT)
        return self._driver.call(api.cuEventCreate, flags, doing="make an event to time a launch")

    def stop(self) -> None:
        driver = self._driver
        try:
            with driver.current(self._index):
                driver.call(
                    driver.api.cuEventRecord, self._events[1], self._stream, doing="time a launch"
                )
            self._is_stopped = True
        except DriverError as error:  # the launch itself was taken
            driver.suppress(error, self._index)

    def elapsed_ns(self) -> int | None:
        if not self._is_stopped or fork_guard.has_forked:
            return -1
        if self._driver.watch.is_lost(self._index):
            return -1
        driver, api = self._driver, self._driver.api
        try:
            with driver.current(self._index):
                status = api.cuEventQuery(self._events[1])[0]
                if status == api.CUresult.CUDA_ERROR_NOT_READY:
                    return None
                elapsed_ms = driver.call(
                    api.cuEventElapsedTime, *self._events, doing="read the time of a launch"
                )
        except DriverError as error:  # the device is lost
            driver.suppress(error, self._index)
            return -1
        return int(1e6 * elapsed_ms)

    def begin_ns_since(self, earlier: LaunchTimer) -> int | None:
        if not isinstance(earlier, CudaTimer) or self._driver.watch.is_lost(self._index):
            return None
        driver, api = self._driver, self._driver.api
        try:
            with driver.current(self._index):
                elapsed_ms = driver.call(
                    api.cuEventElapsedTime,
                    earlier._events[0],
                    self._events[0],
                    doing="read when a launch began",
                )
        except DriverError as error:  # the device is lost
            driver.suppress(error, self._index)
            return None
        return int(1e6 * elapsed_ms)


def start_timer(driver: Driver, index: int, stream: Any) -> CudaTimer | None:
    """Record the first event, or return ``None`` if that is not possible, as in a capture."""
    handle = stream_handle(stream)
    api = driver.api
    if driver.watch.is_lost(index):
        return None
    try:
        with driver.current(index):
            failed, capturing = api.cuStreamIsCapturing(handle)
        if int(failed) or capturing != api.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE:
            return None
        return CudaTimer(driver, index, handle)
    except DriverError as error:  # the launch that follows says so itself
        driver.suppress(error, index)
        return None
