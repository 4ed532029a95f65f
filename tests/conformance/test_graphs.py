"""Graphs keep the same promises on every target."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.streams import current
from tests.support.redefining import define


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def increment(x):
    i = kd.grid(1)
    x[i] += 1


def test_a_recording_runs_when_it_is_launched_and_only_then(
    computing: str, rng: np.random.Generator
) -> None:
    n = 501
    values = rng.integers(-99, 99, n).astype(float)
    values[:3] = np.nan, -0.0, np.inf
    stream = kd.Stream()
    host, back = kd.pinned_empty(n), kd.pinned_empty(n)
    host[:], back[:] = values, 7
    x, out = kd.full(n, 7.0), kd.full(n, 7.0)
    with stream.capture() as graph:
        assert stream.is_capturing
        assert kd.current_stream() is stream
        x.copy_from_host(host, blocking=False)
        axpy.forall(n)(2.0, x, x, out)
        out.copy_to_host(back, blocking=False)
    assert not stream.is_capturing
    kd.synchronize()
    assert (back == 7).all()
    assert (out.copy_to_host() == 7).all()
    assert graph.node_count == 3
    for factor in (1.0, -4.0):
        host[:] = factor * values
        graph.launch()
        kd.synchronize()
        np.testing.assert_array_equal(back, 3 * factor * values)


@kd.kernel
def sums_before(x, out, state):
    part = kd.chain.next(state)
    before = kd.chain.before(state, part, x[part])
    if kd.threadIdx.x == 0:
        out[part] = before


def test_a_chain_needs_no_new_state_when_a_graph_runs_again(
    computing: str, rng: np.random.Generator
) -> None:
    blocks = 1100
    host = kd.pinned_empty(blocks, np.int64)
    x, out = kd.zeros(blocks, np.int64), kd.zeros(blocks, np.int64)
    state = kd.zeros(3 * blocks, np.uint64)
    stream = kd.Stream()
    with stream.capture() as graph:
        x.copy_from_host(host, blocking=False)
        sums_before[blocks, 64](x, out, state)
        sums_before[blocks, 64](out, x, state)
    for _ in range(3):
        host[:] = rng.integers(-99, 99, blocks)
        graph.launch()
        kd.synchronize()
        once = np.cumsum(host) - host
        np.testing.assert_array_equal(out.copy_to_host(), once)
        np.testing.assert_array_equal(x.copy_to_host(), np.cumsum(once) - once)


def test_the_null_target_takes_recorded_launches_when_they_are_launched() -> None:
    from targets import null

    with null.described_as(null.H100) as target, kd.use("null"):
        x = kd.zeros(64)
        with kd.Stream().capture() as graph:
            increment.forall(64)(x)
            increment.forall(64)(x)
        assert not target.launches
        graph.launch()
        graph.launch()
        assert [record.entry_name for record in target.launches] == ["increment"] * 4


def test_a_graph_keeps_what_it_needs_and_lets_it_go(on: str) -> None:
    stream = kd.Stream()
    host = np.ones(64)
    kernel = kd.kernel(increment.function)

    def record() -> tuple[kd.Graph, list[weakref.ref[Any]]]:
        x, y = kd.zeros(64), kd.zeros(64)
        with stream.capture() as graph:
            y.copy_from_host(host, blocking=False)
            kernel.forall(64)(x)
        return graph, [weakref.ref(array) for array in (x, y)]

    graph, arrays = record()
    gc.collect()
    graph.launch(stream)
    stream.synchronize()
    owners = [array() for array in arrays]
    assert owners[0] is not None
    del owners
    graph.close()
    graph.close()
    kd.synchronize()
    gc.collect()
    assert [array() for array in arrays] == [None, None]
    assert graph.is_closed
    with pytest.raises(kd.ClosedResourceError):
        graph.launch()


def test_a_graph_keeps_kernels_that_are_garbage(computing: str) -> None:
    stream, x = kd.Stream(), kd.full(64, np.nan)
    kernel = define(7000)
    gone = weakref.ref(kernel)
    with stream.capture() as graph:
        kernel.forall(64)(x)
    del kernel
    gc.collect()
    assert gone() is None
    for number in range(7001, 7004):  # loading these unloads what is garbage
        define(number).forall(64)(x)
        kd.synchronize()
        gc.collect()
    for _ in range(2):
        x.fill(np.nan)
        graph.launch(stream)
        stream.synchronize()
        assert (x.copy_to_host() == 7000).all()


def test_update_takes_over_a_recording_of_the_same_steps(computing: str) -> None:
    stream = kd.Stream()
    x, y, out = kd.full(64, 1.0), kd.full(64, 5.0), kd.full(64, np.nan)
    graphs = []
    for a, array in ((2.0, x), (10.0, y)):
        with stream.capture() as graph:
            axpy.forall(64)(a, array, array, out)
        graphs.append(graph)
    first, second = graphs
    first.update(second)
    first.launch()
    assert (out.copy_to_host() == 55).all()
    second.close()
    del y
    gc.collect()
    out.fill(np.nan)
    first.launch()
    assert (out.copy_to_host() == 55).all()
    with stream.capture() as longer:
        axpy.forall(64)(1.0, x, x, out)
        axpy.forall(64)(1.0, x, x, out)
    with pytest.raises(kd.GraphError) as caught:
        first.update(longer)
    assert "Launch the newer graph instead" in str(caught.value)
    first.launch()
    assert (out.copy_to_host() == 55).all()
    for wrong in (None, 3, stream):
        with pytest.raises(kd.ArgumentTypeError):
            first.update(wrong)  # type: ignore[arg-type]


def test_graphs_within_graphs(computing: str) -> None:
    stream = kd.Stream()
    x = kd.zeros(32)
    with stream.capture() as inner:
        increment.forall(32)(x)
    with stream.capture() as outer:
        inner.launch()
        inner.launch(stream)
        increment.forall(32)(x)
    inner.close()
    outer.launch()
    assert (x.copy_to_host() == 3).all()


def test_an_empty_recording(on: str) -> None:
    with kd.Stream().capture() as graph:
        increment.forall(0)(kd.zeros(0))
    assert graph.node_count == 0
    graph.launch()
    kd.synchronize()


def test_other_streams_take_part_through_events(computing: str) -> None:
    first, second = kd.Stream(), kd.Stream()
    x, y, out = kd.zeros(100), kd.zeros(100), kd.full(100, np.nan)
    with first.capture() as graph:
        second.wait(first.record())
        assert second.is_capturing
        increment.forall(100, stream=first)(x)
        increment.forall(100, stream=second)(y)
        first.wait(second)
        axpy.forall(100)(10.0, x, y, out)
    assert not second.is_capturing
    assert np.isnan(out.copy_to_host()).all()
    assert graph.node_count == 3
    graph.launch()
    graph.launch()
    assert (out.copy_to_host() == 22).all()
    increment.forall(100, stream=second)(y)
    second.synchronize()
    assert (y.copy_to_host() == 3).all()


def _refused(on: str, stream: kd.Stream) -> dict[str, Callable[[], object]]:
    outside, x = kd.Stream().record(), kd.zeros(64)
    return {
        "wait for a stream": stream.synchronize,
        "query whether a stream is done": stream.query,
        "wait for a device": kd.synchronize,
        "close a stream": stream.close,
        "capture a second graph": lambda: stream.capture().__enter__(),
        "outside of the capture": lambda: stream.wait(outside),
        "cannot be captured": lambda: x.copy_to_host(),
        "query an event": lambda: stream.record().query(),
        "time an event": lambda: stream.record().elapsed_ms(outside),
        "wait for an event": lambda: stream.record().synchronize(),
        "take part": lambda: kd.default_stream().wait(stream.record()),
    }


def test_what_cannot_be_recorded_is_refused(on: str) -> None:
    stream = kd.Stream()
    x = kd.zeros(64)
    for words, use in _refused(on, stream).items():
        with stream.capture() as graph:  # caught inside, the recording goes on
            increment.forall(64)(x)
            with pytest.raises(kd.GraphError, match=words):
                use()
        assert graph.node_count == 1
        graph.launch()
        recording = stream.capture()
        graph = recording.__enter__()
        with pytest.raises(kd.GraphError) as caught:
            use()
        recording.__exit__(type(caught.value), caught.value, None)
        assert not stream.is_capturing
        with pytest.raises(kd.GraphError, match="ended with GraphError"):
            graph.launch()
        assert caught.value.remedy or caught.value.limit
        stream.synchronize()


def test_an_event_whose_waiters_sleep(on: str) -> None:
    event = kd.Event(timed=False, blocking=True)
    increment.forall(64)(kd.zeros(64))
    event.record()
    event.synchronize()
    assert event.query()
    assert (event.is_blocking, event.is_timed) == (True, False)
    assert "blocking" in repr(event)
    assert not kd.Event().is_blocking


@pytest.mark.parametrize("is_late", [False, True], ids=["never", "before its last step"])
def test_every_stream_that_takes_part_has_to_be_waited_for(on: str, is_late: bool) -> None:
    first, second = kd.Stream(), kd.Stream()
    x, y = kd.zeros(64), kd.zeros(64)

    def record() -> None:
        with first.capture():
            increment.forall(64)(x)
            second.wait(first)
            increment.forall(64, stream=second)(y)
            if is_late:
                first.wait(second)
                increment.forall(64, stream=second)(y)
                increment.forall(64)(x)

    for _ in range(2):
        with pytest.raises(kd.GraphError, match="CUDA_ERROR_STREAM_CAPTURE_UNJOINED") as caught:
            record()
        assert "stream.wait(other)" in str(caught.value)
        for stream in (first, second):
            assert not stream.is_capturing
            stream.synchronize()
    with second.capture() as graph:  # what went wrong leaves nothing behind
        increment.forall(64)(y)
    assert graph.node_count == 1
    graph.launch(first)


def test_invalid_captures_are_freed_once(on: str) -> None:
    """Otherwise the heap is corrupt, and a later graph may be freed in place of the first."""
    first, second, x = kd.Stream(), kd.Stream(), kd.zeros(64)

    def take_part(fails: bool = False) -> None:
        second.wait(first)
        increment.forall(64, stream=second)(x)
        if fails:
            raise LookupError

    graphs = []
    for _ in range(10):
        with pytest.raises(kd.GraphError), first.capture():
            take_part()
        with pytest.raises(LookupError), first.capture():
            take_part(fails=True)
        with first.capture() as graph:
            increment.forall(64)(x)
        graphs.append(graph)
        gc.collect()  # errors keep what they refer to until then
    for graph in graphs:
        graph.launch()
    kd.synchronize()


def test_a_stream_that_takes_part_may_be_waited_for_by_way_of_another(on: str) -> None:
    first, second, third = kd.Stream(), kd.Stream(), kd.Stream()
    x, y, z = (kd.zeros(64) for _ in range(3))
    mark = kd.Event(timed=False)
    for _ in range(2):
        with first.capture() as graph:
            increment.forall(64)(x)
            second.wait(first)
            increment.forall(64, stream=second)(y)
            third.wait(second.record(mark))
            increment.forall(64, stream=third)(z)
            first.wait(third)
        assert graph.node_count == 3
        graph.launch(second)
    second.synchronize()


def test_numpy_arguments_and_debug_mode_are_refused_where_they_would_wait(on: str) -> None:
    stream, host, x = kd.Stream(), np.zeros(64), kd.zeros(64)
    debugging = kd.kernel(debug=True)(increment.function)
    with stream.capture() as graph:
        if on == "cpu":
            axpy.forall(64)(1.0, host, host, host)
            debugging.forall(64)(host)
        else:
            with pytest.raises(kd.GraphError, match="NumPy arguments"):
                axpy.forall(64)(1.0, host, x, x)
            with pytest.raises(kd.GraphError, match="debug mode"):
                debugging.forall(64)(x)
    assert graph.node_count == (2 if on == "cpu" else 0)
    graph.launch()
    assert (host == (1 if on == "cpu" else 0)).all()


def test_a_graph_is_used_after_its_recording(on: str) -> None:
    with kd.Stream().capture() as graph:
        for use in (graph.launch, lambda: graph.node_count, lambda: graph.update(graph)):
            with pytest.raises(kd.GraphError, match="still being captured"):
                use()
    other = kd.Stream("null" if on == "cpu" else "cpu")
    with pytest.raises(kd.DeviceMismatchError, match="and the graph on"):
        graph.launch(other)
    with other.capture() as elsewhere:
        pass
    with pytest.raises(kd.DeviceMismatchError, match="newer graph"):
        graph.update(elsewhere)
    with pytest.raises(TypeError):
        kd.Graph()  # type: ignore[call-arg]


def test_an_event_of_a_recording_that_has_ended(on: str) -> None:
    stream = kd.Stream()
    with stream.capture():
        event = stream.record()
    with pytest.raises(kd.GraphError, match="has ended"):
        kd.Stream().wait(event)
    with pytest.raises(kd.GraphError, match="last recorded in"):
        event.synchronize()
    stream.record(event)
    event.synchronize()
    assert event.query()


def test_a_drawing(on: str, tmp_path: Any) -> None:
    x = kd.zeros(64)
    with kd.Stream().capture() as graph:
        increment.forall(64)(x)
        increment.forall(64)(x)
    path = tmp_path / "graph.dot"
    graph.debug_dot(path)
    text = path.read_text()
    assert text.startswith("digraph")
    assert "increment" in text or on == "cuda"


def test_memory_of_a_stream_is_noted_where_it_is_used(on: str) -> None:
    if on == "cpu":
        pytest.skip("work on the cpu is done when a launch returns, so nothing is noted")
    home, other = kd.Stream(blocking=False), kd.Stream(blocking=False)
    array = kd.zeros(64, stream=home)
    view = array[8:]
    owner = array._owner
    increment.forall(56, stream=home)(view)
    assert not owner._uses
    increment.forall(56, stream=other)(view)
    assert [use.own_handle for use in owner._uses.values()] == [other.handle]
    increment.forall(64)(array)  # the default stream does not wait for `home`
    assert None in owner._uses.values()


def test_nothing_is_looked_for_before_a_stream_is_made() -> None:
    import subprocess
    import sys

    code = (
        "import numpy as np, kerneldsl as kd\n"
        "from kerneldsl.streams import current\n"
        "from tests.conformance.test_graphs import increment\n"
        "x = np.zeros(4)\n"
        "with kd.use('cpu'): increment.forall(4)(x)\n"
        "assert not current.are_in_use and (x == 1).all()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kd.Stream("cpu")
    assert current.are_in_use
