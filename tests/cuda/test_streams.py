"""Streams, events and graphs on a GPU: order, overlap, recordings, and other libraries' streams."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
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


@kd.kernel
def spins(rounds, out):
    i = kd.grid(1)
    value = out[i]
    for _ in range(rounds):
        value = value * 1.0000001 + 1e-9
    out[i] = value


def _busy(stream: kd.Stream, milliseconds: float = 20.0) -> kd.DeviceArray:
    """Put about so much work into a stream, and return the array that it works on."""
    array = kd.zeros(32, stream=stream)
    spins.forall(32, stream=stream)(1000, array)
    start, end = kd.Event(), kd.Event()
    stream.record(start)
    spins.forall(32, stream=stream)(100_000, array)
    stream.record(end)
    rounds = int(100_000 * milliseconds / max(start.elapsed_ms(end), 1e-3))
    spins.forall(32, stream=stream)(rounds, array)
    return array


# --------------------------------------------------------------------------- streams


@pytest.mark.measures
def test_a_launch_waits_in_its_stream_and_others_go_on() -> None:
    slow, fast = kd.Stream(blocking=False), kd.Stream(blocking=False)
    increment.forall(32)(kd.zeros(32))  # loading code waits for the device
    kd.synchronize()
    array = _busy(slow, 200)
    assert not slow.query()
    other = kd.zeros(32, stream=fast)
    increment.forall(32, stream=fast)(other)
    fast.synchronize()
    assert fast.query()
    assert not slow.query()
    slow.synchronize()
    assert slow.query()
    assert np.isfinite(array.copy_to_host(stream=slow)).all()
    assert (other.copy_to_host(stream=fast) == 1).all()


def test_waiting_for_a_stream_orders_work() -> None:
    first, second = kd.Stream(blocking=False), kd.Stream(blocking=False)
    slow = _busy(first, 50)
    array = kd.zeros(1001, stream=first)
    increment.forall(1001, stream=first)(array)
    out = kd.full(1001, np.nan, stream=second)
    second.wait(first)
    axpy.forall(1001, stream=second)(2.0, array, array, out)
    assert (out.copy_to_host(stream=second) == 3).all()
    assert first.query(), "the second stream was done before what it waits for"
    del slow


@pytest.mark.measures
def test_events_order_streams_and_take_the_time() -> None:
    first, second = kd.Stream(blocking=False), kd.Stream(blocking=False)
    before = first.record()
    slow = _busy(first, 50)
    after = first.record()
    assert not after.query()
    second.wait(after)
    late = second.record()
    assert not late.query()
    late.synchronize()
    assert after.query()
    assert 40 < before.elapsed_ms(after) < 5000
    assert before.elapsed_ms(late) >= before.elapsed_ms(after)
    assert after.elapsed_ms(before) < 0
    del slow


def test_priorities_are_clamped_to_the_device() -> None:
    for priority in (-100, 0, 100):
        with kd.Stream(priority=priority) as stream:
            array = kd.zeros(33)
            increment.forall(33)(array)
            assert (array.copy_to_host() == 1).all()
        assert stream.priority == priority


def test_the_current_stream_is_the_threads_own() -> None:
    found: dict[str, Any] = {}
    stream = kd.Stream()

    def look() -> None:
        found["other"] = kd.current_stream("cuda:0")
        with kd.Stream("cuda:0") as own:
            found["own"] = kd.current_stream() is own

    with stream:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert kd.current_stream() is stream
    assert found["other"] is kd.default_stream("cuda:0")
    assert found["own"]


def test_memory_is_given_out_again_only_after_the_streams_that_used_it() -> None:
    home, other = kd.Stream(blocking=False), kd.Stream(blocking=False)
    wrong = 0
    for _ in range(20):
        source = kd.full(1 << 20, 1.0, stream=home)
        out = kd.full(1 << 20, 0.0, stream=other)
        other.wait(home)
        _busy(other, 2)
        axpy.forall(1 << 20, stream=other)(1.0, source, source, out)
        del source  # its memory must not be given out before `other` has read it
        poison = kd.full(1 << 20, np.nan, stream=home)
        wrong += int((out.copy_to_host(stream=other) != 2).sum())
        del poison
    assert wrong == 0


def test_a_closed_stream_and_streams_of_nobody() -> None:
    stream = kd.Stream()
    array = kd.zeros(8)
    stream.close()
    stream.close()
    for use in (
        lambda: increment.forall(8, stream=stream)(array),
        lambda: array.copy_to_host(stream=stream),
        stream.synchronize,
        stream.record,
        lambda: stream.__enter__(),
    ):
        with pytest.raises(kd.ClosedResourceError):
            use()
    with pytest.raises(kd.KernelError):
        kd.Stream.from_foreign(object())


@pytest.mark.alone
def test_many_streams_leave_nothing_behind() -> None:
    from targets.cuda.driver import get_driver

    def free_bytes() -> int:
        kd.synchronize()
        driver = get_driver()
        with driver.current(0):
            return int(driver.call(driver.api.cuMemGetInfo, doing="read the free memory")[0])

    def use_many() -> None:
        for _ in range(200):
            with kd.Stream() as stream:
                stream.record().close()
            stream.close()
        gc.collect()

    use_many()
    before = free_bytes()
    use_many()
    use_many()
    assert free_bytes() == before


# --------------------------------------------------------------------------- overlap


@pytest.mark.measures
def test_a_copy_and_a_kernel_overlap(capsys: pytest.CaptureFixture[str]) -> None:
    nbytes = 256 << 20
    host = kd.pinned_empty(nbytes, np.uint8)
    host[:] = 1
    device = kd.empty(nbytes, np.uint8)
    copying, computing = kd.Stream(blocking=False), kd.Stream(blocking=False)
    array = kd.zeros(32, stream=computing)
    spins.forall(32, stream=computing)(1000, array)
    device.copy_from_host(host, stream=copying, blocking=False)
    kd.synchronize()

    def timed(*works: Any) -> float:
        """Milliseconds from before the first to after the last piece of work."""
        gate = kd.Stream(blocking=False)
        start = gate.record()
        ends = []
        for stream, work in works:
            stream.wait(start)
            work()
            ends.append(stream.record())
        for _, end in zip(works, ends, strict=True):
            gate.wait(end)
        return start.elapsed_ms(gate.record())

    def copy() -> None:
        device.copy_from_host(host, stream=copying, blocking=False)

    rounds = 100_000
    kernel_ms = timed((computing, lambda: spins.forall(32, stream=computing)(rounds, array)))
    copy_ms = min(timed((copying, copy)) for _ in range(3))
    rounds = int(rounds * copy_ms / kernel_ms)

    def compute() -> None:
        spins.forall(32, stream=computing)(rounds, array)

    kernel_ms = min(timed((computing, compute)) for _ in range(3))
    both_ms = min(timed((computing, compute), (copying, copy)) for _ in range(3))
    with capsys.disabled():
        print(
            f"\ncopy {copy_ms:.2f} ms, kernel {kernel_ms:.2f} ms, one after the other "
            f"{copy_ms + kernel_ms:.2f} ms, overlapping {both_ms:.2f} ms"
        )
    assert both_ms < 0.75 * (copy_ms + kernel_ms)
    assert both_ms >= 0.95 * max(copy_ms, kernel_ms)


# --------------------------------------------------------------------------- graphs


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
    with pytest.raises(kd.GraphError, match="cannot take over"):
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


# --------------------------------------------------------------------------- other libraries


def test_torch_takes_our_stream_and_we_take_theirs(torch: Any) -> None:
    ours = kd.Stream(blocking=False)
    tensor = torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    theirs = torch.cuda.ExternalStream(ours.handle)
    with torch.cuda.stream(theirs):
        tensor += 1
        increment.forall(1000)(tensor)  # goes into torch's current stream, which is ours
        tensor *= 10
    ours.synchronize()
    assert (tensor == 20).all()

    side = torch.cuda.Stream()
    array = kd.to_device(np.zeros(1000, np.float32))
    with kd.Stream.from_foreign(side) as adopted:
        assert adopted.handle == side.cuda_stream
        assert adopted.device.index == 0
        increment.forall(1000)(array)
    side.synchronize()
    assert (array.copy_to_host() == 1).all()
    adopted.close()
    side.synchronize()  # closing ours has left theirs open


def test_the_default_stream_of_another_library_is_ours(torch: Any) -> None:
    theirs = torch.cuda.default_stream()
    assert kd.Stream.from_foreign(theirs) is kd.default_stream("cuda")
    tensor = torch.zeros(1000, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(theirs)
    with torch.cuda.stream(side), kd.default_stream("cuda"):
        increment.forall(1000)(tensor)  # the block comes before torch's current stream
    theirs.synchronize()
    assert (tensor == 1).all()


def see_one_default_stream_in_two_threads() -> None:
    """Let a thread copy from the default stream what it put there behind another thread's work."""
    kd.use("cuda:0")
    array = kd.zeros(1001)
    increment.forall(1001)(array)
    slow = _busy(kd.default_stream(), 100)
    before = kd.Event().record()
    assert not before.query()
    found: list[Any] = []

    def other() -> None:
        increment.forall(1001)(array)
        found.extend([array.copy_to_host(), before.query()])

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    result, is_reached = found
    assert (result == 2).all()
    assert is_reached, "the second thread has not waited for the first one's work"
    del slow


