"""Streams, events and pools of streams keep the same promises on every target."""

from __future__ import annotations

import contextvars
import re
import threading
from collections.abc import Iterator
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


# --------------------------------------------------------------------------- streams


def test_a_stream_says_what_it_is(on: str) -> None:
    stream = kd.Stream(priority=-1, blocking=False)
    assert stream.device.target == on
    assert (stream.priority, stream.is_blocking) == (-1, False)
    assert not stream.is_closed
    assert not stream.is_capturing
    assert stream.handle != kd.Stream().handle
    assert stream.device.target in repr(stream)
    assert "priority -1" in repr(stream)
    assert "not blocking" in repr(stream)
    assert kd.Stream.from_foreign(stream) is stream


def test_work_in_a_stream_is_done_after_synchronize(
    computing: str, rng: np.random.Generator
) -> None:
    x, y = rng.integers(-99, 99, (2, 1001)).astype(float)
    stream = kd.Stream(blocking=False)
    a, b, out = (kd.to_device(v, stream=stream) for v in (x, y, np.full(1001, np.nan)))
    axpy.forall(1001, stream=stream)(2.0, a, b, out)
    axpy[8, 128, stream](1.0, a, out, out)
    stream.synchronize()
    assert stream.query()
    np.testing.assert_array_equal(out.copy_to_host(stream=stream), 3 * x + y)


def test_numpy_arguments_in_a_stream(computing: str, rng: np.random.Generator) -> None:
    x, y = rng.integers(-99, 99, (2, 77)).astype(float)
    out = np.full(77, np.nan)
    axpy.forall(77, stream=kd.Stream(blocking=False))(3.0, x, y, out)
    np.testing.assert_array_equal(out, 3 * x + y)


def test_the_with_block_sets_stream_and_place(on: str) -> None:
    outer, inner = kd.Stream(), kd.Stream()
    default = kd.default_stream()
    assert kd.current_stream() is default is kd.default_stream(outer.device)
    with kd.use("cpu"), outer as entered:
        assert entered is outer
        assert kd.current_target() == str(outer.device)
        assert kd.current_stream() is outer
        with inner:
            assert kd.current_stream() is inner
            with outer:
                assert kd.current_stream() is outer
            with default:
                assert kd.current_stream() is default
            assert kd.empty(3).device == inner.device
        assert kd.current_stream() is outer
    assert kd.current_stream(outer.device) is default


def test_the_with_block_ends_with_an_error_too(on: str) -> None:
    with pytest.raises(ZeroDivisionError), kd.Stream():
        raise ZeroDivisionError
    assert kd.current_stream() is kd.default_stream()


def test_blocks_of_generators_end_in_any_order(on: str) -> None:
    other = "null" if on == "cpu" else "cpu"
    first, second = kd.Stream(), kd.Stream(other)

    def active(stream: kd.Stream) -> Iterator[None]:
        with stream:
            yield

    outer, inner = active(first), active(second)
    next(outer)
    next(inner)
    outer.close()
    assert kd.current_stream() is second
    assert kd.current_target().partition(":")[0] == other
    inner.close()
    assert kd.current_stream() is kd.default_stream(on)


def test_a_recording_that_is_ended_in_another_context_has_ended(on: str) -> None:
    stream, x = kd.Stream(), kd.zeros(64)

    def record() -> Iterator[kd.Graph]:
        with stream.capture() as graph:
            increment.forall(64)(x)
            yield graph

    generator = record()
    graph = contextvars.copy_context().run(next, generator)
    assert list(generator) == []
    assert not stream.is_capturing
    assert graph.node_count == 1
    graph.launch(stream)
    stream.synchronize()


def test_an_inner_use_goes_back_to_the_other_devices_default_stream(on: str) -> None:
    with kd.Stream("null") as stream:
        with kd.use("cpu"):
            assert kd.current_stream() is kd.default_stream("cpu")
            out = np.zeros(5)
            increment.forall(5)(out)
            assert (out == 1).all()
        assert kd.current_stream() is stream


def test_threads_and_contexts_have_current_streams_of_their_own(on: str) -> None:
    stream = kd.Stream()
    found: list[Any] = []
    both_are_in = threading.Barrier(2)

    def enter_and_look() -> None:
        with stream:  # the same object, left in another order than it was entered
            both_are_in.wait(10)
            found.append(kd.current_stream() is stream)
            both_are_in.wait(10)
        found.append(kd.current_stream(on) is kd.default_stream(on))

    thread = threading.Thread(target=enter_and_look)
    thread.start()
    with stream:
        both_are_in.wait(10)
        found.append(contextvars.Context().run(lambda: kd.current_stream(on) is stream))
    both_are_in.wait(10)
    thread.join(10)
    assert found.count(True) == 2
    assert found.count(False) == 1
    assert kd.current_stream() is kd.default_stream()


