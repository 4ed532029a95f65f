"""What functions take in the place of an array: arrays of other libraries, numbers and lists.

The libraries are the real ones; tests of those that are not installed are skipped.
"""

from __future__ import annotations

import array
import math
import statistics
import time
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

import kerneldsl as kd
import stdlib_kernels as sk
from kerneldsl.errors import ArgumentTypeError, KernelError, ReadOnlyArrayError
from stdlib_kernels.checks import Array, Out
from stdlib_kernels.elementwise.calls import Number
from stdlib_kernels.inputs import Parameters
from tests.support.extent import full_beyond


@pytest.fixture(autouse=True)
def on_cpu():
    with kd.use("cpu"):
        yield


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def of_pandas(x: np.ndarray) -> Any:
    return pytest.importorskip("pandas").Series(x)


def of_xarray(x: np.ndarray) -> Any:
    return pytest.importorskip("xarray").DataArray(x)


def of_pyarrow(x: np.ndarray) -> Any:
    return pytest.importorskip("pyarrow").array(x)


def of_torch(x: np.ndarray) -> Any:
    return pytest.importorskip("torch").from_numpy(x)


_VECTORS = [
    np.array([3.0, -0.0, np.nan, 0.0, -7.5]),
    np.arange(-5, 8, dtype=np.int32),
    np.array([], np.float64),
    np.linspace(0, 1, 1027, dtype=np.float32),
    np.array([200, 3], np.uint8),
]
VECTORS = {f"{x.dtype}-{x.size}": x for x in _VECTORS}
MAKERS = [of_pandas, of_xarray, of_pyarrow, of_torch, memoryview]
#: Functions of one vector, as NumPy has them too.
FUNCTIONS = ["sum", "prod", "cumsum", "sort", "argsort", "flip", "count_nonzero", "any"]


@pytest.mark.parametrize("vector", full_beyond(VECTORS, ["float64-5", "float64-0"]))
@pytest.mark.parametrize("make", MAKERS)
def test_arrays_of_other_libraries(make, vector):
    x = VECTORS[vector]
    given = make(x.copy())
    for name in FUNCTIONS:
        got = getattr(sk, name)(given)
        expected = getattr(sk, name)(x)
        if make is of_torch:
            assert type(got).__name__ == "Tensor"
            assert got.shape == np.shape(expected)
            got = got.numpy()[()]
        assert type(got) is type(expected)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))
    np.testing.assert_array_equal(np.asarray(given), x)


@pytest.mark.parametrize("make", [of_pandas, of_xarray, of_pyarrow, of_torch, memoryview])
def test_they_are_read_where_they_are(make, monkeypatch):
    x = np.arange(1 << 16, dtype=np.float32)
    given = make(x)
    lent = np.from_dlpack(given) if make is of_torch else np.asarray(given)
    seen = []
    real = kd.as_array
    monkeypatch.setattr(kd, "as_array", lambda value: seen.append(value) or real(value))
    assert float(sk.max(given)) == x[-1]
    assert not seen
    if lent.flags.writeable:
        lent[7] = 1e6  # what is written to that memory is read
        assert float(sk.max(given)) == 1e6


@pytest.mark.parametrize("make", [of_xarray, of_torch, memoryview])
def test_out_of_another_library_is_written_and_returned(make):
    x, out = np.arange(6.0).reshape(2, 3), np.full(3, np.nan)
    given = make(out)
    assert sk.sum(make(x), 0, out=given) is given
    np.testing.assert_array_equal(out, x.sum(0))
    assert sk.softmax(given, out=given) is given
    assert abs(out.sum() - 1) < 1e-12


@pytest.mark.parametrize("make", [of_pandas, of_pyarrow])
def test_out_that_its_library_does_not_let_be_written(make):
    given = make(np.zeros(3))
    if np.asarray(given).flags.writeable:
        pytest.skip("this release of the library gives writable memory")
    with pytest.raises(ReadOnlyArrayError, match="out is a read-only array"):
        sk.sum(np.ones((2, 3)), 0, out=given)


def test_arrays_that_need_a_copy_are_refused():
    pandas = pytest.importorskip("pandas")
    given = pandas.Series([1, None], dtype="Int64")
    with pytest.raises(ArgumentTypeError, match=r"x is a Series, and NumPy .* np\.asarray\(x\)"):
        sk.sum(given)
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    np.testing.assert_array_equal(sk.sum(frame, 0), [3, 7])
    with pytest.raises(ArgumentTypeError, match="v is a Series"):
        sk.searchsorted(np.arange(3), given)


