"""Page-locked and managed memory, and arrays whose memory was given back."""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.memory import geometry
from targets import null
from targets.null.devices import H100
from tests.support.arrays import assert_same_bits, random_array

DEVICES = ("cpu", "null")


@kd.kernel
def add_one(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = x[i] + 1


# --------------------------------------------------------------------------- host memory


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=2)))
def test_page_locked_arrays(
    rng: np.random.Generator, device: str, flags: tuple[bool, bool]
) -> None:
    mapped, write_combined = flags
    array = random_array(rng, (13, 7), "complex64")
    ours = kd.pinned_copy(
        np.asfortranarray(array), mapped=mapped, write_combined=write_combined, device=device
    )
    assert ours.flags.f_contiguous
    assert ours.flags.writeable
    assert ours.ctypes.data % 256 == 0
    assert_same_bits(np.ascontiguousarray(ours), array, "copy")
    assert_same_bits(kd.to_device(ours, device=device).copy_to_host(), ours, "round trip")
    empty = kd.pinned_empty((0, 3), np.int8, device=device)
    assert (empty.shape, empty.dtype) == ((0, 3), np.int8)


def test_page_locked_memory_lives_as_long_as_a_view() -> None:
    gc.collect()  # what earlier tests have left in cycles would go in the middle
    before = kd.memory_stats("null").pinned_bytes
    array = kd.pinned_empty((10, 10), device="null")
    assert kd.memory_stats("null").pinned_bytes == before + 800
    view = array[3:5].T
    view[...] = 5
    del array
    gc.collect()
    assert kd.memory_stats("null").pinned_bytes == before + 800
    assert (view == 5).all()
    del view
    gc.collect()
    assert kd.memory_stats("null").pinned_bytes == before


@pytest.mark.parametrize("device", DEVICES)
def test_mapped_memory_is_one_memory(device: str) -> None:
    array = kd.pinned_empty((6, 8), np.int32, mapped=True, device=device)
    array[...] = np.arange(48).reshape(6, 8)
    view = kd.mapped_view(array[1:, ::2])
    assert view.copy_to_host().tolist() == array[1:, ::2].tolist()
    view[0].fill(-1)
    assert array[1, ::2].tolist() == [-1] * 4
    array.flags.writeable = False
    assert kd.mapped_view(array).is_read_only


@pytest.mark.parametrize("device", DEVICES)
def test_closing_a_mapped_view_leaves_the_array_its_memory(device: str) -> None:
    host = kd.pinned_empty(1000, np.float32, mapped=True, device=device)
    host[...] = 5
    before = kd.memory_stats(device)
    view = kd.mapped_view(host[10:])
    view.close()
    with pytest.raises(kd.ClosedResourceError):
        view.copy_to_host()
    after = kd.memory_stats(device)
    assert (after.in_use_bytes, after.pinned_bytes) == (before.in_use_bytes, before.pinned_bytes)
    others = [kd.zeros(1000, np.float32, device=device) for _ in range(2)]
    assert (host == 5).all()
    del host, view, others
    gc.collect()
    gone = kd.memory_stats(device)
    assert gone.in_use_bytes + gone.pinned_bytes < before.in_use_bytes + before.pinned_bytes


def test_arrays_that_are_not_mapped() -> None:
    for array in (np.zeros(3), kd.pinned_empty(3, device="null")):
        with pytest.raises(kd.ArgumentValueError, match="mapped=True"):
            kd.mapped_view(array)
    with pytest.raises(kd.ArgumentTypeError, match="must be a NumPy array"):
        kd.mapped_view([1, 2])  # type: ignore[arg-type]


@pytest.mark.parametrize("device", DEVICES)
def test_managed_arrays(device: str) -> None:
    array = kd.managed_empty((5, 4), np.float32, order="F", device=device)
    assert array.layout == "F"
    assert array.is_managed is (device == "null")
    array.host_view()[...] = 2
    array[1].fill(9)
    assert array.host_view()[1].tolist() == [9] * 4
    assert array.copy_to_host().sum() == 2 * 16 + 9 * 4
    assert not array.as_read_only().host_view().flags.writeable
    assert kd.managed_empty(0, device=device).size == 0


