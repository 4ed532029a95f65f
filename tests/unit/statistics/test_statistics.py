"""What is counted and timed, exactly, under threads, and how it is shown."""

from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import LaunchTimer
from kerneldsl.contract.launch_counter import LaunchCounter, launch_counters
from kerneldsl.statistics.collect import note_copy
from targets import null
from tests.support.extent import examples
from tests.support.fake_target import FakeDevice, FakeTarget, installed


@pytest.fixture(autouse=True)
def clean():
    kd.reset_stats()


@kd.kernel
def nothing(x):
    pass


class Timer(LaunchTimer):
    """A timer whose time is known from the second time on that it is asked for."""

    def __init__(self, elapsed: int) -> None:
        self.elapsed = elapsed
        self.is_stopped = False
        self.asked = 0

    def stop(self) -> None:
        self.is_stopped = True

    def elapsed_ns(self) -> int | None:
        assert self.is_stopped
        self.asked += 1
        return self.elapsed if self.asked > 1 else None


class TimedDevice(FakeDevice):
    def start_timer(self, stream: Any) -> Timer:
        timers = self.owner.timers
        timers.append(Timer(1000 + len(timers)))
        return timers[-1]


class TimedTarget(FakeTarget):
    """A device whose launches take 1000, 1001, 1002… nanoseconds."""

    device = TimedDevice

    def __init__(self) -> None:
        super().__init__("timed", devices=1)
        self.timers: list[Timer] = []


def test_nothing_has_run():
    stats = kd.stats()
    assert (stats.launches, stats.fallbacks, stats.devices, stats.kernels) == (0, 0, (), ())
    assert stats.gpu_share_of_launches is None
    assert stats.gpu_share_of_time is None
    assert stats.average_kernel_ns is None
    assert not stats.is_gpu_effective()
    assert stats.summary().startswith("0 launches.")


