"""Faults of every category on the null target, and its lost devices."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract.error_history import CATEGORIES, error_log
from kerneldsl.errors import DeviceLostError, DriverError, LaunchError
from targets import null
from targets.null.faults import OPERATIONS, FaultPlan, fault
from targets.null.target import NullTarget


@pytest.fixture
def target() -> NullTarget:
    with null.described_as(null.H100, null.H100) as target:
        yield target


@pytest.mark.parametrize("category", CATEGORIES)
def test_there_is_a_fault_of_every_category(category: str) -> None:
    error = fault(category)
    assert error.category == category
    assert error.code > 0
    assert error.remedy
    assert error.device == "null:0"
    assert error_log.entries()[-1].message == str(error)


def test_a_fault_by_the_drivers_name() -> None:
    error = fault("CUDA_ERROR_ILLEGAL_ADDRESS", "wait for null:1", device="null:1")
    assert isinstance(error, LaunchError)
    assert error.is_fatal
    assert str(error).startswith("Could not wait for null:1.")


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ValueError, match="neither a category"):
        fault("CUDA_ERROR_FULL_MOON")
    with pytest.raises(ValueError, match="unknown operation 'fly'"):
        FaultPlan().add("fly", fault("system"))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_planned_faults_come_in_their_order_and_once(operation: str) -> None:
    plan = FaultPlan()
    first, second = fault("system"), fault("memory")
    plan.add(operation, first)
    plan.add(operation, second)
    for expected in (first, second):
        with pytest.raises(DriverError) as caught:
            plan.begin(operation)
        assert caught.value is expected
    plan.begin(operation)


def test_a_fatal_fault_loses_every_device_and_names_the_launch(
    target: NullTarget, rng: np.random.Generator
) -> None:
    @kd.kernel
    def scale(x, factor):
        i = kd.grid(1)
        if i < x.size:
            x[i] *= factor

    host = rng.standard_normal(257).astype(np.float32)
    with kd.use("null:0"):
        x = kd.to_device(host)
        scale[3, 96](x, 2.0)
        target.fail_next("synchronize", null.fault("CUDA_ERROR_ILLEGAL_ADDRESS"))
        with pytest.raises(LaunchError):
            kd.synchronize()
        for call in (
            kd.synchronize,
            x.copy_to_host,
            lambda: kd.empty(7),
            lambda: kd.to_device(host),
        ):
            with pytest.raises(DeviceLostError) as caught:
                call()
            (suspect,) = caught.value.suspects
            assert suspect == "scale with grid (3, 1, 1) and block (96, 1, 1) on null:0"
    with kd.use("null:1"):
        for call in (kd.synchronize, lambda: kd.to_device(host), lambda: kd.synchronize("null:1")):
            with pytest.raises(DeviceLostError, match="Start a new process") as caught:
                call()
            assert caught.value.may_be_due_to("scale")
        with pytest.raises(DeviceLostError, match="null:1 is lost to this process, because null:0"):
            kd.empty(3)
        assert "H100" in kd.device_info().name
    assert len(target.devices()) == 2
    assert target.unavailable_reason() is None
    del x  # its memory is given back without a word


def test_a_fault_of_one_device_leaves_the_other(
    target: NullTarget, rng: np.random.Generator
) -> None:
    host = rng.standard_normal(257).astype(np.float32)
    target.lose(target.devices()[0], null.fault("CUDA_ERROR_ECC_UNCORRECTABLE"))
    with kd.use("null:1"):
        np.testing.assert_array_equal(kd.to_device(host).copy_to_host(), host)
        kd.synchronize("null:1")
    with pytest.raises(DeviceLostError, match="null:0 cannot be used in the same process"):
        kd.synchronize("null:0")


def test_what_has_just_failed_is_told_before_what_is_known(target: NullTarget) -> None:
    with kd.use("null:0"):
        kd.empty(1)
    with kd.use("null:1"):
        kd.empty(1)
    target.lose(target.devices()[0], null.fault("CUDA_ERROR_ECC_UNCORRECTABLE"))
    target.fail_next("synchronize", null.fault("CUDA_ERROR_NVLINK_UNCORRECTABLE"))
    with pytest.raises(DriverError) as caught:
        kd.synchronize()  # of every device that was used, whichever comes first
    assert caught.value.name == "CUDA_ERROR_NVLINK_UNCORRECTABLE"
    assert not isinstance(caught.value, DeviceLostError)


def test_a_device_that_was_waited_for_has_no_suspects(target: NullTarget) -> None:
    @kd.kernel
    def nothing(x):
        if kd.grid(1) < 0:
            x[0] = 1

    with kd.use("null:0"):
        nothing[1, 1](kd.empty(1, np.float32))
        kd.synchronize()
        target.lose(target.devices()[0])
        with pytest.raises(DeviceLostError) as caught:
            kd.synchronize()
    assert caught.value.suspects == ()
    target.reset()
    kd.synchronize("null:0")
