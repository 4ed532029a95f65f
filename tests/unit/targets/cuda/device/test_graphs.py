"""CUDA streams, events and graphs over a cuda.core that only remembers what it was asked."""

from __future__ import annotations

import gc
import weakref
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from kerneldsl.contract import Recording
from kerneldsl.errors import (
    ArgumentTypeError,
    DeviceLostError,
    DeviceMismatchError,
    DriverError,
    GraphError,
    StreamError,
    ToolMissingError,
)
from kerneldsl.streams.order import record_launch
from targets.cuda.device import device_streams, events
from targets.cuda.device.device_streams import CudaGraph
from targets.cuda.device.streams import stream_handle
from targets.cuda.driver import captures, core
from targets.cuda.driver.driver import Driver
from targets.cuda.driver.fork import fork_guard
from tests.support.driver_bindings import FakeBindings, Status

_OWN, _CAPTURE, _BRANCH = 0x5000, 0x6000, 0x7000


class _CoreError(Exception):
    """As cuda.core's: its text begins with the driver's name for the error."""


class _Builder:
    def __init__(self, fails: str | None) -> None:
        self.stream = SimpleNamespace(handle=_CAPTURE)
        self.is_building = False
        self.embedded: list[Any] = []
        self.mode: str | None = None
        self._fails = fails
        self.graph_definition = SimpleNamespace(
            nodes=lambda: {1, 2, 3}, debug_dot_print=lambda path: None
        )

    def begin_building(self, mode: str) -> None:
        self.mode, self.is_building = mode, True

    def end_building(self) -> None:
        self.is_building = False
        if self._fails:
            raise _CoreError(f"{self._fails}: as cuda.core says it")

    def complete(self) -> Any:
        return _Graph()

    def embed(self, child: Any) -> None:
        self.embedded.append(child)


class _Graph:
    handle = 0x8000

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.fails: str | None = None
        self.is_closed = False

    def update(self, definition: Any) -> None:
        if self.fails:
            raise _CoreError(self.fails)
        self.updates.append(definition)

    def close(self) -> None:
        self.is_closed = True


class FakeCore:
    """As much of ``cuda.core`` as is called."""

    def __init__(self) -> None:
        self.fails: str | None = None
        self.builders: list[_Builder] = []
        self.options: list[Any] = []
        self.closed: list[int] = []

    def Device(self, index: int) -> Any:
        if self.fails:
            raise _CoreError(self.fails)
        return SimpleNamespace(
            set_current=lambda: None,
            create_graph_builder=self._builder,
            create_stream=lambda options=None: self._owned(_OWN if options else _BRANCH, options),
            create_event=lambda options: self._owned(0x9000, options),
        )

    def StreamOptions(self, **fields: Any) -> Any:
        return SimpleNamespace(**fields)

    EventOptions = StreamOptions

    def _owned(self, handle: int, options: Any) -> Any:
        self.options.append(options)
        return SimpleNamespace(handle=handle, close=lambda: self.closed.append(handle))

    def _builder(self) -> _Builder:
        builder = _Builder(getattr(self, "capture_fails", None))
        self.builders.append(builder)
        return builder


class StreamBindings(FakeBindings):
    """Bindings that know streams and events."""

    CUresult = SimpleNamespace(CUDA_ERROR_NOT_READY=600)

    def do_cuCtxGetStreamPriorityRange(self) -> tuple[Any, ...]:
        return (0, -5)

    def do_cuStreamGetCtx(self, stream: int) -> tuple[Any, ...]:
        return (0x1001 if stream == 0xB1 else 0x1000,)

    def do_cuEventElapsedTime(self, earlier: int, later: int) -> tuple[Any, ...]:
        return (1.5,)


@pytest.fixture
def api() -> StreamBindings:
    return StreamBindings()


@pytest.fixture
def driver(api: StreamBindings) -> Driver:
    return Driver(api)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCore:
    found = FakeCore()
    monkeypatch.setattr(core, "import_core", lambda: found)
    return found