def test_ordinary_arrays_have_no_host_view() -> None:
    with pytest.raises(kd.ArgumentTypeError, match="managed_empty"):
        kd.zeros(3, device="null").host_view()


@pytest.mark.parametrize("make", [kd.pinned_empty, kd.managed_empty])
def test_host_memory_that_cannot_be(make: Any) -> None:
    with null.described_as(H100) as target:
        with pytest.raises(kd.ArgumentTypeError, match="dtype"):
            make(3, "datetime64[25s]", device="null")
        with pytest.raises(kd.ArgumentValueError, match="negative"):
            make((3, -1), device="null")
        full = kd.OutOfMemoryError("full", code=2, name="CUDA_ERROR_OUT_OF_MEMORY")
        target.fail_next("allocate", full)
        assert make(3, device="null").size == 3  # after a collection
        target.fail_next("allocate", full)
        target.fail_next("allocate", full)
        with pytest.raises(kd.OutOfMemoryError, match="full"):
            make(3, device="null")


# --------------------------------------------------------------------------- closing


@pytest.mark.parametrize("device", DEVICES)
def test_closed_arrays(device: str) -> None:
    pool = kd.MemoryPool(device)
    with pool:
        array = kd.ones((4, 5), device=device)
    view, other = array[1:], array.T.as_read_only()
    add_one.forall(20)(array.reshape(-1))
    view.close()
    view.close()
    assert pool.stats().in_use_bytes == 0
    for closed in (array, view, other):
        assert closed.is_closed
        assert "closed" in repr(closed)
        for use in (
            closed.copy_to_host,
            closed.as_read_only,
            closed.host_view,
            lambda c=closed: c[0],
            lambda c=closed: c.fill(1),
            lambda c=closed: c.copy_from_host(np.zeros(c.shape)),
            lambda c=closed: kd.copy(np.zeros(c.shape), c),
            lambda c=closed: kd.copy(kd.zeros(c.shape, device=device), c),
            lambda c=closed: add_one.forall(3)(c),
            lambda c=closed: kd.from_dlpack(c) if device == "cpu" else c.check_open(),
        ):
            with pytest.raises(kd.ClosedResourceError, match="after it had been closed"):
                use()


def test_memory_that_numpy_has_is_not_pulled_away() -> None:
    pool = kd.MemoryPool("cpu")
    with pool:
        array = kd.full(1000, 5, np.int64, device="cpu")
    theirs, capsule = np.asarray(array), kd.full(10, 2.0, device="cpu")
    shared = np.from_dlpack(capsule)
    array.close()
    capsule.close()
    del array, capsule
    gc.collect()
    with pool:
        kd.full(1000, 9, np.int64, device="cpu")
    assert (theirs == 5).all()
    assert (shared == 2).all()
    assert pool.stats().in_use_bytes == 8000
    del theirs
    gc.collect()
    assert pool.stats().in_use_bytes == 0


def test_views_taken_by_two_threads_are_all_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread may find that the array has no other view yet."""
    array = kd.zeros(1000)
    both = threading.Barrier(2)
    make = weakref.WeakSet

    def slow_set(*args: Any) -> Any:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        return make(*args)

    monkeypatch.setattr(geometry.weakref, "WeakSet", slow_set)
    views: list[Any] = []
    threads = [threading.Thread(target=lambda: views.append(array[1:])) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    array.close()
    assert [view.is_closed for view in views] == [True, True]


def test_closing_managed_memory_and_foreign_arrays() -> None:
    array = kd.managed_empty(100, device="null")
    before = kd.memory_stats("null").managed_bytes
    array.close()
    assert kd.memory_stats("null").managed_bytes == before - 800
    theirs = np.arange(5.0)
    ours = kd.from_dlpack(theirs)
    ours.close()
    with pytest.raises(kd.ClosedResourceError):
        ours.copy_to_host()
    assert theirs.tolist() == [0, 1, 2, 3, 4]
