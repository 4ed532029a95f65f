"""Launches repeated by native code: the same launch as Python's, and whose turn it is."""

from __future__ import annotations

import array
import gc
import os
import subprocess
import sys
import threading
import types
import weakref
from functools import partial

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.launcher import machine, table
from kerneldsl.launcher.layout import UnknownLayout, builtin_method
from kerneldsl.registry import get_target
from targets.null.executable import NullExecutable
from tests.support.fake_target import installed
from tests.support.native import NativeFakeTarget, is_native, require_native, warm_up


@pytest.fixture(autouse=True)
def native():
    require_native()
    for kernel in (axpy, takes, writes, captures, attributes):
        kernel._remember_launches()  # what other tests have launched is forgotten


@pytest.fixture
def fake():
    with installed(NativeFakeTarget("fake")) as target, kd.use("fake"):
        yield target


@pytest.fixture
def null():
    target = get_target("null")
    target.reset()
    with kd.use("null"):
        yield target
    target.reset()


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def takes(a, x):
    pass


@kd.kernel
def writes(x):
    x[0] = 1


def numbers(n):
    return np.random.default_rng().random(n).astype(np.float32)


# --------------------------------------------------------------------------- results


@pytest.mark.parametrize("n", [1, 16, 1000, 300_000])
def test_the_cpu_computes_the_same(n):
    x, y = numbers(n), numbers(n)
    with kd.use("cpu"):
        launch = axpy.forall(n)
        warm_up(launch, 2.0, x, y, np.empty_like(x))
        for _ in range(3):
            x[...] = numbers(n)
            out = np.full_like(x, np.nan)
            a = float(np.random.default_rng().random())
            with is_native(launch):
                axpy.forall(n)(a, x, y, out)
            np.testing.assert_array_equal(out, (a * x.astype(float) + y).astype(np.float32))


def test_explicit_launches_compute_the_same():
    x, y, out = numbers(100), numbers(100), numbers(100)
    with kd.use("cpu"):
        launch = axpy[4, 32]
        warm_up(launch, 0.5, x, y, out)
        out[...] = np.nan
        with is_native(launch):
            axpy[4, 32](0.5, x, y, out)
    np.testing.assert_array_equal(out, np.float32(0.5) * x + y)


def test_the_null_driver_is_told_the_same(null):
    x, y, out = (kd.to_device(numbers(1000)) for _ in range(3))
    launch = axpy.forall(1000)
    warm_up(launch, 2.0, x, y, out)
    null.launches.clear()
    with machine.suspended():
        axpy.forall(1000)(2.5, x, y, out)
    with is_native(launch):
        axpy.forall(1000)(2.5, x, y, out)
    by_python, by_native = null.launches
    assert by_python == by_native
    assert null.driver.context == null.driver.context_of(0)  # the first device's may stay


def test_the_same_code_is_chosen_by_what_holds_of_the_arguments(null):
    """Aligned, misaligned, overlapping, in place, longer than the extent: as Python chooses."""
    n = 1 << 16
    base = [kd.zeros(n + 64, np.float32) for _ in range(3)]
    x, y, out = (each[:n] for each in base)
    cases = [
        (x, y, out),
        (base[0][1 : n + 1], y, out),
        (x, y, base[2][2 : n + 2]),
        (x, out, out),
        (base[2][16 : n + 16], y, out),
        (base[0], y, base[2]),
        (base[0][4 : n + 4], y, out),
    ]
    launch = axpy.forall(n)
    for prepared in cases:
        axpy._remember_launches()
        launch = axpy.forall(n)
        warm_up(launch, 2.0, *prepared)
        for given in cases:
            null.launches.clear()
            with machine.suspended():
                launch(2.0, *given)
            launch(2.0, *given)
            by_python, by_native = null.launches
            assert by_native == by_python
    warm_up(launch, 2.0, *cases[0])
    with is_native(launch):
        launch(2.0, *cases[0])


