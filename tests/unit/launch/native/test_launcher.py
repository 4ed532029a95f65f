"""Launches repeated by native code: the same launch as Python's."""

from __future__ import annotations

import gc
import inspect
import sys
import weakref
from functools import partial
from types import FunctionType

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.launch.native import launch_table, machine
from targets.cuda.compile.artifact import CudaArtifact
from targets.null.executable import NullExecutable
from tests.support.launched import axpy, begin_anew, null_in_use, numbers, takes
from tests.support.native import is_native, warm_up


@pytest.fixture(autouse=True)
def native():
    begin_anew()


@pytest.fixture
def null():
    with null_in_use() as target:
        yield target


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


def test_a_kernel_may_begin_before_the_one_before_it_ends(null):
    early = kd.kernel(early_start=True)(axpy.__wrapped__)
    x, y, out = (kd.to_device(numbers(1000)) for _ in range(3))
    launch = early.forall(1000)
    warm_up(launch, 2.0, x, y, out)
    null.launches.clear()
    with machine.suspended():
        launch(2.5, x, y, out)
    with is_native(launch):
        launch(2.5, x, y, out)
    by_python, by_native = null.launches
    assert by_python == by_native
    (loaded,) = early._dispatcher.state().loaded.values()
    assert loaded.artifact.additions.is_early
    body = loaded.artifact.ptx.partition("griddepcontrol.wait;")
    assert "global" not in body[0].partition("{")[2]  # nothing is read or written before
    assert "ld.global." in body[2]
    assert "ld.global.nc" not in body[2]


def test_a_driver_may_be_given_some_of_the_parameters(null, monkeypatch):
    """As code of others declares them: without extents."""
    monkeypatch.setattr(CudaArtifact, "passes_addresses", True)
    monkeypatch.setattr(CudaArtifact, "offsets", (0, 8, 24, 40))
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


# --------------------------------------------------------------------------- what is found again


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


# --------------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    "words", [launch_table.Word, launch_table.HostWord, launch_table.DriverWord]
)
def test_each_field_of_a_table_has_a_place_of_its_own(words):
    assert len(words.__members__) == len(words)  # no name is another's alias
    behind = words is not launch_table.Word
    assert min(words) == (len(launch_table.Word) if behind else 0)
    assert list(words) == sorted(words)


def test_the_methods_of_a_kernel_stay_beside_their_native_forms():
    from kerneldsl.kernels.configuring import LaunchMixin
    from kerneldsl.kernels.kernel import Kernel

    for name in ("forall", "__getitem__"):
        python = vars(LaunchMixin)[name]
        assert isinstance(python, FunctionType)
        assert not isinstance(getattr(Kernel, name), FunctionType)
        assert getattr(Kernel, name).__doc__.strip() == inspect.getdoc(python)
        assert name not in vars(Kernel)
