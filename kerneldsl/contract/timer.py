"""The time that a device itself takes for a launch."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["LaunchTimer"]


class LaunchTimer(ABC):
    """Two marks around one launch; made by :meth:`Device.start_timer`, which sets the first."""

    @abstractmethod
    def stop(self) -> None:
        """Set the second mark, behind the launch; **must not** wait or raise."""

    @abstractmethod
    def elapsed_ns(self) -> int | None:
        """Return the nanoseconds between the marks, or ``None`` while they are not reached.

        **Must not** wait. Where it cannot be known any more (the device is lost) an implementation
        **must** return -1, after which it is not asked again.
        """

    def begin_ns_since(self, earlier: LaunchTimer) -> int | None:
        """Return the nanoseconds from the first mark of another timer of the device to this one's.

        Both have been stopped, and `elapsed_ns` has answered. **May** return ``None``, which the
        default does, where the device does not tell; **must not** wait or raise.
        """
        return None