@pytest.mark.parametrize("per_thread", ["0", "1"])
def test_the_default_stream_is_one_for_all_threads(per_thread: str) -> None:
    """Also where NVIDIA's bindings take the stream 0 for the thread's own."""
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import {__name__} as t; t.{see_one_default_stream_in_two_threads.__name__}()",
        ],
        env=dict(os.environ, CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM=per_thread),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr


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


def test_events_of_torch_and_streams_of_torch_are_waited_for(torch: Any) -> None:
    ours = kd.Stream(blocking=False)
    side = torch.cuda.Stream()
    tensor = torch.zeros(1 << 22, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        tensor += 1
        event = torch.cuda.Event()
        event.record()
    ours.wait(event)
    increment.forall(1 << 22, stream=ours)(tensor)
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        tensor += 0
    ours.wait(side)
    increment.forall(1 << 22, stream=ours)(tensor)
    ours.synchronize()
    assert (tensor == 3).all()


def test_cupy_takes_our_stream_and_we_take_theirs(cupy: Any) -> None:
    ours = kd.Stream(blocking=False)
    array = cupy.zeros(1000)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.ExternalStream(ours.handle):
        array += 1
        increment.forall(1000)(array)
        event = cupy.cuda.Event()
        event.record()
    ours.synchronize()
    assert (array.get() == 2).all()
    side = cupy.cuda.Stream(non_blocking=True)
    other = kd.Stream(blocking=False)
    other.wait(event)
    other.wait(side)
    adopted = kd.Stream.from_foreign(side)
    increment.forall(1000, stream=adopted)(array)
    increment.forall(1000, stream=side)(array)
    side.synchronize()
    assert (array.get() == 4).all()


def test_cuda_core_takes_our_stream_and_we_take_theirs(cuda_core: Any) -> None:
    ours = kd.Stream(blocking=False)
    device = cuda_core.Device(0)
    device.set_current()
    theirs = device.create_stream(ours)  # by __cuda_stream__
    assert int(theirs.handle) == ours.handle
    array = kd.zeros(64, stream=ours)
    increment.forall(64, stream=theirs)(array)
    other = device.create_stream()
    other.wait(theirs)
    increment.forall(64, stream=other)(array)
    other.sync()
    assert (array.copy_to_host() == 2).all()


def test_torch_records_our_launches(torch: Any) -> None:
    tensor = torch.zeros(256, device="cuda")
    increment.forall(256)(tensor)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        increment.forall(256)(tensor)
    graph.replay()
    graph.replay()
    torch.cuda.synchronize()
    assert (tensor == 3).all()


def test_we_record_what_torch_puts_into_our_stream(torch: Any) -> None:
    stream = kd.Stream()
    tensor = torch.zeros(256, device="cuda")
    torch.cuda.synchronize()
    with (
        stream.capture() as graph,
        torch.cuda.stream(torch.cuda.ExternalStream(stream.handle)),
    ):
        tensor.add_(1)
        increment.forall(256)(tensor)
        tensor.mul_(2)
    torch.cuda.synchronize()
    assert (tensor == 0).all()
    graph.launch(stream)
    stream.synchronize()
    assert (tensor == 4).all()


def test_a_program_that_only_launches_does_not_import_cuda_core() -> None:
    import os
    import subprocess
    import sys

    code = (
        "import sys, numpy as np, kerneldsl as kd\n"
        "from tests.cuda.test_streams import increment\n"
        "for module in [m for m in sys.modules if m.startswith('cuda.core')]: raise SystemExit(m)\n"
        "x = kd.to_device(np.zeros(8)); increment.forall(8)(x); h = np.zeros(8)\n"
        "increment.forall(8)(h); assert (x.copy_to_host() == 1).all() and (h == 1).all()\n"
        "assert not any(m.startswith('cuda.core') for m in sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": ".", "KERNELDSL_TARGET": "cuda"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
