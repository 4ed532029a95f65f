"""Copies between arrays of the host and of devices, and fills."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.language.element_types import NUMPY_NAMES
from kerneldsl.memory.strided import as_strided_like, byte_bounds, is_dense
from kerneldsl.memory.transfer import _shortest
from kerneldsl.placement.devices import device_of
from kerneldsl.streams import order
from targets import null
from targets.null.devices import H100
from tests.support.arrays import assert_same_bits, poisoned, random_array
from tests.support.extent import examples

DEVICES = ("cpu", "null")


@kd.kernel
def add_one(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = x[i] + 1


# --------------------------------------------------------------------------- any two arrays

_steps = st.sampled_from([1, 2, 3, -1, -2])


@settings(max_examples=examples(150), deadline=None)
@given(st.data(), st.sampled_from((*DEVICES, "host")), st.sampled_from((*DEVICES, "host")))
def test_copies_between_any_two_places(data: st.DataObject, to: str, come_from: str) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 5), min_size=0, max_size=3)))
    dtype = data.draw(st.sampled_from(NUMPY_NAMES))
    axes = data.draw(st.permutations(range(len(shape))))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))

    def strided() -> tuple[np.ndarray, tuple[Any, ...], bool]:
        steps = [data.draw(_steps) for _ in shape]
        transposed = data.draw(st.booleans())
        wanted = [n * abs(s) for n, s in zip(shape, steps, strict=True)]
        whole = np.empty([wanted[a] for a in axes] if transposed else wanted, dtype)
        whole[...] = random_array(rng, whole.shape, dtype)
        return whole, (*(slice(None, None, s) for s in steps), ...), transposed

    def view(array: Any, index: tuple[Any, ...], transposed: bool) -> Any:
        if transposed:
            array = _untranspose(array, axes)
        return array[index]

    (left, *left_how), (right, *right_how) = strided(), strided()
    destination = left.copy() if to == "host" else kd.to_device(left, device=to)
    source = right.copy() if come_from == "host" else kd.to_device(right, device=come_from)
    kd.copy(view(destination, *left_how), view(source, *right_how))
    view(left, *left_how)[...] = view(right, *right_how)
    found = destination if to == "host" else destination.copy_to_host()
    assert_same_bits(found, left, f"{come_from} to {to}")


def _untranspose(array: Any, axes: list[int]) -> Any:
    if isinstance(array, np.ndarray):
        return array.transpose(np.argsort(axes))
    if list(axes) == list(range(len(axes)))[::-1]:
        return array.T
    if list(axes) == sorted(axes):
        return array
    # a device array has .T alone; other orders come about by taking its NumPy twin's strides
    order_ = np.argsort(axes)
    shape = tuple(array.shape[a] for a in order_)
    strides = tuple(array.strides[a] for a in order_)
    return array._over(array.pointer, shape, strides, array.is_read_only)


@pytest.mark.parametrize("device", ["cpu", "null", "numpy"])
def test_views_of_one_array_with_other_strides(rng: np.random.Generator, device: str) -> None:
    """The source is read as it was, whichever way the two lie over each other."""
    for _ in range(300):
        count = int(rng.integers(2, 12))
        steps = rng.choice((-3, -2, -1, 1, 2, 3), 2)
        first, second = (int(rng.integers(0, 60 - abs(s) * (count - 1))) for s in steps)
        views = [
            slice(low, low + (count - 1) * step + 1, step)
            if step > 0
            else slice(low - (count - 1) * step, (low - 1) if low else None, step)
            for low, step in zip((first, second), map(int, steps), strict=True)
        ]
        expected = np.arange(60.0)
        ours = expected.copy() if device == "numpy" else kd.to_device(expected, device=device)
        expected[views[0]] = expected[views[1]].copy()
        kd.copy(ours[views[0]], ours[views[1]])
        assert_same_bits(np.asarray(kd.as_array(ours).copy_to_host()), expected, str(views))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shift", [1, 7, 300, -1, -300])
def test_overlapping_ranges(rng: np.random.Generator, device: str, shift: int) -> None:
    array = random_array(rng, (1000,), "int32")
    ours = kd.to_device(array, device=device)
    low, high = (slice(None, -abs(shift)), slice(abs(shift), None))
    to, come_from = (high, low) if shift > 0 else (low, high)
    kd.copy(ours[to], ours[come_from])
    array[to] = array[come_from].copy()
    assert_same_bits(ours.copy_to_host(), array, "overlap")


@pytest.mark.parametrize("device", DEVICES)
def test_a_transposed_view_of_itself(rng: np.random.Generator, device: str) -> None:
    array = random_array(rng, (20, 20), "float64")
    ours = kd.to_device(array, device=device)
    kd.copy(ours, ours.T)
    assert_same_bits(ours.copy_to_host(), np.ascontiguousarray(array.T), "transposed")


def test_assigning_a_device_array_stays_on_the_device(rng: np.random.Generator) -> None:
    with null.described_as(H100) as target:
        array = random_array(rng, (4, 6), "float32")
        one, two = kd.to_device(array, device="null"), kd.zeros((8, 6), np.float32, device="null")
        target.fail_next("copy_to_host", RuntimeError("over the host"))
        two[2:6] = one
        target.reset()
        assert_same_bits(two.copy_to_host()[2:6], array, "assigned")
        two[0] = one[1].copy_to_host()
        assert_same_bits(two.copy_to_host()[0], array[1], "assigned")


def test_to_device_of_a_device_array_does_not_touch_the_host() -> None:
    with null.described_as(H100, H100) as target:
        first = kd.full((3, 5), 2.5, device="null:0")
        target.fail_next("copy_to_host", RuntimeError("over the host"))
        second = kd.to_device(first, device="null:1")
        third = kd.to_device(second[::2], device="null:1")
        target.reset()
        assert (second.device.index, third.device.index) == (1, 1)
        assert second.copy_to_host().tolist() == first.copy_to_host().tolist()
        assert third.copy_to_host().tolist() == [[2.5] * 5] * 2


@pytest.mark.parametrize(
    ("destination", "source", "message"),
    [
        (np.zeros(3), [1, 2, 3], "the source is a list"),
        ("abc", np.zeros(3), "the destination is a str"),
        (np.zeros(3), np.zeros(4), r"shape \(3,\).*shape \(4,\)"),
        (np.zeros(3), np.zeros(3, np.int64), "float64.*int64"),
    ],
)
def test_copies_that_cannot_be(destination: Any, source: Any, message: str) -> None:
    with pytest.raises(kd.ArgumentError, match=message):
        kd.copy(destination, source)
    if isinstance(source, np.ndarray) and isinstance(destination, np.ndarray):
        with pytest.raises(kd.ArgumentError, match=message):
            kd.copy(kd.to_device(destination, device="null"), source)


@pytest.mark.parametrize("device", DEVICES)
def test_read_only_arrays(device: str) -> None:
    array = kd.zeros((3, 4), device=device).as_read_only()
    for write in (
        lambda: array.fill(1),
        lambda: array.copy_from_host(np.ones((3, 4))),
        lambda: kd.copy(array, kd.ones((3, 4), device=device)),
        lambda: array[0].fill(1),
        lambda: array.T.fill(1),
    ):
        with pytest.raises(kd.ReadOnlyArrayError, match="read-only"):
            write()
    with pytest.raises(kd.ReadOnlyArrayError):
        add_one.forall(12)(array.reshape(-1))
    assert array.copy_to_host().sum() == 0


# --------------------------------------------------------------------------- filling


@pytest.mark.parametrize("device", [*DEVICES, "null:1"])
@pytest.mark.parametrize("dtype", NUMPY_NAMES)
def test_filling(rng: np.random.Generator, device: str, dtype: str) -> None:
    value = random_array(rng, (), dtype)[()]
    with null.described_as(H100, H100):
        for shape, index in (
            ((1001,), np.s_[:]),
            ((40, 31), np.s_[::2, 3:9]),
            ((3, 400, 5), np.s_[:, ::-1, 1]),
            ((7, 5), np.s_[1:1]),
            ((), np.s_[...]),
        ):
            host = poisoned(shape, dtype)
            ours = kd.to_device(host, device=device)
            ours[index].fill(value)
            host[index] = value
            assert_same_bits(ours.copy_to_host(), host, f"{dtype}{shape}")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("dtype", "value"),
    [("uint8", 300), ("uint8", -1), ("float32", "many"), ("int32", [1, 2]), ("float64", 1j)],
)
def test_what_no_array_of_a_dtype_is_filled_with(device: str, dtype: str, value: Any) -> None:
    array = kd.zeros(3, dtype, device=device)
    for use in (
        lambda: kd.full(3, value, dtype, device=device),
        lambda: array.fill(value),
        lambda: array[:1].fill(value),
    ):
        with pytest.raises(kd.ArgumentValueError, match=f"dtype {dtype} cannot be filled with"):
            use()
    assert (array.copy_to_host() == 0).all()
    other = kd.zeros((), device="null")
    with pytest.raises(kd.ArgumentTypeError, match="not converted"):
        array.fill(other)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", [kd.empty, kd.pinned_empty, kd.managed_empty])
def test_absurd_sizes(device: str, make: Callable[..., Any]) -> None:
    for shape in (2**60, (2**40, 2**40), 2**70):
        with pytest.raises(kd.ArgumentValueError, match=r"bytes were requested .*Check the shape"):
            make(shape, device=device)
    with pytest.raises(kd.OutOfMemoryError, match="281474976710656 bytes"):
        make(2**45, device=device)


def test_zeros_upload_nothing() -> None:
    with null.described_as(H100) as target:
        target.fail_next("copy_from_host", RuntimeError("uploaded"))
        array = kd.zeros((100, 100), device="null")
        ones = kd.full(1000, np.pi, device="null", order="F")
        target.reset()
        assert array.copy_to_host().sum() == 0
        assert (ones.copy_to_host() == np.pi).all()


def test_the_default_fill_of_a_target(rng: np.random.Generator) -> None:
    from kerneldsl.contract import Device

    array = kd.empty(100_003, np.complex128, device="null")
    value = random_array(rng, (), "complex128")
    Device.fill(array.device, array.pointer, value.tobytes(), array.size)
    assert_same_bits(array.copy_to_host(), np.full(array.shape, value), "default")


@pytest.mark.parametrize(
    ("pattern", "shortest"),
    [
        (b"\0" * 16, b"\0"),
        (b"\1\2" * 4, b"\1\2"),
        (b"\1\2\3\4", b"\1\2\3\4"),
        (b"\0\1", b"\0\1"),
        (b"abcdabce", b"abcdabce"),
    ],
)
def test_shortest_pattern(pattern: bytes, shortest: bytes) -> None:
    assert _shortest(pattern) == shortest


# --------------------------------------------------------------------------- not waiting


@pytest.mark.parametrize("device", DEVICES)
def test_copies_that_do_not_wait(rng: np.random.Generator, device: str) -> None:
    stream = kd.Stream(device)
    array = random_array(rng, (30, 7), "float64")
    ours = kd.empty((30, 7), device=device)
    ours.copy_from_host(array, stream, blocking=False)
    back = ours.copy_to_host(stream=stream, blocking=False)
    into = poisoned((30, 7), "float64")
    kd.copy(into, ours, stream, blocking=False)
    stream.synchronize()
    assert_same_bits(back, array, "back")
    assert_same_bits(into, array, "into")


def _event_class() -> type:
    return type(device_of("null").create_event(is_timed=False))


def test_what_a_copy_reads_lives_until_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device whose events are not reached before we say so."""
    reached = False
    monkeypatch.setattr(_event_class(), "is_done", lambda self: reached)
    order.release_finished()
    freed: list[int] = []

    class Source(np.ndarray):
        def __del__(self) -> None:
            freed.append(1)

    ours = kd.zeros(10, device="null")
    source = np.arange(10.0).view(Source)
    ours.copy_from_host(source, kd.Stream("null"), blocking=False)
    del source
    gc.collect()
    assert not freed
    reached = True
    ours.copy_from_host(np.ones(10), kd.Stream("null"), blocking=False)
    gc.collect()
    assert freed == [1]
    assert not order._keep_alive


