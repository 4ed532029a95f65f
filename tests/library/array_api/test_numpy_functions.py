"""NumPy's functions of device arrays run on the device, or say what to write instead."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond

SOURCE = np.arange(12.0).reshape(3, 4) - 3

CALLS = [
    *(np.sin, np.exp, np.abs, np.isnan, np.sum, np.mean, np.std, np.cumsum, np.sort, np.argsort),
    *(np.ravel, np.transpose, np.diff, np.tril, np.flatnonzero, np.copy, np.real, np.zeros_like),
    *(np.matrix_transpose, np.round, np.amax, np.count_nonzero, np.unique_values),
    lambda x: np.sum(x, 1, np.float32),
    lambda x: np.add(x, 1),
    lambda x: np.less(2, x),
    lambda x: np.matmul(x, x.T),
    lambda x: np.dot(x, x.T),
    lambda x: np.dot(x[0], x[1]),
    lambda x: np.where(x > 2, x, 0.0),
    lambda x: np.clip(x, 0, 4),
    lambda x: np.concatenate([x, x], axis=1),
    lambda x: np.stack((x, x)),
    lambda x: np.take(x, x[0].astype(np.int64) * 0, axis=1),
    lambda x: np.reshape(x, (4, -1)),
    lambda x: np.squeeze(x[None]),
    lambda x: np.expand_dims(x, (0, -1)),
    lambda x: np.moveaxis(x, 0, 1),
    lambda x: np.swapaxes(x, 0, 1),
    lambda x: np.broadcast_to(x, (2, 3, 4)),
    lambda x: np.full_like(x, 7),
    lambda x: np.repeat(x, 2, axis=0),
    lambda x: np.roll(x, 1, axis=1),
    lambda x: np.tensordot(x, x.T, axes=1),
    lambda x: np.vecdot(x, x),
    lambda x: np.searchsorted(np.sort(np.ravel(x)), x),
    lambda x: np.astype(x, np.int32),
    lambda x: np.pad(x, 1),
    lambda x: np.outer(x, x[0]),
    lambda x: np.linalg.trace(x, offset=1),
    lambda x: np.linalg.vector_norm(x, axis=1),
    lambda x: np.linalg.cross(x[:, :3], x[:, 1:]),
]


@pytest.mark.parametrize("call", full_beyond(CALLS, CALLS[::3]))
def test_results_are_device_arrays_with_numpys_elements(call, target):
    found, wanted = call(kd.to_device(SOURCE)), call(SOURCE)
    assert isinstance(found, kd.DeviceArray)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found.copy_to_host(), wanted, rtol=1e-12, atol=1e-12)


def test_inquiries(target):
    x = kd.to_device(SOURCE)
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((3, 4), 2, 12)
    assert np.result_type(x, np.float32) == np.float64
    out = kd.empty((3, 4))
    assert np.negative(x, out=out) is out
    assert out.tolist() == (-SOURCE).tolist()


REFUSED = [
    (np.cbrt, "numpy.cbrt"),
    (np.linalg.svd, "numpy.linalg.svd"),
    (np.fft.fft, "numpy.fft.fft"),
    (np.median, "numpy.median"),
    (lambda x: np.add.reduce(x), "numpy.add.reduce"),
    (lambda x: np.var(x, mean=3.0), "numpy.var(mean=3.0)"),
    (lambda x: np.sin(x, where=True), "numpy.sin(where=True)"),
    (lambda x: np.sort(x, order="a"), "numpy.sort(order='a')"),
    (lambda x: np.array_equal(x, x), "numpy.array_equal"),
]


@pytest.mark.parametrize(("call", "name"), REFUSED, ids=lambda v: v if isinstance(v, str) else "")
def test_functions_that_are_not_there_never_copy_to_the_host(call, name, target):
    x = kd.to_device(SOURCE)
    before = kd.stats().to_dict()
    with pytest.raises(TypeError) as told:
        call(x)
    assert isinstance(told.value, kd.ArgumentTypeError)
    assert name in str(told.value)
    assert "array.copy_to_host()" in str(told.value)
    copied = [
        [d["device_to_host_bytes"] for d in stats["devices"]]
        for stats in (before, kd.stats().to_dict())
    ]
    assert copied[0] == copied[1]


def test_host_arrays_are_not_mixed_in(target):
    x = kd.to_device(SOURCE)
    for call in (
        lambda: np.add(x, SOURCE),
        lambda: np.add(SOURCE, SOURCE, out=x),
        lambda: np.concatenate([x, SOURCE]),
        lambda: np.where(x > 0, x, SOURCE),
    ):
        with pytest.raises(kd.ArgumentTypeError, match=r"copy_to_host\(\)"):
            call()


def test_explicit_conversions_stay():
    with kd.use("cpu"):
        x = kd.to_device(SOURCE)
        np.testing.assert_array_equal(x, SOURCE)
        np.testing.assert_allclose(np.asarray(x), SOURCE)
        assert np.array(x).shape == (3, 4)
