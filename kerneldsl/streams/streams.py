"""Streams: queues of work on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from kerneldsl.contract import DeviceLike
from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.kernels import wrong_type
from kerneldsl.errors.values import as_int
from kerneldsl.placement.devices import chosen_device
from kerneldsl.streams.current import BaseStream, active_stream
from kerneldsl.streams.order import refuse_recording, release_finished
from kerneldsl.streams.stream_handles import forget, register
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.tracebacks import shorten_errors_of

if TYPE_CHECKING:
    from kerneldsl.streams.events import Event
    from kerneldsl.streams.graphs import capture

__all__ = ["Stream", "current_stream", "default_stream"]


@shorten_errors_of()
class Stream(BaseStream):
    """A queue of work on a device; its work runs in order.

    Pass it to launches and copies (``kernel[grid, block, stream]``, ``stream=``), or use ``with
    stream:``. Inside of the block, work without another stream uses this one, and kernels run on
    its device. This is so in this context (thread or asyncio task) alone.

    Parameters
    ----------
    device : str or Device, optional
        The device; by default the current one.
    priority : int, optional
        A lower number is a higher priority; 0 is the lowest. Numbers beyond the range of the device
        are clamped to it.
    blocking : bool, optional
        Whether work in this stream and work in the default stream wait for each other. Keep the
        default if both use the same arrays.

    Attributes
    ----------
    is_blocking : bool
        The argument; False for a stream of another library, for which it is unknown.
    priority : int
        The argument; 0 for a stream of another library.

    Raises
    ------
    ArgumentTypeError
        If the priority is not an int.

    Notes
    -----
    On a target with synchronous launches, such as the CPU, a stream is always empty.

    References
    ----------
    CUDA Programming Guide, section "Streams"; CUDA Driver API, section "Stream synchronization
    behavior"; cuda.core, "The ``__cuda_stream__`` protocol".

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def double(x):
    ...     x[kd.grid(1)] *= 2
    >>> stream = kd.Stream()
    >>> x = kd.to_device(np.ones(3), stream=stream)
    >>> double.forall(3, stream=stream)(x)
    >>> with stream:
    ...     double.forall(3)(x)
    >>> stream.synchronize()
    >>> x.copy_to_host()
    array([4., 4., 4.])
    """

    __slots__ = ()

    def __init__(
        self, device: DeviceLike | None = None, *, priority: int = 0, blocking: bool = True
    ) -> None:
        level = as_int(priority)
        if level is None or not -(2**31) <= level < 2**31:
            raise wrong_type(
                "priority", priority, "A priority is an int of 32 bits; a lower one comes first"
            )
        is_blocking = read_flag("blocking", blocking)
        device = chosen_device(device)
        made = device.create_stream(priority=level, is_blocking=is_blocking)
        made.priority, made.is_blocking = level, is_blocking
        self._begin(device, made)
        register(device, made.handle, made)

    @property
    def __cuda_stream__(self) -> Callable[[], tuple[int, int]]:
        """The protocol by which cuda.core, torch and CuPy take a stream; on a GPU only."""
        if self.device.is_synchronous:
            raise AttributeError(f"a stream on {self.device} has no __cuda_stream__")
        return lambda: (0, self._open().handle)

    def record(self, event: Event | None = None) -> Event:
        """Record an event after the work that is in the stream now.

        Parameters
        ----------
        event : Event, optional
            The event; by default a new one with timing.

        Returns
        -------
        Event
            The event.

        Raises
        ------
        ArgumentTypeError
            If `event` is not a `kerneldsl.Event`.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> stream = kd.Stream()
        >>> start, end = stream.record(), stream.record()
        >>> start.elapsed_ms(end) >= 0
        True
        """
        from kerneldsl.streams.events import Event, as_event

        return (Event() if event is None else as_event(event)).record(self)

    def wait(self, other: Event | Stream | Any) -> None:
        """Make later work in this stream wait for an event, or for the work in another stream now.

        The host does not wait. The event or stream may be on another device, and of another
        library.

        Parameters
        ----------
        other : Event or Stream or object
            The event or stream to wait for.

        Raises
        ------
        GraphError
            If one of the two is recorded, and the other not in the same recording.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> copies, launches = kd.Stream(), kd.Stream()
        >>> launches.wait(copies)
        """
        from kerneldsl.streams.events import Event, wait_for

        if not isinstance(other, Event | Stream):
            wait_for(self, other)
        elif isinstance(other, Event):
            other.wait(self)
        else:
            # An event without timing costs the device least.
            Event(timed=False).record(other).wait(self)

    def synchronize(self) -> None:
        """Wait until all work in the stream has finished.

        Raises
        ------
        DriverError
            If some of the work has failed.
        GraphError
            If the stream is being recorded.
        """
        stream = self._open()
        refuse_recording(stream, "wait for a stream")
        stream.synchronize()
        release_finished()

    def query(self) -> bool:
        """Return whether all work in the stream has finished, without waiting."""
        stream = self._open()
        refuse_recording(stream, "query whether a stream is done")
        return stream.is_done()

    def capture(self) -> capture:
        """Record launches and copies instead of running them.

        Use it as ``with stream.capture() as graph:``. Inside of the block the stream is the current
        one. Afterwards `graph` can be launched. See :class:`kerneldsl.Graph` for what can be
        recorded.

        Returns
        -------
        capture
            A context manager that returns the graph.

        Raises
        ------
        GraphError
            At the beginning of the block, if the stream is recorded already, is the default stream,
            or belongs to another library. At the end, if the recording cannot become a graph.
        """
        from kerneldsl.streams.graphs import capture

        return capture(self)

    def close(self) -> None:
        """Release the stream once its work is done, without waiting; twice is harmless.

        Raises
        ------
        GraphError
            If the stream is being recorded.
        ArgumentValueError
            If it is the default stream.
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
    """Return the current stream: that of launches and copies that name none.

    Parameters
    ----------
    device : str or Device, optional
        The device; by default the current one.

    Returns
    -------
    Stream
        The stream of the innermost active ``with stream:`` on the device, or its default stream.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> stream = kd.Stream()
    >>> with stream:
    ...     kd.current_stream() is stream
    True
    """
    device = chosen_device(device)
    return cast("Stream | None", active_stream(device)) or Stream._default(device)


def default_stream(device: DeviceLike | None = None) -> Stream:
    """Return the default stream of a device.

    Launches and copies use it if no other stream is given or active.

    Parameters
    ----------
    device : str or Device, optional
        The device; by default the current one.

    Returns
    -------
    Stream
        On CUDA the legacy default stream: it and every blocking stream wait for each other.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.default_stream() is kd.current_stream()
    True
    """
    device = chosen_device(device)
    return Stream._default(device)
