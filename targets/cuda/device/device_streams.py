"""CUDA streams of :class:`kerneldsl.Stream`, owned by cuda.core or borrowed; graphs of them.

A stream is recorded through another one. While a blocking stream is captured, the driver refuses
work in the legacy default stream from all threads. So the capture runs in a separate stream that
does not block. Its handle replaces that of the captured stream meanwhile.

References
----------
CUDA Driver API, sections "Stream Management" and "Graph Management"; CUDA Programming Guide,
section "Creating a Graph Using Stream Capture".
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from kerneldsl.contract import Device, DeviceEvent, DeviceGraph, DeviceStream
from kerneldsl.errors import DeviceMismatchError, DriverError, GraphError, KernelError
from targets.cuda.device.events import CudaEvent
from targets.cuda.device.streams import (
    LEGACY_DEFAULT_STREAM,
    is_captured,
    is_done,
    stream_handle,
    synchronize_stream,
)
from targets.cuda.driver import captures
from targets.cuda.driver.core import core_device
from targets.cuda.driver.driver import Driver
from targets.cuda.driver.fork import ForkGuard, fork_guard

__all__ = ["CudaGraph", "CudaStream", "create_stream", "wrap_stream"]

_log = logging.getLogger("kerneldsl.cuda.streams")

#: Default streams, which are of whichever context is current.
_OF_ANY_CONTEXT = (LEGACY_DEFAULT_STREAM, 2)


class CudaStream(DeviceStream):
    """A CUDA stream.

    `owner` keeps the handle valid: it is cuda.core's stream, or another library's.
    """

    def __init__(
        self, driver: Driver, device: Device, handle: int, owner: Any, *, is_foreign: bool
    ) -> None:
        self.device = device
        self.handle = handle
        self.is_foreign = is_foreign
        self._driver = driver
        self._own_handle = handle
        self._owner = owner
        #: cuda.core's builder while this stream is the first of a recording.
        self._builder: Any = None
        #: The stream through which it is recorded otherwise.
        self._branch: Any = None

    @property
    def own_handle(self) -> int:
        return self._own_handle

    def synchronize(self) -> None:
        synchronize_stream(
            self._driver,
            self.device.index,
            self._own_handle,
            doing=f"wait for stream {self._own_handle:#x} on {self.device}",
        )

    def is_done(self) -> bool:
        return is_done(
            self._driver,
            self.device.index,
            self._driver.api.cuStreamQuery,
            self._own_handle,
            doing=f"query stream {self._own_handle:#x} on {self.device}",
        )

    def wait(self, event: DeviceEvent) -> None:
        self._wait(self.handle, event)

    def _wait(self, handle: int, event: DeviceEvent) -> None:
        if not isinstance(event, CudaEvent):  # another target's: the driver cannot wait for it
            event.synchronize()
            return
        self._driver.call_on(
            self.device.index,
            self._driver.api.cuStreamWaitEvent,
            handle,
            event.handle,
            0,
            doing=f"let stream {handle:#x} on {self.device} wait for an event",
        )

    # --------------------------------------------------------------- recording

    @contextmanager
    def keeping_capture(self) -> Iterator[None]:
        index = self.device.index
        if not (self.is_foreign and is_captured(self._driver, index, self.handle)):
            yield
            return
        captures.begin(index)
        try:
            yield
        finally:
            captures.end(index)

    def begin_capture(self) -> None:
        doing = f"begin the capture of a stream on {self.device}"
        captures.begin(self.device.index)
        try:
            with core_device(self._driver, self.device.index, doing) as (_, device):
                builder = device.create_graph_builder()
                # Relaxed: what this thread loads and allocates meanwhile takes effect at once, and
                # no other thread is disturbed.
                builder.begin_building("relaxed")
                self._builder = builder
                self.handle = int(builder.stream.handle)
        except KernelError:
            captures.end(self.device.index)
            raise

    def join_capture(self, event: DeviceEvent) -> None:
        doing = f"let a stream on {self.device} take part in a capture"
        with core_device(self._driver, self.device.index, doing) as (_, device):
            branch = device.create_stream()
        handle = int(branch.handle)
        self._wait(handle, event)
        self._branch, self.handle = branch, handle

    def leave_capture(self) -> None:
        self.handle = self._own_handle
        self._branch = None

    def end_capture(self) -> DeviceGraph:
        doing = f"end the capture of a stream on {self.device}"
        builder, self._builder = self._builder, None
        kernels = () if self.recording is None else self.recording.kernels
        try:
            self._end_building(builder, doing)
            return CudaGraph(self._driver, self.device, builder, kernels)
        except DriverError as error:
            if error.is_fatal:
                raise
            raise GraphError(
                f"The capture on {self.device} made no graph: {error.__cause__ or error}",
                value=error.code,
                limit="A capture ends in the thread in which it began, after every stream that "
                "took part was waited for in it, and nothing in it may wait for the device",
                remedy=_CAPTURE_REMEDIES.get(error.name),
            ) from error
        finally:
            self._end()

    def abort_capture(self) -> None:
        builder, self._builder = self._builder, None
        doing = f"drop the capture of a stream on {self.device}"
        try:
            self._end_building(builder, doing)
        except KernelError as error:  # the capture was invalid, which is why it is dropped
            _log.debug("%s", error)
        finally:
            self._end()

    def _end_building(self, builder: Any, doing: str) -> None:
        try:
            with core_device(self._driver, self.device.index, doing):
                builder.end_building()
        except KernelError:
            self._drop(builder)
            raise

    def _drop(self, builder: Any) -> None:
        """End the capture of a builder that made no graph, and keep the builder permanently.

        The driver has destroyed the graph of an invalid capture, or does when it ends. cuda.core
        before 1.3 destroys it again with the builder (docs/upstream.md).
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(builder))
        with self._driver.current(self.device.index):
            # The returned status is an error in any case: the capture is invalid, or has ended.
            self._driver.api.cuStreamEndCapture(int(builder.stream.handle))

    def _end(self) -> None:
        # The builder is not closed: graphs are updated from it and put into others.
        self.handle = self._own_handle
        captures.end(self.device.index)

    def embed(self, child: Any, doing: str) -> None:
        """Put another builder's graph into the recording as one step.

        Raises `GraphError` where this stream has joined the recording: only its first stream takes
        graphs.
        """
        if self._builder is None:
            raise GraphError(
                f"Could not {doing}: the stream has joined the capture of another one",
                value=self.handle,
                limit="cuda.core launches a graph into the stream that began the capture",
                remedy="Launch the graph in the stream that began the capture",
            )
        with core_device(self._driver, self.device.index, doing):
            self._builder.embed(child)

    def close(self) -> None:
        # Memory that was acquired in this stream is released in it, and holds this object until
        # then. So cuda.core's stream is freed with the last reference to this one.
        if self.is_foreign:
            self._owner = None

    def __del__(self, _guard: ForkGuard = fork_guard) -> None:
        _guard.abandon(self._owner, self._builder, self._branch)

    def __repr__(self) -> str:
        return f"<CudaStream {self._own_handle:#x} on {self.device}>"


