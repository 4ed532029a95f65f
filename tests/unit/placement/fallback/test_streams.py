"""Launches in streams and recordings that run on the CPU instead, or may not."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from targets import null
from tests.support.falling_back import arguments, make_kernel, plan


def test_a_launch_in_a_stream_falls_back(device, rng):
    kernel = make_kernel()
    x, out, expected = arguments(rng)
    on_device = kd.to_device(out)
    with kd.Stream("null:0") as stream, kd.fallback("silent"):
        plan(device, "load", "kernel")
        kernel.forall(out.size)(x, out)
        kernel.forall(out.size, stream=stream)(x, on_device)
        device.reset()
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(on_device.copy_to_host(), expected)
    assert kd.stats().fallbacks == 2


def test_a_fallback_is_not_recorded_by_a_stream_of_the_cpu(device, rng):
    kernel = make_kernel()
    x, out, expected = arguments(rng)
    plan(device, "load", "kernel")
    with kd.Stream("cpu") as stream, stream.capture() as graph, kd.fallback("silent"):
        with kd.use("null"):
            kernel.forall(out.size)(x, out)
        np.testing.assert_array_equal(out, expected)
    assert graph.node_count == 0


def test_what_is_recorded_is_not_replaced(device, rng):
    kernel = make_kernel()
    x, out, _ = arguments(rng)
    on_device_x, on_device = kd.to_device(x), kd.to_device(out)
    device.fail_next("load", null.fault("device"))
    with kd.Stream("null:0") as stream, pytest.raises(kd.DeviceError), stream.capture():
        kernel.forall(out.size)(on_device_x, on_device)
    assert kd.stats().fallbacks == 0


def test_a_failure_in_a_recording_says_why_the_cpu_does_not_take_over(device, rng):
    kernel = make_kernel()
    x, out, _ = arguments(rng)
    there = kd.to_device(x), kd.to_device(out)
    device.fail_next("compile", null.fault("compile"))
    stream = kd.Stream()
    for _ in range(2):  # the second time the failure is a remembered one
        with stream.capture(), pytest.raises(kd.DriverError) as caught:
            kernel.forall(out.size)(*there)
        assert str(caught.value).count("was to be captured") == 1
    with kd.fallback("silent"):
        kernel.forall(out.size)(*there)
    assert kd.stats().fallbacks == 1
    device.fail_next("compile", null.fault("compile"))
    with kd.fallback("never"), stream.capture(), pytest.raises(kd.DriverError) as caught:
        kernel.forall(out.size)(*there)
    assert "was to be captured" not in str(caught.value)


def test_the_stand_in_records_as_the_device_would(gone, rng):
    with pytest.warns(kd.FallbackWarning):
        choice = kd.use("gone")
    kernel = make_kernel()
    x, out, expected = arguments(rng)
    with choice:
        stream = kd.Stream()
        with stream.capture() as graph:
            kernel.forall(out.size, stream=stream)(x, out)
        assert not np.array_equal(out, expected, equal_nan=True)
        graph.launch()
        np.testing.assert_array_equal(out, expected)
