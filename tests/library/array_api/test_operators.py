"""Operators of device arrays beside those of NumPy's arrays."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv]
ARITHMETIC += [operator.mod, operator.pow]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BITWISE = [operator.and_, operator.or_, operator.xor]
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.ifloordiv, operator.imod]
SCALARS = [3, 2.5, True, np.float32(1.5), np.int8(2), np.float64(0.5), np.ones((), "f")]
PAIRS = [("int8", "uint8"), ("int32", "float32"), ("bool", "int16"), ("float32", "float64")]

pytestmark = pytest.mark.usefixtures("target")


def check(found, wanted):
    assert isinstance(found, kd.DeviceArray)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found.copy_to_host(), wanted, rtol=1e-6)


WEAK = [
    pytest.param(function, name, value, id=f"{function.__name__}-{name}-{value!r}")
    for function in (*ARITHMETIC, *COMPARISONS)
    for name in ("int8", "int64", "float16", "float32")
    for value in SCALARS
]
#: A number that keeps integers and one that does not; of two operators every number.
QUICK_WEAK = [
    each
    for each in WEAK
    if each.values[1] == "int8"
    and (type(each.values[2]) in (int, np.float32) or each.values[0] in (operator.sub, operator.lt))
]


@pytest.mark.parametrize(("function", "name", "value"), full_beyond(WEAK, QUICK_WEAK))
def test_numbers_of_python_are_weak(function, name, value):
    source = np.array([1, 2, 7], name)
    x = kd.to_device(source)
    check(function(x, value), function(source, value))
    check(function(value, x), np.asarray(function(value, source)))


@pytest.mark.parametrize("pair", full_beyond(PAIRS, PAIRS[:1]), ids=str)
@pytest.mark.parametrize("function", [*ARITHMETIC, *COMPARISONS])
def test_dtypes_are_promoted_as_numpys_are(function, pair):
    left, right = np.array([[1], [3]], pair[0]), np.array([1, 2, 3], pair[1])
    check(function(kd.to_device(left), kd.to_device(right)), function(left, right))


@pytest.mark.parametrize("function", BITWISE)
@pytest.mark.parametrize("name", full_beyond(["bool", "int16", "uint64"], ["bool", "int16"]))
def test_bits(function, name):
    left, right = np.array([0, 1, 1], name), np.array([1, 1, 0], name)
    a, b = kd.to_device(left), kd.to_device(right)
    check(function(a, b), function(left, right))
    check(~a, ~left)
    if name != "bool":
        check(a << 3, left << 3)
        check(b >> 1, right >> 1)


def test_signs_and_sizes():
    source = np.array([-1.5, -0.0, 2.0])
    x = kd.to_device(source)
    for function in (operator.neg, operator.pos, abs):
        found = function(x)
        check(found, function(source))
        np.testing.assert_array_equal(
            np.signbit(found.copy_to_host()), np.signbit(function(source))
        )
        assert found.location != x.location


@pytest.mark.parametrize("function", [*IN_PLACE, operator.itruediv, operator.ipow])
def test_in_place_forms_write_the_array_and_its_views(function):
    source = np.array([1.0, 2.0, 3.0, 4.0])
    x = kd.to_device(source)
    view, before = x[1:3], x
    x = function(x, 2)
    assert x is before
    wanted = function(source.copy(), 2)
    check(x, wanted)
    np.testing.assert_allclose(view.copy_to_host(), wanted[1:3])


def test_in_place_forms_keep_the_dtype():
    x = kd.to_device(np.array([100, 1], np.int8))
    x += kd.to_device(np.array([100, 1], np.int32))
    assert (x.dtype, x.tolist()) == (np.int8, [-56, 2])
    with pytest.raises(kd.ArgumentTypeError, match="which an array of dtype int8 cannot hold"):
        x += 1.5
    with pytest.raises(kd.ArgumentValueError, match="shape"):
        x += kd.zeros((2, 2), np.int8)
    with pytest.raises(kd.ReadOnlyArrayError):
        operator.iadd(x.as_read_only(), 1)
    x[0] += 6
    assert x.tolist() == [-50, 2]


def test_an_array_and_its_own_views_in_place():
    source = np.arange(6.0)
    x = kd.to_device(source)
    x += x[::-1]
    source += source[::-1].copy()
    check(x, source)


def test_products_of_matrices(rng):
    a, b = rng.random((3, 5)), rng.random((5, 2))
    x, y = kd.to_device(a), kd.to_device(b)
    check(x @ y, a @ b)
    check(x.T.mT @ y[:, 0], a @ b[:, 0])
    square = kd.to_device(a[:, :3])
    kept = square
    square @= square
    assert square is kept
    check(square, a[:, :3] @ a[:, :3])


def test_elements_of_rank_0():
    x = kd.to_device(np.arange(4))
    check(x[1] + 1, np.asarray(2))
    check(x[3] - x[1], np.asarray(2))
    assert bool(x[1] == 1)
    assert float(x[2] / 4) == 0.5
    quotient, rest = divmod(x, 3)
    check(quotient, np.arange(4) // 3)
    check(rest, np.arange(4) % 3)
    check(divmod(7, x[3])[1], np.asarray(1))
    check(abs(-x[2]), np.asarray(2))


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_arrays_of_no_elements(shape):
    source = np.zeros(shape, np.float32)
    x = kd.to_device(source)
    for function in (*ARITHMETIC, *COMPARISONS):
        check(function(x, x), function(source, source))


@pytest.mark.parametrize("function", [*ARITHMETIC, *COMPARISONS])
def test_what_is_on_the_host_is_not_mixed_in(function):
    x = kd.zeros(3)
    for other in (np.ones(3), [1, 2, 3], None, "a"):
        for left, right in ((x, other), (other, x)):
            if isinstance(left, str) and function is operator.mod:
                continue  # it formats
            with pytest.raises(TypeError, match=r"copy_to_host\(\)"):
                function(left, right)


def test_objects_of_others_may_take_device_arrays():
    class Other:
        def __radd__(self, array):
            return "added"

        def __eq__(self, array):
            return "compared"

        __hash__ = None

    assert kd.zeros(3) + Other() == "added"
    assert (kd.zeros(3) == Other()) == "compared"
    with pytest.raises(TypeError, match="unsupported operand"):
        kd.zeros(3) - object()


def test_two_devices():
    x = kd.zeros(3)
    with kd.use("null"):
        y = kd.zeros(3)
    with pytest.raises(kd.KernelError):
        x + y
