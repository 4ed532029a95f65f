"""Streams of one device, used in turn."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Self

from kerneldsl.contract import Device, DeviceLike
from kerneldsl.errors import ArgumentValueError, ClosedResourceError
from kerneldsl.errors.values import as_int, safe_repr
from kerneldsl.streams.streams import Stream
from kerneldsl.utilities.process_owned import ProcessOwned
from kerneldsl.utilities.tracebacks import shorten_errors_of

__all__ = ["StreamPool"]

#: More than any device has queues for.
_MAX_STREAMS = 1024


@shorten_errors_of("stream")
class StreamPool(ProcessOwned):
    """A fixed number of streams of one device, used in turn.

    A device runs only a few queues at the same time. Spread many independent pieces of work over a
    few streams: ``with pool.stream() as s:``.

    Parameters
    ----------
    count : int, optional
        Number of streams, up to 1024.
    device : str or Device, optional
        The device; by default the current one.
    priority : int, optional
        As for :class:`kerneldsl.Stream`.
    blocking : bool, optional
        As for :class:`kerneldsl.Stream`.

    Raises
    ------
    ArgumentValueError
        If `count` is not an int from 1 to 1024.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> with kd.StreamPool(2) as pool:
    ...     arrays = []
    ...     for value in range(4):
    ...         with pool.stream():
    ...             arrays.append(kd.full(2, float(value)))
    ...     pool.synchronize()
    >>> arrays[3].copy_to_host()
    array([3., 3.])
    """

    __slots__ = ("__weakref__", "_is_closed", "_streams", "_turns")

    def __init__(
        self,
        count: int = 4,
        device: DeviceLike | None = None,
        *,
        priority: int = 0,
        blocking: bool = True,
    ) -> None:
        number = as_int(count)
        if number is None or not 1 <= number <= _MAX_STREAMS:
            raise ArgumentValueError(
                f"count is {safe_repr(count)}",
                value=count,
                limit=f"A pool has 1 to {_MAX_STREAMS} streams; a device runs 128 kernels side by "
                "side at most (CUDA Programming Guide, technical specifications)",
            )
        first = Stream(device, priority=priority, blocking=blocking)
        others = (
            Stream(first.device, priority=priority, blocking=blocking) for _ in range(number - 1)
        )
        self._streams = (first, *others)
        self._turns = itertools.cycle(self._streams)
        self._is_closed = False

    @property
    def device(self) -> Device:
        """Device of the streams."""
        return self._streams[0].device

    def stream(self) -> Stream:
        """Return the next stream in turn; may be called from any thread."""
        if self._is_closed:
            raise ClosedResourceError.after_close(
                f"a pool of streams on {self.device}",
                self,
                given_back="its streams",
                instead="Make another one with kd.StreamPool()",
            )
        return next(self._turns)

    def synchronize(self) -> None:
        """Wait until all work in the streams has finished.

        Raises
        ------
        DriverError
            If some of the work has failed.
        """
        for stream in self._streams:
            stream.synchronize()

    def close(self) -> None:
        """Close the streams; twice is harmless."""
        self._is_closed = True
        for stream in self._streams:
            stream.close()

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self._is_closed else ""
        return f"<StreamPool of {len(self)} streams on {self.device}{state}>"
