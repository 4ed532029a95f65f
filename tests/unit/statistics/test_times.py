"""What the times of kernels are of, and that they are what a clock on the wall says."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.launch.native import machine
from targets import null
from tests.support.fake_target import installed
from tests.support.native import NativeFakeTarget, require_native, warm_up


@kd.kernel
def scale(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


@kd.kernel
def polynomial(x, out):
    i = kd.grid(1)
    if i < out.size:
        value = x[i]
        for _ in range(8_000):
            value = value * 0.5 + 1.0
        out[i] = value


@pytest.fixture(autouse=True)
def native():
    require_native()


def _times(launch: Any, *args: Any, count: int) -> tuple[float, kd.KernelStatistics]:
    """Wall-clock time of a launch in ns, and what the statistics say of the same launches."""
    warm_up(launch, *args)
    kd.reset_stats()
    began = time.perf_counter_ns()
    for _ in range(count):
        launch(*args)
    wall = (time.perf_counter_ns() - began) / count
    (kernel,) = kd.stats().kernels
    assert kernel.launches == count
    return wall, kernel


def _best(measure: Callable[[], tuple[float, Any]], is_good: Callable[[float, Any], bool]) -> None:
    """Somebody else may use the machine: one of a few tries has to be good."""
    seen = []
    for _ in range(6):
        wall, kernel = measure()
        if is_good(wall, kernel.average_ns):
            return
        seen.append((wall, kernel.average_ns))
    raise AssertionError(f"wall clock and average: {seen}")


@pytest.mark.measures
@pytest.mark.parametrize("elements", [64, 1024])
def test_times_agree_with_the_wall_clock(elements: int) -> None:
    """Of kernels whose launch costs less than a hundredth of them."""
    x, out = np.ones(elements), np.zeros(elements)
    with kd.use("cpu"):
        launch = polynomial.forall(elements)
        _best(
            lambda: _times(launch, x, out, count=max(1000, 200_000 // elements * 5)),
            lambda wall, average: 0.95 * wall < average < 1.02 * wall,
        )


@pytest.mark.measures
def test_the_time_of_a_short_kernel_is_that_of_its_code() -> None:
    """A launch of 16 elements takes some hundred nanoseconds, its code a few of them."""
    x, out = np.ones(16), np.zeros(16)
    with kd.use("cpu"):
        launch = scale.forall(16)
        _best(
            lambda: _times(launch, x, out, count=20_000),
            lambda wall, average: average < 0.5 * wall,
        )
    (kernel,) = kd.stats().kernels
    assert kernel.measured == "kernel code"
    assert "kernel code" in kd.stats().summary()


def test_native_launches_on_the_cpu_never_come_by_python_to_be_timed() -> None:
    x, out = np.ones(16), np.zeros(16)
    with kd.use("cpu"):
        launch = scale.forall(16)
        warm_up(launch, x, out)
        kd.reset_stats()
        before = launch._slow_count
        for _ in range(3000):
            launch(x, out)
        assert launch._slow_count == before
    (kernel,) = kd.stats().kernels
    assert (kernel.launches, kernel.measured) == (3000, "kernel code")


def test_a_time_of_launches_through_python_says_so() -> None:
    @kd.kernel
    def seldom(x):
        x[kd.grid(1)] = 1

    kd.reset_stats()
    with kd.use("cpu"), machine.suspended():
        for _ in range(40):
            seldom.forall(16)(np.zeros(16))
    (kernel,) = kd.stats().kernels
    assert kernel.measured == "Python call"
    assert kernel.average_ns > 0
    assert kd.stats().to_dict()["kernels"][0]["measured"] == "Python call"


@pytest.mark.measures
def test_a_sample_stands_for_the_launches_since_the_one_before() -> None:
    """The first ones, which are timed more often, count no more than others."""

    def slow_at_first(x, out):
        i = kd.grid(1)
        if i < out.size:
            value = x[i]
            rounds = 400_000 if x[i] > 1 else 1
            for _ in range(rounds):
                value = value * 0.5 + 1.0
            out[i] = value

    kernel = kd.kernel(slow_at_first)
    slow, fast, out = np.full(8, 2.0), np.ones(8), np.zeros(8)
    with kd.use("cpu"):
        launch = kernel.forall(8)
        for given in (slow, fast):
            warm_up(launch, given, out)

        def measure() -> tuple[float, Any]:
            kd.reset_stats()
            took = 0
            for number in range(1000):
                began = time.perf_counter_ns()
                launch(slow if number < 10 else fast, out)
                took += time.perf_counter_ns() - began
            return took / 1000, kd.stats().kernels[0]

        # 10 of 1000 are slow, and 4 of the 20 samples.
        _best(measure, lambda wall, average: 0.5 * wall < average < 1.7 * wall)


def test_the_null_target_is_no_gpu() -> None:
    kd.reset_stats()
    with null.described_as(null.H100), kd.use("null"):
        scale.forall(4)(kd.zeros(4), kd.zeros(4))
        stats = kd.stats()
    assert [(d.device, d.is_gpu, d.launches) for d in stats.devices] == [("null:0", False, 1)]
    assert stats.gpu_share_of_launches == 0
    assert not stats.is_gpu_effective()
    assert (stats.kernels[0].average_ns, stats.kernels[0].measured) == (None, None)


def test_launches_on_a_device_come_by_python_to_be_timed() -> None:
    """Events are Python's to make; every 1024th native launch."""

    @kd.kernel
    def takes(a):
        pass

    with installed(NativeFakeTarget("fake")) as target, kd.use("fake"):
        launch = takes[1, 1]
        for _ in range(5000):
            launch(1)
        assert target.native_launches < 5000
        before = launch._slow_count
        for _ in range(4096):
            launch(1)
        assert 3 <= launch._slow_count - before <= 5