def test_an_arrow_array_with_nulls_is_refused():
    pyarrow = pytest.importorskip("pyarrow")
    with pytest.raises(ArgumentTypeError, match="nulls"):
        sk.sum(pyarrow.array([1, None]))


# --------------------------------------------------------------------------- torch


def test_tensors_of_any_layout(torch):
    x = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)
    for given in (x, x.permute(2, 0, 1), x[:, ::2], x[1, 2], x[0, 0, 3]):
        want = given.numpy()
        torch.testing.assert_close(sk.sum(given), torch.tensor(want.sum(dtype=np.float32)))
        torch.testing.assert_close(sk.cumsum(given), torch.from_numpy(want.cumsum()))
    torch.testing.assert_close(sk.mean(x, axis=(0, 2), keepdims=True), x.mean((0, 2), True))


@pytest.mark.parametrize("name", ["float64", "float16", "complex64", "int8", "int64", "bool"])
def test_tensors_of_dtypes(torch, name):
    x = torch.tensor([1, 0, 3]).to(getattr(torch, name))
    got = sk.concatenate((x, x))
    assert got.dtype == x.dtype
    assert got.tolist() == [*x.tolist(), *x.tolist()]


def test_bfloat16_tensors(torch):
    x = torch.tensor([1.0, 2.5, -4.0]).to(torch.bfloat16)
    got = sk.sum(x)
    assert got.dtype == torch.bfloat16
    assert got == -0.5
    weight = torch.ones(3, dtype=torch.bfloat16)
    assert sk.rms_norm(x, weight).dtype == torch.bfloat16
    as_bfloat16 = sk.sum(x.float(), dtype=kd.bfloat16)
    assert as_bfloat16.dtype == torch.bfloat16
    assert as_bfloat16 == -0.5


