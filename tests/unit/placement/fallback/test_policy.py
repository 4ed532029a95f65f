"""When a launch runs on the CPU instead: the policy, and devices that are not there."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import kerneldsl as kd
from targets import null
from tests.support.fake_target import FakeTarget, installed
from tests.support.falling_back import arguments, make_kernel

# ------------------------------------------------------------------------------- the policy


def test_the_policy_is_chosen_like_a_device(monkeypatch):
    assert kd.fallback_policy() == "warn"
    monkeypatch.setenv("KERNELDSL_FALLBACK", " Silent ")
    assert kd.fallback_policy() == "silent"
    kd.fallback("never")
    assert kd.fallback_policy() == "never"
    seen = []
    with kd.fallback("warn") as choice:
        assert repr(choice) == "kerneldsl.fallback('warn')"
        assert kd.fallback_policy() == "warn"
        thread = threading.Thread(target=lambda: seen.append(kd.fallback_policy()))
        thread.start()
        thread.join()
    assert seen == ["never"]
    assert kd.fallback_policy() == "never"


def test_what_is_no_policy(monkeypatch):
    with pytest.raises(kd.ArgumentValueError, match=r"'loud' is unknown.*warn"):
        kd.fallback("loud")  # type: ignore[arg-type]
    monkeypatch.setenv("KERNELDSL_FALLBACK", "loud")
    with pytest.raises(kd.ArgumentValueError, match="KERNELDSL_FALLBACK is 'loud'"):
        kd.fallback_policy()


# ------------------------------------------------------------------------------- no device


def test_without_the_device_that_was_asked_for_kernels_run_on_the_cpu(gone, rng):
    kernel = make_kernel()
    with pytest.warns(kd.FallbackWarning, match="instead of gone: .*without devices") as caught:
        choice = kd.use("gone")
    assert caught[0].filename == __file__
    assert "kd.fallback('silent')" in str(caught[0].message)
    with choice, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kd.current_target() == "cpu"
        for _ in range(3):
            x, out, expected = arguments(rng)
            kernel.forall(out.size)(x, out)
            np.testing.assert_array_equal(out, expected)
        # Arrays are the CPU's, whatever it stands in for.
        there = kd.to_device(out)
        kernel.forall(out.size)(x, there)
        with kd.use("cpu"):
            kernel.forall(out.size)(x, there)
        with kd.use("gone"):  # the second time is not worth a word
            kernel.forall(out.size)(x, there)
    stats = kd.stats()
    assert (stats.launches, stats.fallbacks) == (6, 5)
    assert stats.fallback_reasons == {"TargetUnavailableError": 5}
    assert {d.device: (d.launches, d.fallbacks) for d in stats.devices} == {
        "cpu": (6, 0),
        "gone": (0, 5),
    }
    assert stats.gpu_share_of_launches == 0
    assert not stats.is_gpu_effective()


def test_the_environment_may_ask_for_it_too(gone, monkeypatch, rng):
    monkeypatch.setenv("KERNELDSL_TARGET", "gone:3")
    x, out, expected = arguments(rng)
    with pytest.warns(kd.FallbackWarning, match="KERNELDSL_TARGET is 'gone:3'"):
        make_kernel().forall(out.size)(x, out)
    np.testing.assert_array_equal(out, expected)
    assert kd.stats().fallbacks == 1


def test_never_is_never(gone, monkeypatch, rng):
    with kd.fallback("never"), pytest.raises(kd.TargetUnavailableError, match="without devices"):
        kd.use("gone")
    with kd.fallback("silent"), warnings.catch_warnings():
        warnings.simplefilter("error")
        choice = kd.use("gone")
    x, out, _ = arguments(rng)
    before = out.copy()
    with choice, kd.fallback("never"), pytest.raises(kd.TargetUnavailableError):
        make_kernel().forall(out.size)(x, out)
    np.testing.assert_array_equal(out, before)
    monkeypatch.setenv("KERNELDSL_TARGET", "gone")
    with kd.fallback("never"), pytest.raises(kd.TargetUnavailableError, match="KERNELDSL_TARGET"):
        make_kernel().forall(out.size)(x, out)
    assert kd.stats().launches == 0


def test_a_device_that_was_in_use_is_not_replaced(monkeypatch):
    with installed(FakeTarget("gone")) as target:
        kd.use("gone:1")
        target.found = ()  # as after a fork
        with pytest.raises(kd.TargetUnavailableError):
            kd.use("gone")


def test_an_index_out_of_range_is_an_error_all_the_same(device):
    with pytest.raises(kd.DeviceMismatchError, match="has 2 devices"):
        kd.use("null:7")


def test_no_gpu_and_none_asked_for_is_no_fallback(rng):
    x, out, expected = arguments(rng)
    with warnings.catch_warnings(), kd.use("cpu"):
        warnings.simplefilter("error")
        make_kernel().forall(out.size)(x, out)
    np.testing.assert_array_equal(out, expected)
    stats = kd.stats()
    assert (stats.launches, stats.fallbacks, stats.fallback_reasons) == (1, 0, {})


# ------------------------------------------------------------------------------- the user's own


def test_mistakes_are_errors_on_every_machine(device):
    @kd.kernel
    def wrong(x):
        x[0] = "text" + x[0]

    @kd.kernel(debug=True)
    def beyond(x, n):
        x[n] = 1

    with warnings.catch_warnings():
        warnings.simplefilter("error", kd.FallbackWarning)
        with pytest.raises(kd.KernelTypingError):
            wrong.forall(1)(np.zeros(1))
        with pytest.raises(kd.LaunchConfigError):
            make_kernel()[1, 4096](np.zeros(1), np.zeros(1))
        with pytest.raises(kd.ArgumentTypeError):
            make_kernel().forall(1)("text", np.zeros(1))
    assert kd.stats().fallbacks == 0


def test_unclassified_errors_are_raised(device, rng):
    x, out, _ = arguments(rng)
    device.fail_next("load", kd.DriverError("something", code=1, name="NEW"))
    with pytest.raises(kd.DriverError, match="something"):
        make_kernel().forall(out.size)(x, out)
    device.fail_next("load", RuntimeError("a fault of ours"))
    with pytest.raises(RuntimeError, match="ours"):
        make_kernel().forall(out.size)(x, out)


# ------------------------------------------------------------------------------- the shape


def test_the_shape_stays_what_it_was(device, rng):
    """A block of 32 threads that serves 7 indices does so on the CPU, too."""

    @kd.kernel(space=kd.Space(block=[32], tile=[7], covers=lambda member: member.tile))
    def doubled(x, out, *, tile):
        t = kd.threadIdx.x
        i = kd.blockIdx.x * tile + t
        part = kd.shared.array(32, np.float64)
        part[t] = x[i] if t < tile and i < x.size else 0.0
        kd.syncthreads()
        if t < tile and i < out.size:
            out[i] = 2 * part[t]

    x, out = rng.standard_normal(100), np.full(100, np.nan)
    device.fail_next("launch", null.fault("device"))
    with pytest.warns(kd.FallbackWarning):
        doubled.forall(out.size)(x, out)
    np.testing.assert_array_equal(out, 2 * x)