def test_a_launch_in_place_leaves_the_better_code_to_others(null, monkeypatch):
    seen = []
    examine = NullExecutable.examine

    def noted(executable, config, parameters):
        seen.append(executable.artifact.specialization.promises)
        return examine(executable, config, parameters)

    monkeypatch.setattr(NullExecutable, "examine", noted)
    x, y, out = (kd.zeros(100, np.float32) for _ in range(3))
    launch = axpy.forall(100)
    warm_up(launch, 2.0, x, out, out)
    for given in ((x, y, out), (x, out, out), (x, x, out), (x, y, out)):
        seen.clear()
        with machine.suspended():
            launch(2.0, *given)
        for _ in range(3):
            launch(2.0, *given)
        by_python, *by_native = seen
        assert len(by_native) == 3
        assert all(each.is_disjoint >= by_python.is_disjoint for each in by_native)
    assert by_python.is_disjoint


@kd.kernel(cooperative=True)
def all_at_once(x):
    x[kd.grid(1)] += 1


@kd.kernel(cluster=2)
def in_clusters(x):
    x[kd.grid(1)] += 1


@pytest.mark.parametrize("kernel", [all_at_once, in_clusters], ids=lambda k: k.__name__)
def test_blocks_that_run_together_are_python_s_business(null, kernel):
    x = kd.zeros(1024, np.float32)
    launch = kernel[16, 64]
    warm_up(launch, x)
    bound = launch.bind(x)
    null.launches.clear()
    for call in (partial(launch, x), bound):
        with is_native(launch, expected=False):
            call()
    for record in null.launches:
        assert record.config.is_cooperative or record.config.cluster_dim == (2, 1, 1)


def test_a_launch_is_found_again_by_its_shape():
    assert axpy.forall(100) is axpy.forall(100)
    assert axpy[2, 32] is axpy[2, 32]
    assert axpy.forall(100) is not axpy.forall(101)
    assert axpy.forall(1) is not axpy.forall(1, block=1)
    with pytest.raises(kd.LaunchConfigError, match="bool"):
        axpy[True, 32]
    with pytest.raises(kd.LaunchConfigError, match="bool"):
        axpy.forall(True)
    for n in range(1000):
        axpy.forall(n)
        axpy[n + 1, 32]
    assert len(axpy._extents) <= 256
    assert len(axpy._grids) <= 256


def test_the_launch_found_last_is_the_one_that_is_asked_for():
    """One after the other, as the same objects, as equal ones, and by what equals them."""
    large = 100_000
    for _ in range(2):
        assert axpy.forall(large) is axpy.forall(int("100000")) is axpy.forall(large)
        assert axpy[large, 32] is axpy[int("100000"), 32] is axpy[large, 32]
        assert axpy.forall(1)._shape.extent == (1,)
        assert axpy[1, 32]._shape.block_dim == (32, 1, 1)
        assert axpy[1, 64]._shape.block_dim == (64, 1, 1)
        assert axpy[large, 64]._shape.grid_dim == (large, 1, 1)
        with pytest.raises(kd.LaunchConfigError, match="bool"):
            axpy[True, 64]
        with pytest.raises(kd.LaunchConfigError, match="bool"):
            axpy.forall(True)
        assert axpy[(1,), 64] is not axpy[1, 64]
        assert axpy[1, 64, None, 8]._shape.shared_bytes == 8
    assert axpy.forall(1) is not takes.forall(1)


def test_the_launch_found_last_is_let_go_of(null):
    @kd.kernel
    def passing(x):
        x[kd.grid(1)] = 0

    x = kd.zeros(8, np.float32)
    warm_up(passing.forall(8), x)
    assert passing[1, 8] is passing[1, 8]  # made, and then found last
    before = sys.getrefcount(passing.forall(8)), sys.getrefcount(passing[1, 8])
    for _ in range(1000):
        for n in (8, 9, 10):
            passing.forall(n)
            passing[n, 8]
    passing.forall(8), passing[1, 8]
    assert (sys.getrefcount(passing.forall(8)), sys.getrefcount(passing[1, 8])) == before
    gone = weakref.ref(passing)
    del passing
    gc.collect()
    assert gone() is None


# --------------------------------------------------------------------------- whose turn it is


def test_python_is_asked_about_what_does_not_fit(fake):
    x = kd.to_device(numbers(8))
    launch = takes[1, 1]
    warm_up(launch, 1, x)
    with is_native(launch):
        launch(5, x)
    for other in (1.0, True, np.int64(1)):
        warm_up(launch, 1, x)
        with is_native(launch, expected=False):
            launch(other, x)
    for wrong, error in (
        ((1, "text"), kd.ArgumentTypeError),
        ((2**63, x), kd.ArgumentValueError),
        ((1,), kd.ArgumentTypeError),
        ((1, x, 3), kd.ArgumentTypeError),
    ):
        with pytest.raises(error):
            launch(*wrong)
    with is_native(launch, expected=False):
        launch(a=1, x=x)
    with is_native(launch):
        launch(-(2**63), x)
    assert fake.launches[-1][2]["a"] == -(2**63)