@pytest.mark.parametrize("later_is_done", [False, True])
def test_a_thread_that_lets_go_takes_only_what_it_has_looked_at(
    monkeypatch: pytest.MonkeyPatch, later_is_done: bool
) -> None:
    """Another thread that lets go in between must not make this one take what is not done."""
    events: list[Any] = []
    others: list[threading.Thread] = []

    def is_done(self: Any) -> bool:
        if not events:
            return False
        if self is events[0] and not others:
            others.append(threading.Thread(target=order.release_finished))
            others[0].start()
            others[0].join(0.2)  # it may have to wait until this thread is through
        return self is events[0] or later_is_done

    monkeypatch.setattr(_event_class(), "is_done", is_done)
    stream, ours = kd.Stream("null"), kd.zeros(10, device="null")
    sources = [np.arange(10.0), np.ones(10)]
    alive = [weakref.ref(source) for source in sources]
    for _ in range(2):
        ours.copy_from_host(sources.pop(0), stream, blocking=False)
    ((_, waiting),) = order._keep_alive.items()
    events += [event for event, _ in waiting]
    order.release_finished()
    others[0].join()
    assert [ref() is not None for ref in alive] == [False, not later_is_done]
    assert bool(order._keep_alive) is not later_is_done
    events[:] = events[1:]
    order.release_finished()
    assert not order._keep_alive


