"""Streams as programs hold them: queues of work on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from kerneldsl.contract import DeviceLike
from kerneldsl.errors import (
    ArgumentTypeError,
    ArgumentValueError,
)
from kerneldsl.errors.values import as_int, safe_repr
from kerneldsl.placement.devices import chosen_device
from kerneldsl.streams.current import BaseStream, active_stream
from kerneldsl.streams.order import let_go, refuse_recording
from kerneldsl.streams.stream_handles import forget, register
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.tracebacks import shorten_errors_of

if TYPE_CHECKING:
    from kerneldsl.streams.events import Event
    from kerneldsl.streams.graphs import capture

__all__ = ["Stream", "current_stream", "default_stream"]


@shorten_errors_of()
class Stream(BaseStream):
    """A queue of work on a device: what is put into it runs in its order.

    Launches and copies that name it (``kernel[grid, block, stream]``, ``stream=``) go into it, and
    inside of ``with stream:`` those that name none, in this context (thread or asyncio task) alone;
    its device is then also where kernels run.

    Parameters
    ----------
    device : str or Device, optional
        Where; by default where kernels run now.
    priority : int, optional
        A lower number is a higher priority; 0 is the lowest. What the device does not have is
        clamped to what it has.
    blocking : bool, optional
        Whether work in this stream and work in the default stream wait for each other, which is
        right where both use the same arrays.

    Attributes
    ----------
    is_blocking : bool
        As given; False for another library's stream, of which it is not known.
    priority : int
        As given; 0 for another library's stream.

    Raises
    ------
    ArgumentTypeError
        If the priority is no int.

    Notes
    -----
    On a target whose launches finish before they return, as the CPU's do, a stream is always empty.

    References
    ----------
    CUDA Programming Guide, section "Streams"; CUDA Driver API, section "Stream synchronization
    behavior"; cuda.core, "The ``__cuda_stream__`` protocol".
    """

    __slots__ = ()

    def __init__(
        self, device: DeviceLike | None = None, *, priority: int = 0, blocking: bool = True
    ) -> None:
        level = as_int(priority)
        if level is None or not -(2**31) <= level < 2**31:
            raise ArgumentTypeError(
                f"priority is {safe_repr(priority)}",
                value=priority,
                limit="A priority is an int of 32 bits; a lower one comes first",
            )
        is_blocking = read_flag("blocking", blocking)
        device = chosen_device(device)
        made = device.create_stream(priority=level, is_blocking=is_blocking)
        made.priority, made.is_blocking = level, is_blocking
        self._begin(device, made)
        register(device, made.handle, made)

    @property
    def __cuda_stream__(self) -> Callable[[], tuple[int, int]]:
        """The protocol by which cuda.core, torch and CuPy take a stream; on a GPU alone."""
        if self.device.is_synchronous:
            raise AttributeError(f"a stream on {self.device} has no __cuda_stream__")
        return lambda: (0, self._open().handle)

    def record(self, event: Event | None = None) -> Event:
        """Put a mark behind what is in the stream now.

        Parameters
        ----------
        event : Event, optional
            The mark; a new one that can be timed by default.

        Returns
        -------
        Event
            The mark.

        Raises
        ------
        ArgumentTypeError
            If `event` is none of ours.
        """
        from kerneldsl.streams.events import Event, as_event

        return (Event() if event is None else as_event(event)).record(self)

    def wait(self, other: Event | Stream | Any) -> None:
        """Let what is put in from now on wait for an event, or for what is in another stream now.

        The host is not held up. Both may be of another device, and of another library.

        Parameters
        ----------
        other : Event or Stream or object
            What to wait for.

        Raises
        ------
        GraphError
            If one of the two is recorded, and the other not in the same recording.
        """
        from kerneldsl.streams.events import Event, wait_for

        if not isinstance(other, Event | Stream):
            wait_for(self, other)
        elif isinstance(other, Event):
            other.wait(self)
        else:
            # A mark that nobody times costs the device least.
            Event(timed=False).record(other).wait(self)

    def synchronize(self) -> None:
        """Wait until everything in the stream has finished.

        Raises
        ------
        DriverError
            If something in it has failed.
        GraphError
            If the stream is being recorded.
        """
        stream = self._open()
        refuse_recording(stream, "wait for a stream")
        stream.synchronize()
        let_go()

    def query(self) -> bool:
        """Return whether everything in the stream has finished, without waiting."""
        stream = self._open()
        refuse_recording(stream, "ask whether a stream is done")
        return stream.is_done()

    def capture(self) -> capture:
        """Record launches and copies instead of running them.

        Use it as ``with stream.capture() as graph:``. Inside of the block the stream is the current
        one; afterwards `graph` can be launched. See :class:`kerneldsl.Graph` for what can be
        recorded.

        Returns
        -------
        capture
            A context manager that gives the graph.

        Raises
        ------
        GraphError
            When the block begins, if the stream is recorded already, is the default stream or
            another library's; when it ends, if what was recorded makes no graph.
        """
        from kerneldsl.streams.graphs import capture

        return capture(self)

    def close(self) -> None:
        """Give the stream back once its work is done, without waiting; twice is harmless.

        Raises
        ------
        GraphError
            If the stream is being recorded.
        """
        if self._is_closed:
            return
        refuse_recording(self._stream, "close a stream")
        if self._is_default:
            raise ArgumentValueError(
                f"the default stream of {self.device} cannot be closed",
                value=self,
                limit="It belongs to the device",
            )
        self._is_closed = True
        if not self._stream.is_foreign:
            forget(self.device, self._stream.handle)
        self._stream.close()


def current_stream(device: DeviceLike | None = None) -> Stream:
    """Return the stream of launches and copies that name none.

    Parameters
    ----------
    device : str or Device, optional
        Of which device; by default where kernels run now.

    Returns
    -------
    Stream
        That of the innermost active ``with stream:`` of the device, else its default stream.
    """
    device = chosen_device(device)
    return cast("Stream | None", active_stream(device)) or Stream._default(device)


def default_stream(device: DeviceLike | None = None) -> Stream:
    """Return the stream that launches go into when no stream was ever made.

    Parameters
    ----------
    device : str or Device, optional
        Of which device; by default where kernels run now.

    Returns
    -------
    Stream
        On CUDA the legacy default stream, which waits for every blocking stream and is waited for.
    """
    device = chosen_device(device)
    return Stream._default(device)