def test_results_of_tensors(torch):
    x = torch.tensor([3, 1, 3])
    values, counts = sk.unique(x, return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([1, 3], [1, 2])
    keys, order = sk.sort_pairs(x, torch.tensor([0, 1, 2]))
    assert (keys.tolist(), order.tolist()) == ([1, 3, 3], [1, 0, 2])
    low, high = sk.map(lambda v: (v - 1, v + 1), x)
    assert (low.tolist(), high.tolist()) == ([2, 0, 2], [4, 2, 4])
    assert sk.sum(sk.sum(x)) == 7
    assert sk.concatenate([x, x]).tolist() == [3, 1, 3, 3, 1, 3]
    assert sk.put_along_axis(x, torch.tensor([0]), torch.tensor([9])) is x
    assert x.tolist() == [9, 1, 3]
    for _ in range(3):
        assert sk.dot(x, x) == 91  # one tensor twice
        assert sk.clip(x, 2, 5).tolist() == [5, 2, 3]
        assert sk.take(x, 1) == 1
        assert sk.take(x, [2, 0]).tolist() == [3, 9]
        assert sk.where(x > 2, x, 0).tolist() == [9, 0, 3]
    rng = sk.default_rng(1)
    assert sorted(rng.permutation(x).tolist()) == [1, 3, 9]
    assert rng.choice(x, 4).shape == (4,)


def test_repeated_calls_of_tensors_see_new_elements(torch):
    for n in range(6):
        x = torch.full((1000,), float(n))
        out = torch.zeros(())
        assert sk.sum(x, out=out) is out
        assert out == 1000 * n
        assert sk.sum(x) == 1000 * n


@pytest.mark.measures
def test_a_call_with_a_tensor_costs_little_more_than_one_with_an_array(torch):
    """Where DLPack is asked for each, it was 37 times as much: benchmarks/library_calls.py."""
    tensor = torch.arange(1000, dtype=torch.float32)
    x = tensor.numpy()
    times: dict[Any, list[float]] = {}
    for turn in range(24):
        for given in (tensor, x):
            began = time.process_time()
            for _ in range(200):
                sk.sum(given)
            if turn > 2:
                times.setdefault(type(given), []).append(time.process_time() - began)
    of_tensor, of_array = (statistics.median(each) for each in times.values())
    assert of_tensor < 4 * of_array


def test_a_tensor_beside_an_array_of_numpy(torch):
    out = np.zeros(3)
    assert sk.sum(torch.ones(2, 3, dtype=torch.float64), 0, out=out) is out
    assert out.tolist() == [2, 2, 2]
    assert sk.take(torch.ones(3, dtype=torch.float64), [1, 0, 2], out=out) is out
    assert out.tolist() == [1, 1, 1]
    assert type(sk.dot(np.ones(3), torch.ones(3))) is torch.Tensor


def test_parameters_and_subclasses_of_tensors(torch):
    given = torch.nn.Parameter(torch.ones(3), requires_grad=False)
    assert sk.sum(given) == 3


def test_tensors_without_memory_of_their_own_elements(torch):
    with pytest.raises(ArgumentTypeError, match=r"gradient.*tensor\.detach\(\)"):
        sk.sum(torch.ones(3, requires_grad=True))
    with pytest.raises(ArgumentTypeError, match="conjugate"):
        sk.sum(torch.tensor([1j]).conj())
    with pytest.raises(ArgumentTypeError, match="layout"):
        sk.sum(torch.ones(3).to_sparse())
    with pytest.raises(ArgumentTypeError, match="DeviceArray"):
        sk.dot(torch.ones(3), kd.to_device(np.ones(3)))


def test_a_tensor_on_the_host_is_taken_over(torch):
    x = torch.arange(6.0)
    np.testing.assert_array_equal(kd.as_array(x).copy_to_host(), x.numpy())


# --------------------------------------------------------------------------- numbers and lists

X = np.arange(6.0)
M = X.reshape(2, 3)
#: Calls that NumPy has, too.
CALLS = {
    "sum of a sum": lambda xp: xp.sum(xp.sum(X)),
    "clip of a sum": lambda xp: xp.clip(xp.sum(X), 0.0, 1.0),
    "sum of an element": lambda xp: xp.sum(X[2]),
    "take one": lambda xp: xp.take(X, 1),
    "take one along": lambda xp: xp.take(M, 1, 0),
    "take by a list": lambda xp: xp.take(M, [2, 0, -1], 1),
    "take of a list": lambda xp: xp.take([5, 6, 7], np.array([[1], [2]])),
    "search a number": lambda xp: xp.searchsorted(X, 2.5),
    "search a NumPy number": lambda xp: xp.searchsorted(X, np.float32(2)),
    "search a list": lambda xp: xp.searchsorted([1, 3, 5], [2, 3, 9]),
    "sum of an int": lambda xp: xp.sum(3),
    "sum of a bool": lambda xp: xp.sum(True),
    "sum of a complex": lambda xp: xp.sum(2j),
    "sum of a list": lambda xp: xp.sum([1, 2, 3]),
    "sum of lists": lambda xp: xp.sum([[1.5, 2], [3, 4]], axis=1),
    "sum of a tuple": lambda xp: xp.sum((1, 2.5)),
    "take by a range": lambda xp: xp.take(X, range(1, 4)),
    "sum of no list": lambda xp: xp.sum([]),
    "cumsum of a number": lambda xp: xp.cumsum(2.0),
    "max of a list": lambda xp: xp.max([3, math.nan]),
    "any of a number": lambda xp: xp.any(0),
    "sort a list": lambda xp: xp.sort([3, 1, 2]),
    "dot of lists": lambda xp: xp.dot([1, 2], [3, 4]),
    "matmul of a list": lambda xp: xp.matmul(M, [1, 2, 3]),
    "concatenate lists": lambda xp: xp.concatenate([X, [1, 2]]),
    "stack lists": lambda xp: xp.stack(([1, 2], [3, 4])),
    "clip a number": lambda xp: xp.clip(7, 0, 5),
    "clip by lists": lambda xp: xp.clip(M, [1, 1, 1], [2, 3, 4]),
    "where of numbers": lambda xp: xp.where(True, 1, 2.5),
    "where of NumPy numbers": lambda xp: xp.where(np.True_, np.float32(1), 2.0),
    "where of a list": lambda xp: xp.where([True, False], X[:2], 9),
    "bincount of a list": lambda xp: xp.bincount([1, 1, 3]),
    "histogram of a list": lambda xp: xp.histogram([1.0, 2.0, 5.0], [0, 2, 6])[0],
    "unique of a list": lambda xp: xp.unique([3, 1, 3]),
}


@pytest.mark.parametrize("name", full_beyond(CALLS, [*CALLS][::4]))
def test_numbers_and_lists_as_numpy_takes_them(name):
    for _ in range(2):
        got, expected = CALLS[name](sk), CALLS[name](np)
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)


def test_an_array_of_pythons():
    assert sk.sum(array.array("d", [1.5, 2])) == 3.5
    assert sk.sum(bytearray(b"\x01\x02")) == 3