@pytest.fixture
def stream(driver: Driver, fake: FakeCore) -> device_streams.CudaStream:
    return device_streams.create_stream(driver, driver.devices()[0], 0, is_blocking=True)


@pytest.mark.parametrize(("priority", "level"), [(3, 0), (0, 0), (-2, -2), (-99, -5)])
def test_priorities_are_clamped_to_the_devices_range(
    driver: Driver, fake: FakeCore, priority: int, level: int
) -> None:
    made = device_streams.create_stream(driver, driver.devices()[0], priority, is_blocking=False)
    assert made.handle == _OWN
    assert fake.options == [SimpleNamespace(nonblocking=True, priority=level)]


def test_a_stream_is_recorded_through_another_one(
    stream: device_streams.CudaStream, fake: FakeCore, api: StreamBindings
) -> None:
    stream.begin_capture()
    (builder,) = fake.builders
    assert builder.mode == "relaxed", "other threads must not be disturbed"
    assert (stream.handle, stream.own_handle) == (_CAPTURE, _OWN)
    assert stream_handle(stream) == _CAPTURE
    graph = stream.end_capture()
    assert (stream.handle, stream.own_handle) == (_OWN, _OWN)
    assert graph.node_count == 3
    graph.launch(stream)
    assert api.calls[-1] == ("cuGraphLaunch", 0x8000, _OWN)
    graph.close()


def test_a_stream_joins_a_recording_through_another_one(
    stream: device_streams.CudaStream, driver: Driver, api: StreamBindings
) -> None:
    event = events.create_event(driver, stream.device, is_timed=False)
    stream.join_capture(event)
    assert ("cuStreamWaitEvent", _BRANCH, 0x9000, 0) in api.calls
    assert (stream.handle, stream.own_handle) == (_BRANCH, _OWN)
    stream.leave_capture()
    assert stream.handle == _OWN


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "stream.wait(other)"),
        ("CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "thread in which it began"),
    ],
)
def test_a_recording_that_makes_no_graph(
    stream: device_streams.CudaStream, fake: FakeCore, name: str, remedy: str
) -> None:
    fake.capture_fails = name
    stream.begin_capture()
    with pytest.raises(GraphError) as caught:
        stream.end_capture()
    assert name in str(caught.value)
    assert remedy in str(caught.value)
    assert isinstance(caught.value.__cause__, StreamError)
    assert stream.handle == _OWN
    assert not captures.is_under_way(0)


@pytest.mark.parametrize("end", ["end_capture", "abort_capture"])
@pytest.mark.parametrize("is_invalid", [False, True])
def test_the_builder_of_an_invalid_capture_is_never_freed(
    stream: device_streams.CudaStream,
    fake: FakeCore,
    api: StreamBindings,
    end: str,
    is_invalid: bool,
) -> None:
    if is_invalid:
        fake.capture_fails = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
    stream.begin_capture()
    builder = weakref.ref(fake.builders.pop())
    with suppress(GraphError):
        getattr(stream, end)()
    gc.collect()
    assert (builder() is not None) == is_invalid
    assert (("cuStreamEndCapture", _CAPTURE) in api.calls) == is_invalid


def test_dropping_a_recording_never_raises(
    stream: device_streams.CudaStream, fake: FakeCore
) -> None:
    fake.capture_fails = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
    stream.begin_capture()
    stream.abort_capture()
    assert stream.handle == _OWN
    assert not captures.is_under_way(0)


def test_a_device_with_two_recordings_has_one_until_both_end(
    stream: device_streams.CudaStream, driver: Driver, api: StreamBindings, fake: FakeCore
) -> None:
    stream.begin_capture()
    assert captures.is_under_way(0)
    assert not captures.is_under_way(1)
    stream.begin_capture()
    stream.abort_capture()
    assert captures.is_under_way(0)
    stream._builder = fake.builders[0]
    stream.abort_capture()
    assert not captures.is_under_way(0)


