"""Barriers that not every thread reaches, and loads that may or may not steer one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numba import njit

import kerneldsl as kd


@kd.kernel
def barrier_under_thread_condition(x):
    t = kd.threadIdx.x
    if t < 16:
        kd.syncthreads()
    x[t] = t


@kd.kernel
def barrier_in_varying_loop(x):
    t = kd.threadIdx.x
    for _k in range(t):
        kd.syncthreads()
    x[t] = t


@kd.kernel
def barrier_in_varying_while(x):
    t = kd.threadIdx.x
    n = t * 2 + 1
    while n > 0:
        kd.syncthreads()
        n -= 1
    x[t] = n


@kd.kernel
def barrier_after_varying_break(x):
    t = kd.threadIdx.x
    for k in range(8):
        if k == t:
            break
        kd.syncthreads()
    x[t] = t


@kd.kernel
def vote_under_thread_condition(x):
    i = kd.grid(1)
    if i % 2 == 0:
        x[i] = kd.syncthreads_count(i > 3)


@kd.func
def synchronize_block():
    kd.syncthreads()


@kd.kernel
def function_under_thread_condition(x):
    t = kd.threadIdx.x
    if t == 0:
        synchronize_block()
    x[t] = t


@kd.kernel
def barrier_in_ternary_condition(x):
    t = kd.threadIdx.x
    limit = 4 if t > 2 else 5
    for _k in range(limit):
        kd.syncthreads()
    x[t] = t


@kd.kernel
def barrier_in_loop_over_a_varying_slice(x):
    t = kd.threadIdx.x
    rest = x[t:]
    for _k in range(rest.size):
        kd.syncthreads()
    x[t] = t


@kd.kernel
def barrier_in_loop_over_one_of_two_slices(x):
    t = kd.threadIdx.x
    rest = x[:3] if t < 3 else x[:5]
    for _k in range(rest.shape[0]):
        kd.syncthreads()
    x[t] = t


#: kernel, text of the line that holds the barrier, a word of the varying condition
DIVERGENT = [
    (barrier_under_thread_condition, "kd.syncthreads()", "t < 16"),
    (barrier_in_varying_loop, "kd.syncthreads()", "t"),
    (barrier_in_varying_while, "kd.syncthreads()", "n"),
    (barrier_after_varying_break, "kd.syncthreads()", "k == t"),
    (vote_under_thread_condition, "kd.syncthreads_count(i > 3)", "i % 2"),
    (function_under_thread_condition, "kd.syncthreads()", "t == 0"),
    (barrier_in_ternary_condition, "kd.syncthreads()", "limit"),
    (barrier_in_loop_over_a_varying_slice, "kd.syncthreads()", "rest.size"),
    (barrier_in_loop_over_one_of_two_slices, "kd.syncthreads()", "rest.shape[0]"),
]


@pytest.mark.parametrize(
    ("kernel", "line", "condition"), DIVERGENT, ids=lambda v: getattr(v, "__name__", None)
)
def test_provable_divergence_is_refused(target: str, kernel, line: str, condition: str) -> None:
    x = np.zeros(32, np.int64)
    with kd.use(target), pytest.raises(kd.BarrierDivergenceError) as caught:
        kernel[1, 32](x)
    error = caught.value
    assert error.where is not None
    assert error.where.filename == __file__
    assert line in error.where.line
    message = str(error)
    assert "^" in message
    assert condition in message
    assert "threadIdx" in message or "grid" in message
    assert not x.any()


@kd.kernel
def trip_count_from_memory(x, counts):
    total = 0
    for _k in range(counts[0]):
        kd.syncthreads()
        total += 1
    x[kd.grid(1)] = total


def test_load_from_unwritten_memory_is_uniform(computing_target: str) -> None:
    x, counts = np.zeros(64, np.int64), np.array([3])
    with kd.use(computing_target):
        trip_count_from_memory[2, 32](x, counts)
    assert (x == 3).all()


def test_load_from_overlapping_memory_is_not(target: str) -> None:
    """Whether arrays overlap is known at the launch; x[0] is written after it was read."""
    x = np.full(64, 3, np.int64)
    if target == "cpu":
        with kd.use(target), pytest.raises(kd.BarrierDivergenceError):
            trip_count_from_memory[2, 32](x, x[:1])
        assert (x == 3).all()


@kd.kernel
def trip_count_from_a_tuple(arrays):
    x, (counts,) = arrays
    total = 0
    for _k in range(counts[0]):
        kd.syncthreads()
        total += 1
    x[kd.grid(1)] = total


def test_arrays_of_a_tuple_are_separate_memory(computing_target: str) -> None:
    x, counts = np.zeros(64, np.int64), np.array([3])
    with kd.use(computing_target), warnings.catch_warnings():
        warnings.simplefilter("error", kd.BarrierDivergenceWarning)
        trip_count_from_a_tuple[2, 32]((x, (counts,)))
    assert (x == 3).all()


def test_arrays_of_a_tuple_that_overlap_are_refused_on_the_cpu() -> None:
    x = np.full(64, 3, np.int64)
    with kd.use("cpu"), pytest.raises(kd.BarrierDivergenceError):
        trip_count_from_a_tuple[2, 32]((x, (x[:1],)))
    assert (x == 3).all()


@kd.kernel
def condition_written_in_its_interval(x):
    s = kd.shared.array(1, np.int64)
    t = kd.threadIdx.x
    if t == 0:
        s[0] = 5
    if s[0] > 3:
        kd.syncthreads()
    x[t] = t


def test_load_in_an_interval_that_writes_is_refused_on_the_cpu() -> None:
    x = np.zeros(32, np.int64)
    with kd.use("cpu"), pytest.raises(kd.BarrierDivergenceError) as caught:
        condition_written_in_its_interval[1, 32](x)
    assert "s[0] > 3" in str(caught.value)
    assert not x.any()


@kd.kernel
def condition_at_varying_address(x, flags):
    t = kd.threadIdx.x
    if flags[t] > 0:
        kd.syncthreads()
    x[t] = t


def test_load_at_varying_address_is_refused_on_the_cpu() -> None:
    x, flags = np.zeros(32, np.int64), np.ones(32, np.int64)
    with kd.use("cpu"), pytest.raises(kd.BarrierDivergenceError):
        condition_at_varying_address[1, 32](x, flags)


@kd.kernel
def condition_from_atomic(x, counter):
    t = kd.threadIdx.x
    if kd.atomic.add(counter, 0, 1) >= 0:
        kd.syncthreads()
    x[t] = t


def test_condition_from_an_atomic_is_refused_on_the_cpu() -> None:
    x, counter = np.zeros(32, np.int64), np.zeros(1, np.int64)
    with kd.use("cpu"), pytest.raises(kd.BarrierDivergenceError):
        condition_from_atomic[1, 32](x, counter)
    assert counter[0] == 0


@kd.kernel
def conditions_from_contents(x, counter):
    t = kd.threadIdx.x
    own = kd.local.array(2, np.int64)
    own[0] = own[1] = t
    kd.atomic.add(counter, 0, 1)
    for value in own:
        if value > 3:
            kd.syncthreads()
    if np.sum(own) > 3:
        kd.syncthreads()
    if counter.sum() > 3:
        kd.syncthreads()
    for value in counter:
        if value > 3:
            kd.syncthreads()
    if 5 in counter:
        kd.syncthreads()
    x[t] = t


def test_contents_read_as_a_whole_are_refused_on_the_cpu() -> None:
    x, counter = np.zeros(32, np.int64), np.zeros(1, np.int64)
    with kd.use("cpu"), pytest.raises(kd.BarrierDivergenceError):
        conditions_from_contents[1, 32](x, counter)
    assert counter[0] == 0


def test_contents_read_as_a_whole_are_warned_of_for_cuda() -> None:
    x, counter = np.zeros(32, np.int64), np.zeros(1, np.int64)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        conditions_from_contents.ptx(x, counter, arch="sm_90")
    assert [w.category for w in caught].count(kd.BarrierDivergenceWarning) == 5


@njit
def total_of(array):
    total = 0
    for value in array:
        total += value
    return total


@kd.kernel
def conditions_from_functions_of_numba(x, counts):
    t = kd.threadIdx.x
    if total_of(counts) > 3:
        kd.syncthreads()
    x[t] = total_of(counts)


def test_functions_of_numba_are_analyzed() -> None:
    x, counts = np.zeros(32, np.int64), np.full(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", kd.BarrierDivergenceWarning)
        conditions_from_functions_of_numba.ptx(x, counts, arch="sm_90")
    with kd.use("cpu"):
        conditions_from_functions_of_numba[1, 32](x, counts)
    assert (x == 6).all()


@kd.kernel
def trip_count_from_one_of_a_tuple(x, pair):
    t = kd.threadIdx.x
    for _k in range(pair[t % 2].size):
        kd.syncthreads()
    x[t] = t


def test_arrays_of_a_tuple_differ_in_shape() -> None:
    x = np.zeros(32, np.int64)
    with kd.use("cpu"), pytest.raises(kd.BarrierDivergenceError):
        trip_count_from_one_of_a_tuple[1, 32](x, (np.ones(2), np.ones(3)))
    with kd.use("cpu"):
        trip_count_from_one_of_a_tuple[1, 32](x, np.ones((2, 3)))
    assert (x == np.arange(32)).all()


@pytest.mark.gpu
def test_unproven_divergence_warns_on_cuda() -> None:
    from tests.support.targets import require

    require("cuda")
    x, counter = np.zeros(32, np.int64), np.zeros(1, np.int64)
    with kd.use("cuda"), pytest.warns(kd.BarrierDivergenceWarning):
        condition_from_atomic[1, 32](x, counter)
    assert (x == np.arange(32)).all()


def test_promise_is_accepted(computing_target: str) -> None:
    x, counter = np.zeros(32, np.int64), np.zeros(1, np.int64)
    with kd.use(computing_target):
        promised[1, 32](x, counter)
    assert (x == np.arange(32)).all()


@kd.kernel
def promised(x, counter):
    t = kd.threadIdx.x
    if kd.uniform(kd.atomic.add(counter, 0, 1) >= 0):
        kd.syncthreads()
    x[t] = t
