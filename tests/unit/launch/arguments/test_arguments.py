"""Arguments: kinds, flat values, refusals that name the parameter."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.language.element_types import NUMPY_NAMES
from kerneldsl.language.kinds import format_signature
from kerneldsl.language.signatures import parse_signature
from kerneldsl.launch.arguments.arguments import bind, overlap
from kerneldsl.launch.arguments.binding import kinds_of


def read(*args):
    binding = bind(tuple("abcdefgh"[: len(args)]), args)
    return format_signature(kinds_of(binding.codes)), binding.values


@pytest.mark.parametrize(
    ("value", "kind", "values"),
    [
        (True, "bool", [1]),
        (np.bool_(False), "bool", [0]),
        (7, "int64", [7]),
        (-(2**63), "int64", [-(2**63)]),
        (2.5, "float64", [2.5]),
        (1 + 2j, "complex128", [1.0, 2.0]),
        (np.complex64(3 - 1j), "complex64", [3.0, -1.0]),
        (np.uint64(2**64 - 1), "uint64", [2**64 - 1]),
        (np.longlong(5), "int64", [5]),
        (np.ulonglong(5), "uint64", [5]),
        ((1, 2.0), "(int64, float64)", [1, 2.0]),
        ((1, (True,)), "(int64, (bool,))", [1, 1]),
        (enum.IntEnum("E", "A").A, "int64", [1]),
    ],
)
def test_scalars_and_tuples(value, kind, values):
    assert read(value) == (kind, values)


@pytest.mark.parametrize("dtype", NUMPY_NAMES)
def test_every_dtype_as_scalar_and_array(dtype):
    array = np.ones((2, 3), dtype)
    kind, values = read(array[0, 0], array)
    assert kind == f"{dtype}, {dtype}[:, ::1]"
    assert values[-3:] == [array.ctypes.data, 2, 3]


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (np.zeros(5), "float64[::1]"),
        (np.zeros(5)[::2], "float64[:]"),
        (np.zeros(5)[::-1], "float64[:]"),
        (np.zeros((2, 3), order="F"), "float64[::1, :]"),
        (np.zeros((2, 3)).T, "float64[::1, :]"),
        (np.zeros((4, 3))[:, 1:], "float64[:, :]"),
        (np.zeros((1, 3))[:, ::1], "float64[:, ::1]"),
        (np.zeros((4, 3))[:1, :], "float64[:, ::1]"),
        (np.zeros((3, 4))[:, :1], "float64[:, :]"),
        (np.zeros((0, 3))[:, 1:], "float64[:, ::1]"),
        (np.zeros(()), "float64[()]"),
        (np.zeros((1,) * 8), "float64[:, :, :, :, :, :, :, ::1]"),
    ],
)
def test_layouts_are_those_of_numpys_flags(array, kind):
    found, values = read(array)
    assert found == kind
    strides = array.strides if not (array.flags.c_contiguous or array.flags.f_contiguous) else ()
    assert values == [array.ctypes.data, *array.shape, *strides]


def test_layouts_are_those_of_numbas_typeof():
    numba = pytest.importorskip("numba")
    for array in (np.zeros((3, 4))[:, :1], np.zeros((1, 4)), np.zeros((3, 1)).T, np.zeros((2, 0))):
        (kind,) = kinds_of(bind(("x",), (array,)).codes)
        assert kind.layout == numba.typeof(array).layout


class Pair(tuple):
    """A tuple whose class may give it another meaning."""


class Column:
    """A column of a table, such as one of pandas."""

    def to_numpy(self):
        raise AssertionError


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (2**63, kd.ArgumentValueError, ["int64", "np.uint64"]),
        (enum.Enum("E", "A").A, kd.ArgumentTypeError, ["Pass its .value"]),
        (-(2**63) - 1, kd.ArgumentValueError, ["int64"]),
        (np.longdouble(1), kd.ArgumentTypeError, ["float128"]),
        (np.zeros(3, np.longdouble), kd.ArgumentTypeError, ["float128", "astype"]),
        (np.zeros(3, object), kd.ArgumentTypeError, ["object"]),
        (np.zeros(3, "M8[25s]"), kd.ArgumentTypeError, ["datetime64[25s]", "astype('M8[s]')"]),
        (np.timedelta64(3), kd.ArgumentTypeError, ["timedelta64", "one unit", "astype('m8[s]')"]),
        (np.zeros(3, "U4"), kd.ArgumentTypeError, ["<U4"]),
        (np.zeros(3, [("u", "f4"), ("v", "M8[s]")]), kd.ArgumentTypeError, ["array['u']"]),
        (np.zeros(3, [("u", "M8[s]")])[0], kd.ArgumentTypeError, ["record", "record['u']"]),
        (np.zeros(3, ">f4"), kd.ArgumentTypeError, ["byte order", "astype"]),
        (np.zeros((1,) * 9), kd.ArgumentTypeError, ["9 dimensions", "8"]),
        (np.zeros(9, np.uint8)[1:].view(np.float64), kd.ArgumentValueError, ["copy()"]),
        (np.ma.zeros(3), kd.ArgumentTypeError, ["MaskedArray", "filled"]),
        (Pair((1, 2)), kd.ArgumentTypeError, ["Pair", "tuple(value)"]),
        ([1, 2], kd.ArgumentTypeError, ["list", "np.array"]),
        ("text", kd.ArgumentTypeError, ["str", "float(value)"]),
        (None, kd.ArgumentTypeError, ["None cannot be passed", "stands for it"]),
        (object(), kd.ArgumentTypeError, ["object"]),
        (Column(), kd.ArgumentTypeError, ["Column", "to_numpy()"]),
    ],
)
def test_refusals_name_the_parameter_and_what_to_do(value, error, words):
    with pytest.raises(error) as caught:
        bind(("x", "bad"), (1, value))
    text = str(caught.value)
    assert "'bad'" in text
    assert "argument 2 of 2" in text
    for word in words:
        assert word in text


def test_a_refusal_inside_a_tuple_names_the_place():
    with pytest.raises(kd.ArgumentTypeError, match=r"'x\[1\]\[0\]' \(argument 1 of 1\)"):
        bind(("x",), ((1, ("no",)),))


def test_read_only_arrays_are_noted():
    locked = np.zeros(3)
    locked.flags.writeable = False
    binding = bind(("x", "y"), (np.zeros(3), locked))
    assert binding.read_only == (2,)
    assert binding.values[2] == locked.ctypes.data


def test_arrays_among_flat_values():
    matrix, vector = np.zeros((2, 3), order="F"), np.zeros(6)[::2]
    binding = bind(("a", "b", "c"), (1j, (matrix, 2.0), vector))
    assert [array.position for array in binding.arrays] == [1, 2]
    first, second = binding.passed_arrays()
    for passed, array in ((first, matrix), (second, vector)):
        assert passed.location == array.ctypes.data
        assert (passed.shape, passed.strides) == (array.shape, array.strides)
        assert passed.itemsize == array.itemsize
        assert passed.byte_range() == np.lib.array_utils.byte_bounds(array)
    assert first.is_same(first)
    assert not first.is_same(second)


def test_overlap_counts_where_something_is_written():
    base = np.zeros(10)

    def overlap_of(args, written):
        return overlap(bind(("a", "b", "c")[: len(args)], args), written)

    assert overlap_of((base[:5], base[4:]), frozenset({0}))
    assert not overlap_of((base[:5], base[4:]), frozenset())
    assert not overlap_of((base[:5], base[5:]), frozenset({0, 1}))
    assert overlap_of((base[::-1], base[9:]), frozenset({1}))
    assert overlap_of((1, (base[::2], 3), base[1::2]), frozenset({2}))
    assert not overlap_of((base[:0], base), frozenset({0, 1}))


def test_signature_notation_of_read_kinds_is_read_back():
    kinds = kinds_of(bind(("a", "b"), ((1, np.zeros((2, 2)).T), np.zeros(()))).codes)
    assert parse_signature(format_signature(kinds)) == kinds
