"""Launches repeated by native code: when one fails, is refused, or is not prepared any more."""

from __future__ import annotations

import array

import pytest

import kerneldsl as kd
from kerneldsl.launch.native import machine
from kerneldsl.launch.native.layout import UnknownLayout, builtin_method
from tests.support.fake_target import installed
from tests.support.launched import begin_anew, null_in_use, takes, writes
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


def test_what_the_driver_refuses_python_launches_again(fake):
    launch = takes[1, 1]
    warm_up(launch, 1, 2)
    count = len(fake.launches)
    fake.status = 700
    with is_native(launch, expected=False):
        launch(1, 2)
    assert len(fake.launches) == count + 1  # by Python, whose fake driver is well


def test_what_is_planned_to_fail_is_raised_once(null):
    launch = takes[1, 1]
    warm_up(launch, 1, 2)
    count = len(null.launches)
    from targets.null import fault

    null.fail_next("launch", fault("launch"))
    with kd.fallback("never"), pytest.raises(kd.DriverError, match="LAUNCH_OUT_OF_RESOURCES"):
        launch(1, 2)
    launch(1, 2)
    assert len(null.launches) == count + 1


def test_a_lost_device_is_not_launched_on(null):
    x = kd.zeros(8)
    launch = writes[1, 1]
    warm_up(launch, x)
    count = len(null.launches)
    null.lose(null.devices()[0])
    with pytest.raises(kd.DeviceLostError, match="writes"):
        launch(x)
    assert len(null.launches) == count
    null.reset()
    launch(x)


def test_native_launches_are_suspects(null):
    x = kd.zeros(8)
    launch = writes[1, 1]
    warm_up(launch, x)
    kd.synchronize()
    with is_native(launch):
        launch(x)
    null.lose(null.devices()[0])
    with pytest.raises(kd.DeviceLostError) as caught:
        launch(x)
    assert len(caught.value.suspects) == 1


def test_a_failing_note_is_dropped(fake):
    launch = takes[1, 1]
    warm_up(launch, 1, 2)

    fake.notes = array.array("d")  # takes no text
    other = takes[2, 1]
    warm_up(other, 1, 2)
    with is_native(other):
        assert other(1, 2) is None
    assert len(fake.notes) == 0


def test_launches_that_are_noted_by_python_stay_with_python(fake):
    noted = []

    class Notes(list):
        def append(self, value):
            noted.append(value)

    fake.notes = Notes()
    launch = takes[3, 1]
    before = len(fake.launches)
    for _ in range(100):
        launch(1, 2)
    assert len(fake.launches) - before == 100
    assert fake.native_launches == 0
    assert launch.bind(1, 2)() is None


def test_a_note_is_a_built_in_method_of_one_argument():
    assert builtin_method([].append)[0] != 0
    for other in (lambda value: None, [].pop, print, str.upper):
        with pytest.raises(UnknownLayout, match="built-in method"):
            builtin_method(other)


def test_what_must_hold_no_longer_holds(fake):
    launch = takes[1, 1]
    warm_up(launch, 1, 2)
    fake.health["is_well"] = False
    with is_native(launch, expected=False):
        launch(1, 2)
    assert fake.launches[-1][2] == {"a": 1, "x": 2}


def test_a_new_generation_prepares_anew(fake):
    launch = takes[1, 1]
    warm_up(launch, 1, 2)
    machine.begin_generation()
    with is_native(launch, expected=False):
        launch(1, 2)
    warm_up(launch, 1, 2)
    with is_native(launch):
        launch(1, 2)
