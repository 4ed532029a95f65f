"""Launches prepared by ``bind``: they launch at once, and keep their arguments alive."""

from __future__ import annotations

import gc
import weakref

import pytest

import kerneldsl as kd
from tests.support.fake_target import installed
from tests.support.launched import begin_anew, numbers, takes, writes
from tests.support.native import NativeFakeTarget, is_native


@pytest.fixture(autouse=True)
def native():
    begin_anew()


@pytest.fixture
def fake():
    with installed(NativeFakeTarget("fake")) as target, kd.use("fake"):
        yield target


def test_a_prepared_launch_launches_at_once(fake):
    x = kd.to_device(numbers(8))
    launch = writes.forall(1)
    bound = launch.bind(x)
    assert not fake.launches
    assert isinstance(bound, kd.BoundLaunch)
    assert (bound.launch, bound.args) == (launch, (x,))
    assert repr(bound) == "<prepared launch of writes over (1,)>"
    with is_native(launch):
        bound()
    assert fake.launches[-1][2]["x.data"] == x.pointer
    with pytest.raises(TypeError):
        bound(1)
    with pytest.raises(TypeError):
        bound(x=1)


def test_binding_by_name_and_mistakes_at_binding(fake):
    bound = takes[1, 1].bind(x=2, a=1)
    bound()
    assert fake.launches[-1][2] == {"a": 1, "x": 2}
    for args, error in (
        ((1,), kd.ArgumentTypeError),
        ((1, "text"), kd.ArgumentTypeError),
        ((2**70, 1), kd.ArgumentValueError),
    ):
        with pytest.raises(error):
            takes[1, 1].bind(*args)
    with pytest.raises(kd.LaunchConfigError):
        takes[1, 2048].bind(1, 2)
    with kd.use("cpu"), pytest.raises(kd.KernelTypingError):
        writes[1, 1].bind(1)


def test_a_prepared_launch_keeps_its_arguments_alive_and_no_longer(fake):
    x = kd.zeros(8)
    buffer = weakref.ref(x)
    bound = writes[1, 1].bind(x)
    del x
    gc.collect()
    assert buffer() is not None
    bound()
    del bound
    gc.collect()
    assert buffer() is None


def test_a_prepared_launch_with_what_native_code_does_not_know(fake):
    class Number(int):
        pass

    bound = takes[1, 1].bind(Number(3), 2)
    bound()
    assert fake.launches[-1][2]["a"] == 3