def test_four_kinds_of_arguments_are_known_at_a_time(fake):
    arrays = [kd.zeros(4, t) for t in (np.int8, np.int16, np.int32, np.int64)]
    launch = takes[1, 1]
    for each in arrays:
        warm_up(launch, 1, each)
    for each in arrays:
        with is_native(launch):
            launch(1, each)
        assert fake.launches[-1][2]["x.data"] == each.pointer


def test_a_closed_array_is_refused(fake):
    x = kd.to_device(numbers(8))
    view = x[2:]
    launch = writes[1, 1]
    for each in (x, view):
        warm_up(launch, each)
        with is_native(launch):
            launch(each)
    x.close()
    for each in (x, view):
        with pytest.raises(kd.ClosedResourceError):
            launch(each)


def test_a_read_only_array_is_refused(fake):
    x = kd.to_device(numbers(8))
    launch = writes[1, 1]
    warm_up(launch, x)
    with pytest.raises(kd.ReadOnlyArrayError):
        launch(x.as_read_only())
    reads = takes[1, 1]
    warm_up(reads, 1, x)
    with is_native(reads):
        reads(1, x.as_read_only())


def test_a_read_only_ndarray_is_refused():
    x = numbers(8)
    with kd.use("cpu"):
        launch = writes[1, 1]
        warm_up(launch, x)
        x.flags.writeable = False
        with pytest.raises(kd.ReadOnlyArrayError):
            launch(x)


def test_the_devices_context_is_current_and_the_one_before_comes_back(fake):
    on_first, on_second = (kd.to_device(numbers(8)) for _ in range(2))
    with kd.use("fake:1"):
        on_second = kd.to_device(numbers(8))
    launch = writes[1, 1]
    warm_up(launch, on_first)
    for before, after in ((0, 0x100), (0x999, 0x999), (0x100, 0x100)):
        fake.current = before
        with is_native(launch):
            launch(on_first)
        assert fake.current == after
    with kd.use("fake:1"):
        warm_up(launch, on_second)
        for before in (0, 0x999, 0x101):  # another device's context never stays
            fake.current = before
            with is_native(launch):
                launch(on_second)
            assert fake.current == before
    assert fake.notes[-1] == "writes"


def test_arguments_of_another_device(fake):
    here = kd.to_device(numbers(8))
    with kd.use("fake:1"):
        there = kd.to_device(numbers(8))
    launch = writes[1, 1]
    warm_up(launch, here)
    with pytest.raises(kd.DeviceMismatchError):
        launch(there)  # an active `with` says fake:0
    assert fake.launches[-1][0].index == 0


def test_the_place_is_chosen_anew_at_each_launch():
    launch = takes[1, 1]
    with installed(NativeFakeTarget("fake")) as fake:
        with kd.use("fake"):
            warm_up(launch, 1, 2)
            with is_native(launch):
                launch(1, 2)
        count = len(fake.launches)
        with kd.use("fake:1"), is_native(launch, expected=False):
            launch(1, 2)
        assert fake.launches[-1][0].index == 1
        with kd.use("cpu"):
            launch(1, 2)
        assert len(fake.launches) == count + 1
        chosen = kd.use("fake")
        try:
            for _ in range(3):
                launch(1, 2)
            with is_native(launch):
                launch(1, 2)
            kd.use("fake:1")
            launch(1, 2)
            assert fake.launches[-1][0].index == 1
        finally:
            with chosen:
                pass
            from kerneldsl.runtime import placement

            placement._choices._set([])


def test_the_environment_chooses_the_place(monkeypatch):
    launch = takes[1, 1]
    with installed(NativeFakeTarget("fake")) as fake:
        monkeypatch.setenv("KERNELDSL_TARGET", "cpu")
        warm_up(launch, 1, 2)
        with is_native(launch):
            launch(1, 2)
        monkeypatch.setenv("KERNELDSL_TARGET", "fake:1")
        launch(1, 2)
        assert [device.index for device, _, _ in fake.launches] == [1]
        monkeypatch.setenv("KERNELDSL_TARGET", "cpu")
        launch(1, 2)
        monkeypatch.delenv("KERNELDSL_TARGET")
        launch(1, 2)
        assert len(fake.launches) == 1