def test_a_closed_stream_is_refused_everywhere(on: str) -> None:
    stream, event = kd.Stream(), kd.Event()
    array = kd.zeros(8)
    stream.close()
    stream.close()
    assert stream.is_closed
    assert "closed" in repr(stream)
    for use in (
        lambda: increment.forall(8, stream=stream)(array),
        lambda: increment[1, 8, stream](array),
        lambda: array.copy_to_host(stream=stream),
        lambda: kd.zeros(8, stream=stream),
        lambda: stream.handle,
        lambda: event.record(stream),
        lambda: event.wait(stream),
        lambda: kd.Stream().wait(stream),
        lambda: stream.capture().__enter__(),
        lambda: stream.__enter__(),
        stream.synchronize,
        stream.query,
        stream.record,
    ):
        with pytest.raises(kd.ClosedResourceError, match="after it had been closed"):
            use()
    with kd.Stream() as active:
        active.close()
        with pytest.raises(kd.ClosedResourceError):
            increment.forall(8)(array)


def test_a_stream_of_another_device_is_refused(on: str) -> None:
    other = kd.Stream("null" if on == "cpu" else "cpu")
    array = kd.zeros(8)
    for use in (
        lambda: increment.forall(8, stream=other)(array),
        lambda: array.copy_to_host(stream=other),
        lambda: kd.zeros(8, device=on, stream=other),
        lambda: kd.Stream().record(kd.Event().record(other)),
    ):
        with pytest.raises(kd.DeviceMismatchError):
            use()


def test_a_stream_names_the_place_of_a_launch_whose_arguments_do_not(on: str) -> None:
    out = np.zeros(16)
    with contextvars.Context().run(lambda: kd.Stream(on)) as stream:
        pass
    contextvars.Context().run(lambda: increment.forall(16, stream=stream)(out))
    assert (out == (0 if on == "null" else 1)).all()
    other = "null" if on == "cpu" else "cpu"
    with kd.use(other), pytest.raises(kd.DeviceMismatchError):
        increment.forall(16, stream=stream)(out)


def test_the_default_stream(computing: str) -> None:
    default = kd.default_stream()
    array = kd.zeros(8)
    increment.forall(8, stream=default)(array)
    increment.forall(8, stream=0)(array)
    with kd.Stream():
        increment.forall(8, stream=default)(array)
    default.synchronize()
    assert (array.copy_to_host() == 3).all()
    assert "default" in repr(default)
    with pytest.raises(kd.ArgumentValueError, match="cannot be closed"):
        default.close()
    with pytest.raises(kd.GraphError, match="cannot be captured"), default.capture():
        pass


@pytest.mark.parametrize("priority", [1.5, "high", None])
def test_a_priority_is_an_int(on: str, priority: Any) -> None:
    with pytest.raises(kd.ArgumentTypeError, match="priority"):
        kd.Stream(priority=priority)


def test_what_is_no_stream(on: str) -> None:
    with pytest.raises(kd.ArgumentTypeError, match="is no"):
        kd.Stream.from_foreign(object())
    stream = kd.Stream()
    with pytest.raises(kd.ArgumentTypeError, match="is no"):
        stream.wait("later")
    for use in (lambda: kd.Stream.from_foreign(None), lambda: stream.wait(None)):
        with pytest.raises(kd.ArgumentTypeError, match="None is not a stream"):
            use()


@pytest.mark.parametrize("stream", [True, False, 1.0, "0", (1,), [None]])
def test_copies_and_fills_refuse_what_is_no_stream(on: str, stream: Any) -> None:
    x, y = kd.zeros(8), kd.zeros(8)
    for use in (
        lambda: kd.copy(y, x, stream=stream),
        lambda: x.fill(1, stream),
        lambda: x.copy_to_host(stream=stream),
        lambda: kd.zeros(8, stream=stream),
    ):
        with pytest.raises(kd.ArgumentTypeError, match=re.escape(f"stream is {stream!r}")):
            use()


