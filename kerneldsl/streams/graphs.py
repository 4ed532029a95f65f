"""Graphs: launches and copies that are recorded once and launched together many times."""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import Any, NoReturn

import numpy as np

from kerneldsl.contract import Device, DeviceEvent, DeviceGraph, DeviceStream, Recording
from kerneldsl.errors import (
    ArgumentTypeError,
    ClosedResourceError,
    DeviceMismatchError,
    DriverError,
    GraphError,
    KernelError,
)
from kerneldsl.errors.values import a_type
from kerneldsl.streams.current import BaseStream, as_stream, note_uses
from kerneldsl.streams.order import note_recording, refuse_recording
from kerneldsl.streams.stream_handles import forget_recorded, register
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.locks import ForkSafeLock
from kerneldsl.utilities.process_owned import ProcessOwned
from kerneldsl.utilities.tracebacks import shorten, shorten_errors_of

__all__ = ["Graph", "capture"]

_lock = ForkSafeLock()

#: Deleted graphs: the device, the events of their last launches, and the objects these need.
_retired: deque[tuple[Device, tuple[DeviceEvent, ...], list[Any]]] = deque()


@shorten_errors_of("launch")
class Graph(ProcessOwned):
    """Launches and copies that are recorded once and launched together many times.

    Made by ``with stream.capture() as graph:``. To the host, a launch of the graph costs about as
    much as one launch of a kernel, whatever its size.

    A recording contains the work in its stream: launches with arrays on the device, asynchronous
    copies, fills and graphs. Arguments have their values at the time of the recording. Memory is
    read and written at the launch of the graph. The arrays, host memory and kernels of the
    recording stay alive with it, except closed arrays. Memory allocated inside of the block is
    allocated at once, and not by the graph.

    Work that needs an answer from the device cannot be recorded, and raises `GraphError`. Examples
    are copies of NumPy arguments, kernels in debug mode, synchronous copies, and waiting. The
    recording is then dropped, unless the error is caught inside the block.

    Several threads may use a graph; it is launched, updated or closed by one after the other.

    Attributes
    ----------
    device : Device
        The device.

    References
    ----------
    CUDA Programming Guide, section "CUDA Graphs"; CUDA Driver API, section "Graph object thread
    safety".

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def double(x):
    ...     x[kd.grid(1)] *= 2
    >>> x = kd.to_device(np.ones(3))
    >>> stream = kd.Stream()
    >>> with stream.capture() as graph:
    ...     double.forall(3)(x)
    ...     double.forall(3)(x)
    >>> graph.launch(stream)
    >>> stream.synchronize()
    >>> x.copy_to_host(), graph.node_count
    (array([4., 4., 4.]), 2)
    """

    __slots__ = (
        "__weakref__",
        "_fences",
        "_foreign_runs",
        "_graph",
        "_keep_alive",
        "_lock",
        "_noted",
        "_problem",
        "_runs",
        "device",
    )

    def __init__(self, device: Device) -> None:
        self.device = device
        self._graph: DeviceGraph | None = None
        #: Reason why there is no device graph.
        self._problem = "it is still being captured"
        #: Objects that its steps need: arrays, memory, code.
        self._keep_alive: list[Any] = []
        #: Events after the allocations of its recording.
        self._fences: list[tuple[DeviceStream, DeviceEvent]] = []
        #: Streams of kerneldsl in which its memory is known to be used.
        self._noted: dict[int, DeviceStream] = {}
        #: Events after its last launch in each stream of kerneldsl, and in foreign streams.
        self._runs: dict[int, DeviceEvent] = {}
        self._foreign_runs: list[DeviceEvent] = []
        #: The driver's graphs are not thread-safe.
        self._lock = ForkSafeLock()

    # ------------------------------------------------------------------ what it is

    @property
    def node_count(self) -> int:
        """The number of launches, copies and other steps."""
        return self._ready("count the nodes of").node_count

    @property
    def is_closed(self) -> bool:
        """True if :meth:`close` was called."""
        return self._problem == _CLOSED

    def debug_dot(self, path: str | os.PathLike[str]) -> None:
        """Write the steps and their order to a file in the language of Graphviz.

        Parameters
        ----------
        path : str or path
            The file; an existing one is overwritten.
        """
        with self._lock:
            self._ready("draw").write_dot(os.fspath(path))

    # ------------------------------------------------------------------ running

    def launch(self, stream: Any = None) -> None:
        """Launch the whole recording in a stream.

        Parameters
        ----------
        stream : Stream, optional
            The stream; by default the current one of the graph's device. If the stream is being
            recorded, the graph becomes a step of that recording, in its present form.

        Raises
        ------
        GraphError
            If its recording has not ended, or was dropped.
        ClosedResourceError
            If the graph or the stream was closed.
        DeviceMismatchError
            If the stream is on another device.
        """
        try:
            self._ready("launch")
            _drop_retired()
            stream = as_stream(stream, self.device)
            into = stream._open()
            if stream.device is not self.device:
                raise DeviceMismatchError(
                    f"the stream is on {stream.device}, and the graph on {self.device}",
                    value=stream,
                    limit="A graph runs on the device on which it was captured",
                    remedy=f"Launch it in a kd.Stream('{self.device}')",
                )
            with self._lock:
                graph = self._ready("launch")
                self._pass_fences(into)
                graph.launch(into)
                if into.recording is not None:
                    into.recording.kept.extend(self._keep_alive)
                elif not self.device.is_synchronous:
                    self._note_launch(stream, into)
        except KernelError as error:
            shorten(error)
            raise

    def _pass_fences(self, into: DeviceStream) -> None:
        """Make a stream wait for memory that was allocated in other streams."""
        still_open = []
        for home, fence in self._fences:
            if fence.is_done():
                continue
            still_open.append((home, fence))
            if into.recording is not None:
                fence.synchronize()  # a launch of that recording does not wait for it
            elif into is not home:
                into.wait(fence)
        self._fences = still_open

    def _note_launch(self, stream: BaseStream, into: DeviceStream) -> None:
        key = into.own_handle
        if into.is_foreign or key not in self._noted:
            note_uses(self._keep_alive, None if stream._is_default else into)
            if not into.is_foreign:
                self._noted[key] = into
        if any(isinstance(needed, np.ndarray) for needed in self._keep_alive):
            self._mark_run(into)

    def _mark_run(self, into: DeviceStream) -> None:
        """Mark the end of a launch, up to which its host memory is needed."""
        key = into.own_handle
        event = None if into.is_foreign else self._runs.get(key)
        if event is None:
            event = self.device.create_event(is_timed=False)
            if into.is_foreign:
                # The handle may name another stream at the next launch, so each launch has its own
                # event.
                under_way = [run for run in self._foreign_runs if not run.is_done()]
                self._foreign_runs = [*under_way, event]
            else:
                self._runs[key] = event
        event.record(into)

    def update(self, newer: Graph) -> None:
        """Take over the arguments of a newer recording of the same steps.

        Parameters
        ----------
        newer : Graph
            A graph of the same steps in the same order, with other arrays, values or shapes of
            launches. It is not changed.

        Raises
        ------
        GraphError
            If the steps differ; this graph is not changed then.
        """
        self._ready("update")
        if not isinstance(newer, Graph):
            raise ArgumentTypeError(
                f"update was given {a_type(newer)}",
                value=newer,
                limit="A graph is updated from another graph",
                remedy="Record one: with stream.capture() as newer",
            )
        if newer.device is not self.device:
            raise DeviceMismatchError(
                f"the newer graph is on {newer.device}, and this one on {self.device}",
                value=newer,
                limit="A graph is updated from a graph of the same device",
                remedy="Record it in a stream of that device",
            )
        # The locks are taken in one order, whichever of two graphs is updated from the other.
        first, second = sorted((self, newer), key=id)
        with first._lock, second._lock:
            self._ready("update").update(newer._ready("update from"))
            self._retire()
            self._keep_alive = newer._keep_alive
            self._fences = self._fences + newer._fences
            self._noted = {}

    def close(self) -> None:
        """Release the recording; running launches continue. Twice is harmless."""
        with self._lock:
            graph, self._graph = self._graph, None
            self._problem = _CLOSED
            if graph is not None:
                graph.close()
                self._retire()
            self._keep_alive = []
            self._fences = []
            self._noted = {}

    def _retire(self) -> None:
        """Keep the memory of running launches alive until they are done."""
        runs = (*self._runs.values(), *self._foreign_runs)
        self._runs, self._foreign_runs = {}, []
        if runs:
            _retired.append((self.device, runs, self._keep_alive))
        _drop_retired()

    _send_instead = "Capture it there"

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        raise ArgumentTypeError(
            f"{self!r} does not support deepcopy",
            value=self,
            limit="It uses the arrays that were captured, and not copies of them",
            remedy="Record it again with the copies, or give it your own __deepcopy__ that keeps "
            "this one",
        )

    def __del__(self, _is_finalizing: Any = sys.is_finalizing) -> None:
        # When the interpreter ends, the driver frees everything with the process. A call of the
        # class with wrong arguments has made nothing.
        if not _is_finalizing() and getattr(self, "_graph", None) is not None:
            self.close()

    def _ready(self, doing: str) -> DeviceGraph:
        if self._graph is None:
            if self.is_closed:
                raise ClosedResourceError.after_close(
                    "a graph", self, given_back="the graph", instead="Record it again"
                )
            raise GraphError(
                f"kerneldsl cannot {doing} a graph when {self._problem}",
                value=self,
                limit="A graph is ready when its `with stream.capture()` has ended without an "
                "error",
                remedy="Use the graph after the block, or record it again",
            )
        return self._graph

    def __repr__(self) -> str:
        if self._graph is None:
            return f"<Graph on {self.device}: {self._problem}>"
        return f"<Graph on {self.device} of {format_count(self._graph.node_count, 'step')}>"