def test_a_fresh_view_is_native_at_once(fake):
    x = kd.to_device(numbers(100))
    launch = writes[1, 1]
    warm_up(launch, x[1:])
    for first in range(1, 50):
        view = x[first:]
        with is_native(launch):
            launch(view)
        assert fake.launches[-1][2] == {"x.data": view.pointer, "x.shape[0]": 100 - first}


def test_streams_go_by_way_of_python(fake):
    x = kd.to_device(numbers(8))
    launch = writes[1, 1]
    warm_up(launch, x)
    with is_native(launch, expected=False):
        writes[1, 1, 5](x)
        with kd.Stream.from_foreign(9, "fake"):
            launch(x)
    handles = [getattr(config.stream, "handle", config.stream) for _, config, _ in fake.launches]
    assert handles[-2:] == [5, 9]
    with is_native(launch):
        launch(x)


def test_memory_of_another_stream_goes_by_way_of_python(null):
    launch = writes[1, 1]
    warm_up(launch, kd.zeros(8))
    with kd.Stream("null"):
        x = kd.zeros(8)
    for _ in range(4):
        with is_native(launch, expected=False):
            launch(x)


def test_what_is_logged_goes_by_way_of_python(fake, caplog):
    launch = takes[1, 1]
    warm_up(launch, 1, 2)
    with caplog.at_level("DEBUG", logger="kerneldsl"), is_native(launch, expected=False):
        launch(1, 2)
    assert "launch takes on fake:0" in caplog.text
    launch(1, 2)
    warm_up(launch, 1, 2)
    with is_native(launch):
        launch(1, 2)


def test_a_recording_takes_launches(null):
    x = kd.zeros(8)
    launch = writes[1, 1]
    warm_up(launch, x)
    stream = kd.Stream("null")
    null.launches.clear()
    bound = launch.bind(x)
    with stream.capture() as graph:
        launch(x)
        bound()
    assert not null.launches
    graph.launch()
    assert len(null.launches) == 2


# --------------------------------------------------------------------------- captured constants

SCALE = 2.0
OFFSET = 1
FACTORS = np.array([3.0, 4.0])
FACTORS.flags.writeable = False


@kd.func
def twice(value):
    return 2.0 * value


@kd.func
def thrice(value):
    return 3.0 * value


@kd.kernel
def captures(out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = twice(SCALE) * FACTORS[1] + OFFSET + np.pi


def test_captured_values_are_compared_by_identity(monkeypatch):
    out = np.zeros(4)
    module = sys.modules[__name__]
    with kd.use("cpu"):
        launch = captures.forall(4)
        warm_up(launch, out)
        for name, value, expected in (
            ("SCALE", 3.0, 6.0 * 4.0 + 1),
            ("OFFSET", 7, 4.0 * 4.0 + 7),
            ("FACTORS", np.array([1.0, 5.0]), 4.0 * 5.0 + 1),
            ("twice", thrice, 6.0 * 4.0 + 1),
        ):
            with monkeypatch.context() as patch:
                if name == "FACTORS":
                    value.flags.writeable = False
                patch.setattr(module, name, value)
                for _ in range(4):
                    out[...] = np.nan
                    launch(out)
                    np.testing.assert_allclose(out, expected + np.pi)
            for _ in range(4):
                out[...] = np.nan
                launch(out)
                np.testing.assert_allclose(out, 4.0 * 4.0 + 1 + np.pi)
            warm_up(launch, out)
            with is_native(launch):
                launch(out)


_CHANGES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("SCALE", "OFFSET")), st.sampled_from((1.0, 2.0, 3.0))),
        st.tuples(st.sampled_from(("SOMETHING_ELSE", "ANOTHER_THING")), st.integers(0, 2)),
    ),
    max_size=12,
)


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(changes=_CHANGES)
def test_whatever_happens_to_a_module_its_values_are_those_of_now(changes):
    """Values come and go and come back, and names that the kernel does not know of."""
    names, out = vars(sys.modules[__name__]), np.zeros(4)
    saved = {name: names[name] for name in ("SCALE", "OFFSET")}
    try:
        with kd.use("cpu"):
            launch = captures.forall(4)
            warm_up(launch, out)
            for name, value in changes:
                if value == 0:
                    names.pop(name, None)
                else:
                    names[name] = value
                for _ in range(3):
                    out[...] = np.nan
                    launch(out)
                    expected = 2.0 * names["SCALE"] * FACTORS[1] + names["OFFSET"] + np.pi
                    np.testing.assert_allclose(out, expected)
    finally:
        names.update(saved)
        for name in ("SOMETHING_ELSE", "ANOTHER_THING"):
            names.pop(name, None)