_CAPTURE_REMEDIES = {
    "CUDA_ERROR_STREAM_CAPTURE_UNJOINED": "Let the captured stream wait for every stream that took "
    "part: stream.wait(other), before the block ends",
    "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD": "End the block in the thread in which it began",
}


def create_stream(driver: Driver, device: Device, priority: int, is_blocking: bool) -> CudaStream:
    """Make a stream, its priority clamped to what the device has."""
    doing = f"make a stream on {device}"
    with core_device(driver, device.index, doing) as (core, core_dev):
        least, greatest = driver.call(driver.api.cuCtxGetStreamPriorityRange, doing=doing)
        level = min(max(priority, int(greatest)), int(least))
        options = core.StreamOptions(nonblocking=not is_blocking, priority=level)
        owner = core_dev.create_stream(options=options)
        made = CudaStream(driver, device, int(owner.handle), owner, is_foreign=False)
    if not is_blocking:
        captures.note_stream(made)
    return made


def wrap_stream(driver: Driver, device: Device, stream: Any) -> CudaStream:
    """Return a stream over an object of any kind for one; the default stream has no owner.

    Raises `DeviceMismatchError` if it is on another device.
    """
    handle = stream_handle(stream)
    if handle not in _OF_ANY_CONTEXT and len(driver.devices()) > 1:
        _check_device(driver, device, handle)
    is_foreign = handle != LEGACY_DEFAULT_STREAM
    return CudaStream(driver, device, handle, stream, is_foreign=is_foreign)