def test_page_locked_memory_waits_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """So copies from and to it need no event; copies of other memory do."""
    made: list[Any] = []
    device = device_of("null")
    create_event = device.create_event

    def create(*args: Any, **options: Any) -> Any:
        made.append(create_event(*args, **options))
        return made[-1]

    monkeypatch.setitem(vars(device), "create_event", create)
    stream, ours = kd.Stream("null"), kd.zeros((4, 6), device="null")
    host = kd.pinned_empty((8, 6), device="null")
    ours.copy_from_host(host[2:6], stream, blocking=False)
    ours.copy_to_host(host[4:], stream, blocking=False)
    ours.copy_to_host(stream=stream, blocking=False)
    assert not made
    ours.copy_from_host(np.ones((4, 6)), stream, blocking=False)
    assert len(made) == 1


def test_page_locked_memory_of_another_device_is_kept_alive() -> None:
    """It waits for its own device alone."""
    with null.described_as(H100, H100):
        host = kd.pinned_empty(10, device="null:1")
        ours = kd.zeros(10, device="null:0")
        stream = kd.Stream("null:0")
        with stream._stream.held():
            ours.copy_from_host(host, stream, blocking=False)
            ((_, ((_, needed),)),) = order._keep_alive.items()
            assert any(each is host for each in needed)
        order.release_finished()
        assert not order._keep_alive


