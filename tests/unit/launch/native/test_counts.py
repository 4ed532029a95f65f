"""Many launches by native code: counted exactly, from threads too, with nothing left behind."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.fake_target import installed
from tests.support.launched import axpy, begin_anew, numbers, takes
from tests.support.native import NativeFakeTarget, warm_up


@pytest.fixture(autouse=True)
def native():
    begin_anew()


@pytest.fixture
def fake():
    with installed(NativeFakeTarget("fake")) as target, kd.use("fake"):
        yield target


# --------------------------------------------------------------------------- counting


def test_counts_are_exact_under_threads(fake):
    kd.reset_stats()
    launch = takes[1, 1]
    barrier = threading.Barrier(8)

    def work(number):
        barrier.wait()
        for i in range(500):
            with kd.use("fake"):
                launch(number, i if i % 7 else float(i))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    before = len(fake.launches)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake.launches) - before == 4000
    assert kd.stats().launches == 4000
    assert fake.native_launches > 1000


def test_native_launches_are_timed_now_and_then(fake):
    kd.reset_stats()
    for _ in range(5000):
        takes[3, 1](1, 2)
    (kernel,) = (k for k in kd.stats().kernels if k.kernel.endswith("takes"))
    assert kernel.launches == 5000


# --------------------------------------------------------------------------- references, threads


def test_a_million_launches_leave_nothing_behind():
    x, y, out = numbers(16), numbers(16), numbers(16)
    a = float(np.float64(12345.678))
    with kd.use("cpu"):
        launch = axpy.forall(16)
        bound = launch.bind(a, x, y, out)
        warm_up(launch, a, x, y, out)
        axpy.forall(16)  # is found last
        held = (a, x, y, out, launch, bound, launch._tables, axpy)
        before = [sys.getrefcount(each) for each in held]
        none_before = sys.getrefcount(None)
        blocks = sys.getallocatedblocks()
        for _ in range(500_000):
            axpy.forall(16)(a, x, y, out)
            bound()
        after = [sys.getrefcount(each) for each in held]
        none_after = sys.getrefcount(None)
    assert abs(none_after - none_before) < 1000
    assert sys.getallocatedblocks() - blocks < 2000
    assert after == before


def test_kernels_go_with_their_launches():
    @kd.kernel
    def passing(x):
        x[0] = 1

    out = np.zeros(1)
    with kd.use("cpu"):
        for _ in range(4):
            passing.forall(1)(out)
            passing[1, 1](out)
    gone = weakref.ref(passing)
    del passing
    gc.collect()
    assert gone() is None


def test_launches_from_threads_at_once():
    failures = []

    def work():
        x, y = numbers(2000), numbers(2000)
        out = np.empty_like(x)
        try:
            with kd.use("cpu"):
                for i in range(300):
                    out[...] = np.nan
                    axpy.forall(2000)(float(i), x, y, out)
                    expected = (float(i) * x.astype(float) + y).astype(np.float32)
                    np.testing.assert_array_equal(out, expected)
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_tracing_and_profiling_see_a_launch_and_may_launch():
    x, y, out = numbers(16), numbers(16), numbers(16)
    seen = []
    with kd.use("cpu"):
        launch = axpy.forall(16)
        warm_up(launch, 2.0, x, y, out)

        def trace(frame, event, argument):
            sys.settrace(None)
            launch(3.0, x, y, out)
            seen.append(event)
            sys.settrace(trace)
            return trace

        def traced():
            launch(2.0, x, y, out)

        out[...] = np.nan
        sys.settrace(trace)
        try:
            traced()
        finally:
            sys.settrace(None)
    assert seen
    np.testing.assert_array_equal(out, (3.0 * x.astype(float) + y).astype(np.float32))
