"""Operators, methods and the repr of device arrays, beside those of NumPy's arrays."""

from __future__ import annotations

import math
import operator
import pickle

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.language.element_types import NUMPY_NAMES
from tests.support.extent import full_beyond
from tests.support.fake_target import FakeTarget, installed

SOURCE = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(params=["cpu", "fake"])
def device(request):
    with installed(FakeTarget()), kd.use(request.param):
        yield request.param


@pytest.mark.usefixtures("device")
class TestScalars:
    def test_an_element_is_read_as_a_number(self):
        x = kd.to_device(SOURCE)
        assert (float(x[1, 2]), int(x[1, 2]), complex(x[1, 2])) == (6.0, 6, 6 + 0j)
        assert x[0, 0].item() == 0.0
        assert x.tolist() == SOURCE.tolist()
        assert bool(x[1, 2]) is True
        assert bool(x[0, 0]) is False
        assert [10, 20, 30][kd.to_device(np.arange(3))[2]] == 30
        with pytest.raises(kd.ArgumentTypeError, match="not an index"):
            operator.index(x[0, 0])

    @pytest.mark.parametrize("name", NUMPY_NAMES)
    @pytest.mark.parametrize("spec", ["", ".2f", ">12", "08.3e"])
    def test_an_element_is_formatted_as_numpys_is(self, name, spec):
        source = np.array([1.26, -0.0, 200]).astype(name)
        x = kd.to_device(source)
        for i in range(3):
            try:
                expected = format(source[i], spec)
            except (TypeError, ValueError) as error:
                with pytest.raises(type(error)):
                    format(x[i], spec)
            else:
                assert format(x[i], spec) == expected

    @pytest.mark.parametrize("shape", [(0,), (1,), (2, 3)])
    def test_a_whole_array_has_no_format(self, shape):
        x = kd.zeros(shape)
        assert f"{x}" == str(x) == repr(x)
        with pytest.raises(kd.ArgumentTypeError, match=r"with '.2f'.*copy_to_host"):
            f"{x:.2f}"
        for function in (round, math.trunc):
            with pytest.raises(TypeError, match=r"(round|trunc)\(\) .*copy_to_host"):
                function(x)

    @pytest.mark.parametrize("name", ["bool", "int8", "uint64", "float16", "float32", "float64"])
    def test_an_element_is_rounded_as_numpys_is(self, name):
        source = np.array([1.26, 2.5, -7.75, 113]).astype(name)
        if source.dtype.kind == "u":
            source[2] = 2**64 - 1
        x = kd.to_device(source)
        for i, each in enumerate(source):
            assert math.trunc(x[i]) == int(each)
            if name == "bool":
                pairs = [(round(x[i]), int(each)), (round(x[i], 1), int(each))]
            else:
                pairs = [(round(x[i]), round(each)), (round(x[i], 1), round(each, 1))]
            for found, expected in pairs:
                assert found == expected
                assert type(found) is type(expected)

    def test_an_element_of_a_dtype_that_numpy_lacks_is_rounded(self):
        x = kd.to_device(np.array([2.5, -1.75]).astype(kd.bfloat16))
        assert (round(x[0]), round(x[1]), round(x[1], 1), math.trunc(x[1])) == (2, -2, -1.8, -1)

    @pytest.mark.parametrize("function", [round, math.trunc])
    def test_a_complex_element_is_not_rounded(self, function):
        with pytest.raises(TypeError, match="complex"):
            function(kd.to_device(np.array(1 + 2j)))

    @pytest.mark.parametrize("shape", [(0,), (2,), (2, 3)])
    def test_more_elements_are_no_number(self, shape):
        x = kd.zeros(shape)
        for kind in (float, int, complex):
            with pytest.raises(kd.ArgumentTypeError, match="not a single number"):
                kind(x)
        with pytest.raises(kd.ArgumentValueError, match="ambiguous"):
            bool(x)

    def test_one_element_is_true_as_numpy_has_it(self):
        for value in (0.0, -0.0, 1.0, np.nan):
            assert bool(kd.full((1, 1), value)) == bool(np.full((1, 1), value))

    def test_no_array_is_a_key(self):
        with pytest.raises(TypeError, match="unhashable"):
            {kd.zeros(2): 1}

    def test_views_are_closed_with_their_array(self):
        x = kd.zeros(4)
        views = [x[1:], x[2:]]
        x.close()
        assert all(view.is_closed for view in views)

    def test_values_of_a_wrong_shape(self):
        x = kd.zeros((2, 3))
        with pytest.raises(kd.ArgumentValueError, match=r"shape \(5,\).*shape \(3,\)"):
            x[0] = np.ones(5)
        x[:] = np.arange(3.0)
        np.testing.assert_array_equal(x.copy_to_host(), [[0, 1, 2]] * 2)

    def test_methods_of_numpy_say_where(self):
        x = kd.zeros(3)
        with pytest.raises(AttributeError, match=r"copy_to_host\(\).trace"):
            x.trace()
        with pytest.raises(AttributeError, match="has no attribute 'meen'"):
            x.meen()
        assert not hasattr(x, "__torch_function__")
        assert pickle.loads(pickle.dumps(x)).tolist() == [0.0] * 3  # noqa: S301