def test_another_name_of_a_module_leaves_launches_to_native_code(monkeypatch):
    out = np.zeros(4)
    with kd.use("cpu"):
        launch = captures.forall(4)
        warm_up(launch, out)
        for value in range(5):
            monkeypatch.setitem(globals(), "SOMETHING_ELSE", value)
            with is_native(launch):
                launch(out)


class Settings:
    WIDTH = 3


class Narrow(Settings):
    pass


@kd.kernel
def attributes(out):
    out[kd.grid(1)] = Settings.WIDTH + 10 * Narrow.WIDTH


def test_attributes_of_classes_are_looked_at(monkeypatch):
    out = np.zeros(3)
    with kd.use("cpu"):
        launch = attributes.forall(3)
        for owner, value, expected in (
            (Settings, 3, 33),
            (Settings, 4, 44),
            (Narrow, 5, 53),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(owner, "WIDTH", value, raising=False)
                launch(out)
                np.testing.assert_array_equal(out, expected)
                warm_up(launch, out)
                out[...] = 0
                with is_native(launch):
                    launch(out)
                np.testing.assert_array_equal(out, expected)
        with monkeypatch.context() as patch:
            patch.delattr(Settings, "WIDTH")
            with pytest.raises(kd.KernelError, match="WIDTH"):
                launch(out)


settings = types.ModuleType("settings")
settings.WIDTH = 3


@kd.kernel
def reads_a_module(out):
    out[kd.grid(1)] = settings.WIDTH


class Computed(types.ModuleType):
    @property
    def WIDTH(self):
        return 7


def test_a_modules_class_is_looked_at():
    out = np.zeros(3)
    with kd.use("cpu"):
        launch = reads_a_module.forall(3)
        warm_up(launch, out)
        with is_native(launch):
            launch(out)
        np.testing.assert_array_equal(out, 3)
        settings.__class__ = Computed
        try:
            launch(out)
        finally:
            settings.__class__ = types.ModuleType
        np.testing.assert_array_equal(out, 7)
        launch(out)
        np.testing.assert_array_equal(out, 3)


def test_a_deleted_constant_is_an_error(monkeypatch):
    with kd.use("cpu"):
        launch = captures.forall(4)
        out = np.zeros(4)
        warm_up(launch, out)
        with monkeypatch.context() as patch:
            patch.delattr(sys.modules[__name__], "OFFSET")
            with pytest.raises(kd.KernelError, match="OFFSET"):
                launch(out)
        launch(out)
        np.testing.assert_allclose(out, 17 + np.pi)


def test_a_closures_variable_is_looked_at():
    def make():
        scale = 2

        @kd.kernel
        def scaled(out):
            out[kd.grid(1)] = scale

        def change(value):
            nonlocal scale
            scale = value

        return scaled, change

    scaled, change = make()
    out = np.zeros(3)
    with kd.use("cpu"):
        launch = scaled.forall(3)
        for value in (2, 3, 2, 5):
            change(value)
            warm_up(launch, out)
            out[...] = np.nan
            with is_native(launch):
                launch(out)
            np.testing.assert_array_equal(out, value)
        change(8)
        launch(out)
        np.testing.assert_array_equal(out, 8)


# --------------------------------------------------------------------------- when it fails


def test_what_the_driver_refuses_python_launches_again(fake):
    launch = takes[1, 1]
    warm_up(launch, 1, 2)
    count = len(fake.launches)
    fake.status = 700
    with is_native(launch, expected=False):
        launch(1, 2)
    assert len(fake.launches) == count + 1  # by Python, whose fake driver is well


def test_what_is_planned_to_fail_is_raised_once(null):
    launch = takes[1, 1]
    warm_up(launch, 1, 2)
    count = len(null.launches)
    from targets.null import fault

    null.fail_next("launch", fault("launch"))
    with kd.fallback("never"), pytest.raises(kd.DriverError, match="LAUNCH_OUT_OF_RESOURCES"):
        launch(1, 2)
    launch(1, 2)
    assert len(null.launches) == count + 1


def test_a_lost_device_is_not_launched_on(null):
    x = kd.zeros(8)
    launch = writes[1, 1]
    warm_up(launch, x)
    count = len(null.launches)
    null.lose(null.devices()[0])
    with pytest.raises(kd.DeviceLostError, match="writes"):
        launch(x)
    assert len(null.launches) == count
    null.reset()
    launch(x)


def test_native_launches_are_suspects(null):
    x = kd.zeros(8)
    launch = writes[1, 1]
    warm_up(launch, x)
    kd.synchronize()
    with is_native(launch):
        launch(x)
    null.lose(null.devices()[0])
    with pytest.raises(kd.DeviceLostError) as caught:
        launch(x)
    assert len(caught.value.suspects) == 1


def test_a_failing_note_is_dropped(fake):
    launch = takes[1, 1]
    warm_up(launch, 1, 2)

    fake.notes = array.array("d")  # takes no text
    other = takes[2, 1]
    warm_up(other, 1, 2)
    with is_native(other):
        assert other(1, 2) is None
    assert len(fake.notes) == 0


def test_launches_that_are_noted_by_python_stay_with_python(fake):
    noted = []

    class Notes(list):
        def append(self, value):
            noted.append(value)

    fake.notes = Notes()
    launch = takes[3, 1]
    before = len(fake.launches)
    for _ in range(100):
        launch(1, 2)
    assert len(fake.launches) - before == 100
    assert fake.native_launches == 0
    assert launch.bind(1, 2)() is None


def test_a_note_is_a_built_in_method_of_one_argument():
    assert builtin_method([].append)[0] != 0
    for other in (lambda value: None, [].pop, print, str.upper):
        with pytest.raises(UnknownLayout, match="built-in method"):
            builtin_method(other)


def test_what_must_hold_no_longer_holds(fake):
    launch = takes[1, 1]
    warm_up(launch, 1, 2)
    fake.health["is_well"] = False
    with is_native(launch, expected=False):
        launch(1, 2)
    assert fake.launches[-1][2] == {"a": 1, "x": 2}


def test_a_new_generation_prepares_anew(fake):
    launch = takes[1, 1]
    warm_up(launch, 1, 2)
    machine.begin_generation()
    with is_native(launch, expected=False):
        launch(1, 2)
    warm_up(launch, 1, 2)
    with is_native(launch):
        launch(1, 2)


# --------------------------------------------------------------------------- bind


def test_a_prepared_launch_launches_at_once(fake):
    x = kd.to_device(numbers(8))
    launch = writes.forall(1)
    bound = launch.bind(x)
    assert not fake.launches
    assert isinstance(bound, kd.BoundLaunch)
    assert (bound.launch, bound.args) == (launch, (x,))
    assert repr(bound) == "<prepared launch of writes over (1,)>"
    with is_native(launch):
        bound()
    assert fake.launches[-1][2]["x.data"] == x.pointer
    with pytest.raises(TypeError):
        bound(1)
    with pytest.raises(TypeError):
        bound(x=1)


def test_binding_by_name_and_mistakes_at_binding(fake):
    bound = takes[1, 1].bind(x=2, a=1)
    bound()
    assert fake.launches[-1][2] == {"a": 1, "x": 2}
    for args, error in (
        ((1,), kd.ArgumentTypeError),
        ((1, "text"), kd.ArgumentTypeError),
        ((2**70, 1), kd.ArgumentValueError),
    ):
        with pytest.raises(error):
            takes[1, 1].bind(*args)
    with pytest.raises(kd.LaunchConfigError):
        takes[1, 2048].bind(1, 2)
    with kd.use("cpu"), pytest.raises(kd.KernelTypingError):
        writes[1, 1].bind(1)


def test_a_prepared_launch_keeps_its_arguments_alive_and_no_longer(fake):
    x = kd.zeros(8)
    buffer = weakref.ref(x)
    bound = writes[1, 1].bind(x)
    del x
    gc.collect()
    assert buffer() is not None
    bound()
    del bound
    gc.collect()
    assert buffer() is None


def test_a_prepared_launch_with_what_native_code_does_not_know(fake):
    class Number(int):
        pass

    bound = takes[1, 1].bind(Number(3), 2)
    bound()
    assert fake.launches[-1][2]["a"] == 3


# --------------------------------------------------------------------------- counting


def test_counts_are_exact_under_threads(fake):
    kd.reset_stats()
    launch = takes[1, 1]
    barrier = threading.Barrier(8)

    def work(number):
        barrier.wait()
        for i in range(500):
            with kd.use("fake"):
                launch(number, i if i % 7 else float(i))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    before = len(fake.launches)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake.launches) - before == 4000
    assert kd.stats().launches == 4000
    assert fake.native_launches > 1000