def test_a_graph_in_a_recording_becomes_a_step_of_it(
    stream: device_streams.CudaStream, driver: Driver, fake: FakeCore, api: StreamBindings
) -> None:
    stream.begin_capture()
    graph = stream.end_capture()
    stream.begin_capture()
    stream.recording = Recording(stream)
    graph.launch(stream)
    assert fake.builders[1].embedded == [fake.builders[0]]
    assert "cuGraphLaunch" not in api.names()
    other = device_streams.create_stream(driver, stream.device, 0, is_blocking=True)
    other.recording = stream.recording
    with pytest.raises(GraphError, match="has joined the capture"):
        graph.launch(other)
    stream.abort_capture()


def _record(stream: device_streams.CudaStream, *steps: str | CudaGraph) -> CudaGraph:
    """A graph of launches of kernels, and of other graphs."""
    stream.begin_capture()
    stream.recording = Recording(stream)
    for step in steps:
        if isinstance(step, str):
            record_launch(stream, step, lambda: None)
        else:
            step.launch(stream)
    made = stream.end_capture()
    stream.recording = None
    assert isinstance(made, CudaGraph)
    return made


def test_the_kernels_of_a_graph_are_suspects(
    stream: device_streams.CudaStream, driver: Driver
) -> None:
    inner = _record(stream, "wild")
    graph = _record(stream, "tame", inner, "tame")
    graph.launch(stream)
    graph.update(_record(stream, "newest"))
    graph.launch(stream)
    first, second = driver.watch.suspects(0)
    assert first == f"a graph of tame, wild in stream {_OWN:#x} on cuda:0"
    assert second.startswith("a graph of newest in stream")
    driver.failure(Status(700, "CUDA_ERROR_ILLEGAL_ADDRESS"), "wait", index=0)
    assert driver.watch.loss(0).kernels == {"tame", "wild", "newest"}


def test_an_update_that_the_driver_refuses(
    stream: device_streams.CudaStream, fake: FakeCore
) -> None:
    graphs = []
    for _ in range(2):
        stream.begin_capture()
        graphs.append(stream.end_capture())
    first, second = graphs
    first.update(second)
    assert first._graph.updates == [fake.builders[1]]
    first._graph.fails = "Graph update failed: the topology changed (CU_GRAPH_EXEC_UPDATE_ERROR)"
    with pytest.raises(GraphError, match="topology changed") as caught:
        first.update(second)
    assert caught.value.remedy == "Launch the newer graph instead"


def test_a_fatal_error_of_cuda_core_takes_the_device_out_of_use(
    stream: device_streams.CudaStream, fake: FakeCore, driver: Driver
) -> None:
    fake.fails = "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"
    with pytest.raises(DriverError) as caught:
        stream.begin_capture()
    assert caught.value.is_fatal
    assert isinstance(caught.value.__cause__, _CoreError)
    with pytest.raises(DeviceLostError):
        stream.synchronize()


def test_queries_do_not_take_not_ready_for_a_failure(
    stream: device_streams.CudaStream, driver: Driver, api: StreamBindings
) -> None:
    event = events.create_event(driver, stream.device, is_timed=True)
    assert stream.is_done()
    assert event.is_done()
    not_ready = Status(600, "CUDA_ERROR_NOT_READY")
    api.failures = {"cuStreamQuery": not_ready, "cuEventQuery": not_ready}
    assert not stream.is_done()
    assert not event.is_done()
    failed = Status(400, "CUDA_ERROR_INVALID_HANDLE")
    api.failures = {"cuStreamQuery": failed, "cuEventQuery": failed}
    for query in (stream.is_done, event.is_done):
        with pytest.raises(DriverError, match="CUDA_ERROR_INVALID_HANDLE"):
            query()