@pytest.mark.parametrize("wait", [kd.Stream.synchronize, lambda stream: kd.synchronize()])
def test_waiting_lets_go_of_what_copies_have_read(wait: Callable[[kd.Stream], None]) -> None:
    stream, ours = kd.Stream("null"), kd.zeros(10, device="null")
    source = np.arange(10.0)
    alive = weakref.ref(source)
    with stream._stream.held():
        ours.copy_from_host(source, stream, blocking=False)
        del source
        gc.collect()
        assert alive() is not None
    wait(stream)
    assert alive() is None


def test_what_waits_on_a_lost_device_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(self: Any) -> bool:
        raise kd.DeviceLostError("gone", code=700, name="CUDA_ERROR_ILLEGAL_ADDRESS")

    monkeypatch.setattr(_event_class(), "is_done", lost)
    kd.zeros(10, device="null").copy_from_host(np.ones(10), blocking=False)
    assert not order._keep_alive


def test_recordings_keep_copies_and_what_they_read(rng: np.random.Generator) -> None:
    for device in DEVICES:
        stream = kd.Stream(device)
        host, back = random_array(rng, (64,), "float32"), poisoned((64,), "float32")
        ours, other = (kd.zeros(64, np.float32, device=device) for _ in range(2))
        with stream.capture() as graph:
            ours.copy_from_host(host, blocking=False)
            kd.copy(other, ours)
            ours.fill(7)
            other.copy_to_host(back, blocking=False)
        assert np.isnan(back).all()
        graph.launch()
        stream.synchronize()
        assert_same_bits(back, host, device)
        assert (ours.copy_to_host() == 7).all()
        host[...] = 3
        graph.launch(stream)
        stream.synchronize()
        assert (back == 3).all()


@pytest.mark.parametrize("device", DEVICES)
def test_closing_an_array_leaves_its_memory_to_the_graph(device: str) -> None:
    pool, stream, back = kd.MemoryPool(device), kd.Stream(device), np.zeros(64)
    with pool:
        ours = kd.zeros(64, device=device)
    with stream.capture() as graph:
        ours.fill(7)
        add_one.forall(64)(ours)
        ours.copy_to_host(back, blocking=False)
    ours.close()
    with pytest.raises(kd.ClosedResourceError):
        ours.fill(1)
    graph.launch()
    stream.synchronize()
    assert back.tolist() == [7.0 if device == "null" else 8.0] * 64  # kernels of null do not run
    assert pool.stats().in_use_bytes == 512
    graph.close()
    del graph, ours
    gc.collect()
    kd.synchronize(device)
    assert pool.stats().in_use_bytes == 0


@pytest.mark.parametrize("device", DEVICES)
def test_copies_that_wait_cannot_be_recorded(device: str) -> None:
    ours = kd.zeros((8, 600), np.float32, device=device)
    wide = kd.zeros((600, 2), np.float32, device=device)
    for do in (
        lambda: ours.copy_from_host(np.zeros((8, 600), np.float32)),
        lambda: ours.copy_to_host(),
        lambda: ours.copy_to_host(np.zeros((600, 8), np.float32).T, blocking=False),
        lambda: wide[:, 0].copy_from_host(np.zeros(600, np.float32), blocking=False),
    ):
        stream = kd.Stream(device)
        with pytest.raises(kd.GraphError, match="cannot be captured"), stream.capture():
            do()


