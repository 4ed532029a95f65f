"""What fails before a kernel begins: the CPU takes over, and no data is lost over it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kerneldsl as kd
from targets import null
from tests.support.fake_target import FakeTarget, installed
from tests.support.falling_back import CATEGORIES, arguments, make_kernel, plan

BEFORE = ("compile", "load", "allocate", "copy_from_host", "launch")


@pytest.mark.parametrize("policy", ["warn", "silent", "never"])
@pytest.mark.parametrize("operation", BEFORE)
@pytest.mark.parametrize("category", CATEGORIES)
def test_a_fault_before_the_kernel_began(device, rng, category, operation, policy):
    kernel = make_kernel()
    name = plan(device, operation, category)
    x, out, expected = arguments(rng)
    before = out.copy()
    runs = CATEGORIES[category] and policy != "never"
    with warnings.catch_warnings(record=True) as caught, kd.fallback(policy):
        warnings.simplefilter("always")
        if runs:
            kernel.forall(out.size)(x, out)
            kernel.forall(out.size)(x, np.zeros(101))
        else:
            with pytest.raises(kd.DriverError) as raised:
                kernel.forall(out.size)(x, out)
            assert raised.value.category == category
            assert "half-written" not in str(raised.value)
    np.testing.assert_array_equal(out, expected if runs else before)
    stats = kd.stats()
    assert (stats.fallbacks > 0) == runs
    assert len(caught) == (runs and policy == "warn")
    if runs:
        assert set(stats.fallback_reasons) == {name}
        assert stats.launches == 2
    for warning in caught:
        words = str(warning.message)
        assert warning.filename == __file__
        assert "accumulate runs on the CPU instead of null:0: " in words
        is_full = (category, operation) == ("memory", "allocate")  # the pool's own words
        assert ("could not allocate" if is_full else name) in words
        assert "KERNELDSL_FALLBACK=silent" in words


@pytest.mark.parametrize("operation", ["compile", "load", "launch"])
@pytest.mark.parametrize("category", CATEGORIES)
def test_device_arrays_are_copied_and_written_back(device, rng, category, operation):
    kernel = make_kernel()
    x, out, expected = arguments(rng)
    on_device_x, on_device = kd.to_device(x), kd.to_device(out)
    plan(device, operation, category)
    with kd.fallback("silent"):
        if CATEGORIES[category]:
            kernel.forall(out.size)(on_device_x, on_device)
        else:
            with pytest.raises(kd.DriverError):
                kernel.forall(out.size)(on_device_x, on_device)
    device.reset()
    np.testing.assert_array_equal(
        on_device.copy_to_host(), expected if CATEGORIES[category] else out
    )
    np.testing.assert_array_equal(on_device_x.copy_to_host(), x)


def test_device_arrays_that_overlap_still_do(device, rng):
    @kd.kernel
    def shift(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = 2 * x[i]

    base = rng.standard_normal(40)
    there = kd.to_device(base)
    device.fail_next("load", null.fault("kernel"))
    with kd.fallback("silent"):
        shift.forall(10)(there[::4], there[1::4])
        shift.forall(10)((there[::-4]), there[2::4])
    expected = base.copy()
    expected[1::4] = 2 * expected[::4]
    expected[2::4] = 2 * expected[::-4]
    np.testing.assert_array_equal(there.copy_to_host(), expected)


def test_arrays_in_tuples_beside_scalars_and_host_arrays(device, rng):
    @kd.kernel
    def scale(pair, n, z, host):
        i = kd.grid(1)
        if i < host.size:
            pair[1][i] = pair[0][i] * n + z.real
            host[i] = i

    x, host = rng.standard_normal(33), np.full(64, -1.0)
    device_x, out = kd.to_device(x), kd.full((33,), np.nan)
    device.fail_next("load", null.fault("kernel"))
    with kd.fallback("silent"):
        scale.forall(33)((device_x, (out, 1)[0]), np.float32(2), 2 + 1j, host[5:38])
    np.testing.assert_array_equal(out.copy_to_host(), x * np.float32(2) + 2)
    np.testing.assert_array_equal(host[5:38], np.arange(33.0))
    assert (host[:5] == -1).all()
    assert (host[38:] == -1).all()


def test_a_full_device_is_tidied_before_the_cpu_takes_over(device, rng):
    kernel = make_kernel()
    x, out, _ = arguments(rng)
    before = out.copy()
    device.fail_next("allocate", null.fault("memory"))  # once: there is room after tidying
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel.forall(out.size)(x, out)
    np.testing.assert_array_equal(out, before)  # it ran on the null device, which does nothing
    assert (len(device.launches), kd.stats().fallbacks) == (1, 0)


def test_what_is_under_way_is_waited_for_before_the_cpu_reads_host_memory(device, rng):
    """A launch with host arrays has waited for the device when it returns; so has the CPU's."""
    kernel = make_kernel()
    x, out, _ = arguments(rng)
    before = out.copy()
    kd.to_device(x)
    device.fail_next("load", null.fault("device"))
    device.fail_next("synchronize", null.fault("CUDA_ERROR_ILLEGAL_ADDRESS"))
    with pytest.raises(kd.LaunchError) as raised:
        kernel.forall(out.size)(x, out)
    assert isinstance(raised.value.__cause__, kd.DeviceError)
    np.testing.assert_array_equal(out, before)
    assert kd.stats().fallbacks == 0


def test_a_device_that_nothing_was_put_on_is_not_started_for_that(rng):
    with installed(FakeTarget()) as fake, kd.use("fake"), kd.fallback("silent"):

        def refuse(*args):
            raise AssertionError("waited for a device that was never used")

        vars(fake.found[0]).update(synchronize=refuse, load=refuse_to_load)
        kernel = make_kernel()
        x, out, expected = arguments(rng)
        kernel.forall(out.size)(x, out)
        np.testing.assert_array_equal(out, expected)


def refuse_to_load(artifact):
    raise null.fault("kernel")


def test_no_room_on_the_host_for_copies(device, rng, monkeypatch):
    from kerneldsl.launch import recovery

    kernel = make_kernel()
    x, out, _ = arguments(rng)
    there = kd.to_device(x), kd.to_device(out)

    def full(*args, **kwargs):
        raise MemoryError

    device.fail_next("load", null.fault("device"))
    monkeypatch.setattr(recovery.np, "empty", full)
    with pytest.raises(kd.DeviceError, match="the host has no room"):
        kernel.forall(out.size)(*there)


def test_what_the_cpu_refuses_too(device):
    @kd.kernel
    def diverging(x):
        tile = kd.shared.array(32, np.float64)
        tile[kd.threadIdx.x] = x[kd.threadIdx.x]
        if x[kd.threadIdx.x] > 0:
            kd.syncthreads()
        x[kd.threadIdx.x] = tile[0]

    device.fail_next("load", null.fault("device"))
    with (
        pytest.warns(kd.KernelWarning),
        pytest.raises(kd.DeviceError, match=r"cannot run on the CPU instead.*barrier") as raised,
    ):
        diverging[1, 32](np.zeros(32))
    assert isinstance(raised.value.__cause__, kd.BarrierDivergenceError)
    assert kd.stats().fallbacks == 0
