"""CUDA graphs behind :class:`kerneldsl.Graph`, over cuda.core's.

References
----------
CUDA Driver API, section "Graph Management".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from kerneldsl.contract import Device, DeviceGraph, DeviceStream
from kerneldsl.errors import DriverError, GraphError
from targets.cuda.driver.core import core_device
from targets.cuda.driver.driver import Driver
from targets.cuda.driver.fork import fork_guard

if TYPE_CHECKING:
    from targets.cuda.device.device_streams import CudaStream

__all__ = ["CudaGraph"]


class CudaGraph(DeviceGraph):
    """An instantiated CUDA graph, with its definition, from which others are updated.

    cuda.core's builder has ended building; the graph keeps it.

    Raises `DriverError` where the driver could not instantiate the graph.
    """

    def __init__(
        self, driver: Driver, device: Device, builder: Any, kernels: Sequence[str]
    ) -> None:
        self.device = device
        #: By which launches are told, should one of them prove fatal.
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