@pytest.mark.parametrize("handle", [0, 1])
def test_the_default_stream_of_another_library_is_ours(on: str, handle: int) -> None:
    if on == "cpu":
        pytest.skip("the cpu has no streams of other libraries")
    assert kd.Stream.from_foreign(handle) is kd.default_stream()
    assert not kd.default_stream().is_closed


def test_what_is_no_event(on: str) -> None:
    stream = kd.Stream()
    for other in (stream, "now", kd.Event):
        with pytest.raises(kd.ArgumentTypeError, match=r"record was given a .*Make one with"):
            stream.record(other)  # type: ignore[arg-type]


# --------------------------------------------------------------------------- events


def test_an_event_that_was_never_recorded(on: str) -> None:
    event = kd.Event()
    assert event.query()
    assert event.device is None
    assert "never recorded" in repr(event)
    event.synchronize()
    event.wait(kd.Stream())
    for use in (lambda: event.elapsed_ms(kd.Stream().record()), lambda: event.handle):
        with pytest.raises(kd.ArgumentValueError, match="never recorded"):
            use()


def test_times_are_between_marks(computing: str) -> None:
    stream = kd.Stream()
    array = kd.zeros(1 << 16, stream=stream)
    first = stream.record()
    for _ in range(5):
        increment.forall(1 << 16, stream=stream)(array)
    second = kd.Event()
    assert stream.record(second) is second
    increment.forall(1 << 16, stream=stream)(array)
    third = stream.record()
    assert first.elapsed_ms(first) == 0
    assert first.elapsed_ms(second) > 0
    assert first.elapsed_ms(third) == pytest.approx(
        first.elapsed_ms(second) + second.elapsed_ms(third), abs=1e-2
    )
    assert third.elapsed_ms(first) == pytest.approx(-first.elapsed_ms(third), abs=1e-3)
    third.synchronize()
    assert third.query()
    second.record(stream)  # again, and later
    assert third.elapsed_ms(second) >= 0


def test_events_without_a_time_closed_ones_and_other_things(on: str) -> None:
    stream = kd.Stream()
    timed, untimed = stream.record(), stream.record(kd.Event(timed=False))
    for first, second in ((timed, untimed), (untimed, timed)):
        with pytest.raises(kd.ArgumentValueError, match="timed=False"):
            first.elapsed_ms(second)
    with pytest.raises(kd.ArgumentTypeError):
        timed.elapsed_ms(3)  # type: ignore[arg-type]
    timed.close()
    timed.close()
    for use in (timed.query, timed.synchronize, lambda: timed.record(stream), timed.wait):
        with pytest.raises(kd.ClosedResourceError):
            use()


def test_an_event_belongs_to_its_first_device(on: str) -> None:
    event = kd.Stream().record()
    other = kd.Stream("null" if on == "cpu" else "cpu")
    with pytest.raises(kd.DeviceMismatchError, match="and the event on"):
        other.record(event)
    with pytest.raises(kd.DeviceMismatchError, match="clock"):
        event.elapsed_ms(other.record())


def test_streams_of_two_targets_wait_for_each_other(on: str) -> None:
    ours, other = kd.Stream(), kd.Stream("null" if on == "cpu" else "cpu")
    array = kd.zeros(64, stream=ours)
    ours.wait(other)
    increment.forall(64, stream=ours)(array)
    other.wait(ours.record())
    other.synchronize()
    ours.synchronize()
    assert ours.query()


def test_record_and_wait_take_the_current_stream(on: str) -> None:
    with kd.Stream() as stream:
        event = kd.Event().record()
        assert event.device == stream.device
        event.wait()
    assert kd.Event().record().device == kd.default_stream().device


# --------------------------------------------------------------------------- pools


def test_a_pool_gives_its_streams_in_turn(on: str) -> None:
    pool = kd.StreamPool(3, blocking=False)
    assert len(pool) == 3
    assert pool.device.target == on
    assert len({stream.handle for stream in pool}) == 3
    given = [pool.stream() for _ in range(7)]
    assert given == [*pool, *pool, next(iter(pool))]
    with pool.stream() as stream:
        assert kd.current_stream() is stream
        assert stream is given[1]
    pool.synchronize()
    with pool:
        pass
    assert all(stream.is_closed for stream in pool)
    pool.close()
    with pytest.raises(kd.ClosedResourceError):
        pool.stream()


@pytest.mark.parametrize("count", [0, -1, 2.5, True, "4"])
def test_a_pool_has_one_or_more_streams(on: str, count: Any) -> None:
    with pytest.raises(kd.ArgumentValueError, match="count"):
        kd.StreamPool(count)