def _check_device(driver: Driver, device: Device, handle: int) -> None:
    with driver.current(device.index):
        context = driver.call(
            driver.api.cuStreamGetCtx, handle, doing=f"find the device of stream {handle:#x}"
        )
        if isinstance(context, tuple):
            context = context[0]
        own = int(driver.call(driver.api.cuCtxGetCurrent, doing="read the current context"))
    if int(context) == own:
        return
    index = next((i for i, (_, known) in driver.contexts.items() if known == int(context)), None)
    found = "another device" if index is None else f"cuda:{index}"
    raise DeviceMismatchError(
        f"stream {handle:#x} is on {found}, and the work on {device}",
        value=handle,
        limit="Work needs a stream of the same device",
        remedy=f"Use a stream of {device}",
    )


class CudaGraph(DeviceGraph):
    """An instantiated CUDA graph, with its definition, from which others are updated.

    cuda.core's builder has ended building; the graph keeps it.

    Raises `DriverError` where the driver could not instantiate the graph.
    """

    def __init__(
        self, driver: Driver, device: Device, builder: Any, kernels: Sequence[str]
    ) -> None:
        self.device = device
        #: Names of the kernels, which identify launches if one of them is fatal.
        self._kernels = tuple(dict.fromkeys(kernels))
        self._driver = driver
        self._builder = builder
        with core_device(driver, device.index, f"instantiate a graph on {device}"):
            self.node_count = len(builder.graph_definition.nodes())
            self._graph = builder.complete()
            self._handle = int(self._graph.handle)

    def launch(self, stream: DeviceStream) -> None:
        driver = self._driver
        doing = f"launch a graph of {self.node_count} nodes on {self.device}"
        if stream.recording is not None:  # the driver does not record launches of graphs
            cast("CudaStream", stream).embed(self._builder, doing)
            stream.recording.kernels += self._kernels
            return
        launched = (self._handle, stream.handle)
        driver.call_on(self.device.index, driver.api.cuGraphLaunch, *launched, doing=doing)
        note = (self._kernels, None, None, stream.handle)
        driver.watch.launches(self.device.index).append(note)

    def update(self, newer: DeviceGraph) -> None:
        assert isinstance(newer, CudaGraph)
        doing = f"update a graph on {self.device}"
        try:
            with core_device(self._driver, self.device.index, doing):
                self._graph.update(newer._builder)
        except DriverError as error:
            if error.is_fatal:
                raise
            raise GraphError(
                f"The graph on {self.device} cannot be updated from the newer one: "
                f"{error.__cause__}",
                value=newer.node_count,
                limit=f"Both must have the same nodes in the same order; this one has "
                f"{self.node_count} nodes, the newer {newer.node_count}",
                remedy="Launch the newer graph instead",
            ) from error
        self._builder = newer._builder
        self._kernels = newer._kernels

    def write_dot(self, path: str) -> None:
        with core_device(self._driver, self.device.index, f"draw a graph to {path}"):
            self._builder.debug_dot_print(path)

    def close(self) -> None:
        fork_guard.abandon(self._graph, self._builder)
        if not fork_guard.has_forked:  # the parent's graph is nothing in this process
            self._graph.close()  # the driver lets a launch that is under way go on
        self._builder = None
