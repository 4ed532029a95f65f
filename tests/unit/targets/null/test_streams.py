"""Streams, events and graphs whose driver calls fail: the error comes out, and nothing is left."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.placement import devices as placement
from kerneldsl.streams.current import launch_stream
from targets import null
from targets.null.target import NullTarget


@kd.kernel
def increment(x):
    i = kd.grid(1)
    x[i] += 1


@pytest.fixture
def target() -> Iterator[NullTarget]:
    with null.described_as(null.H100, null.H100) as found, kd.use("null"):
        yield found


@pytest.mark.parametrize(
    ("operation", "use"),
    [
        ("create_stream", lambda stream: kd.Stream()),
        ("create_stream", lambda stream: kd.StreamPool(2)),
        ("create_event", lambda stream: stream.record()),
        ("record_event", lambda stream: stream.record()),
        ("wait_event", lambda stream: stream.wait(kd.Stream())),
        ("synchronize", lambda stream: stream.synchronize()),
        ("synchronize", lambda stream: stream.record().synchronize()),
        ("begin_capture", lambda stream: stream.capture().__enter__()),
    ],
)
@pytest.mark.parametrize("kind", ["stream", "memory", "system"])
def test_a_failure_comes_out_and_the_stream_stays_usable(
    target: NullTarget, operation: str, use: Any, kind: str
) -> None:
    stream, x = kd.Stream(), kd.zeros(64)
    error = null.fault(kind)
    target.fail_next(operation, error)
    with pytest.raises(type(error)) as caught:
        use(stream)
    assert caught.value is error
    assert kd.current_stream() is kd.default_stream()
    assert not stream.is_capturing
    with stream.capture() as graph:
        increment.forall(64)(x)
    graph.launch(stream)
    stream.synchronize()
    assert [record.entry_name for record in target.launches] == ["increment"]


def test_a_graph_that_could_not_be_launched_can_be_launched_later(target: NullTarget) -> None:
    stream, x = kd.Stream(), kd.zeros(64)
    with stream.capture() as graph:
        increment.forall(64)(x)
    error = null.fault("launch")
    target.fail_next("launch_graph", error)
    with pytest.raises(type(error)):
        graph.launch()
    assert not target.launches
    graph.launch()
    assert len(target.launches) == 1


def test_a_kernel_that_cannot_be_compiled_drops_the_recording(target: NullTarget) -> None:
    """The CPU must not run it in the place of a launch that was only to be recorded."""
    stream, x = kd.Stream(), kd.zeros(64)
    kernel = kd.kernel(increment.function)
    target.fail_next("load", null.fault("kernel"))

    def record() -> None:
        with stream.capture():
            kernel.forall(64)(x)

    with pytest.raises(kd.KernelImageError):
        record()
    assert not stream.is_capturing
    assert (x.copy_to_host() == 0).all()


def test_a_lost_device_ends_a_recording_and_leaves_others(target: NullTarget) -> None:
    first, second = kd.Stream("null:0"), kd.Stream("null:1")
    x = kd.zeros(64, device="null:1")

    def record() -> None:
        with first.capture():
            target.lose(target.devices()[0], null.fault("CUDA_ERROR_ECC_UNCORRECTABLE"))
            first.record(kd.Event())

    with pytest.raises(kd.DeviceLostError):
        record()
    assert not first.is_capturing
    for use in (first.record, first.synchronize, lambda: kd.Stream("null:0")):
        with pytest.raises(kd.DeviceLostError):
            use()
    with second.capture() as graph:
        increment.forall(64)(x)
    graph.launch(second)
    second.synchronize()


def test_a_default_stream_that_is_active_comes_before_those_of_other_libraries(
    target: NullTarget,
) -> None:
    place = placement.device_of("null")
    assert launch_stream(place, None, (0x7000,)) == 0x7000
    with kd.default_stream():
        assert launch_stream(place, None, (0x7000,)) is None
    with kd.Stream() as stream:
        assert launch_stream(place, None, (0x7000,)) is stream._stream


def test_streams_of_two_devices(target: NullTarget) -> None:
    first, second = kd.Stream("null:0"), kd.Stream("null:1")
    second.wait(first)
    second.wait(first.record())
    with first, second:
        assert kd.current_stream("null:0") is first
        assert kd.current_stream("null:1") is second
        assert kd.zeros(4).device.index == 1
    x = kd.zeros(64, device="null:1")
    with kd.use("null:1"), pytest.raises(kd.DeviceMismatchError, match="stream is on null:0"):
        increment.forall(64, stream=first)(x)
    with first.capture(), pytest.raises(kd.DeviceMismatchError, match="A graph belongs to one"):
        second.wait(first.record())


def test_memory_allocated_in_a_recording_is_waited_for_elsewhere(target: NullTarget) -> None:
    home, other = kd.Stream(), kd.Stream()
    with home.capture() as graph:
        increment.forall(64)(kd.zeros(64))
    with home._stream.held():
        with home.capture() as held_up:
            increment.forall(64)(kd.zeros(64))
        held_up.launch(other)
        assert not other.query(), "the memory is not there before `home` has come so far"
        assert other.query() is False
    assert other.query()
    graph.launch(other)
    assert other.query()


def test_host_memory_stays_until_the_last_launch_is_done(target: NullTarget) -> None:
    class Host(np.ndarray):
        pass

    stream, x = kd.Stream(), kd.zeros(64)
    host = np.ones(64).view(Host)
    alive = weakref.ref(host)
    with stream.capture() as graph:
        x.copy_from_host(host, blocking=False)
    del host
    with stream._stream.held():
        graph.launch(stream)
        graph.close()
        gc.collect()
        assert alive() is not None, "the copy may still be reading it"
    with stream.capture() as another:
        pass
    another.launch(stream)
    gc.collect()
    assert alive() is None


def test_host_memory_stays_while_a_stream_that_has_lost_its_number_needs_it(
    target: NullTarget,
) -> None:
    """Another library's number may name another stream at the next launch."""
    stream, x = kd.Stream(), kd.zeros(64)
    host = kd.pinned_empty(64)
    alive = weakref.ref(host)
    with stream.capture() as graph:
        x.copy_from_host(host, blocking=False)
    del host
    before, now = kd.Stream.from_foreign(0x5000), kd.Stream.from_foreign(0x5000)
    with before._stream.held():
        graph.launch(before)
        graph.launch(now)
        graph.close()
        _let_go(stream)
        assert alive() is not None, "the copy in the first of them may still be reading it"
    _let_go(stream)
    assert alive() is None