def test_subclasses_of_numpys_arrays(tmp_path):
    mapped = np.memmap(tmp_path / "numbers", np.float64, "w+", shape=(5,))
    assert sk.sum(mapped) == 0
    x = np.arange(10.0).reshape(2, 5)
    for _ in range(3):
        assert sk.sum(x, 0, out=mapped) is mapped
    np.testing.assert_array_equal(mapped, x.sum(0))
    assert type(sk.sort(mapped)) is np.ndarray


def test_numbers_of_map():
    assert sk.map(lambda a, b: a + b, 2.0, 3) == 5
    got = sk.map(lambda a, b: a + b, np.float32(2), 3)
    assert (got, got.dtype) == (5, np.float32)
    np.testing.assert_array_equal(sk.map(lambda a, b: a + b, X, list(X)), X + X)
    np.testing.assert_array_equal(sk.map(lambda a, b, c: a + b * c, [1, 2], X[:2], 3), [1, 5])


def test_numbers_and_lists_beside_device_arrays():
    x = kd.to_device(X)
    for got, expected in (
        (sk.take(x, 1), X[1]),
        (sk.take(x, [1, 2]), X[1:3]),
        (sk.dot(x, list(range(6))), X @ X),
        (sk.searchsorted(x, np.float64(2.5)), 3),
        (sk.concatenate((x, [1, 2])), [*X, 1, 2]),
        (sk.where([True, False] * 3, x, 0), np.where([True, False] * 3, X, 0)),
    ):
        assert isinstance(got, kd.DeviceArray)
        np.testing.assert_array_equal(got.copy_to_host(), expected)


@pytest.mark.full
def test_ints_that_are_no_arrays_stay_ints():
    rng = sk.default_rng(3)
    assert rng.permutation(5).shape == (5,)
    assert rng.choice(np.int64(5), 3).dtype == np.int64
    assert set(rng.choice([7, 9], 8).tolist()) <= {7, 9}


def test_lists_are_not_written():
    for call in (
        lambda: sk.put_along_axis([1.0, 2.0], [0], [5.0]),
        lambda: sk.default_rng(1).shuffle([1, 2, 3]),
    ):
        with pytest.raises(ReadOnlyArrayError, match=r"x is a read-only array.*list np\.array\("):
            call()
    with pytest.raises(ArgumentTypeError, match="out is a list"):
        sk.sum(M, 0, out=[0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("abc", "x is a str"),
        (b"abc", "x is a bytes"),
        (None, "x is a NoneType"),
        ({1: 2}, "x is a dict"),
        (object(), "x is an object"),
        ([[1], [2, 3]], "x is a list that NumPy makes no array of"),
        (["a"], "x has the dtype <U1"),
        (2**64, "x has the dtype object"),
        ((X, X), "x is a tuple"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_other_values_are_refused(value, said):
    for function in (sk.sum, sk.sort, sk.flip):
        with pytest.raises(ArgumentTypeError, match=said):
            function(value)


def test_a_function_without_an_array_is_refused():
    with pytest.raises(ArgumentTypeError, match="there is no array among no arguments"):
        sk.map(lambda: 1)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        sk.sum()


def test_foreign_objects_that_fail_are_named():
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("not today")

    with pytest.raises(KernelError, match=r"x is a .*Broken, and NumPy makes no array of it"):
        sk.sum(Broken())


def test_a_call_inside_a_recorded_one_takes_numbers():
    """A call with a number beside an array is planned anew, and gives the same each time."""
    for n in (1, 2, 1):
        np.testing.assert_array_equal(sk.where(X > 2, X, [n] * 6), np.where(X > 2, X, n))


Renamed: TypeAlias = int | Array


def test_parameters_are_recognized_by_types_and_not_by_names_of_aliases():
    def function(
        x: Array,
        count: Renamed,
        scale: Array | Number,
        many: tuple[Array, ...],
        edges: Sequence[float] | Array,
        array_count: int,
        *,
        out: Out = None,
    ) -> Any: ...

    of = Parameters(function).of
    assert [of(name).is_loose for name in ("x", "count", "scale", "many")] == [True] * 4
    assert [of(name).is_loose for name in ("edges", "array_count", "out")] == [False] * 3
    assert [of(name).numbers for name in ("x", "count", "scale")] == ["", "int", "any"]
    assert [of(name).is_tuple for name in ("x", "many")] == [False, True]


def test_annotations_are_read_by_the_first_call():
    """Importing a function reads none: a program imports many, and calls a few."""

    def function(x: no_such_name):  # noqa: F821
        return x

    parameters = Parameters(function)
    with pytest.raises(NameError):
        parameters.of("x")
    with pytest.raises(AttributeError):
        parameters.other