def test_native_launches_are_timed_now_and_then(fake):
    kd.reset_stats()
    for _ in range(5000):
        takes[3, 1](1, 2)
    (kernel,) = (k for k in kd.stats().kernels if k.kernel.endswith("takes"))
    assert kernel.launches == 5000


# --------------------------------------------------------------------------- references, threads


def test_a_million_launches_leave_nothing_behind():
    x, y, out = numbers(16), numbers(16), numbers(16)
    a = float(np.float64(12345.678))
    with kd.use("cpu"):
        launch = axpy.forall(16)
        bound = launch.bind(a, x, y, out)
        warm_up(launch, a, x, y, out)
        axpy.forall(16)  # is found last
        held = (a, x, y, out, launch, bound, launch._tables, axpy)
        before = [sys.getrefcount(each) for each in held]
        none_before = sys.getrefcount(None)
        blocks = sys.getallocatedblocks()
        for _ in range(500_000):
            axpy.forall(16)(a, x, y, out)
            bound()
        after = [sys.getrefcount(each) for each in held]
        none_after = sys.getrefcount(None)
    assert abs(none_after - none_before) < 1000
    assert sys.getallocatedblocks() - blocks < 2000
    assert after == before


def test_kernels_go_with_their_launches():
    @kd.kernel
    def passing(x):
        x[0] = 1

    out = np.zeros(1)
    with kd.use("cpu"):
        for _ in range(4):
            passing.forall(1)(out)
            passing[1, 1](out)
    gone = weakref.ref(passing)
    del passing
    gc.collect()
    assert gone() is None


