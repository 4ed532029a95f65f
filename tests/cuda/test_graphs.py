"""Graphs on a GPU: what a recording keeps, what it refuses, and what launching it costs."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def increment(x):
    i = kd.grid(1)
    x[i] += 1


def test_a_graph_runs_launches_and_copies_again() -> None:
    n = 1001
    stream = kd.Stream()
    host, back = kd.pinned_empty(n), kd.pinned_empty(n)
    host[:], back[:] = 1.0, np.nan
    x, out = kd.full(n, np.nan), kd.full(n, np.nan)
    with stream.capture() as graph:
        assert stream.is_capturing
        x.copy_from_host(host, blocking=False)
        axpy.forall(n)(2.0, x, x, out)
        axpy[(n + 127) // 128, 128](1.0, out, out, out)
        out.copy_to_host(back, blocking=False)
    assert not stream.is_capturing
    kd.synchronize()
    assert np.isnan(back).all(), "a recording must not run"
    assert graph.node_count == 4
    for value in (1.0, 5.0):
        host[:] = value
        graph.launch(stream)
        stream.synchronize()
        assert (back == 6 * value).all()


def test_first_use_of_a_kernel_inside_of_a_recording() -> None:
    @kd.kernel
    def never_launched_before(x):
        i = kd.grid(1)
        x[i] = x[i] * 3 + 1

    x = kd.full(77, 1.0)
    with kd.Stream().capture() as graph:
        never_launched_before.forall(77)(x)
    graph.launch()
    graph.launch()
    assert (x.copy_to_host() == 13).all()


def test_a_graph_keeps_alive_what_it_recorded() -> None:
    stream = kd.Stream(blocking=False)

    def record() -> tuple[kd.Graph, kd.DeviceArray]:
        out = kd.full(500, np.nan)
        x = kd.to_device(np.arange(500.0))
        host = np.full(500, 7.0)
        with stream.capture() as graph:
            y = kd.empty(500)  # memory of the block itself
            y.copy_from_host(host, blocking=False)
            axpy.forall(500)(1.0, x, y, out)
        return graph, out

    graph, out = record()
    gc.collect()
    poison = [kd.full(500, np.nan) for _ in range(50)]
    graph.launch(stream)
    stream.synchronize()
    assert (out.copy_to_host() == np.arange(500.0) + 7).all()
    del poison


def test_update_takes_over_values_and_arrays_of_the_same_steps() -> None:
    stream = kd.Stream()
    x, y, z = kd.full(64, 1.0), kd.full(64, 2.0), kd.full(64, np.nan)
    graphs = []
    for a, array in ((2.0, x), (10.0, y)):
        with stream.capture() as graph:
            axpy.forall(64)(a, array, array, z)
        graphs.append(graph)
    first, second = graphs
    first.launch()
    assert (z.copy_to_host() == 3).all()
    first.update(second)
    first.launch()
    assert (z.copy_to_host() == 22).all()
    with stream.capture() as other:
        axpy.forall(64)(1.0, x, x, z)
        axpy.forall(64)(1.0, x, x, z)
    with pytest.raises(kd.GraphError, match="cannot be updated from"):
        first.update(other)
    z.fill(np.nan)
    first.launch()
    assert (z.copy_to_host() == 22).all(), "a refused update must change nothing"


def test_several_streams_take_part_in_a_recording() -> None:
    first, second = kd.Stream(), kd.Stream()
    x, y, z = kd.zeros(300), kd.zeros(300), kd.full(300, np.nan)
    with first.capture() as graph:
        fork = first.record()
        second.wait(fork)
        increment.forall(300, stream=first)(x)
        increment.forall(300, stream=second)(y)
        first.wait(second.record())
        axpy.forall(300, stream=first)(10.0, x, y, z)
    assert graph.node_count == 3
    graph.launch()
    graph.launch()
    assert (z.copy_to_host() == 22).all()

    def record_without_joining() -> None:
        with first.capture():
            second.wait(first.record())
            increment.forall(300, stream=second)(y)

    with pytest.raises(kd.GraphError, match="UNJOINED"):
        record_without_joining()
    increment.forall(300, stream=second)(y)
    second.synchronize()


def test_what_cannot_be_recorded_says_so_and_leaves_the_stream_usable() -> None:
    stream = kd.Stream()
    x = kd.zeros(64)
    host = np.zeros(64)
    debugging = kd.kernel(debug=True)(increment.function)
    debugging.forall(64)(x)
    uses = {
        "NumPy": lambda: axpy.forall(64)(1.0, host, x, x),
        "debug": lambda: debugging.forall(64)(x),
        "waits": lambda: x.copy_to_host(),
        "wait for a stream": stream.synchronize,
        "done": stream.query,
        "wait for a device": kd.synchronize,
        "second": lambda: stream.capture().__enter__(),
    }
    graphs = []

    def record(use: Any) -> None:
        with stream.capture() as graph:
            graphs.append(graph)
            increment.forall(64)(x)
            use()

    for name, use in uses.items():
        with pytest.raises(kd.GraphError):
            record(use)
        assert not stream.is_capturing, name
        with pytest.raises(kd.GraphError, match="GraphError"):
            graphs[-1].launch()
        increment.forall(64, stream=stream)(x)
        stream.synchronize()
    # Caught inside of the block, it leaves the recording whole.
    before = x.copy_to_host()
    with stream.capture() as graph:
        increment.forall(64)(x)
        with pytest.raises(kd.GraphError):
            axpy.forall(64)(1.0, host, x, x)
    graph.launch()
    assert (x.copy_to_host() == before + 1).all()


def test_other_threads_and_the_default_stream_go_on_during_a_recording() -> None:
    stream = kd.Stream()
    x, y = kd.zeros(128), kd.zeros(128)
    default = kd.default_stream()
    errors: list[Exception] = []

    def work() -> None:
        try:
            host = np.zeros(128)
            increment.forall(128)(host)  # staged: allocates, copies and waits
            assert (host == 1).all()
            increment.forall(128)(kd.zeros(128))
        except Exception as error:  # noqa: BLE001 -- raised in the main thread
            errors.append(error)

    with stream.capture() as graph:
        increment.forall(128)(x)
        increment.forall(128, stream=default)(y)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        kd.zeros(1 << 16, stream=default)
        gc.collect()
    assert not errors, errors
    assert (y.copy_to_host() == 1).all()
    graph.launch()
    assert (x.copy_to_host() == 1).all()


def test_graphs_within_graphs_and_drawings(tmp_path: Any) -> None:
    stream = kd.Stream()
    x = kd.zeros(64)
    with stream.capture() as inner:
        increment.forall(64)(x)
        increment.forall(64)(x)
    with stream.capture() as outer:
        inner.launch()
        increment.forall(64)(x)
    inner.close()
    outer.launch()
    assert (x.copy_to_host() == 3).all()
    with pytest.raises(kd.ClosedResourceError):
        inner.launch()
    path = tmp_path / "graph.dot"
    outer.debug_dot(path)
    assert "digraph" in path.read_text()


@pytest.mark.measures
def test_a_graph_costs_less_than_its_launches(capsys: pytest.CaptureFixture[str]) -> None:
    stream = kd.Stream(blocking=False)
    x = kd.zeros(64, stream=stream)
    launch = increment.forall(64, stream=stream)
    launch(x)
    with stream.capture() as graph:
        for _ in range(50):
            launch(x)

    def seconds(run: Any) -> float:
        best = np.inf
        for _ in range(20):
            stream.synchronize()
            started = time.process_time()
            run()
            best = min(best, time.process_time() - started)
        stream.synchronize()
        return best

    one_by_one = seconds(lambda: [launch(x) for _ in range(50)])
    together = seconds(lambda: graph.launch(stream))
    with capsys.disabled():
        print(f"\n50 launches {1e6 * one_by_one:.0f} us, as a graph {1e6 * together:.0f} us")
    assert together < one_by_one


def test_threads_launch_update_and_close_one_graph() -> None:
    stream = kd.Stream()
    first, second = kd.zeros(256), kd.zeros(256)
    graphs = []
    for array in (first, second):
        with stream.capture() as graph:
            increment.forall(256)(array)
        graphs.append(graph)
    with stream.capture() as one:
        increment.forall(256)(first)

    def use() -> None:
        own = kd.Stream()
        for i in range(50):
            one.launch(own)
            one.update(graphs[i % 2])

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one.close()
    kd.synchronize()
    assert first.copy_to_host()[0] + second.copy_to_host()[0] == 400