def test_events_are_recorded_waited_for_and_timed(
    stream: device_streams.CudaStream, driver: Driver, api: StreamBindings, fake: FakeCore
) -> None:
    first, second = (events.create_event(driver, stream.device, is_timed=t) for t in (True, False))
    assert [o.timing_enabled for o in fake.options[-2:]] == [True, False]
    assert not any(o.blocking_sync for o in fake.options[-2:])
    events.create_event(driver, stream.device, is_timed=False, is_blocking=True)
    assert fake.options[-1] == SimpleNamespace(timing_enabled=False, blocking_sync=True)
    first.record(stream)
    assert ("cuEventRecord", 0x9000, _OWN) in api.calls
    stream.wait(first)
    assert ("cuStreamWaitEvent", _OWN, 0x9000, 0) in api.calls
    assert second.elapsed_ms_since(first) == 1.5
    first.close()
    first.close()
    assert fake.closed == [0x9000]


@pytest.mark.parametrize("has_forked", [False, True])
def test_a_forked_child_keeps_what_its_parents_driver_gave(
    stream: device_streams.CudaStream,
    driver: Driver,
    fake: FakeCore,
    monkeypatch: pytest.MonkeyPatch,
    has_forked: bool,
) -> None:
    """cuda.core gives back what goes, and the driver did not survive the fork."""
    kept: list[Any] = []
    monkeypatch.setattr(fork_guard, "_abandoned", kept)
    event, closed = (events.create_event(driver, stream.device, is_timed=False) for _ in range(2))
    graph = _record(stream)
    owners = [stream._owner, event._owner, closed._owner, graph._graph, graph._builder]
    monkeypatch.setattr(fork_guard, "has_forked", has_forked)
    closed.close()
    graph.close()
    for left in (stream, event):
        left.__del__()
    for owner in owners:
        assert any(owner is each for each in kept) is has_forked
    assert fake.closed == ([] if has_forked else [0x9000])
    assert graph._graph.is_closed is not has_forked


def test_streams_of_other_libraries(driver: Driver, api: StreamBindings, fake: FakeCore) -> None:
    here, other = driver.devices()
    borrowed = device_streams.wrap_stream(driver, here, SimpleNamespace(cuda_stream=0xB0))
    assert (borrowed.handle, borrowed.is_foreign) == (0xB0, True)
    borrowed.close()
    assert fake.closed == [], "another library's stream stays open"
    driver.retain_context(1)
    assert device_streams.wrap_stream(driver, other, 0xB1).device is other
    with pytest.raises(DeviceMismatchError, match="is on cuda:1, and the work on cuda:0"):
        device_streams.wrap_stream(driver, here, 0xB1)
    default = device_streams.wrap_stream(driver, here, None)
    assert (default.handle, default.is_foreign) == (1, False)
    with pytest.raises(ArgumentTypeError):
        device_streams.wrap_stream(driver, here, object())


@pytest.mark.parametrize("name", ["cuda_event", "ptr", "handle"])
def test_events_of_other_libraries(driver: Driver, fake: FakeCore, name: str) -> None:
    device = driver.devices()[0]
    event = events.wrap_event(driver, device, SimpleNamespace(**{name: 0xE0}))
    assert event.handle == 0xE0
    event.close()
    assert fake.closed == []
    for wrong in (SimpleNamespace(**{name: 0}), SimpleNamespace(**{name: "x"}), object()):
        with pytest.raises(ArgumentTypeError, match="not a recorded CUDA event"):
            events.wrap_event(driver, device, wrong)


def test_cuda_core_is_missing_or_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cuda.core", SimpleNamespace(__version__="0.3"))
    monkeypatch.setattr("cuda.core", SimpleNamespace(__version__="0.3"), raising=False)
    with pytest.raises(ToolMissingError, match="is too old"):
        core.import_core()
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    monkeypatch.delattr("cuda.core", raising=False)
    with pytest.raises(ToolMissingError, match="is not installed") as caught:
        core.import_core()
    assert "pip install" in str(caught.value)
