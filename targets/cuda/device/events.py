"""CUDA events of :class:`kerneldsl.Event`: new ones, owned by cuda.core, and borrowed ones.

References
----------
CUDA Driver API, section "Event Management".
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import Device, DeviceEvent, DeviceStream, LaunchTimer
from kerneldsl.errors import ArgumentTypeError, DriverError
from targets.cuda.device.streams import is_captured, is_done, stream_handle
from targets.cuda.driver.core import core_device
from targets.cuda.driver.driver import Driver
from targets.cuda.driver.fork import ForkGuard, fork_guard

if TYPE_CHECKING:
    from targets.cuda.driver.driver import Driver

__all__ = ["CudaEvent", "CudaTimer", "create_event", "start_timer", "wrap_event"]

#: Attributes with the handle, in torch, in CuPy, and in cuda.core and numba.
_HANDLE_NAMES = ("cuda_event", "ptr", "handle")


class CudaEvent(DeviceEvent):
    """A CUDA event.

    `owner` keeps the handle valid: it is cuda.core's event, or another library's.
    """

    def __init__(
        self,
        driver: Driver,
        device: Device,
        handle: int,
        owner: Any,
        *,
        is_timed: bool,
        is_foreign: bool = False,
    ) -> None:
        self.device = device
        self.handle = handle
        self.is_timed = is_timed
        self._is_foreign = is_foreign
        self._driver = driver
        self._owner = owner

    def record(self, stream: DeviceStream) -> None:
        self._driver.call_on(
            self.device.index,
            self._driver.api.cuEventRecord,
            self.handle,
            stream.handle,
            doing=f"record an event in stream {stream.handle:#x} on {self.device}",
        )

    def synchronize(self) -> None:
        self._driver.call_on(
            self.device.index,
            self._driver.api.cuEventSynchronize,
            self.handle,
            doing=f"wait for an event on {self.device}",
        )

    def is_done(self) -> bool:
        return is_done(
            self._driver,
            self.device.index,
            self._driver.api.cuEventQuery,
            self.handle,
            doing=f"query an event on {self.device}",
        )

    def elapsed_ms_since(self, earlier: DeviceEvent) -> float:
        elapsed = self._driver.call_on(
            self.device.index,
            self._driver.api.cuEventElapsedTime,
            earlier.handle,
            self.handle,
            doing=f"read the time between two events on {self.device}",
        )
        return float(elapsed)

    def close(self) -> None:
        if fork_guard.has_forked:
            fork_guard.abandon(self._owner)
        elif not self._is_foreign and self._owner is not None:
            self._owner.close()
        self._owner = None

    def __del__(self, _guard: ForkGuard = fork_guard) -> None:
        _guard.abandon(self._owner)


def create_event(
    driver: Driver, device: Device, *, is_timed: bool, is_blocking: bool = False
) -> CudaEvent:
    """Make an event; where `is_blocking`, threads that wait for it sleep."""
    with core_device(driver, device.index, f"make an event on {device}") as (core, core_dev):
        options = core.EventOptions(timing_enabled=is_timed, blocking_sync=is_blocking)
        owner = core_dev.create_event(options)
        return CudaEvent(driver, device, int(owner.handle), owner, is_timed=is_timed)


def wrap_event(driver: Driver, device: Device, event: Any) -> CudaEvent:
    """Return an event over another library's.

    Raises `ArgumentTypeError` where the object is no event, or has not been recorded yet: torch
    makes the driver's event then.
    """
    for name in _HANDLE_NAMES:
        handle = getattr(event, name, None)
        handle = getattr(handle, "value", handle)  # a ctypes.c_void_p
        try:
            number = int(handle) if handle is not None else 0
        except (TypeError, ValueError):
            continue
        if number:
            return CudaEvent(driver, device, number, event, is_timed=False, is_foreign=True)
    raise ArgumentTypeError(
        f"{type(event).__name__} is not a recorded CUDA event",
        value=event,
        limit="An event has its handle in cuda_event, ptr or handle, once it has been recorded",
        remedy="Record it first",
    )


# The time of a launch on a CUDA device: two events around it, which are read when both are done.
#
# This is sampled on the path of launches. So it goes through the driver module, since cuda.core
# would have to be imported, and uses its pairs of events again.
#
# See CUDA Driver API, section "Event Management".

#: Pairs of events that wait for their next use, by number of the device. A deque, because timers
#: that are dropped return their pairs from finalizers.
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
    if driver.watch.is_lost(index):
        return None
    try:
        if is_captured(driver, index, handle):
            return None
        return CudaTimer(driver, index, handle)
    except DriverError as error:  # the launch that follows says so itself
        driver.suppress(error, index)
        return None
