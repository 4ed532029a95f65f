"""When a launch runs on the CPU instead, what it is told, and that no data is lost over it."""

from __future__ import annotations

import ast
import threading
import warnings
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.target import Specialization
from targets import null
from targets.cpu.target import CpuTarget
from targets.cuda import compiler
from tests.support.fake_target import FakeTarget, installed


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    from kerneldsl.runtime import fallback, placement

    for choices in (fallback._choices, placement._choices):
        monkeypatch.setattr(choices, "_plain", [])
        monkeypatch.setattr(choices, "process_wide", None)
    monkeypatch.setattr(fallback, "_announced", set())
    monkeypatch.delenv("KERNELDSL_FALLBACK", raising=False)
    monkeypatch.delenv("KERNELDSL_TARGET", raising=False)
    kd.reset_stats()


@pytest.fixture(scope="module", autouse=True)
def compiled_once():
    """Compile kernels of one text once for all tests here; each test loads them anew.

    Nearly all of the time would go into that: there is a kernel for each way to fail.
    """
    made = {}

    def once(compile_, key_of):
        def compile_once(*args, **options):
            key = key_of(*args, **options)
            if key not in made:
                made[key] = compile_(*args, **options)
            return made[key]

        return compile_once

    others = {f.name for f in fields(Specialization)} - {"unit", "traits"}

    def text_of(specialization):
        unit = specialization.unit
        rest = (getattr(specialization, name) for name in others)
        return ast.dump(unit.tree), tuple((c.path, repr(c.value)) for c in unit.captured), *rest

    with pytest.MonkeyPatch.context() as patch:
        compile_kernel, compile_on_host = compiler.compile_kernel, CpuTarget.compile
        patch.setattr(
            compiler, "compile_kernel", once(compile_kernel, lambda s, *, arch: (arch, text_of(s)))
        )
        patch.setattr(CpuTarget, "compile", once(compile_on_host, lambda _, s: ("cpu", text_of(s))))
        yield


@pytest.fixture
def device():
    with null.described_as(null.H100, null.H100) as target, kd.use("null"):
        yield target


def make_kernel():
    """A kernel that has not been launched, loaded or warned of yet."""

    @kd.kernel
    def accumulate(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] += 2 * x[i]

    return accumulate


def arguments(rng):
    x = rng.standard_normal(101)
    out = rng.standard_normal(101)
    x[[0, 7]] = np.nan, -0.0
    return x, out, out + 2 * x


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


@pytest.fixture
def gone():
    with installed(FakeTarget("gone", devices=0)) as target:
        yield target


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


# ------------------------------------------------------------------------------- faults

#: Of each category, whether the CPU takes over.
CATEGORIES = {
    "initialization": True,
    "device": True,
    "memory": True,
    "kernel": True,
    "compile": True,
    "system": True,
    "launch": False,
    "stream": False,
}
BEFORE = ("compile", "load", "allocate", "copy_from_host", "launch")


def plan(target: Any, operation: str, category: str) -> str:
    """Let an operation fail, as often as it is tried again; return the driver's name for it."""
    for _ in range(8):
        target.fail_next(operation, null.fault(category))
    return null.fault(category).name


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


# ------------------------------------------------------------------------------- after it began


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


# ------------------------------------------------------------------------------- a lost device


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
    device._faults.watch.swallow(0, error)  # as a finalizer does
    with pytest.raises(kd.DeviceLostError):
        kernel.forall(out.size)(x, out)
    with kd.fallback("silent"):
        kernel.forall(out.size)(x, out)
    np.testing.assert_array_equal(out, expected)


def test_what_fails_after_a_launch_does_not_launch_again(device, rng, monkeypatch):
    """The memory of the arguments cannot be marked as used, say."""
    from kerneldsl.runtime import dispatch

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

        fake.synchronize = refuse
        fake.load = refuse_to_load
        kernel = make_kernel()
        x, out, expected = arguments(rng)
        kernel.forall(out.size)(x, out)
        np.testing.assert_array_equal(out, expected)


def refuse_to_load(artifact, device):
    raise null.fault("kernel")


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


def test_no_room_on_the_host_for_copies(device, rng, monkeypatch):
    from kerneldsl.runtime import recovery

    kernel = make_kernel()
    x, out, _ = arguments(rng)
    there = kd.to_device(x), kd.to_device(out)

    def full(*args, **kwargs):
        raise MemoryError

    device.fail_next("load", null.fault("device"))
    monkeypatch.setattr(recovery.np, "empty", full)
    with pytest.raises(kd.DeviceError, match="the host has no room"):
        kernel.forall(out.size)(*there)


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


# ------------------------------------------------------------------------------- remembering


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


# ------------------------------------------------------------------------------- streams


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
        assert str(caught.value).count("was to be recorded") == 1
    with kd.fallback("silent"):
        kernel.forall(out.size)(*there)
    assert kd.stats().fallbacks == 1
    device.fail_next("compile", null.fault("compile"))
    with kd.fallback("never"), stream.capture(), pytest.raises(kd.DriverError) as caught:
        kernel.forall(out.size)(*there)
    assert "was to be recorded" not in str(caught.value)


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