def test_a_numpy_array_of_host_memory_is_a_view_and_of_other_memory_an_error():
    with kd.use("cpu"):
        x = kd.to_device(SOURCE)
        np.asarray(x)[0, 0] = 9
        assert x[0, 0].item() == 9
    with installed(FakeTarget()), kd.use("fake"):
        x = kd.to_device(SOURCE)
        for ask in (np.asarray, np.cbrt, lambda a: a + np.ones(4), lambda a: np.ones(4) == a):
            with pytest.raises(kd.ArgumentTypeError, match=r"copy_to_host\(\)"):
                ask(x)


@pytest.mark.usefixtures("device")
class TestViews:
    @pytest.mark.parametrize("axes", [(), (1, 0, 2), ((2, 0, 1),), (-1, 0, 1), (None,)])
    def test_transpose(self, axes):
        source = np.arange(24).reshape(2, 3, 4)
        view, expected = kd.to_device(source).transpose(*axes), source.transpose(*axes)
        assert view.strides == expected.strides
        np.testing.assert_array_equal(view.copy_to_host(), expected)

    @pytest.mark.parametrize("axes", [(0,), (0, 0, 1), (0, 1, 3), ("a",)])
    def test_transpose_by_no_permutation(self, axes):
        with pytest.raises(kd.ArgumentValueError, match="NumPy says"):
            kd.zeros((2, 3, 4)).transpose(*axes)

    @pytest.mark.parametrize("name", ["uint8", "int16", "float32", "float64", "complex64", "bool"])
    @pytest.mark.parametrize("index", [np.s_[:], np.s_[1], np.s_[:, ::2], np.s_[::2], np.s_[0, 0]])
    def test_view_by_dtype_follows_numpy(self, name, index):
        source = np.arange(24, dtype=np.float32).reshape(4, 6)
        try:
            expected = (source[(*index, ...)] if index == (0, 0) else source[index]).view(name)
        except ValueError:
            with pytest.raises(kd.ArgumentValueError, match="cannot be viewed"):
                kd.to_device(source)[index].view(name)
            return
        view = kd.to_device(source)[index].view(name)
        assert (view.shape, view.dtype) == (expected.shape, expected.dtype)
        assert view.copy_to_host().tobytes() == expected.tobytes()
        view.fill(1)
        assert kd.to_device(source)[index].size == source[index].size

    def test_a_view_that_is_not_aligned(self):
        x = kd.zeros(9, np.float32)
        with pytest.raises(kd.ArgumentTypeError, match="aligned"):
            x[1:].view(np.float64)
        assert x[2:8].view(np.float64).shape == (3,)


def converted(source, name):
    with np.errstate(all="ignore"):
        return source.astype(name)


#: Pairs of dtypes; in a quick run each is a source once, and once a target.
_PAIRS = [pytest.param(source, target) for source in NUMPY_NAMES for target in NUMPY_NAMES]
_QUICK_PAIRS = list(map(pytest.param, NUMPY_NAMES, NUMPY_NAMES[5:] + NUMPY_NAMES[:5]))


