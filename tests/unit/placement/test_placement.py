"""Where kernels run: the order of arguments, kd.use, the environment, and what is there."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.placement import devices as placement
from kerneldsl.placement import registry
from kerneldsl.placement.devices import current_device, device_of
from tests.support.fake_target import FakeTarget, installed


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.setattr(placement._choices, "_plain", [])
    monkeypatch.setattr(placement._choices, "process_wide", None)
    monkeypatch.setattr(placement, "_from_environment", None)
    monkeypatch.delenv("KERNELDSL_TARGET", raising=False)


@pytest.fixture
def fake():
    with installed(FakeTarget()) as target:
        yield target


@kd.kernel
def touch(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = i


def test_plain_use_is_process_wide(fake):
    kd.use("fake:1")
    seen = []
    thread = threading.Thread(target=lambda: seen.append(kd.current_target()))
    thread.start()
    thread.join()
    assert (kd.current_target(), seen) == ("fake:1", ["fake:1"])


def test_with_use_is_local_to_the_thread_and_ends(fake):
    kd.use("fake:0")
    seen = []
    with kd.use("fake:1"):
        thread = threading.Thread(target=lambda: seen.append(kd.current_target()))
        thread.start()
        thread.join()
        assert kd.current_target() == "fake:1"
        with kd.use("fake"):
            assert kd.current_target() == "fake:0"
        assert kd.current_target() == "fake:1"
    assert (kd.current_target(), seen) == ("fake:0", ["fake:0"])


def test_with_use_leaves_no_process_wide_trace_even_interleaved(fake, monkeypatch):
    monkeypatch.setenv("KERNELDSL_TARGET", "fake:0")
    first, second = kd.use("fake:1"), kd.use("fake:1")
    with second, first:
        assert kd.current_target() == "fake:1"
    assert kd.current_target() == "fake:0"


def test_the_environment_names_the_target(fake, monkeypatch):
    monkeypatch.setenv("KERNELDSL_TARGET", "fake:1")
    assert current_device().index == 1


def test_an_environment_that_names_nothing_is_told(monkeypatch):
    monkeypatch.setenv("KERNELDSL_TARGET", "gpu")
    with pytest.raises(kd.UnknownTargetError, match=r"KERNELDSL_TARGET is 'gpu'.*cpu, cuda, null"):
        touch.forall(4)(np.zeros(4))


def test_the_environment_may_change(fake, monkeypatch):
    for spec in ("fake:1", "fake:0", "fake:1"):
        monkeypatch.setenv("KERNELDSL_TARGET", spec)
        assert [kd.current_target() for _ in range(2)] == [spec] * 2


def test_a_plain_use_before_a_with_holds_after_it(fake):
    kd.use("fake:1")
    with kd.use("fake:0"):
        pass
    for _ in range(3):
        with kd.use("fake:0"):
            assert kd.current_target() == "fake:0"
        assert kd.current_target() == "fake:1"
    assert len(placement._choices._plain) == 1


def test_a_device_is_as_good_as_its_name(fake):
    with kd.use(kd.devices("fake")[1]):
        assert kd.current_target() == "fake:1"


def test_arguments_decide_over_plain_use_and_environment(fake, monkeypatch):
    monkeypatch.setenv("KERNELDSL_TARGET", "fake:0")
    array = kd.zeros(4, device="fake:1")
    kd.use("fake:0")
    touch.forall(4)(array)
    assert fake.launches[-1][0].index == 1


def test_a_with_that_contradicts_the_arguments_raises(fake):
    array = kd.zeros(4, device="fake:1")
    with kd.use("fake:0"), pytest.raises(kd.DeviceMismatchError, match=r"fake:1.*fake:0"):
        touch.forall(4)(array)
    assert fake.launches == []


def test_arrays_of_two_devices_raise(fake):
    @kd.kernel
    def both(x, y):
        x[0] = y[0]

    with pytest.raises(kd.DeviceMismatchError, match=r"'y'.*fake:1.*fake:0"):
        both[1, 1](kd.zeros(4, device="fake:0"), kd.zeros(4, device="fake:1"))


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        ("tpu", kd.UnknownTargetError, "cpu, cuda, null"),
        ("fake:x", kd.UnknownTargetError, "'cuda:1'"),
        ("fake:-1", kd.UnknownTargetError, "'cuda:1'"),
        ("fake:2", kd.DeviceMismatchError, "has 2 devices"),
    ],
)
def test_names_that_mean_nothing(fake, spec, error, words):
    with pytest.raises(error, match=words):
        kd.use(spec)


def test_an_unusable_target_says_why():
    with (
        installed(FakeTarget("gone", devices=0)),
        kd.fallback("never"),
        pytest.raises(kd.TargetUnavailableError, match="without devices"),
    ):
        kd.use("gone")


def test_detection_prefers_cuda_and_falls_back(monkeypatch):
    with (
        installed(FakeTarget("cpu", is_host=True, devices=1)) as cpu,
        installed(FakeTarget("cuda")) as cuda,
    ):
        monkeypatch.setattr(placement, "_detected", None)
        assert current_device() is cuda.found[0]
        cuda.found = ()
        monkeypatch.setattr(placement, "_detected", None)
        assert current_device() is cpu.found[0]
    monkeypatch.setattr(placement, "_detected", None)


def test_places_are_one_for_each_device(fake):
    assert device_of("fake:1") is device_of(kd.devices("fake")[1])


def test_an_entry_point_can_be_a_target(monkeypatch):
    class Entry:
        def load(self):
            return lambda: FakeTarget("third")

    monkeypatch.setattr(
        registry, "_entries", lambda group: {"third": Entry()} if "targets" in group else {}
    )
    monkeypatch.setattr(registry, "_targets", {})
    assert "third" in kd.targets()
    assert kd.get_target("third").name == "third"
    assert np.asarray(kd.zeros(2, device="third").copy_to_host()).tolist() == [0.0, 0.0]
