"""Device arrays on a target with memory of its own, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.memory.strided import layout_of
from tests.support.fake_target import FakeTarget, installed


@pytest.fixture(autouse=True)
def fake():
    with installed(FakeTarget()) as target, kd.use("fake"):
        yield target


SOURCE = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


@pytest.mark.parametrize("array", [SOURCE, np.asfortranarray(SOURCE), SOURCE[:, ::2], SOURCE[:0]])
def test_round_trip_keeps_values_and_order(array):
    device = kd.to_device(array)
    assert device.layout == ("F" if array.flags.fnc else "C")
    np.testing.assert_array_equal(device.copy_to_host(), array)


@pytest.mark.parametrize(
    "index",
    [
        0,
        -1,
        (1, 2, 3),
        np.s_[::-1],
        np.s_[::2, 1:3, ::-2],
        np.s_[..., 0],
        np.s_[None, 1, ..., None],
        np.s_[5:1:-1],
        np.s_[2:2],
        (np.int64(1), slice(None)),
    ],
)
def test_views_are_those_of_numpy(index):
    view = kd.to_device(SOURCE)[index]
    expected = SOURCE[index]
    assert view.shape == np.shape(expected)
    np.testing.assert_array_equal(view.copy_to_host(), expected)
    if isinstance(expected, np.ndarray) and expected.size:
        assert view.strides == expected.strides
        assert view.layout == (
            "C" if expected.flags.c_contiguous else "F" if expected.flags.f_contiguous else "A"
        )


def test_views_of_views_transposes_and_reshapes():
    device = kd.to_device(SOURCE)
    np.testing.assert_array_equal(device[1:].T[::-1].copy_to_host(), SOURCE[1:].T[::-1])
    np.testing.assert_array_equal(device.reshape(-1, 5).copy_to_host(), SOURCE.reshape(-1, 5))
    np.testing.assert_array_equal(device.reshape((60,)).copy_to_host(), SOURCE.ravel())
    with pytest.raises(kd.ArgumentValueError, match="without a copy"):
        device.T.reshape(60)
    with pytest.raises(kd.ArgumentValueError):
        device.reshape(7, 7)


@pytest.mark.parametrize("index", [[0, 1], np.array([0]), 1.0, True, "x"])
def test_other_indices_are_refused(index):
    with pytest.raises(kd.ArgumentTypeError, match="cannot be indexed"):
        kd.to_device(SOURCE)[index]


def test_indices_out_of_range_are_numpys_error():
    with pytest.raises(IndexError):
        kd.to_device(SOURCE)[3]
    with pytest.raises(IndexError):
        kd.to_device(SOURCE)[0, 0, 0, 0]


@pytest.mark.parametrize(
    "index", [np.s_[1], np.s_[::2], np.s_[:, 1], np.s_[..., ::-2], np.s_[0, 0, 0]]
)
def test_writing_a_view_leaves_the_rest(index):
    device, expected = kd.to_device(SOURCE), SOURCE.copy()
    value = -SOURCE[index]
    device[index] = value
    expected[index] = value
    np.testing.assert_array_equal(device.copy_to_host(), expected)
    device[index] = 7
    expected[index] = 7
    np.testing.assert_array_equal(device.copy_to_host(), expected)


_PAIR = np.dtype([("one", np.int16), ("two", np.int16)])
_NESTED = np.dtype([("weight", np.float32), ("pair", _PAIR), ("many", np.int8, (2,))])
_NESTED_VALUES = [(1.5, (2, 3), (4, 5)), (2.5, (6, 7), [8, 9])]


@pytest.mark.parametrize(
    ("dtype", "shape", "index", "value"),
    [
        (_PAIR, 4, 0, (4, 5)),
        (_PAIR, 4, -1, np.array((4, 5), _PAIR)[()]),
        (_PAIR, 4, 0, 3),
        (_PAIR, 4, np.s_[:], (7, 8)),
        (_PAIR, 4, np.s_[:2], [(1, 2), (3, 4)]),
        (_PAIR, 4, np.s_[1:3], [(1, 2)]),
        (_PAIR, 4, np.s_[:2], [5, 6]),
        (_PAIR, (2, 3), 1, (4, 5)),
        (_PAIR, (2, 3), np.s_[0, 1], (4, 5)),
        (_PAIR, (2, 3), np.s_[:, 1], [(1, 2), (3, 4)]),
        (_PAIR, 4, "one", 3),
        (_NESTED, 4, 1, _NESTED_VALUES[0]),
        (_NESTED, 4, np.s_[1:3], _NESTED_VALUES),
        (_NESTED, 4, "pair", (1, 2)),
        (_NESTED, 2, "pair", [(1, 2), (3, 4)]),
        (_NESTED, 4, 2, np.array(_NESTED_VALUES, _NESTED)[1]),
    ],
)
@pytest.mark.parametrize("place", ["cpu", "null"])
def test_records_are_assigned_as_numpy_assigns_them(place, dtype, shape, index, value):
    expected = np.frombuffer(bytes(range(256)), dtype, np.prod(shape)).reshape(shape).copy()
    with kd.use(place):
        device = kd.to_device(expected)
        device[index] = value
        expected[index] = value
        assert device.copy_to_host().tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, (1, 2, 3)),
        (0, [1, 2]),
        (np.s_[:2], [(1, 2)] * 3),
        (0, ("x", 1)),
        (np.s_[:2], ((1, 2), (3, 4))),
    ],
)
def test_what_is_no_record_is_refused(index, value):
    device = kd.to_device(np.zeros(4, _PAIR))
    with pytest.raises((ArgumentTypeError, ArgumentValueError)) as raised:
        device[index] = value
    assert raised.value.remedy
    assert not device.copy_to_host().view(np.int16).any()


def test_writing_many_short_runs_leaves_the_rest():
    expected = np.arange(3000.0)
    device = kd.to_device(expected)
    device[::3] = -1.0
    expected[::3] = -1.0
    np.testing.assert_array_equal(device.copy_to_host(), expected)


def test_copies_check_their_partner():
    device = kd.zeros((2, 3), np.int32)
    with pytest.raises(kd.ArgumentValueError, match="shape"):
        device.copy_from_host(np.zeros(3, np.int32))
    with pytest.raises(kd.ArgumentValueError, match="dtype"):
        device.copy_to_host(np.zeros((2, 3)))
    with pytest.raises(kd.ArgumentTypeError):
        device.copy_from_host([[1, 2, 3]])
    out = np.zeros((3, 2), np.int32).T
    device.fill(4)
    assert device.copy_to_host(out) is out
    assert (out == 4).all()
    out.flags.writeable = False
    with pytest.raises(kd.ReadOnlyArrayError):
        device.copy_to_host(out)


def test_creation_functions():
    assert kd.empty(3).dtype == np.float64
    assert kd.zeros((2, 2), np.int8).copy_to_host().tolist() == [[0, 0], [0, 0]]
    assert kd.ones(2, kd.complex64).copy_to_host().tolist() == [1, 1]
    assert kd.full((), 2.5).item() == 2.5
    assert kd.full(2, True).dtype == np.bool_
    like = np.zeros((2, 3), np.float32, order="F")
    assert kd.empty_like(like).layout == "F"
    assert kd.zeros_like(kd.to_device(like)).copy_to_host().sum() == 0
    assert kd.full_like(like, 3).copy_to_host().tolist() == [[3.0] * 3] * 2
    assert kd.zeros((0, 5)).copy_to_host().shape == (0, 5)
    assert kd.empty_like(kd.empty(2, device="fake:1")).device.index == 1


@pytest.mark.parametrize("shape", [-1, (2, -3), 1.5, "ab"])
def test_bad_shapes(shape):
    with pytest.raises(kd.ArgumentError):
        kd.empty(shape)


def test_plain_python_habits():
    device = kd.to_device(SOURCE)
    assert len(device) == 3
    assert (device.ndim, device.size, device.nbytes, device.itemsize) == (3, 60, 240, 4)
    with pytest.raises(TypeError, match="copy_to_host"):
        iter(device)
    with pytest.raises(TypeError, match="rank 0"):
        len(device[0, 0, 0])
    with pytest.raises(kd.ArgumentTypeError, match="copy_to_host"):
        np.asarray(device)
    with pytest.raises(kd.ArgumentValueError, match="60"):
        device.item()
    assert device[1, 2, 3].item() == SOURCE[1, 2, 3]
    assert repr(device).endswith("dtype=float32, device=fake:0)")
    assert "3 × 4 × 5" in device._repr_html_()
    assert not hasattr(device, "__cuda_array_interface__")


@pytest.mark.parametrize("shape", [(2, 3), (1, 3), (3, 1), (1, 1), (0, 3), (), (4,), (2, 1, 3)])
def test_layout_is_numpys(shape):
    for order in "CF":
        array = np.zeros(shape, order=order)
        flags = array.flags
        wanted = "C" if flags.c_contiguous else "F"
        assert layout_of(array.shape, array.strides, 8) == wanted


def test_cuda_arrays_have_the_interface():
    with installed(FakeTarget("cuda")):
        array = kd.zeros((2, 3), np.float32, device="cuda")[:, ::2]
        interface = array.__cuda_array_interface__
        assert interface["data"] == (array.pointer, False)
        assert interface["strides"] == (12, 8)
        assert interface["typestr"] == "<f4"
        assert interface["version"] == 3
        again = kd.as_array(type("Other", (), {"__cuda_array_interface__": interface})())
        assert (again.pointer, again.shape, again.layout) == (array.pointer, (2, 2), "A")


def test_host_targets_share_memory_with_numpy():
    with installed(FakeTarget("host", is_host=True)):
        device = kd.zeros((2, 3), np.int64, device="host")
        view = np.asarray(device)
        view[1, 2] = 9
        assert device.copy_to_host()[1, 2] == 9
        assert np.array(device, dtype=np.float64).dtype == np.float64


@pytest.mark.parametrize("place", ["cpu", "null"])
def test_a_closed_array_is_not_converted_to_numpy(place: str) -> None:
    with kd.use(place):
        array = kd.zeros(7)
        array.close()
        with pytest.raises(kd.ClosedResourceError, match="used after it had been closed"):
            np.asarray(array)


@pytest.mark.parametrize("value", [0.0, -0.0, 2.5, np.nan])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_an_array_of_one_element_is_as_true_as_that(value, shape):
    with kd.use("cpu"):
        assert bool(kd.to_device(np.full(shape, value))) == bool(value)


@pytest.mark.parametrize("shape", [(0,), (2,), (3, 1), (0, 1)])
def test_other_arrays_are_neither_true_nor_false(shape):
    with kd.use("cpu"), pytest.raises(kd.ArgumentValueError, match=r"elements is ambiguous.*any"):
        bool(kd.zeros(shape))


def test_an_interpreter_completes_no_internal_names() -> None:
    array = kd.zeros(3, np.float32)
    internal = [
        "check_open",
        "check_writable",
        "code",
        "mark_foreign_use",
        "location",
        "note_use",
        "over",
        "packed",
        "seal",
    ]
    assert all(hasattr(array, name) for name in internal)
    assert not set(internal) & set(dir(array))
    assert {"shape", "copy_to_host", "T", "fill", "close"} <= set(dir(array))


@pytest.mark.parametrize(
    "args", [(), (1, 2, 3), ("cpu", 8, (3,), (8,), np.dtype("f8"), None), ([1.0, 2.0],)]
)
def test_the_class_is_not_called(args):
    with pytest.raises(kd.ArgumentTypeError, match=r"Write kd\.empty"):
        kd.DeviceArray(*args)


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        (np.longdouble, ["Kernels take the dtypes bool, int8,", "astype(np.float64)"]),
        (
            object,
            ["dtype object", "Choose another dtype. If you have an array, convert it to numbers"],
        ),
        ("M8[25s]", ["dtype datetime64[25s]", "one unit", "astype('M8[s]')"]),
        ("M8", ["dtype datetime64", "one unit", "astype('M8[s]')"]),
        (">f4", [">f4 of foreign byte order", "astype('float32')"]),
        (">M8[s]", [">M8[s] of foreign byte order", "astype('datetime64[s]')"]),
        ([("u", ">f4")], ["foreign byte order", "array.astype(array.dtype.newbyteorder('='))"]),
        ([("u", "f4"), ("v", "M8[s]")], ["Fields of records", "array['u'], array['v']"]),
        ([("a", "O")], ["Fields of records", "array['a']"]),
        ("U4", ["dtype <U4", "np.unique"]),
    ],
)
def test_refused_dtypes_have_a_remedy(dtype, words):
    for make in (kd.empty, lambda n, dtype: kd.to_device(np.zeros(n, dtype))):
        with pytest.raises(kd.ArgumentTypeError) as caught:
            make(3, dtype)
        for word in words:
            assert word in str(caught.value)