@pytest.mark.parametrize(("source", "target"), full_beyond(_PAIRS, _QUICK_PAIRS))
def test_astype_converts_as_numpy_does(source, target):
    numbers = np.array([0, 1, 2, 3, 100, 117], source)
    if np.dtype(source).kind == "f":
        numbers = np.concatenate([numbers, np.array([0.5, 1.75, 2.9], source)])
    elif np.dtype(source).kind == "i" and np.dtype(target).kind != "u":
        numbers = np.concatenate([numbers, -numbers])
    with kd.use("cpu"):
        x = kd.to_device(numbers)
        if np.dtype(source).kind == "c" and np.dtype(target).kind not in "cb":
            with pytest.raises(kd.ArgumentTypeError, match="imaginary"):
                x.astype(target)
            return
        found = x.astype(target)
    assert found.dtype == np.dtype(target)
    np.testing.assert_array_equal(found.copy_to_host(), converted(numbers, target))


@pytest.mark.parametrize(
    "dtype", full_beyond(["bool", "int8", "uint16", "float32", "complex64"], ["bool", "float32"])
)
def test_numpys_sum_is_the_sum_on_the_device(dtype):
    source = SOURCE.astype(dtype)
    with kd.use("cpu"):
        x = kd.to_device(source)
        out = kd.empty((), source.sum().dtype)
        for found in (np.sum(x), x.sum(axis=None), np.sum(x, out=out), np.sum(x.T)):
            assert type(found) is kd.DeviceArray
            assert found.dtype == source.sum().dtype
            assert found == source.sum()
        assert np.sum(x, out=out) is out


@pytest.mark.parametrize(
    "name",
    full_beyond(["sum", "prod", "mean", "var", "std", "min", "max", "any", "all"], ["prod", "std"]),
)
@pytest.mark.parametrize(
    "asked",
    full_beyond(
        [{}, {"axis": 0}, {"axis": (0, 1)}, {"keepdims": True}], [{"axis": 0}, {"keepdims": True}]
    ),
    ids=str,
)
def test_reductions_are_those_of_the_library(name, asked):
    with kd.use("cpu"):
        x = kd.to_device(SOURCE)
        expected = getattr(SOURCE, name)(**asked)
        for found in (getattr(x, name)(**asked), getattr(np, name)(x, **asked)):
            assert type(found) is kd.DeviceArray
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found.copy_to_host(), expected, rtol=1e-12)


@pytest.mark.full
def test_parameters_of_reductions():
    with kd.use("cpu"):
        x = kd.to_device(SOURCE.astype(np.float32))
        assert np.sum(x, dtype=np.float64).dtype == np.float64
        assert np.var(x, ddof=1) == x.var(None, None, None, 1)
        out = kd.empty(SOURCE.shape[1:], np.int64)
        assert np.argmax(x, axis=0, out=out) is out
        np.testing.assert_array_equal(out.copy_to_host(), SOURCE.argmax(axis=0))
        np.testing.assert_array_equal(x.argmin(1).copy_to_host(), SOURCE.argmin(1))


METHODS = [
    lambda x, chosen: x.sum(1, None, None, True, 3.0, chosen),
    lambda x, chosen: x.prod(initial=0.5, where=chosen, keepdims=True),
    lambda x, chosen: x.mean(0, np.float32, where=chosen),
    lambda x, chosen: x.var(1, where=chosen, ddof=0.5),
    lambda x, chosen: x.std(None, np.float64, None, 0.5, True, where=chosen),
    lambda x, chosen: x.max(1, None, True, -7.0, chosen),
    lambda x, chosen: x.min(initial=2.0),
    lambda x, chosen: x.any(0, keepdims=True, where=chosen),
    lambda x, chosen: x.all(where=chosen),
]


