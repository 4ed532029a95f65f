"""Launches after a device was lost: the CPU takes over, but not for whoever may be to blame."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kerneldsl as kd
from targets import null
from tests.support.fake_target import FakeTarget, installed
from tests.support.falling_back import arguments, make_kernel


def test_launches_with_host_originals_go_on_after_the_device_is_lost(device, rng):
    kernel = make_kernel()
    x, out, expected = arguments(rng)
    device.lose(device.devices()[0])
    with pytest.warns(kd.FallbackWarning, match="lost"):
        kernel.forall(out.size)(x, out)
    np.testing.assert_array_equal(out, expected)
    with kd.use("null:1"), pytest.warns(kd.FallbackWarning, match="null:1 is lost"):
        kernel.forall(out.size)(x, out)  # every device of the process is gone with the first
    np.testing.assert_array_equal(out, expected + 2 * x)
    assert device.launches == []
    assert kd.stats().fallback_reasons == {"CUDA_ERROR_ILLEGAL_ADDRESS": 2}


def test_another_device_goes_on_after_a_fault_of_one(device, rng):
    kernel = make_kernel()
    x, out, expected = arguments(rng)
    device.lose(device.devices()[0], null.fault("CUDA_ERROR_ECC_UNCORRECTABLE"))
    with pytest.warns(kd.FallbackWarning, match="null:0 is lost"):
        kernel.forall(out.size)(x, out)
    np.testing.assert_array_equal(out, expected)
    with kd.use("null:1"), warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel.forall(out.size)(x, out)
    assert len(device.launches) == 1


@pytest.mark.parametrize("place", ["null:0", "null:1"])
def test_a_suspect_is_one_on_every_device(device, rng, place):
    kernel = make_kernel()
    x, out, _ = arguments(rng)
    before = out.copy()
    with kd.use("null:1"):
        kernel.forall(out.size)(kd.to_device(x), kd.to_device(out))
    device.lose(device.devices()[0])  # the device that told the error need not be where it began
    with kd.use(place), pytest.raises(kd.DeviceLostError, match="accumulate"):
        kernel.forall(out.size)(x, out)
    np.testing.assert_array_equal(out, before)


def test_only_a_suspects_whole_name_makes_one(device, rng):
    @kd.kernel
    def grid(x, out):  # a word that stands in every suspect's description
        i = kd.grid(1)
        if i < out.size:
            out[i] = x[i]

    x, out, _ = arguments(rng)
    kernel = make_kernel()
    kernel.forall(out.size)(kd.to_device(x), kd.to_device(out))
    device.lose(device.devices()[0])
    with kd.fallback("silent"):
        grid.forall(out.size)(x, out)
    np.testing.assert_array_equal(out, x)


def test_a_suspect_may_have_any_name(device, rng):
    @kd.kernel
    def größe(x, out):  # noqa: PLC2401 -- an entry cannot be called that
        i = kd.grid(1)
        if i < out.size:
            out[i] = x[i]

    x, out, _ = arguments(rng)
    größe.forall(out.size)(kd.to_device(x), kd.to_device(out))
    device.lose(device.devices()[0])
    with pytest.raises(kd.DeviceLostError, match="größe with grid"):
        größe.forall(out.size)(x, out)


def test_a_kernel_in_a_graph_is_a_suspect(device, rng):
    kernel = make_kernel()
    x, out, _ = arguments(rng)
    with kd.Stream() as stream:
        there = kd.to_device(x), kd.to_device(out)
        with stream.capture() as graph:
            kernel.forall(out.size)(*there)
        kd.synchronize()
        graph.launch()
    device.lose(device.devices()[0])
    with pytest.raises(kd.DeviceLostError, match="accumulate"):
        kernel.forall(out.size)(x, out)


@pytest.mark.parametrize("operation", ["copy_to_host", "synchronize"])
def test_a_kernel_that_was_started_when_the_loss_was_told_elsewhere(device, rng, operation):
    """Another thread is answered first; this launch is not among the suspects of that moment."""
    kernel = make_kernel()
    x, out, _ = arguments(rng)
    table = np.zeros((101, 2))
    table[:, 0] = out  # copied back by way of other memory, so the original is still whole
    lost = kd.DeviceLostError("null:0 is lost", code=700, name="ILLEGAL", kernels=frozenset())
    device.fail_next(operation, lost)
    pattern = "half-written: out" if operation == "synchronize" else "had been started"
    with pytest.raises(kd.DeviceLostError, match=pattern):
        kernel.forall(out.size)(x, table[:, 0])
    assert kd.stats().fallbacks == 0


def _meet_in_statistics(device, error):
    device.fail_next("memory_info", error)
    (found,) = kd.stats().devices
    assert (found.memory_used_bytes, found.memory_total_bytes) == (None, None)


def _meet_in_a_copy_that_ends(device, error):
    array = kd.zeros(1001)
    device.fail_next("query_event", error)  # of the mark behind the copy, which is looked at next
    array.copy_from_host(np.ones(1001), blocking=False)


def _meet_in_a_graph_that_goes(device, error):
    stream, array = kd.Stream(), kd.zeros(1001)
    host = np.ones(1001)
    with stream.capture() as graph:
        array.copy_from_host(host, blocking=False)
    graph.launch(stream)
    device.fail_next("query_event", error)
    graph.close()


@pytest.mark.parametrize(
    "meet", [_meet_in_statistics, _meet_in_a_copy_that_ends, _meet_in_a_graph_that_goes]
)
def test_a_loss_that_was_met_on_the_way_is_raised_once(device, rng, meet):
    """Whoever asks for figures, or drops what is done with, is not stopped; the next launch is."""
    kernel = make_kernel()
    x, out, expected = arguments(rng)
    kernel.forall(out.size)(x, out.copy())
    meet(device, null.fault("CUDA_ERROR_ILLEGAL_ADDRESS"))
    assert kd.error_log.entries()[-1].was_swallowed
    with pytest.raises(kd.DeviceLostError) as caught:
        kernel.forall(out.size)(x, out)
    assert caught.value.is_news
    with kd.fallback("silent"):
        kernel.forall(out.size)(x, out)
    np.testing.assert_array_equal(out, expected)


def test_a_loss_that_nobody_was_told_of_is_raised_once(device, rng):
    kernel = make_kernel()
    x, out, expected = arguments(rng)
    error = null.fault("CUDA_ERROR_ILLEGAL_ADDRESS")
    device.lose(device.devices()[0], error)
    device.faults.watch.suppress(0, error)  # as a finalizer does
    with pytest.raises(kd.DeviceLostError):
        kernel.forall(out.size)(x, out)
    with kd.fallback("silent"):
        kernel.forall(out.size)(x, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_debug_launch_on_a_lost_device_is_not_called_half_written(is_first):
    with installed(FakeTarget()) as fake, kd.use("fake"):

        @kd.kernel(debug=True)
        def set_to(out, value):
            i = kd.grid(1)
            if i < out.size:
                out[i] = value

        def fail(config, values):
            if is_first:
                raise null.fault("CUDA_ERROR_ILLEGAL_ADDRESS")
            raise kd.DeviceLostError("fake:0 is lost", code=700, name="ILLEGAL")

        there = kd.zeros(4)
        fake.body = fail
        with pytest.raises(kd.DriverError) as raised:
            set_to.forall(4)(there, 2.0)
        assert "half-written" not in str(raised.value)
        assert ("had been started" in str(raised.value)) is not is_first
        assert kd.stats().fallbacks == 0


def test_a_suspect_is_not_run_on_the_cpu(device, rng):
    kernel = make_kernel()
    x, out, _ = arguments(rng)
    before = out.copy()
    on_device_x, on_device = kd.to_device(x), kd.to_device(out)
    kernel.forall(out.size)(on_device_x, on_device)  # under suspicion: nobody has waited for it
    device.lose(device.devices()[0])
    with pytest.raises(kd.DeviceLostError, match="accumulate"):
        kernel.forall(out.size)(x, out)
    np.testing.assert_array_equal(out, before)


def test_arrays_of_a_lost_device_are_named(device, rng):
    x, out, _ = arguments(rng)
    on_device = kd.to_device(x)
    device.lose(device.devices()[0])
    with pytest.raises(kd.DeviceLostError, match=r"memory of the lost device: x$"):
        make_kernel().forall(out.size)(on_device, out)
