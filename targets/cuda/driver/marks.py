"""Marks in streams, made without cuda.core, for memory and code that wait for their last use.

References
----------
CUDA Driver API, sections "Event Management" and "Context Management" (``cuCtxRecordEvent``).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import DriverError
from kerneldsl.utilities.modules import imported
from targets.cuda.driver import captures
from targets.cuda.driver.fork import fork_guard

if TYPE_CHECKING:
    from targets.cuda.driver.driver import Driver

__all__ = ["Mark", "is_recording", "mark_everything"]

_NOT_READY = 600


def is_recording(index: int) -> bool:
    """Return whether a graph is being recorded on a device, by us, or by torch in this thread.

    Marking everything would spoil the recording.
    """
    if captures.is_under_way(index):
        return True
    torch = imported("torch")
    return (
        torch is not None
        and torch.cuda.is_initialized()
        and bool(torch.cuda.is_current_stream_capturing())
    )


class Mark:
    """An event, which outlives the stream that it is recorded in.

    Streams of any device may wait for it.
    """

    __slots__ = ("_driver", "_index", "event")

    def __init__(self, driver: Driver, index: int) -> None:
        self._driver = driver
        self._index = index
        flags = int(driver.api.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        self.event = driver.call_on(index, driver.api.cuEventCreate, flags, doing="make an event")

    def record(self, handle: int) -> None:
        """Mark what is in a stream now; the mark before is forgotten."""
        self._driver.call_on(
            self._index,
            self._driver.api.cuEventRecord,
            self.event,
            handle,
            doing=f"mark a use of memory in stream {handle:#x} on cuda:{self._index}",
        )

    def record_everything(self) -> bool:
        """Mark all work of this process on the device; say whether the driver has done so.

        Drivers before CUDA 12.5 cannot. Must not be called while `is_recording`.
        """
        driver = self._driver
        record = getattr(driver.api, "cuCtxRecordEvent", None)
        if record is None:
            return False
        with driver.current(self._index):
            context, _ = driver.contexts.get(self._index) or driver.retain_context(self._index)
            return not int(record(context, self.event)[0])

    def is_lost(self) -> bool:
        """Return whether the device has failed: nothing there is in use, nor to be freed."""
        return self._driver.watch.is_lost(self._index)

    def is_reached(self) -> bool:
        """Return whether everything before the mark has finished or failed, without waiting."""
        if self.is_lost():
            return True
        with self._driver.current(self._index):
            return int(self._driver.api.cuEventQuery(self.event)[0]) != _NOT_READY

    def __del__(self, _is_finalizing: Any = sys.is_finalizing) -> None:
        if hasattr(self, "event") and not _is_finalizing() and not fork_guard.has_forked:
            self._driver.api.cuEventDestroy(self.event)  # the driver keeps it while it is awaited


def mark_everything(driver: Driver, index: int) -> Mark | None:
    """Return a mark after everything on a device; ``None`` where the driver cannot make it.

    Must not be called while `is_recording`. Raises `DriverError` where the device is lost.
    """
    try:
        mark = Mark(driver, index)
        return mark if mark.record_everything() else None
    except DriverError as error:
        if error.is_fatal:
            raise
        driver.suppress(error, index)
        return None
