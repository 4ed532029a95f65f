"""CUDA events behind :class:`kerneldsl.Event`: ours, which cuda.core owns, and borrowed ones.

References
----------
CUDA Driver API, section "Event Management".
"""

from __future__ import annotations

from typing import Any

from kerneldsl.contract import Device, DeviceEvent, DeviceStream
from kerneldsl.errors import ArgumentTypeError
from targets.cuda.device.streams import is_done
from targets.cuda.driver.core import core_device
from targets.cuda.driver.driver import Driver
from targets.cuda.driver.fork import ForkGuard, fork_guard

__all__ = ["CudaEvent", "create_event", "wrap_event"]

#: Where torch, CuPy, and cuda.core and numba keep the handle.
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
