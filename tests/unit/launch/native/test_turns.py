"""Launches repeated by native code: when it is Python's turn instead."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.fake_target import installed
from tests.support.launched import begin_anew, null_in_use, numbers, takes, writes
from tests.support.native import NativeFakeTarget, is_native, warm_up


@pytest.fixture(autouse=True)
def native():
    begin_anew()


@pytest.fixture
def fake():
    with installed(NativeFakeTarget("fake")) as target, kd.use("fake"):
        yield target


@pytest.fixture
def null():
    with null_in_use() as target:
        yield target


def test_python_is_asked_about_what_does_not_fit(fake):
    x = kd.to_device(numbers(8))
    launch = takes[1, 1]
    warm_up(launch, 1, x)
    with is_native(launch):
        launch(5, x)
    for other in (1.0, True, np.int64(1)):
        warm_up(launch, 1, x)
        with is_native(launch, expected=False):
            launch(other, x)
    for wrong, error in (
        ((1, "text"), kd.ArgumentTypeError),
        ((2**63, x), kd.ArgumentValueError),
        ((1,), kd.ArgumentTypeError),
        ((1, x, 3), kd.ArgumentTypeError),
    ):
        with pytest.raises(error):
            launch(*wrong)
    with is_native(launch, expected=False):
        launch(a=1, x=x)
    with is_native(launch):
        launch(-(2**63), x)
    assert fake.launches[-1][2]["a"] == -(2**63)


def test_four_kinds_of_arguments_are_known_at_a_time(fake):
    arrays = [kd.zeros(4, t) for t in (np.int8, np.int16, np.int32, np.int64)]
    launch = takes[1, 1]
    for each in arrays:
        warm_up(launch, 1, each)
    for each in arrays:
        with is_native(launch):
            launch(1, each)
        assert fake.launches[-1][2]["x.data"] == each.pointer


def test_a_closed_array_is_refused(fake):
    x = kd.to_device(numbers(8))
    view = x[2:]
    launch = writes[1, 1]
    for each in (x, view):
        warm_up(launch, each)
        with is_native(launch):
            launch(each)
    x.close()
    for each in (x, view):
        with pytest.raises(kd.ClosedResourceError):
            launch(each)


def test_a_read_only_array_is_refused(fake):
    x = kd.to_device(numbers(8))
    launch = writes[1, 1]
    warm_up(launch, x)
    with pytest.raises(kd.ReadOnlyArrayError):
        launch(x.as_read_only())
    reads = takes[1, 1]
    warm_up(reads, 1, x)
    with is_native(reads):
        reads(1, x.as_read_only())


def test_a_read_only_ndarray_is_refused():
    x = numbers(8)
    with kd.use("cpu"):
        launch = writes[1, 1]
        warm_up(launch, x)
        x.flags.writeable = False
        with pytest.raises(kd.ReadOnlyArrayError):
            launch(x)


def test_the_devices_context_is_current_and_the_one_before_comes_back(fake):
    on_first, on_second = (kd.to_device(numbers(8)) for _ in range(2))
    with kd.use("fake:1"):
        on_second = kd.to_device(numbers(8))
    launch = writes[1, 1]
    warm_up(launch, on_first)
    for before, after in ((0, 0x100), (0x999, 0x999), (0x100, 0x100)):
        fake.current = before
        with is_native(launch):
            launch(on_first)
        assert fake.current == after
    with kd.use("fake:1"):
        warm_up(launch, on_second)
        for before in (0, 0x999, 0x101):  # another device's context never stays
            fake.current = before
            with is_native(launch):
                launch(on_second)
            assert fake.current == before
    assert fake.notes[-1] == "writes"


def test_arguments_of_another_device(fake):
    here = kd.to_device(numbers(8))
    with kd.use("fake:1"):
        there = kd.to_device(numbers(8))
    launch = writes[1, 1]
    warm_up(launch, here)
    with pytest.raises(kd.DeviceMismatchError):
        launch(there)  # an active `with` says fake:0
    assert fake.launches[-1][0].index == 0


def test_the_place_is_chosen_anew_at_each_launch():
    launch = takes[1, 1]
    with installed(NativeFakeTarget("fake")) as fake:
        with kd.use("fake"):
            warm_up(launch, 1, 2)
            with is_native(launch):
                launch(1, 2)
        count = len(fake.launches)
        with kd.use("fake:1"), is_native(launch, expected=False):
            launch(1, 2)
        assert fake.launches[-1][0].index == 1
        with kd.use("cpu"):
            launch(1, 2)
        assert len(fake.launches) == count + 1
        chosen = kd.use("fake")
        try:
            for _ in range(3):
                launch(1, 2)
            with is_native(launch):
                launch(1, 2)
            kd.use("fake:1")
            launch(1, 2)
            assert fake.launches[-1][0].index == 1
        finally:
            with chosen:
                pass
            from kerneldsl.placement import devices as placement

            placement._choices._set([])


def test_the_environment_chooses_the_place(monkeypatch):
    launch = takes[1, 1]
    with installed(NativeFakeTarget("fake")) as fake:
        monkeypatch.setenv("KERNELDSL_TARGET", "cpu")
        warm_up(launch, 1, 2)
        with is_native(launch):
            launch(1, 2)
        monkeypatch.setenv("KERNELDSL_TARGET", "fake:1")
        launch(1, 2)
        assert [device.index for device, _, _ in fake.launches] == [1]
        monkeypatch.setenv("KERNELDSL_TARGET", "cpu")
        launch(1, 2)
        monkeypatch.delenv("KERNELDSL_TARGET")
        launch(1, 2)
        assert len(fake.launches) == 1


def test_a_fresh_view_is_native_at_once(fake):
    x = kd.to_device(numbers(100))
    launch = writes[1, 1]
    warm_up(launch, x[1:])
    for first in range(1, 50):
        view = x[first:]
        with is_native(launch):
            launch(view)
        assert fake.launches[-1][2] == {"x.data": view.pointer, "x.shape[0]": 100 - first}


def test_streams_take_the_slow_path(fake):
    x = kd.to_device(numbers(8))
    launch = writes[1, 1]
    warm_up(launch, x)
    with is_native(launch, expected=False):
        writes[1, 1, 5](x)
        with kd.Stream.from_foreign(9, "fake"):
            launch(x)
    handles = [getattr(config.stream, "handle", config.stream) for _, config, _ in fake.launches]
    assert handles[-2:] == [5, 9]
    with is_native(launch):
        launch(x)


def test_memory_of_another_stream_takes_the_slow_path(null):
    launch = writes[1, 1]
    warm_up(launch, kd.zeros(8))
    with kd.Stream("null"):
        x = kd.zeros(8)
    for _ in range(4):
        with is_native(launch, expected=False):
            launch(x)


def test_what_is_logged_takes_the_slow_path(fake, caplog):
    launch = takes[1, 1]
    warm_up(launch, 1, 2)
    with caplog.at_level("DEBUG", logger="kerneldsl"), is_native(launch, expected=False):
        launch(1, 2)
    assert "launch takes on fake:0" in caplog.text
    launch(1, 2)
    warm_up(launch, 1, 2)
    with is_native(launch):
        launch(1, 2)


def test_a_recording_takes_launches(null):
    x = kd.zeros(8)
    launch = writes[1, 1]
    warm_up(launch, x)
    stream = kd.Stream("null")
    null.launches.clear()
    bound = launch.bind(x)
    with stream.capture() as graph:
        launch(x)
        bound()
    assert not null.launches
    graph.launch()
    assert len(null.launches) == 2
