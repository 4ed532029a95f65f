"""The time that a device itself takes for a launch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["LaunchTimer", "Tracer"]


class LaunchTimer(ABC):
    """Two marks around one launch; made by :meth:`Device.start_timer`, which sets the first."""

    @abstractmethod
    def stop(self) -> None:
        """Set the second mark, after the launch; **must not** wait or raise."""

    @abstractmethod
    def elapsed_ns(self) -> int | None:
        """Return the nanoseconds between the marks, or ``None`` while they are not reached.

        **Must not** wait. If the time is not available any more (the device is lost), an
        implementation **must** return -1. Then it is not called again.
        """

    def begin_ns_since(self, earlier: LaunchTimer) -> int | None:
        """Return the nanoseconds from the first mark of another timer of the device to this one's.

        Both have been stopped, and `elapsed_ns` has answered. **May** return ``None``, which the
        default does, where the device does not report; **must not** wait or raise.
        """
        return None


class Tracer(ABC):
    """A tool that writes down when work on a device ran; made by :meth:`Device.trace`."""

    @abstractmethod
    def start_timer(self, stream: Any) -> LaunchTimer | None:
        """Begin to time what this thread puts into the stream next; as `Device.start_timer`."""

    @abstractmethod
    def flush(self) -> None:
        """Fetch what has been written down of work that has finished; **must not** wait for it."""

    @abstractmethod
    def close(self) -> None:
        """Write no more down; what was fetched **must** stay."""