_CLOSED = "it was closed"


def _drop_retired() -> None:
    """Release what no launch needs any more, oldest first; never waits."""
    while True:
        try:
            retired = _retired.popleft()
        except IndexError:
            return
        try:
            is_done = all(event.is_done() for event in retired[1])
        except DriverError as error:
            retired[0].suppress(error)
            is_done = True  # the device has failed, and nothing runs there any more
        if not is_done:
            _retired.appendleft(retired)
            return


@shorten_errors_of()
class capture(ProcessOwned):
    """A ``with`` block in which a stream is recorded; see :meth:`kerneldsl.Stream.capture`."""

    __slots__ = ("_graph", "_recording", "_stream")

    def __init__(self, stream: BaseStream) -> None:
        self._stream = stream
        self._graph: Graph | None = None
        self._recording: Recording | None = None

    def __enter__(self) -> Graph:
        stream = self._stream
        device_stream = stream._open()
        if stream._is_default or device_stream.is_foreign:
            raise GraphError(
                f"{stream!r} cannot be captured",
                value=stream,
                limit="Streams that kerneldsl made can be, other libraries' and the default stream "
                "cannot",
                remedy="Make one: stream = kd.Stream()",
            )
        with _lock:
            refuse_recording(device_stream, "capture a second graph")
            device_stream.begin_capture()
            self._recording = device_stream.recording = Recording(device_stream)
            note_recording(self._recording)
        register(stream.device, device_stream.handle, device_stream)
        stream.__enter__()
        self._graph = Graph(stream.device)
        return self._graph

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        stream, recording, graph = self._stream, self._recording, self._graph
        assert recording is not None
        assert graph is not None
        stream.__exit__(kind, error, traceback)
        recording.is_open = False
        origin = recording.streams[0]
        try:
            if error is not None:
                graph._problem = f"its capture ended with {type(error).__name__}"
                origin.abort_capture()
                return
            try:
                made = origin.end_capture()
            except KernelError:
                graph._problem = "what was captured made no graph"
                raise
        finally:
            for member in recording.streams:
                forget_recorded(stream.device, member)
                member.recording = None
                member.leave_capture()
        graph._graph = made
        graph._keep_alive = recording.kept
        if not stream.device.is_synchronous:
            graph._fences = [(s, _fence(stream.device, s)) for s in recording.streams]


def _fence(device: Device, stream: DeviceStream) -> DeviceEvent:
    event = device.create_event(is_timed=False)
    event.record(stream)
    return event