@pytest.mark.parametrize("method", full_beyond(METHODS, [METHODS[0], METHODS[3]]))
def test_methods_have_numpys_parameters(method):
    chosen = SOURCE > 0
    expected = method(SOURCE, chosen)
    with kd.use("cpu"):
        found = method(kd.to_device(SOURCE), kd.to_device(chosen)).copy_to_host()
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_parameters_that_are_not_there_say_where():
    with kd.use("cpu"):
        x = kd.to_device(SOURCE)
        for call in (
            lambda: x.var(mean=3.0),
            lambda: np.var(x, mean=3.0),
            lambda: x.argmax(where=x > 0),
        ):
            with pytest.raises(kd.ArgumentTypeError, match=r"\w=.*copy_to_host") as told:
                call()
            assert "ArrayReductions" not in str(told.value)


def test_a_sum_of_chosen_elements():
    with kd.use("cpu"):
        x, chosen = kd.to_device(SOURCE), kd.to_device(SOURCE > 0)
        assert float(np.sum(x, initial=3)) == SOURCE.sum(initial=3)
        assert float(np.sum(x, where=chosen)) == SOURCE.sum(where=SOURCE > 0)
        with pytest.raises(kd.ArgumentTypeError, match="where is an ndarray"):
            np.sum(x, where=SOURCE > 0)


def test_astype_of_views_and_shapes():
    with kd.use("cpu"):
        source = np.arange(24.0).reshape(2, 3, 4)
        x = kd.to_device(source)
        for index in (np.s_[:], np.s_[:, ::2], np.s_[0, 0, 0], np.s_[:0]):
            np.testing.assert_array_equal(
                x[index].astype(np.int32).copy_to_host(), source[index].astype(np.int32)
            )
        assert x.astype(np.float64).location != x.location
        assert float(x.sum()) == source.sum()
        assert x.T.sum() == source.sum()


@pytest.mark.usefixtures("device")
class TestRepr:
    @pytest.mark.parametrize(
        "source",
        [
            np.arange(3.0),
            np.arange(6, dtype=np.int8).reshape(2, 3),
            np.array(1.5),
            np.empty((0, 3)),
            np.array([np.nan, 1e300, -0.0]),
            np.arange(5000.0),
            np.arange(40_000).reshape(200, 200),
            np.arange(60_000, dtype=np.float32).reshape(20, 3, 1000).transpose(2, 0, 1),
            np.array([True, False]),
            np.ones(1001, complex),
        ],
    )
    def test_values_are_shown_as_numpy_shows_them(self, source, device):
        x = kd.to_device(source)
        shown = np.array2string(source, separator=", ", prefix="DeviceArray(")
        shape = f", shape={source.shape}" if source.size > 1000 or not source.size else ""
        name = {"cpu": "cpu", "fake": "fake:0"}[device]
        assert repr(x) == f"DeviceArray({shown}{shape}, dtype={source.dtype}, device={name})"

    def test_of_a_large_array_the_edges_are_copied(self):
        x = kd.zeros((1000, 1000))
        before = kd.stats().to_dict()
        assert "..." in repr(x)
        copied = [d["device_to_host_bytes"] for d in kd.stats().to_dict()["devices"]]
        assert sum(copied) - sum(d["device_to_host_bytes"] for d in before["devices"]) < 200_000

    def test_a_closed_array(self):
        x = kd.zeros(3)
        x.close()
        assert "shape=(3,), dtype=float64" in repr(x)
        assert "closed" in repr(x)
        with pytest.raises(kd.ClosedResourceError):
            x.reshape(1, 3)

    def test_a_capture_is_left_alone(self):
        x = kd.zeros(3)
        stream = kd.Stream()
        with stream.capture():
            assert "being captured" in repr(x)
        assert "[0., 0., 0.]" in repr(x)

    def test_a_device_that_fails(self, monkeypatch):
        x = kd.zeros(3)

        def fail(*args, **named):
            raise kd.DeviceLostError("cuda:0 is lost", code=700, name="CUDA_ERROR")

        monkeypatch.setattr(type(x), "copy_to_host", fail)
        assert "shape=(3,)" in repr(x)
        assert "is lost" in repr(x)
        monkeypatch.undo()
        monkeypatch.setattr(type(x.device), "unusable_reason", lambda self: "it was forked")
        assert "it was forked" in repr(x)
