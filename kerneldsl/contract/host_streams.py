"""Streams, events and graphs of a target with launches that finish before they return.

A stream of it is a queue that is always empty, an event the time at which it was recorded. A
recording keeps the steps themselves, and a graph does them again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kerneldsl.contract.streams import DeviceEvent, DeviceGraph, DeviceStream, Recording, Step
from kerneldsl.errors import GraphError

if TYPE_CHECKING:
    from kerneldsl.contract.device import Device

__all__ = ["HostEvent", "HostGraph", "HostStream"]

#: Streams and events are numbered, so that two of them differ; 0, 1 and 2 name default streams.
_numbers = itertools.count(16)


class HostStream(DeviceStream):
    """A queue that is always empty.

    A target that does have work under way and uses this class anyway is right, if slow: it
    waits for the device.

    Parameters
    ----------
    device : Device
        The device of the stream.
    handle : int, optional
        A number from another library; a new one by default.
    foreign : object, optional
        What it stands for, if that is another library's.
    """

    def __init__(self, device: Device, handle: int | None = None, foreign: Any = None) -> None:
        self.device = device
        self.foreign = foreign
        self.is_foreign = foreign is not None
        self.handle = next(_numbers) if handle is None else handle
        #: Steps of the recording that the next one must follow: a bit for each.
        self.steps_before = 0

    def synchronize(self) -> None:
        self.device.synchronize()

    def is_done(self) -> bool:
        self.device.synchronize()
        return True

    def wait(self, event: DeviceEvent) -> None:
        """Wait now; a recording orders the work before the event before what follows."""
        if self.recording is None:
            event.synchronize()
        else:
            self.join_capture(event)

    def put(self, what: str, run: Callable[[], None]) -> None:
        """Do the step, or keep it while the stream is recorded."""
        if self.recording is None:
            run()
        else:
            self.steps_before |= 1 << len(self.recording.steps)
            self.recording.steps.append(Step(what, run))

    def begin_capture(self) -> None:
        """Do nothing: `put` looks at the recording."""

    def join_capture(self, event: DeviceEvent) -> None:
        """Note what comes before; the order in which steps were put in keeps every promise."""
        assert isinstance(event, HostEvent)
        self.steps_before |= event.steps_before

    def leave_capture(self) -> None:
        self.steps_before = 0

    def end_capture(self) -> DeviceGraph:
        """Make a graph of the steps, under the condition that CUDA makes too.

        Raises
        ------
        GraphError
            The stream does not wait for all that was put into those that joined.
        """
        assert self.recording is not None
        steps = self.recording.steps
        unjoined = [step.what for i, step in enumerate(steps) if not self.steps_before >> i & 1]
        if unjoined:
            raise GraphError(
                f"The capture on {self.device} made no graph: the captured stream does not "
                f"wait for {_listed(unjoined)} in another one "
                "(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)",
                value=unjoined,
                limit="A capture ends after every stream that took part was waited for in it",
                remedy="Let the captured stream wait for every stream that took part: "
                "stream.wait(other), before the block ends",
            )
        return self.make_graph(self.recording)

    def make_graph(self, recording: Recording) -> DeviceGraph:
        """Return the graph of a recording that has ended well."""
        return HostGraph(self.device, recording)

    def abort_capture(self) -> None:
        """Do nothing: the steps go with the recording."""

    def close(self) -> None:
        """Do nothing."""


class HostEvent(DeviceEvent):
    """The time at which it was recorded.

    Parameters
    ----------
    device : Device
        The device of the event.
    is_timed : bool
        Whether its time may be read.
    """

    def __init__(self, device: Device, is_timed: bool) -> None:
        self.device = device
        self.is_timed = is_timed
        self.handle = next(_numbers)
        self._time_ns = 0
        #: The steps of a recording that come before the mark.
        self.steps_before = 0

    def record(self, stream: DeviceStream) -> None:
        """Note the time, or in a recording, where nothing runs, what comes before."""
        if stream.recording is None:
            stream.synchronize()  # so that the mark is reached now
            self.note_time()
        else:
            assert isinstance(stream, HostStream)
            self.steps_before = stream.steps_before

    def note_time(self) -> None:
        """Let the mark have been reached now."""
        self._time_ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        """Do nothing: `record` has waited."""

    def is_done(self) -> bool:
        return True

    def elapsed_ms_since(self, earlier: DeviceEvent) -> float:
        assert isinstance(earlier, HostEvent)
        return (self._time_ns - earlier._time_ns) / 1e6

    def close(self) -> None:
        """Do nothing."""


class HostGraph(DeviceGraph):
    """Steps that are done again, in the order in which they were put in.

    Parameters
    ----------
    device : Device
        The device of the graph.
    recording : Recording
        What was recorded.
    """

    def __init__(self, device: Device, recording: Recording) -> None:
        self.device = device
        self._steps = tuple(recording.steps)
        self.node_count = len(self._steps)

    def launch(self, stream: DeviceStream) -> None:
        """Do the steps; in a recording they become one step of it, as they are now."""
        steps = self._steps

        def run() -> None:
            for step in steps:
                step.run()

        stream.put(f"graph of {len(steps)} steps", run)

    def update(self, newer: DeviceGraph) -> None:
        assert isinstance(newer, HostGraph)
        operations = [step.kind for step in self._steps]
        newer_operations = [step.kind for step in newer._steps]
        if operations != newer_operations:
            raise GraphError(
                "the graphs have different topologies",
                value=newer_operations,
                limit=f"This one has {_listed(operations)}; "
                f"the newer one has {_listed(newer_operations)}",
                remedy="Launch the newer graph instead",
            )
        self._steps = newer._steps

    def write_dot(self, path: str) -> None:
        lines = [
            f'  {i} [label="{step.what.translate(_ESCAPED)}"];'
            for i, step in enumerate(self._steps)
        ]
        lines += [f"  {i} -> {i + 1};" for i in range(len(self._steps) - 1)]
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(["digraph graph_of_steps {", *lines, "}"]) + "\n")

    def close(self) -> None:
        self._steps = ()


#: Escapes of characters with a meaning in a quoted text of DOT.
_ESCAPED = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n"})


def _listed(kinds: list[str]) -> str:
    return ", ".join(kinds) if kinds else "nothing"
