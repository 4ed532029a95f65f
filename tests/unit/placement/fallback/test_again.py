"""Launches after one that failed: what is tried again, and what is warned of again."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kerneldsl as kd
from targets import null
from tests.support.fake_target import FakeTarget, installed
from tests.support.falling_back import arguments, make_kernel, plan


def test_what_failed_for_good_is_not_tried_again(rng):
    with installed(FakeTarget()) as fake, kd.use("fake"), kd.fallback("silent"):
        kernel = make_kernel()
        attempts = []

        def refuse(specialization):
            attempts.append(specialization)
            raise kd.LibdeviceMissingError("no libdevice", remedy="Install it")

        compile_, fake.compile = fake.compile, refuse
        for _ in range(5):
            x, out, expected = arguments(rng)
            kernel.forall(out.size)(x, out)
            np.testing.assert_array_equal(out, expected)
        assert len(attempts) == 1
        assert kd.stats().fallback_reasons == {"LibdeviceMissingError": 5}
        with kd.fallback("never"), pytest.raises(kd.LibdeviceMissingError):
            kernel.forall(out.size)(x, out)
        assert len(attempts) == 2
        with kd.fallback("never"):  # whoever asks for the device gets a new attempt
            fake.compile = compile_
            kernel.forall(out.size)(x, out)
        assert len(fake.launches) == 1


def test_what_may_pass_is_tried_again(device, rng):
    kernel = make_kernel()
    x, out, _ = arguments(rng)
    device.fail_next("load", null.fault("device"))
    with kd.fallback("silent"):
        kernel.forall(out.size)(x, out)
        kernel.forall(out.size)(x, out)
    assert (len(device.launches), kd.stats().fallbacks) == (1, 1)


def test_a_kernel_is_warned_of_once_for_each_reason(device, rng):
    kernel, other = make_kernel(), make_kernel()
    x, out, _ = arguments(rng)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for category in ("device", "system", "device"):
            for each in (kernel, other):
                plan(device, "allocate", category)
                each.forall(out.size)(x, out)
                device.reset()
    assert len(caught) == 4
    assert kd.stats().fallbacks == 6


def test_a_warning_that_is_an_error_stops_the_launch(device, rng):
    x, out, _ = arguments(rng)
    before = out.copy()
    device.fail_next("launch", null.fault("device"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = make_kernel()
        with pytest.raises(kd.FallbackWarning):
            kernel.forall(out.size)(x, out)
        device.fail_next("launch", null.fault("device"))
        with pytest.raises(kd.FallbackWarning):  # and so it does the next time
            kernel.forall(out.size)(x, out)
    np.testing.assert_array_equal(out, before)
    assert kd.stats().fallbacks == 0
