"""What fails after a kernel began: the error names the arguments that may be half-written."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from targets import null
from tests.support.fake_target import FakeTarget, installed
from tests.support.falling_back import CATEGORIES, arguments, make_kernel


@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("operation", ["copy_to_host", "synchronize"])
def test_half_written_arguments_are_named(device, rng, operation, category):
    kernel = make_kernel()
    x, out, _ = arguments(rng)
    device.fail_next(operation, null.fault(category))
    with pytest.raises(kd.DriverError, match=r"half-written: out\b") as raised:
        kernel.forall(out.size)(x, out)
    assert "x" not in str(raised.value).partition("half-written:")[2]
    assert kd.stats().fallbacks == 0


def test_overlapping_arguments_are_all_named(device, rng):
    @kd.kernel
    def shift(x, out, other):
        i = kd.grid(1)
        if i < 4:
            out[i] = x[i] + other[i]

    base = np.zeros(10)
    device.fail_next("copy_to_host", null.fault("system"))
    with pytest.raises(kd.DriverError, match=r"half-written: x, out$"):
        shift.forall(4)(base[:6], base[4:], np.zeros(9))


def test_nothing_is_half_written_where_the_copy_goes_elsewhere_first(device, rng):
    """A strided array is copied back through memory of its own, so it has its original still."""
    kernel = make_kernel()
    x, out, expected = arguments(rng)
    table = np.zeros((101, 2))
    table[:, 0] = out
    device.fail_next("copy_to_host", null.fault("system"))
    with kd.fallback("silent"):
        kernel.forall(out.size)(x, table[:, 0])
    np.testing.assert_array_equal(table[:, 0], expected)
    assert not table[:, 1].any()
    assert kd.stats().fallback_reasons == {null.fault("system").name: 1}


def test_a_mixed_launch_that_began_names_the_device_arrays(device, rng):
    @kd.kernel
    def both(x, here, there):
        i = kd.grid(1)
        if i < x.size:
            here[i] = x[i]
            there[i] = x[i]

    there = kd.zeros(8)
    table = np.zeros((8, 2))
    device.fail_next("copy_to_host", null.fault("system"))
    with pytest.raises(kd.DriverError, match=r"half-written: there$"):
        both.forall(8)(np.ones(8), table[:, 0], there)


def test_a_debug_launch_may_have_begun(rng):
    """It waits for the kernel, so that the error may come from after it."""
    with installed(FakeTarget()) as fake, kd.use("fake"):

        @kd.kernel(debug=True)
        def set_to(out, value):
            i = kd.grid(1)
            if i < out.size:
                out[i] = value

        def fail(config, values):
            raise null.fault("device")

        fake.body = fail
        with pytest.raises(kd.DeviceError, match=r"half-written: out$"):
            set_to.forall(4)(kd.zeros(4), 2.0)
        host = np.zeros(4)
        with kd.fallback("silent"):  # here the original is on the host
            set_to.forall(4)(host, 2.0)
        assert (host == 2).all()


@pytest.mark.parametrize(
    "name", ["CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_ASSERT", "CUDA_ERROR_ECC_UNCORRECTABLE"]
)
@pytest.mark.parametrize("operation", ["launch", "copy_to_host", "allocate"])
def test_what_takes_the_device_away_is_raised(device, rng, name, operation):
    x, out, _ = arguments(rng)
    device.fail_next(operation, null.fault(name))
    with pytest.raises(kd.DriverError) as raised:
        make_kernel().forall(out.size)(x, out)
    assert (raised.value.name, kd.stats().fallbacks) == (name, 0)


def test_what_fails_after_a_launch_does_not_launch_again(device, rng, monkeypatch):
    """The memory of the arguments cannot be marked as used, say."""
    from kerneldsl.launch import dispatch

    kernel = make_kernel()
    x, out, _ = arguments(rng)
    there = kd.to_device(x), kd.to_device(out)

    def fail(objects, stream):
        raise null.fault("system")

    with kd.Stream():
        monkeypatch.setattr(dispatch, "note_uses", fail)
        with pytest.raises(kd.DriverError):
            kernel.forall(out.size)(*there)
        monkeypatch.undo()
    assert len(device.launches) == 1
    stats = kd.stats()
    assert (stats.launches, stats.fallbacks) == (1, 0)
    np.testing.assert_array_equal(there[1].copy_to_host(), out)  # not run on the CPU either
