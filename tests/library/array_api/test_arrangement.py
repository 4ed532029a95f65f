"""Shapes, places, order, sets and products of device arrays, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from stdlib_kernels import array_api as xp
from stdlib_kernels.random import default_rng
from tests.support.extent import full_beyond

pytestmark = pytest.mark.usefixtures("target")


def check(found, wanted):
    assert isinstance(found, kd.DeviceArray)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found.copy_to_host(), wanted, rtol=1e-12)


CALLS = {
    "broadcast_to": lambda p, x: p.broadcast_to(x, (2, *x.shape)),
    "concat": lambda p, x: p.concat((x, x), axis=-1),
    "concat of all": lambda p, x: p.concat((x, x), axis=None),
    "expand_dims": lambda p, x: p.expand_dims(x, axis=(0, -1)),
    "flip": lambda p, x: p.flip(x, axis=0),
    "moveaxis": lambda p, x: p.moveaxis(x, (0, 1), (-1, 0)),
    "permute_dims": lambda p, x: p.permute_dims(x, (2, 0, 1)),
    "repeat": lambda p, x: p.repeat(x, 2, axis=1),
    "reshape": lambda p, x: p.reshape(x, (-1, 3)),
    "roll": lambda p, x: p.roll(x, 2, axis=1),
    "squeeze": lambda p, x: p.squeeze(x[:, :1], axis=1),
    "stack": lambda p, x: p.stack((x, x), axis=1),
    "tile": lambda p, x: p.tile(x, (2, 1, 1)),
    "unstack": lambda p, x: p.unstack(x, axis=1)[1] if x.shape[1] > 1 else x,
    "matrix_transpose": lambda p, x: p.matrix_transpose(x),
    "diff": lambda p, x: p.diff(x, axis=1, n=2),
    "diff of more": lambda p, x: p.diff(x, axis=0, prepend=x[:1], append=x[:1]),
    "cumulative_sum": lambda p, x: p.cumulative_sum(x, axis=1, include_initial=True),
    "cumulative_prod": lambda p, x: p.cumulative_prod(x, axis=0, include_initial=True),
    "sum": lambda p, x: p.sum(x, axis=(0, 2)),
    "std": lambda p, x: p.std(x, axis=2),
    "sort": lambda p, x: p.sort(x, axis=1),
    "argsort": lambda p, x: p.argsort(x, axis=0, stable=True),
    "nonzero": lambda p, x: p.nonzero(x > 0.5)[1],
    "where": lambda p, x: p.where(x > 0.5, x, -x),
    "matmul": lambda p, x: p.matmul(x, p.matrix_transpose(x)),
    "tensordot": lambda p, x: p.tensordot(x, x, axes=((0, 2), (0, 2))),
    "outer": lambda p, x: p.tensordot(x[:, 0], x[..., 0], axes=0),
    "vecdot": lambda p, x: p.vecdot(x, x, axis=1),
}
LAYOUTS = {
    "C": np.s_[:],
    "strided": np.s_[::2, ::-1],
    "empty": np.s_[:0],
    "one": np.s_[:1, :1],
}


CALLS_OF_LAYOUTS = [pytest.param(name, layout) for name in CALLS for layout in LAYOUTS]
#: Arrays with steps compile what takes any layout; of one and no element there are other branches.
QUICK_CALLS = [pytest.param(name, "strided") for name in CALLS]
QUICK_CALLS += [
    pytest.param(name, tuple(LAYOUTS)[n % 4]) for n, name in enumerate(CALLS) if n % 3 == 0
]


@pytest.mark.parametrize(("name", "layout"), full_beyond(CALLS_OF_LAYOUTS, QUICK_CALLS))
def test_calls(name, layout, rng):
    source = rng.random((4, 5, 3))
    index = LAYOUTS[layout]
    x, source = kd.to_device(source)[index], source[index]
    check(CALLS[name](xp, x), CALLS[name](np, source))


@pytest.mark.parametrize("shape", full_beyond([(), (1,), (0,), (2, 0, 3)], [(), (0,)]))
def test_small_shapes(shape):
    source = np.ones(shape, np.int32)
    x = kd.to_device(source)
    check(xp.reshape(x, (-1,)), source.reshape(-1))
    check(xp.expand_dims(x, axis=0), source[None])
    check(xp.concat((x, x), axis=None), np.concat((source, source), axis=None))
    check(xp.sum(x), np.asarray(source.sum()))
    check(xp.unique_values(x), np.unique_values(source))
    assert bool(xp.all(x)) == bool(source.all())
    with pytest.raises(kd.ArgumentTypeError, match="axis"):
        xp.permute_dims(x, ("a",))


def test_cumulative_sums_of_complex_numbers(rng):
    source = rng.random((3, 4)) + 1j * rng.random((3, 4))
    check(xp.cumulative_sum(kd.to_device(source), axis=0), np.cumulative_sum(source, axis=0))
    check(xp.cumulative_sum(kd.to_device(source.T), axis=0), np.cumulative_sum(source.T, axis=0))


@pytest.mark.full
def test_sorts_of_complex_numbers():
    source = np.array([[1 + 2j, 0, 1 - 1j], [complex(np.nan, 1), -1j, 2]])
    x = kd.to_device(source)
    check(xp.sort(x), np.sort(source))
    check(xp.argsort(x), np.argsort(source, stable=True))
    check(xp.cumulative_prod(x[:, 1:], axis=0), np.cumulative_prod(source[:, 1:], axis=0))


@pytest.mark.full
def test_random_arrays_have_operators():
    found = default_rng(1).random((3, 5)) * 2 - 1
    wanted = default_rng(1).random((3, 5)).copy_to_host() * 2 - 1
    check(found, wanted)
    assert bool(xp.all((found >= -1) & (found < 1)))


def test_repeats_of_each():
    source, repeats = np.arange(6).reshape(3, 2), np.array([2, 0, 1])
    x = kd.to_device(source)
    check(xp.repeat(x, kd.to_device(repeats), axis=0), np.repeat(source, repeats, axis=0))
    check(xp.repeat(x, kd.to_device(np.array([3]))), np.repeat(source, 3))
    with pytest.raises(kd.ArgumentValueError, match="repeats"):
        xp.repeat(x, kd.to_device(repeats), axis=1)


SETS = {
    "int64": np.array([3, 1, 3, 2, 1]),
    "float64": np.array([[0.5, np.nan], [-0.0, np.nan]]),
    "float32": np.array([], np.float32),
    "bool": np.array([True, False, True]),
    "complex128": np.array([1 + 2j, 1 - 2j, 1 + 2j, 0]),
    "scalar": np.array(7),
}


@pytest.mark.parametrize("name", full_beyond(SETS, ["float64"]))
def test_sets(name):
    source = SETS[name]
    x = kd.to_device(source)
    found, wanted = xp.unique_all(x), np.unique_all(source)
    for one, other in zip(found, wanted, strict=True):
        check(one, other)
    for name in ("unique_counts", "unique_inverse"):
        for one, other in zip(getattr(xp, name)(x), getattr(np, name)(source), strict=True):
            check(one, other)
    check(xp.unique_values(x), np.sort(np.unique_values(source)))


def test_searches():
    source, values = np.array([5, 1, 3]), np.array([[0, 3], [4, 9]])
    x, v = kd.to_device(source), kd.to_device(values)
    order = xp.argsort(x)
    wanted = np.searchsorted(source, values, sorter=np.argsort(source), side="right")
    check(xp.searchsorted(x, v, side="right", sorter=order), wanted)
    check(xp.take(x, kd.to_device(np.array([2, -1, 0]))), source[[2, -1, 0]])
    check(xp.take_along_axis(x, order), np.sort(source))
    with pytest.raises(kd.ArgumentValueError, match="out of range"):
        xp.take(x, kd.to_device(np.array([3])))
    with pytest.raises(kd.ArgumentValueError, match="axis"):
        xp.take(v, order)


SOURCE = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize("index", [np.s_[:], np.s_[:, ::-1], np.s_[..., ::2]])
def test_masks(index):
    source, x = SOURCE.copy()[index], kd.to_device(SOURCE)[index]
    mask = source % 5 > 2
    check(x[x % 5 > 2], source[mask])
    rows = source[:, :, 0] > 4
    check(x[kd.to_device(rows)], source[rows])
    check(x[kd.to_device(np.array(True))], source[np.array(True)])
    check(x[kd.to_device(np.zeros(mask.shape, bool))], source[np.zeros(mask.shape, bool)])
    x[x % 5 > 2] = -1.5
    source[mask] = -1.5
    check(x, source)
    with pytest.raises(IndexError, match="mask"):
        x[kd.zeros((5,), np.bool_)]


PLACES = np.array([1, -1, 0])


@pytest.mark.parametrize(
    "make",
    [
        lambda i: (slice(None), i),
        lambda i: (slice(None), i, slice(None)),
        lambda i: (..., i),
        lambda i: (i % 2, i),
        lambda i: (0, i[:, None], i),
        lambda i: (-1, 2, i),
    ],
)
def test_places(make):
    x = kd.to_device(SOURCE)
    index, wanted = make(kd.to_device(PLACES)), make(PLACES)
    check(x[index], SOURCE[wanted])
    source = SOURCE.copy()
    x[index] = 7
    source[wanted] = 7
    check(x, source)
    values = np.arange(source[wanted].size, dtype=np.float32).reshape(source[wanted].shape)
    x[index] = kd.to_device(values)
    source[wanted] = values
    check(x, source)


def test_masks_take_values_for_each():
    source, x = SOURCE.copy(), kd.to_device(SOURCE)
    mask = source > 12
    values = np.arange(mask.sum(), dtype=np.float64)
    x[kd.to_device(mask)] = kd.to_device(values)
    source[mask] = values
    check(x, source)


def test_wrong_indices():
    x, places = kd.to_device(SOURCE), kd.to_device(PLACES)
    for index in (
        (places, slice(None), places),
        (places, None),
        (places, slice(1, 2)),
        places * 1.0,
    ):
        with pytest.raises(kd.ArgumentTypeError, match="indexed with"):
            x[index]
    with pytest.raises(kd.ArgumentTypeError, match="to_device"):
        x[PLACES]
    with pytest.raises(kd.ArgumentValueError, match="out of range"):
        x[places + 2]
    with pytest.raises(IndexError, match="out of bounds"):
        x[5, places]
    with pytest.raises(kd.ArgumentValueError, match="broadcast"):
        x[:, places] = kd.zeros((2, 5, 4))
    with pytest.raises(kd.ReadOnlyArrayError):
        x.as_read_only()[x > 3] = 0
    with pytest.raises(kd.ArgumentValueError, match="contiguous"):
        x.T[places] = 1


def test_assignments_convert_and_broadcast_on_the_device():
    x = kd.to_device(SOURCE)
    row = kd.to_device(np.arange(4, dtype=np.int8))
    before = kd.stats().to_dict()["devices"]
    x[1] = row
    x[0, :, 1:2] = x[0, :, :1].astype(np.float32)
    after = kd.stats().to_dict()["devices"]
    assert [d["device_to_host_bytes"] for d in before] == [d["device_to_host_bytes"] for d in after]
    source = SOURCE.copy()
    source[1] = np.arange(4)
    source[0, :, 1:2] = source[0, :, :1]
    check(x, source)


def test_transposes_of_matrices():
    x = kd.to_device(SOURCE)
    check(x.mT, SOURCE.mT)
    check(x.T, SOURCE.T)
    assert not hasattr(x[0, 0], "mT")
    assert len(x) == 2