@pytest.mark.parametrize("threads", [1, 16])
def test_counts_are_exact_under_threads(threads):
    x = np.zeros(4)
    each = 2000

    def run():
        with kd.use("cpu"):
            launch = nothing[1, 1]
            for i in range(each):
                launch(x)
                if i % 500 == 0:
                    kd.stats()  # reading must not disturb the count

    with kd.use("cpu"):
        nothing[1, 1](x)
    workers = [threading.Thread(target=run) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert kd.stats().launches == threads * each + 1
    assert kd.stats().launches == threads * each + 1
    kd.reset_stats()
    assert kd.stats().launches == 0


def test_launches_that_fail_do_not_count():
    with null.described_as(null.H100) as target, kd.use("null"):
        x = kd.zeros(4)
        nothing[1, 1](x)
        target.fail_next("launch", null.fault("launch"))
        with pytest.raises(kd.LaunchError):
            nothing[1, 1](x)
        nothing.forall(0)(x)
        assert kd.stats().launches == 1


def test_the_first_launches_and_every_64th_are_timed():
    with installed(TimedTarget()) as target, kd.use("timed"):
        x = kd.zeros(4)
        made = []
        for _ in range(200):
            nothing[1, 1](x)
            made.append(len(target.timers))
            for counter in launch_counters():  # reads what is pending, at the second attempt
                counter.collect()
                counter.collect()
    assert made[0] == 1
    assert made[8] - made[0] >= 2  # several of the first ones
    assert [made[100 + i] - made[36 + i] for i in range(0, 64, 7)] == [1] * 10
    (kernel,) = kd.stats().kernels
    assert kernel.launches == 200
    # All but the first sample, whose number is not the point.
    times = [t.elapsed for t in target.timers][1:]
    assert times[0] <= kernel.average_ns <= times[-1]
    assert kernel.total_ns == pytest.approx(200 * kernel.average_ns)


def test_a_time_that_is_not_known_yet_is_waited_for_without_waiting():
    with installed(TimedTarget()) as target, kd.use("timed"):
        nothing[1, 1](kd.zeros(4))
        assert kd.stats().kernels[0].average_ns is None
        assert kd.stats().kernels[0].average_ns == 1000  # the only one, so the first counts
        assert kd.stats().gpu_share_of_time == 1
        nothing[1, 1](kd.zeros(4))
        target.timers[-1].elapsed = -1  # the device was lost
        kd.stats()
        assert kd.stats().kernels[0].average_ns == 1000


def test_polling_does_not_make_every_launch_a_timed_one():
    with installed(TimedTarget()) as target, kd.use("timed"):
        x = kd.zeros(4)
        nothing[1, 1](x)
        for _ in range(examples(2000, 100)):
            assert kd.stats().launches == 1
        for _ in range(640):
            nothing[1, 1](x)
        assert len(target.timers) < 30


def test_shares_of_launches_and_of_time():
    with installed(TimedTarget()), kd.use("timed"):
        x = kd.zeros(4)
        for _ in range(8):
            nothing[1, 1](x)
        kd.stats()
        with kd.use("cpu"):
            for _ in range(2):
                nothing[1, 1](np.zeros(4))
        stats = kd.stats()
        assert stats.gpu_share_of_launches == 0.8
        assert stats.is_gpu_effective()
        assert 0 < stats.gpu_share_of_time < 1
        by_name = {d.device: d for d in stats.devices}
        assert {name: d.is_gpu for name, d in by_name.items()} == {"cpu": False, "timed:0": True}
        total = sum(d.kernel_ns for d in stats.devices)
        assert stats.average_kernel_ns == pytest.approx(total / 10)
        with kd.use("cpu"):
            nothing[1, 1](np.zeros(4))
        assert not kd.stats().is_gpu_effective()


def test_bytes_that_staging_moves():
    with null.described_as(null.H100) as target, kd.use("null"):

        @kd.kernel
        def copy(x, out):
            i = kd.grid(1)
            if i < out.size:
                out[i] = x[i]

        x, out = np.zeros(10), np.zeros(10)
        copy.forall(10)(x, out)
        copy.forall(10)(x, np.zeros((10, 8))[:, 0])
        (device,) = kd.stats().devices
        assert device.host_to_device_bytes == 4 * 80
        assert device.device_to_host_bytes == 2 * 80
        assert device.memory_total_bytes == null.H100.extra["total_memory_bytes"]
        assert 0 <= device.memory_used_bytes <= device.memory_total_bytes
        del target


def test_copies_are_exact_under_threads():
    with installed(FakeTarget()) as fake, kd.use("fake"):
        from kerneldsl.placement.devices import current_device

        place = current_device()

        def run():
            for _ in range(1000):
                note_copy(place, "device_to_peer", 3)

        workers = [threading.Thread(target=run) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        (device,) = kd.stats().devices
        assert device.device_to_peer_bytes == 24000
        assert (device.memory_used_bytes, device.memory_total_bytes) == (None, None)
        del fake


def test_two_tallies_of_one_name_are_one_line():
    def make():
        @kd.kernel
        def same(x):
            x[0] = 1

        return same

    with kd.use("cpu"):
        for _ in range(3):
            make().forall(1)(np.zeros(1))
    (kernel,) = kd.stats().kernels
    assert kernel.launches == 3
    assert kernel.kernel.endswith("make.<locals>.same")


def test_how_it_is_shown():
    with kd.use("cpu"):
        for _ in range(3):
            nothing[1, 1](np.zeros(4))
    stats = kd.stats()
    shown = json.loads(json.dumps(stats.to_dict()))
    assert shown["launches"] == 3
    assert shown["devices"][0]["device"] == "cpu"
    assert shown["kernels"][0]["kernel"] == f"{__name__}.nothing"
    assert shown["host_memory"]["process_bytes"] > 2**20
    assert repr(stats) == stats.summary()
    assert "3 launches, 0 % of them on a GPU" in stats.summary()
    assert "0 ran on the CPU instead of a GPU." in stats.summary()
    assert f"{__name__}.nothing" in stats.summary()
    html = stats._repr_html_()
    assert "<table>" in html
    assert "nothing" in html
    assert stats == kd.stats()
    with pytest.raises(AttributeError):
        stats.devices = ()  # type: ignore[misc]


def test_a_tally_may_be_reset_at_any_count():
    counter = LaunchCounter("kernel", None)  # type: ignore[arg-type]
    for expected in (5, 0, 7):
        for _ in range(expected):
            next(counter.count)
        assert counter.launches == expected
        assert counter.launches == expected
        counter.reset()
