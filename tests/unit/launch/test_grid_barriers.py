"""A kernel with a barrier of the grid is launched cooperatively, in no larger grid than fits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import kerneldsl as kd
from targets import null
from targets.null.target import NullTarget
from tests.support.native import is_native, require_native, warm_up


@kd.kernel
def counted(x):
    x[kd.grid(1)] += 1
    kd.grid_group().sync()


@kd.func
def meet():
    kd.grid_group().sync()


@kd.kernel(block=64)
def in_a_function(x):
    meet()
    x[kd.grid(1)] = 1


@pytest.fixture
def target() -> Iterator[NullTarget]:
    with null.described_as(null.H100) as described, kd.use("null"):
        yield described


def test_the_launch_is_cooperative(target: NullTarget) -> None:
    x = kd.zeros(1024, np.int64)
    counted[4, 256](x)
    assert target.launches[-1].config.is_cooperative
    in_a_function.forall(1024)(x)
    assert target.launches[-1].config.is_cooperative
    plan = counted.forall(1024, block=64).plan(x)
    assert plan.is_cooperative
    assert "cooperative" in str(plan)


def test_grids_that_do_not_fit(target: NullTarget) -> None:
    x = kd.zeros(1 << 20, np.int64)
    for launch in (counted[1 << 14, 64], counted.forall(1 << 20, block=64)):
        with pytest.raises(kd.LaunchConfigError, match=r"holds .* of them at once") as found:
            launch(x)
        shown = str(found.value)
        assert "counted has a barrier of the grid, and was launched with 16384 blocks" in shown
        assert "kd.gridsize" in shown


def test_a_device_without_cooperative_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    with kd.use("null"):
        device = kd.zeros(1).device
        monkeypatch.setitem(device.extra, "cooperative_launch", 0)
        with pytest.raises(kd.LaunchConfigError, match="no cooperative launches") as found:
            counted[1, 32](kd.zeros(32, np.int64))
    assert "Split the kernel at its barriers of the grid" in str(found.value)


def test_it_stays_with_python(target: NullTarget) -> None:
    x = kd.zeros(256, np.int64)
    require_native()
    launch = counted[4, 64]
    warm_up(launch, x)
    with is_native(launch, expected=False):
        launch(x)