def _let_go(stream: kd.Stream) -> None:
    """Launch another graph, which looks at what the closed ones have needed."""
    with stream.capture() as another:
        pass
    another.launch(stream)
    gc.collect()


def test_threads_use_one_graph_one_after_the_other(target: NullTarget) -> None:
    """The driver's graphs are not guarded: a launch must not meet an update or a close."""
    stream, x = kd.Stream(), kd.zeros(64)
    with stream.capture() as graph:
        increment.forall(64)(x)
    with stream.capture() as newer:
        increment.forall(64)(x)
    inside: list[int] = []
    together: list[int] = []

    def watched(run: Callable[..., None]) -> Callable[..., None]:
        def call(*args: Any) -> None:
            inside.append(1)
            together.append(len(inside))
            time.sleep(0.001)
            run(*args)
            inside.pop()

        return call

    for made in (graph._graph, newer._graph):
        assert made is not None
        for name in ("launch", "update", "close", "write_dot"):
            setattr(made, name, watched(getattr(made, name)))

    def use(number: int) -> None:
        for _ in range(5):
            graph.launch(stream)
            # In both directions, which must not wait for each other.
            graph.update(newer) if number % 2 else newer.update(graph)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(use, range(4)))
    graph.close()
    newer.close()
    assert len(together) == 42
    assert set(together) == {1}


@pytest.mark.parametrize("is_blocking", [False, True])
def test_a_stream_that_another_library_has_wrapped_is_known_again(
    target: NullTarget, is_blocking: bool
) -> None:
    class Wrapped:
        def __init__(self, handle: int) -> None:
            self.cuda_stream = handle

    ours = kd.Stream(priority=-2, blocking=is_blocking)
    again = kd.Stream.from_foreign(Wrapped(ours.handle))
    assert (again.priority, again.is_blocking) == (-2, is_blocking)
    assert repr(again) == repr(ours)
    other = kd.Stream.from_foreign(Wrapped(0x7000))
    assert (other.priority, other.is_blocking) == (0, False)
    assert "another library" in repr(other)
