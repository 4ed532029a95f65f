"""Devices: descriptions, which are values, and the devices of targets, which are objects."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

import kerneldsl as kd
from targets import null
from targets.cpu.target import CpuDevice
from targets.cuda.device.device import CudaDevice
from targets.null.device import NullDevice
from tests.support.fake_target import FakeDevice

#: What a target's own devices must implement, with the number of arguments.
REQUIRED = {
    "copy_from_host": 3,
    "copy_on_device": 3,
    "copy_to_host": 3,
    "create_pool": 0,
    "load": 1,
    "synchronize": 0,
}


@pytest.mark.parametrize("operation", REQUIRED)
def test_a_description_can_do_nothing(operation: str) -> None:
    with pytest.raises(NotImplementedError):
        getattr(null.H100, operation)(*range(REQUIRED[operation]))


@pytest.mark.parametrize("kind", [CpuDevice, CudaDevice, FakeDevice, NullDevice])
def test_every_target_implements_what_is_required(kind: type[kd.Device]) -> None:
    assert vars(kind).keys() >= {"compiler", *REQUIRED}


def test_descriptions_are_values_and_devices_are_not() -> None:
    assert replace(null.H100) == null.H100
    with null.described_as(null.H100, null.H100) as target:
        first, second = target.devices()
        assert first == first
        assert first != second
        assert first.description != first
        assert pickle.loads(pickle.dumps(first)) == first.description  # noqa: S301
        assert first.description == replace(null.H100, index=0)
        assert replace(first.description, index=1) == second.description


def test_a_device_that_is_described_again_is_the_same() -> None:
    with null.described_as(null.H100) as target:
        (before,) = target.devices()
        target.set_devices(null.SMALL_OLD_CARD)
        assert target.devices() != (before,)
        target.set_devices(null.H100)
        assert target.devices() == (before,)
        target.set_devices(replace(null.H100, extra={}))
        assert target.devices() != (before,)
