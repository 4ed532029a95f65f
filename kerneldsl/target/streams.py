"""Queues of work on a device, marks in them, and work that was recorded once to be replayed.

Implementations stand behind :class:`kerneldsl.Stream`, :class:`kerneldsl.Event` and
:class:`kerneldsl.Graph`. A target whose launches finish before they return needs none of its own:
the defaults of the contract are :mod:`kerneldsl.target.host_streams`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from kerneldsl.target.device import Device

__all__ = ["DeviceEvent", "DeviceGraph", "DeviceStream"]


class DeviceStream(ABC):
    """A queue of work: what is put into it runs in its order."""

    device: Device
    #: The driver's number for it; what other libraries take.
    handle: int

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything in the stream has finished; **must** raise what failed there."""

    @abstractmethod
    def is_done(self) -> bool:
        """Whether everything in the stream has finished, without waiting."""

    @abstractmethod
    def wait(self, event: DeviceEvent) -> None:
        """Let what is put in from now on wait for an event, also one of another device."""

    @abstractmethod
    def begin_capture(self) -> None:
        """Record what is put in from now on instead of running it."""

    @abstractmethod
    def end_capture(self) -> DeviceGraph:
        """End the recording and return it, ready to be launched."""

    @abstractmethod
    def abort_capture(self) -> None:
        """End the recording and drop it; **must not** raise."""

    @abstractmethod
    def close(self) -> None:
        """Give the stream back once its work is done, without waiting; twice is harmless."""


class DeviceEvent(ABC):
    """A mark in a stream that can be waited for, and timed."""

    device: Device
    #: The driver's number for it.
    handle: int
    is_timed: bool

    @abstractmethod
    def record(self, stream: DeviceStream) -> None:
        """Put the mark into a stream; the one before, if any, is forgotten."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the mark has been reached."""

    @abstractmethod
    def is_done(self) -> bool:
        """Whether the mark has been reached, without waiting; an event never recorded is done."""

    @abstractmethod
    def elapsed_ms_since(self, earlier: DeviceEvent) -> float:
        """Milliseconds on the device between two marks that have been reached and are timed."""

    @abstractmethod
    def close(self) -> None:
        """Give the event back; twice is harmless."""


class DeviceGraph(ABC):
    """Work that was recorded, and runs as often as it is launched."""

    device: Device
    #: How many launches, copies and other steps it holds.
    node_count: int

    @abstractmethod
    def launch(self, stream: DeviceStream) -> None:
        """Put the whole recording into a stream."""

    @abstractmethod
    def update(self, newer: DeviceGraph) -> None:
        """Take over the parameters of a recording of the same shape.

        **Must** raise `GraphError` where the shapes differ, and then leave this one as it was.
        """

    @abstractmethod
    def close(self) -> None:
        """Give the recording back; twice is harmless."""