def test_launches_from_threads_at_once():
    failures = []

    def work():
        x, y = numbers(2000), numbers(2000)
        out = np.empty_like(x)
        try:
            with kd.use("cpu"):
                for i in range(300):
                    out[...] = np.nan
                    axpy.forall(2000)(float(i), x, y, out)
                    expected = (float(i) * x.astype(float) + y).astype(np.float32)
                    np.testing.assert_array_equal(out, expected)
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_tracing_and_profiling_see_a_launch_and_may_launch():
    x, y, out = numbers(16), numbers(16), numbers(16)
    seen = []
    with kd.use("cpu"):
        launch = axpy.forall(16)
        warm_up(launch, 2.0, x, y, out)

        def trace(frame, event, argument):
            sys.settrace(None)
            launch(3.0, x, y, out)
            seen.append(event)
            sys.settrace(trace)
            return trace

        def traced():
            launch(2.0, x, y, out)

        out[...] = np.nan
        sys.settrace(trace)
        try:
            traced()
        finally:
            sys.settrace(None)
    assert seen
    np.testing.assert_array_equal(out, (3.0 * x.astype(float) + y).astype(np.float32))


# --------------------------------------------------------------------------- processes


def run_child(which, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.native_child", which],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("which", ["exit_while_launching", "launch_at_the_very_end"])
def test_the_end_of_the_interpreter(which):
    assert "reached the end" in run_child(which)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_prepares_anew():
    assert "parent and child are well" in run_child("fork")


def test_an_unknown_interpreter_is_warned_of_once():
    out = run_child("unknown_layout")
    assert out.count("KernelWarning") == 1
    assert "size of an object's head" in out
    assert "not installed" in out


def test_the_environment_turns_it_off():
    assert run_child("say_whether_installed", KERNELDSL_LAUNCHER="off") == "not installed\n"
    assert run_child("say_whether_installed") == "installed\n"


@pytest.mark.parametrize("words", [table.Word, table.HostWord, table.DriverWord])
def test_each_field_of_a_table_has_a_place_of_its_own(words):
    assert len(words.__members__) == len(words)  # no name is another's alias
    behind = words is not table.Word
    assert min(words) == (len(table.Word) if behind else 0)
    assert list(words) == sorted(words)