def test_copies_over_the_host_cannot_be_recorded() -> None:
    with null.described_as(H100, H100) as target:
        ours, other = kd.zeros((20, 20), device="null:0"), kd.zeros((600, 2), device="null:1")
        for do in (
            lambda: kd.copy(ours, ours.T),
            lambda: kd.copy(other[:, 1], kd.zeros((600, 3), device="null:0")[:, 1]),
        ):
            target.fail_next("copy_to_host", RuntimeError("asked of the device"))
            with (
                pytest.raises(kd.GraphError, match="to the host that waits cannot be captured"),
                kd.Stream("null:0").capture(),
            ):
                do()
            target.reset()


# --------------------------------------------------------------------------- two devices


def test_copies_between_two_devices(rng: np.random.Generator) -> None:
    with null.described_as(H100, H100) as target:
        array = random_array(rng, (6, 5), "int16")
        one = kd.to_device(array, device="null:0")
        two = kd.full((6, 5), -1, np.int16, device="null:1")
        target.fail_next("copy_to_host", RuntimeError("over the host"))
        kd.copy(two, one)
        kd.copy(two[:3, 1:4], one[3:, 2:])
        for stream in (kd.Stream("null:0"), kd.Stream("null:1")):
            kd.copy(two[5], one[0], stream)
            assert two._owner._uses[stream.handle] is stream._stream
        target.reset()
        array_two = array.copy()
        array_two[:3, 1:4] = array[3:, 2:]
        array_two[5] = array[0]
        assert_same_bits(two.copy_to_host(), array_two, "peer")
        with kd.Stream("null:1"):
            kd.copy(one, two)
        assert_same_bits(one.copy_to_host(), array_two, "back")


def test_a_copy_between_default_streams_holds_up_frees_in_other_streams() -> None:
    """Memory that belongs to a stream of its own is not given out before the copy is made."""
    with null.described_as(H100, H100):
        pools = [kd.MemoryPool(f"null:{i}") for i in range(2)]
        streams = [kd.Stream(f"null:{i}", blocking=False) for i in range(2)]
        both = []
        for i in range(2):
            with pools[i]:
                both.append(kd.empty(10, device=f"null:{i}", stream=streams[i]))
        kd.copy(both[1], both[0])
        for array in both:
            array.close()
        for pool, stream in zip(pools, streams, strict=True):
            (release,) = pool._backend.releases
            assert (release.stream, release.used_on) == (stream._stream, (None,))


def test_a_stream_of_neither_device(rng: np.random.Generator) -> None:
    with null.described_as(H100, H100, H100):
        stream = kd.Stream("null:2")
        one, two = kd.zeros(3, device="null:0"), kd.zeros(3, device="null:1")
        with pytest.raises(kd.DeviceMismatchError, match="null:2"):
            kd.copy(one, two, stream)


def test_peer_access() -> None:
    with null.described_as(H100, H100) as target:
        assert kd.can_access_peer("null:0", "null:1")
        assert kd.can_access_peer("null:0", "null:0")
        assert not kd.can_access_peer("null:0", "cpu")
        kd.enable_peer_access("null:0", "null:1")
        kd.enable_peer_access("null:0", "null:0")
        assert target.peer_access == {target.devices()}
        with pytest.raises(kd.DeviceMismatchError, match="cannot reach the memory of cpu"):
            kd.enable_peer_access("null:0", "cpu")


# --------------------------------------------------------------------------- shapes


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-40, 40)), max_size=3),
    st.sampled_from([1, 2, 8]),
)
def test_dense_means_each_byte_is_one_elements(axes: list[tuple[int, int]], size: int) -> None:
    shape, strides = tuple(n for n, _ in axes), tuple(s for _, s in axes)
    low, high = byte_bounds(0, shape, strides, size)
    touched = [
        sum(i * s for i, s in zip(index, strides, strict=True)) + byte
        for index in np.ndindex(*shape)
        for byte in range(size)
    ]
    assert is_dense(shape, strides, size) is (sorted(touched) == list(range(low, high)))


def test_arrays_are_rearranged_to_the_strides_of_the_other(rng: np.random.Generator) -> None:
    array = random_array(rng, (3, 4), "int32")
    found = as_strided_like(array, (-4, 12))
    assert found.strides == (-4, 12)
    assert_same_bits(np.ascontiguousarray(found), array, "rearranged")
    assert as_strided_like(array, array.strides) is array
