"""Streams and graphs of torch, CuPy and cuda.core on a GPU: they take ours, and we take theirs."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

import kerneldsl as kd
import stdlib_kernels as sk
from tests.support.redefining import define


@kd.kernel
def increment(x):
    i = kd.grid(1)
    x[i] += 1


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


def test_cuda_core_records_a_first_launch(cuda_core: Any) -> None:
    """Loading the kernel leaves alone what is retired, which would spoil the capture."""
    kd.synchronize()
    define(1).forall(4)(kd.zeros(4))  # garbage at once
    gc.collect()
    device = cuda_core.Device(0)
    device.set_current()
    out = kd.full(4, np.nan)
    kd.synchronize()
    builder = device.create_graph_builder()
    builder.begin_building()
    define(2).forall(4, stream=builder)(out)
    graph = builder.end_building().complete()
    assert np.isnan(out.copy_to_host()).all()
    graph.launch(device.create_stream(kd.default_stream("cuda")))
    kd.synchronize()
    assert (out.copy_to_host() == 2).all()


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


def test_library_functions_run_in_the_stream_of_torch(torch: Any) -> None:
    """What torch does next in its stream finds the result, also in `out`."""
    x = torch.full((1 << 26,), 2.0, device="cuda")
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    for call in (
        lambda out: sk.clip(x, 3, 4, out=out),
        lambda out: out.copy_(sk.clip(x, 3, 4)),
    ):
        for _ in range(5):
            with torch.cuda.stream(side):
                out = torch.zeros_like(x)
                call(out)
                copied = out.clone()
                total = (copied == 3).sum()
            side.synchronize()
            assert int(total) == x.numel()
    with kd.Stream() as ours, torch.cuda.stream(side):
        sk.clip(x, 3, 4, out=out)
        ours.synchronize()
        assert (out == 3).all()
