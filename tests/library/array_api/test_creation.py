"""Creation functions, dtypes and inspection, against NumPy's."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import kerneldsl as kd
from stdlib_kernels import array_api as xp
from tests.support.arrays import HOST_DTYPES

pytestmark = pytest.mark.usefixtures("target")


def check(found, wanted):
    assert isinstance(found, kd.DeviceArray)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found.copy_to_host(), wanted, rtol=1e-14)


RANGES = [(5,), (0,), (2, 9, 3), (9, 2, -3), (5, 2), (0.0, 1.0, 0.3), (1, -1, -0.25), (-3, 3)]


@pytest.mark.parametrize("given", RANGES, ids=str)
def test_arange(given):
    check(xp.arange(*given), np.arange(*given))
    check(xp.arange(*given, dtype=xp.float64), np.arange(*given, dtype=np.float64))


def test_arange_at_the_ends_of_dtypes():
    check(
        xp.arange(2**64 - 3, 2**64, dtype=xp.uint64),
        np.array([2**64 - 3, 2**64 - 2, 2**64 - 1], np.uint64),
    )
    check(xp.arange(127, -129, -85, dtype=xp.int8), np.arange(127, -129, -85, dtype=np.int8))
    check(xp.arange(10, 0, -3, dtype=xp.uint8), np.arange(10, 0, -3, dtype=np.uint8))
    with pytest.raises(kd.ArgumentValueError, match="int8"):
        xp.arange(129, dtype=xp.int8)
    with pytest.raises(kd.ArgumentValueError, match="step"):
        xp.arange(1, 2, 0)
    with pytest.raises(kd.ArgumentValueError, match="finitely"):
        xp.arange(float("inf"))
    with pytest.raises(kd.ArgumentTypeError, match="real number"):
        xp.arange("a")


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 7])
def test_linspace(num, endpoint):
    for ends in ((0, 1), (3.5, -2), (2, 2), (1 + 1j, 2)):
        check(
            xp.linspace(*ends, num, endpoint=endpoint), np.linspace(*ends, num, endpoint=endpoint)
        )
    found = xp.linspace(0, 1, num, dtype=xp.float32, endpoint=endpoint)
    assert found.dtype == np.float32
    whole = xp.linspace(5, -5.5, num, dtype=xp.int32, endpoint=endpoint)
    check(whole, np.linspace(5, -5.5, num, dtype=np.int32, endpoint=endpoint))


@pytest.mark.parametrize("k", [-9, -1, 0, 2, 9, 10**30])
@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 3), (4, 2)])
def test_diagonals_and_triangles(shape, k, rng):
    if abs(k) < 100:
        check(xp.eye(*shape, k=k, dtype=xp.int16), np.eye(*shape, k=k, dtype=np.int16))
        source = rng.random((2, *shape))
        source[..., :1] = np.nan
        for name in ("tril", "triu"):
            x = xp.asarray(source)
            check(getattr(xp, name)(x, k=k), getattr(np, name)(source, k=k))
            check(getattr(xp, name)(x[::-1].mT, k=k), getattr(np, name)(source[::-1].mT, k=k))
    else:
        assert xp.eye(*shape, k=k).tolist() == np.zeros(shape).tolist()
    with pytest.raises(kd.ArgumentValueError, match="no matrices"):
        xp.tril(xp.ones(3))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(indexing):
    for sizes in ((), (3,), (2, 3), (0, 3), (2, 3, 4)):
        vectors = [np.arange(n) for n in sizes]
        found = xp.meshgrid(*map(xp.asarray, vectors), indexing=indexing)
        wanted = np.meshgrid(*vectors, indexing=indexing)
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            check(one, other)
            one[...] = 0  # no element stands for several
    with pytest.raises(kd.ArgumentValueError, match="indexing"):
        xp.meshgrid(xp.ones(2), indexing="yx")


@pytest.mark.parametrize("name", ["zeros", "ones", "full"])
@pytest.mark.parametrize("dtype", HOST_DTYPES)
def test_one_value(name, dtype):
    if np.dtype(dtype).kind == "V" and np.dtype(dtype).name != "bfloat16":
        pytest.skip("NumPy has no numbers of the dtype")
    rest = (1,) if name == "full" else ()
    found = getattr(xp, name)((2, 3), *rest, dtype=np.dtype(dtype))
    assert (found.shape, found.dtype) == ((2, 3), np.dtype(dtype))
    assert np.all(found.copy_to_host() == (name != "zeros"))
    like = getattr(xp, f"{name}_like")(found, *rest, dtype=xp.float64)
    assert (like.shape, like.dtype) == ((2, 3), np.float64)


def test_asarray():
    x = xp.asarray([1, 2])
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=False) is x
    assert xp.asarray(x, copy=True).location != x.location
    check(xp.asarray(x, dtype=xp.float32), np.array([1, 2], np.float32))
    check(xp.asarray(2.5), np.array(2.5))
    check(xp.asarray([[True], [False]]), np.array([[True], [False]]))
    check(xp.asarray(np.arange(3)[::-1]), np.arange(3)[::-1])
    for wrong in (
        lambda: xp.asarray([1], copy=False),
        lambda: xp.asarray(x, dtype="f4", copy=False),
    ):
        with pytest.raises(kd.ArgumentValueError, match="copy=False"):
            wrong()
    with pytest.raises(kd.ArgumentTypeError, match="cannot be made an array"):
        xp.asarray([[1], [1, 2]])
    with pytest.raises(kd.ArgumentTypeError, match="cannot be made an array"):
        xp.asarray([300], dtype=xp.int8)


def test_from_dlpack():
    source = np.arange(3.0)
    x = xp.from_dlpack(source)
    source[0] = 7
    assert x.tolist() == [7, 1, 2]
    assert xp.from_dlpack(source, copy=True).location != x.location
    with pytest.raises(kd.ArgumentTypeError):
        xp.from_dlpack([1, 2])


def test_limits_and_kinds_of_dtypes():
    assert (xp.finfo(xp.float32).eps, xp.finfo(xp.complex64).dtype) == (2.0**-23, np.float32)
    assert (xp.iinfo(xp.ones(1, dtype=xp.uint8)).max, xp.iinfo(xp.int16).min) == (255, -(2**15))
    assert xp.finfo(kd.bfloat16).bits == 16
    assert xp.isdtype(kd.bfloat16, "real floating")
    assert xp.isdtype(xp.uint8, "integral")
    assert not xp.isdtype(xp.bool, ("numeric", xp.int8))
    assert xp.result_type(xp.ones(1, dtype=xp.int8), xp.uint8, 3) == np.int16
    assert xp.result_type(xp.float32, 1.5) == np.float32
    assert not xp.can_cast(xp.ones(1), xp.float32)
    for wrong in (
        lambda: xp.finfo(xp.int8),
        lambda: xp.iinfo(xp.float32),
        lambda: xp.isdtype(xp.int8, "no kind"),
        lambda: xp.result_type(),
        lambda: xp.result_type("no dtype"),
    ):
        with pytest.raises(kd.ArgumentTypeError):
            wrong()


def test_astype():
    x = xp.asarray([1.5, -2.5])
    assert xp.astype(x, xp.int32).tolist() == [1, -2]
    assert xp.astype(x, xp.float64, copy=False) is x
    assert xp.astype(x, xp.float64) is not x


def test_inspection():
    info = xp.__array_namespace_info__()
    assert kd.empty(0).device is info.default_device()
    assert info.default_device() in info.devices()
    assert set(info.dtypes(kind=("bool", "signed integer"))) == {
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
    }
    assert info.capabilities()["max dimensions"] == 64


def test_the_namespace_of_an_array():
    x = kd.zeros(3)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(kd.ArgumentValueError, match="api_version"):
        x.__array_namespace__(api_version="2020.01")
    assert all(hasattr(xp, name) for name in xp.__all__)


def test_other_devices():
    x = xp.ones(3)
    assert x.to_device(x.device) is x
    with kd.use("null"):
        other = kd.zeros(1).device
    assert x.to_device(other).device is other
    assert xp.zeros(2, device=other).device is other
    assert xp.asarray(x, device=other).device is other


def test_nothing_is_imported_before_it_is_needed():
    import subprocess

    text = (
        "import sys, kerneldsl as kd; x = kd.zeros(3); assert 'stdlib_kernels' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", text], check=True)
