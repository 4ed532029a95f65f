"""NumPy arrays on a target with memory of its own."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.memory.strided import host_view
from tests.support.fake_target import FakeTarget, installed


@pytest.fixture(autouse=True)
def fake():
    with installed(FakeTarget()) as target, kd.use("fake"):
        yield target


@kd.kernel
def double(x, y):
    i = kd.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]


@kd.kernel
def both(x, y):
    x[0] = 1
    y[0] = 1


def view(values, name, dtype=np.float64):
    """The array that a fake kernel's parameter describes."""
    extents = [v for k, v in values.items() if k.startswith(f"{name}.shape")]
    strides = [v for k, v in values.items() if k.startswith(f"{name}.strides")]
    if not strides:
        strides = list(np.zeros(extents, dtype).strides)
    return host_view(values[f"{name}.data"], tuple(extents), tuple(strides), np.dtype(dtype), None)


def run_double(config, values):
    view(values, "y")[...] = 2 * view(values, "x")


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_arrays_are_copied_in_and_back(fake, step):
    fake.body = run_double
    x, base = np.arange(30.0)[::step], np.full(30, -1.0)
    y = base[::step]
    double.forall(x.size)(x, y)
    expected = np.full(30, -1.0)
    expected[::step] = 2 * x
    np.testing.assert_array_equal(base, expected)
    assert fake.launches[-1][2]["x.data"] != x.ctypes.data


def test_what_is_only_read_is_not_copied_back(fake):
    def body(config, values):
        run_double(config, values)
        view(values, "x")[...] = -7

    fake.body = body
    x, y = np.arange(4.0), np.zeros(4)
    double.forall(4)(x, y)
    assert (x.tolist(), y.tolist()) == ([0, 1, 2, 3], [0, 2, 4, 6])


def test_overlapping_views_are_staged_as_one(fake):
    base = np.arange(10.0)

    def body(config, values):
        x, y = view(values, "x"), view(values, "y")
        assert values["y.data"] - values["x.data"] == 8 * 3
        y[0] = 99
        assert x[3] == 99

    fake.body = body
    double.forall(5)(base[:5], base[3:8])
    assert base[3] == 99
    assert len(fake.buffers) == 1


def test_separate_arrays_have_separate_buffers(fake):
    double.forall(4)(np.zeros(4), np.zeros(4))
    assert len(fake.buffers) == 2


def test_copy_back_leaves_the_bytes_between_elements(fake):
    base = np.zeros(10)

    def body(config, values):
        base[1::2] = 5  # what another thread does meanwhile, between the elements
        view(values, "y")[...] = 3

    fake.body = body
    double.forall(5)(np.zeros(5), base[::2])
    assert base.tolist() == [3, 5] * 5


@pytest.mark.parametrize("index", [np.s_[:, 3], np.s_[::-40, ::-5], np.s_[7::64, :]])
def test_sparse_arrays_are_packed(fake, index):
    def body(config, values):
        view(values, "y")[...] += view(values, "x")

    fake.body = body
    base = np.arange(8000.0).reshape(400, 20)
    expected = base.copy()
    x, y = expected[index].copy(), base[index]
    expected[index] *= 2
    double.forall(1)(x, y)
    np.testing.assert_array_equal(base, expected)
    assert fake.buffers[-1] <= y.nbytes + 256


def test_arrays_that_overlap_themselves_are_not_packed(fake):
    def body(config, values):
        y = view(values, "y")
        y[0, 0] = 9
        assert y[1, 0] == 9

    fake.body = body
    base = np.zeros(100)
    alias = np.lib.stride_tricks.as_strided(base, (2, 2), (0, 640))
    double.forall(1)(np.zeros(1), alias)
    assert base[0] == 9


def test_interleaved_columns(fake):
    def body(config, values):
        view(values, "x")[...] = 1
        view(values, "y")[...] = 2

    fake.body = body
    table = np.zeros((4, 3))
    both.forall(4)(table[:, 0], table[:, 2])
    assert table.tolist() == [[1, 0, 2]] * 4
    assert len(fake.buffers) == 1


def test_elements_stay_aligned_when_views_of_two_dtypes_overlap(fake):
    raw = np.zeros(64, np.uint8)
    start = -raw.ctypes.data % 8
    double.forall(4)(raw[start + 3 :], raw[start + 8 : start + 40].view(np.float64))
    values = fake.launches[-1][2]
    assert values["y.data"] % 8 == 0
    assert values["y.data"] - values["x.data"] == 5


def test_numpy_beside_device_arrays(fake):
    fake.body = run_double
    device, y = kd.to_device(np.arange(4.0)), np.zeros(4)
    double.forall(4)(device, y)
    assert y.tolist() == [0, 2, 4, 6]
    assert fake.launches[-1][2]["x.data"] == device.pointer


def test_arrays_inside_tuples(fake):
    @kd.kernel
    def scale(pair, n):
        pair[1][0] = pair[0][0] * n

    def body(config, values):
        view(values, "pair[1]")[...] = view(values, "pair[0]") * values["n"]

    fake.body = body
    x, y = np.arange(3.0), np.zeros(3)
    scale.forall(3)((x, y), 5)
    assert y.tolist() == [0, 5, 10]


def test_a_failing_kernel_changes_nothing(fake):
    def body(config, values):
        run_double(config, values)
        raise kd.DriverError("it failed", code=700, name="CUDA_ERROR_ILLEGAL_ADDRESS")

    fake.body = body
    y = np.zeros(4)
    with pytest.raises(kd.DriverError):
        double.forall(4)(np.ones(4), y)
    assert not y.any()


@pytest.mark.parametrize("target", ["fake", "host"])
def test_read_only_arrays_that_are_written(fake, target):
    locked = np.zeros(4)
    locked.flags.writeable = False
    with installed(FakeTarget("host", is_host=True)) as host, kd.use(target):
        with pytest.raises(kd.ReadOnlyArrayError, match=r"'y' \(argument 2 of 2\)"):
            double.forall(4)(np.zeros(4), locked)
        with pytest.raises(kd.ReadOnlyArrayError):
            double.forall(0)(np.zeros(4), locked)
        double.forall(4)(locked, np.zeros(4))
        assert len(host.launches) + len(fake.launches) == 1


def test_empty_and_rank_zero_arrays(fake):
    double.forall(1)(np.zeros(0), np.zeros(0))
    double[1, 1](np.zeros(()), np.zeros(3))
    assert fake.launches[-1][2]["y.shape[0]"] == 3


def test_host_targets_take_arrays_where_they_are():
    with installed(FakeTarget("host", is_host=True)) as host, kd.use("host"):
        x, y = np.zeros(4), np.zeros(4)
        double.forall(4)(x, y)
        assert host.launches[-1][2]["x.data"] == x.ctypes.data
        assert host.buffers == []
