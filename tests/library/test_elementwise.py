"""Functions of elements against NumPy's, over broadcast shapes, dtypes and layouts."""

from __future__ import annotations

import enum
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import (
    ArgumentOverflowError,
    ArgumentTypeError,
    ArgumentValueError,
    KernelError,
    ReadOnlyArrayError,
)
from stdlib_kernels import elementwise
from tests.support.arrays import (
    assert_same_bits,
    assert_within_ulp,
    poisoned,
    random_array,
    strided,
)
from tests.support.extent import IS_QUICK, examples, full_beyond

DTYPES = ["bool", "int8", "int32", "uint16", "uint64", "float16", "float32", "float64", "complex64"]


def fused(x, y):
    return x * 2 + y


def parts(x, y):
    return x > y, x - y


@st.composite
def shapes(draw):
    """Draw shapes that are broadcast to one, of up to four axes, and steps in memory."""
    ndim = draw(st.integers(0, 4))
    full = [draw(st.sampled_from([1, 2, 3, 5])) for _ in range(ndim)]
    if ndim:
        full[draw(st.integers(0, ndim - 1))] = draw(st.sampled_from([0, 1, 31, 300]))
    operands = []
    for _ in range(3):
        shape = [n if draw(st.booleans()) else 1 for n in full]
        shape = shape[draw(st.integers(0, ndim)) if draw(st.booleans()) else 0 :]
        steps = [draw(st.sampled_from([1, 1, 2, -1])) for _ in shape]
        operands.append((tuple(shape), tuple(steps)))
    return operands


def drawn_array(rng, drawn, dtype):
    shape, steps = drawn
    x = random_array(rng, shape, dtype)
    return strided(x, steps) if shape else x


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=shapes())
def test_any_broadcast(call, rng, drawn):
    x, y, c = (drawn_array(rng, each, "int64") for each in drawn)
    np.testing.assert_array_equal(call(elementwise.map, fused, x, y), x * 2 + y)
    got = call(elementwise.where, c > 0, x, y)
    np.testing.assert_array_equal(got, np.where(c > 0, x, y))
    assert got.shape == np.where(c > 0, x, y).shape


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, ["float32"]))
def test_each_dtype(call, rng, dtype):
    x = random_array(rng, (7, 33), dtype)
    y = random_array(rng, (33,), dtype)
    for to in ("int8", "float16") if IS_QUICK else DTYPES:
        if np.dtype(dtype).kind == "c" and np.dtype(to).kind != "c":
            continue
        small = (x * np.asarray(7, dtype)).astype(dtype) if x.dtype.kind == "f" else x
        if np.dtype(dtype).kind == "f" and np.dtype(to).kind == "u":
            small = np.abs(small)
        got = call(elementwise.astype, small, to)
        with np.errstate(all="ignore"):
            assert_same_bits(got, small.astype(to), f"{dtype} to {to}")
    assert_same_bits(call(elementwise.where, x[0] != 0, x, y), np.where(x[0] != 0, x, y), dtype)
    if np.dtype(dtype).kind not in "bc":
        np.testing.assert_array_equal(call(elementwise.clip, x, y, 1), np.clip(x, y, 1))
        for low, high in ((0, None), (None, 1), (0, 1)):
            got = call(elementwise.clip, x, low, high)
            np.testing.assert_array_equal(got, np.clip(x, low, high))
            assert got.dtype == x.dtype


def test_several_results(target, rng):
    x, y = (random_array(rng, (3, 50), "float32") for _ in range(2))
    above, difference = elementwise.map(parts, x, y)
    np.testing.assert_array_equal(above, x > y)
    np.testing.assert_array_equal(difference, x - y)
    outs = poisoned((3, 50), bool), poisoned((3, 50), np.float32)
    got = elementwise.map(parts, x, y, out=outs)
    assert got[0] is outs[0]
    assert got[1] is outs[1]
    np.testing.assert_array_equal(outs[1], x - y)
    on_device = elementwise.map(parts, kd.to_device(x), kd.to_device(y))
    assert all(isinstance(each, kd.DeviceArray) for each in on_device)
    np.testing.assert_array_equal(on_device[0].copy_to_host(), x > y)


def affine(x, y):
    return x * y + x


@pytest.mark.parametrize("left", full_beyond(DTYPES, ["float16"]))
@pytest.mark.parametrize("right", full_beyond(DTYPES, ["int8"]))
def test_dtypes_are_numpys(target, left, right):
    x, y = np.ones(3, left), np.ones(3, right)
    got, exact = elementwise.map(affine, x, y).dtype, (x * y + x).dtype
    if {left, right} == {"bool"}:
        exact = np.dtype(np.int64)  # kernels add booleans up
    elif "uint64" in (left, right) and left != right and exact.kind in "uf":
        # There int64 and uint64 meet, which NumPy and kernels join each in a way of their own.
        assert got.kind in "iuf"
        return
    assert got == exact


def test_large_unsigned_integers_stay_what_they_are(call):
    x = np.array([2**64 - 1, 5, 2**63], np.uint64)
    for f in (lambda v: v + 1, lambda v: v * 2, lambda v: v - 6, lambda v: v >> 1):
        assert_same_bits(call(elementwise.map, f, x), f(x), "uint64")


@pytest.mark.parametrize("dtype", full_beyond(["float16", "float32", "float64"], ["float32"]))
def test_numbers_of_pythons_take_the_precision_of_arrays(target, dtype):
    x = np.ones(3, dtype)
    got = elementwise.map(lambda v: (v * 0.5, v > 0, math.sqrt(v) + 1), x)
    assert [each.dtype for each in got] == [dtype, bool, dtype]
    assert elementwise.map(affine, x, 2).dtype == dtype
    got = elementwise.map(lambda v: (v, v + 1), x, dtype=(np.int8, np.float64))
    assert [each.dtype for each in got] == [np.int8, np.float64]


def test_halves_are_computed_as_float32(call):
    x = np.array([300.0, 1.0], np.float16)
    np.testing.assert_array_equal(call(elementwise.map, lambda v: v * v / v, x), x)


@pytest.mark.parametrize("dtype", full_beyond(["uint8", "int8", "uint64", "int64"], ["uint8"]))
def test_bounds_beyond_the_dtype(call, rng, dtype):
    """As in NumPy 2, where they bound nothing; a bound of which nothing is left is refused."""
    x, ends = random_array(rng, 100, dtype), np.iinfo(dtype)
    for low in (-(10**30), ends.min - 1, ends.min, None):
        for high in (ends.max, ends.max + 1, 10**30, 5):
            assert_same_bits(call(elementwise.clip, x, low, high), np.clip(x, low, high), dtype)


def test_numbers_are_rounded_to_halves_once(call):
    """float64 in the middle between two halves and beside it, as close as it gets."""
    bits = np.arange(0, 0x7C01, 97 if IS_QUICK else 1, dtype=np.uint16)
    ends = np.uint16([0, 1, 2, 0x3FE, 0x3FF, 0x400, 0x401, 0x7BFE, 0x7BFF, 0x7C00])
    halves = np.union1d(bits, ends).view(np.float16).astype(np.float64)
    with np.errstate(over="ignore"):
        following = np.nextafter(halves.astype(np.float16), np.float16(np.inf)).astype(np.float64)
    halves[np.isinf(halves)], following[np.isinf(following)] = 65536, 65536
    middle = (halves + following) / 2
    x = np.concatenate(
        [each for v in (halves, middle) for each in (np.nextafter(v, 0), v, np.nextafter(v, 1e9))]
        + [
            middle * (1 + 2.0**-30),
            middle * (1 - 2.0**-30),
            [np.inf, np.nan, 1e-300, 1e300, 5e-324],
        ]
    )
    x = np.concatenate([x, -x])
    with np.errstate(over="ignore"):
        exact = x.astype(np.float16)
    assert_same_bits(call(elementwise.astype, x, np.float16), exact, "astype")
    assert_same_bits(call(elementwise.map, lambda v: v, x, dtype=np.float16), exact, "map")
    once = np.float16(1 + 2.0**-11 + 2.0**-40)
    got = call(elementwise.where, x[:1] < 0, exact[:1], 1 + 2.0**-11 + 2.0**-40)
    assert_same_bits(got, np.full(1, once), "where")


def test_numbers_and_captured_values(call, rng):
    x = random_array(rng, 100, "float64")
    bound = 0.25
    got = call(elementwise.map, lambda v, s: min(v, bound) * s, x, 3.0)
    np.testing.assert_array_equal(got, np.minimum(x, 0.25) * 3)
    halves, two = np.arange(4.0).astype(kd.bfloat16), kd.bfloat16(2)
    np.testing.assert_array_equal(call(elementwise.clip, halves, None, two), [0, 1, 2, 2])
    np.testing.assert_array_equal(call(elementwise.where, halves > 1, halves, two), [2, 2, 2, 3])


@pytest.mark.full
def test_many_arrays(call, rng):
    arrays = [random_array(rng, 64, "int32") for _ in range(7)]
    got = call(elementwise.map, lambda a, b, c, d, e, f, g: a ^ b ^ c ^ d ^ e ^ f ^ g, *arrays)
    np.testing.assert_array_equal(got, np.bitwise_xor.reduce(arrays))


@pytest.mark.full
def test_special_values(call):
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5]
    x, low, high = (np.array(each) for each in np.meshgrid(values, values, values))
    with np.errstate(invalid="ignore"):
        exact = np.clip(x, low, high)
    got = call(elementwise.clip, x, low, high)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    np.testing.assert_array_equal(got[~np.isnan(exact)], exact[~np.isnan(exact)])
    assert_same_bits(call(elementwise.where, x, x, low), np.where(x, x, low), "where")


@pytest.mark.full
def test_expressions_of_sympy(call, rng):
    sympy = pytest.importorskip("sympy")
    b, a = sympy.symbols("b a")
    x, y = (random_array(rng, 50, "float64") for _ in range(2))
    got = call(elementwise.map, sympy.sin(a) ** 2 + b / 3, x, y)
    np.testing.assert_allclose(got, np.sin(x) ** 2 + y / 3, rtol=1e-12, atol=1e-15)
    narrow = call(elementwise.map, sympy.sin(a) ** 2 + b / 3, x.astype("float32"), 2.0)
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, np.sin(x) ** 2 + 2 / 3, rtol=1e-5, atol=1e-6)
    with pytest.raises(ArgumentValueError, match="has the symbols a, b, and the call 1 array"):
        elementwise.map(a + b, x)


def test_out_may_be_an_argument(target, rng):
    x, y = random_array(rng, (40, 50), "int64"), random_array(rng, (50,), "int64")
    exact = x * 2 + y
    device = kd.to_device(x)
    assert elementwise.map(fused, device, kd.to_device(y), out=device) is device
    np.testing.assert_array_equal(device.copy_to_host(), exact)
    copy = x.copy()
    assert elementwise.map(fused, copy, y, out=copy) is copy
    np.testing.assert_array_equal(copy, exact)
    # Each element of this row is read for all rows.
    shared = x.copy()
    elementwise.map(fused, shared, shared[3], out=shared)
    np.testing.assert_array_equal(shared, x * 2 + x[3])
    turned = x[:, :40].copy()
    elementwise.map(fused, turned, turned.T, out=turned)
    np.testing.assert_array_equal(turned, x[:, :40] * 2 + x[:, :40].T)


def test_refusals(target):
    x = np.ones((2, 3))
    with pytest.raises(ArgumentTypeError, match="there is no array among"):
        elementwise.map(fused)
    with pytest.raises(ArgumentTypeError, match="f is 3"):
        elementwise.map(3, x)
    with pytest.raises(ArgumentTypeError, match=r"arrays\[1\] is a str"):
        elementwise.map(fused, x, "a")
    with pytest.raises(ArgumentTypeError, match=r"arrays\[1\] is a DeviceArray"):
        elementwise.map(fused, x, kd.to_device(x))
    with pytest.raises(ArgumentValueError, match=r"shapes \(2, 3\), \(2,\) cannot be broadcast"):
        elementwise.map(fused, x, np.ones(2))
    with pytest.raises(ArgumentTypeError, match="the function returns none"):
        elementwise.map(lambda v: None, x)
    with pytest.raises(ArgumentTypeError, match="the function returns none"):
        elementwise.map(lambda v: None, x, dtype=np.float32)
    for f, y in ((fused, x.astype(complex)), (lambda v, w: v * 1j, x)):
        with pytest.raises(ArgumentTypeError, match="imaginary parts would be lost"):
            elementwise.map(f, x, y, dtype=np.float32)
    with pytest.raises(ArgumentValueError, match="function has 2 results"):
        elementwise.map(parts, x, x, dtype=bool)
    with pytest.raises(ArgumentValueError, match="out has 1 array, and there are 2 results"):
        elementwise.map(parts, x, x, out=x)
    with pytest.raises(ArgumentTypeError, match="out has the dtype float32"):
        elementwise.map(fused, x, x, out=x.astype(np.float32))
    for built_in in (abs, math.sqrt, np.sqrt):
        with pytest.raises(ArgumentTypeError, match="Pass a lambda that calls it"):
            elementwise.map(built_in, x)
    with pytest.raises(KernelError):
        elementwise.map(lambda v: v.no_such_thing, x)
    for low, high in ((300, None), (0, -1), (10**30, None)):
        with pytest.raises(ArgumentValueError, match="uint8 holds, 0 to 255"):
            elementwise.clip(np.ones(3, np.uint8), low, high)
    with pytest.raises(
        ArgumentValueError, match=r"y is 300\. .* uint8 holds, 0 to 255. .* convert"
    ):
        elementwise.where(x > 0, np.ones(3, np.uint8), 300)
    read_only = np.ones((2, 3))
    read_only.flags.writeable = False
    with pytest.raises(ReadOnlyArrayError):
        elementwise.where(x, x, x, out=read_only)


INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
EDGES = [0, 1, -1, 3, 127, 128, -128, -129, 255, 256, 2**15, 2**16, 2**31, 2**32, 2**53 + 1]
EDGES += [2**63 - 1, 2**63, 2**63 + 5, -(2**63), 2**64 - 1, 2**64, -(2**64)]


ANY = (
    lambda a, b: a + b,
    lambda a, b: b - a,
    lambda a, b: a > b,
    lambda a, b: b == a,
    lambda a, b: a * b,
)
OF_INTEGERS = (lambda a, b: a // b, lambda a, b: a % b, lambda a, b: b & a)


@pytest.mark.parametrize("dtype", full_beyond(["bool", *INTEGERS], ["int16", "uint64"]))
def test_python_ints_take_the_dtype_of_integers(call, rng, dtype):
    """An int beside arrays is of their dtype, or an OverflowError, as NumPy has it."""
    ends = np.iinfo(dtype) if dtype != "bool" else None
    x = rng.integers(ends.min, ends.max, 33, dtype, endpoint=True) if ends else rng.random(33) > 0.5
    for n in EDGES:
        try:
            _ = x + n
        except OverflowError:
            for f in ANY[:2]:
                with pytest.raises(ArgumentOverflowError, match=r"arrays\[1\] is ") as caught:
                    elementwise.map(f, x, n)
                assert isinstance(caught.value, OverflowError)
            continue
        for k, f in enumerate(ANY):
            exact = f(x, n)
            got = call(elementwise.map, f, x, n)
            assert got.dtype == exact.dtype, (dtype, n, k)
            np.testing.assert_array_equal(got, exact, err_msg=f"{dtype} {n} {k}")
        if n and ends:
            for f in OF_INTEGERS:
                if n == -1 and dtype.startswith("int"):
                    continue  # the smallest number has no opposite
                got, exact = call(elementwise.map, f, x, n), f(x, n)
                assert got.dtype == exact.dtype, (dtype, n)
                np.testing.assert_array_equal(got, exact, err_msg=f"{dtype} {n}")


@pytest.mark.full
def test_python_ints_beside_floats(call, rng):
    """They stay ints, so that they can count, and those beyond int64 are floats."""
    powers = lambda a, n: a**n
    for dtype in ("float16", "float32", "float64", "complex64"):
        x = random_array(rng, 9, "float32").astype(dtype)
        got = call(elementwise.map, powers, x, 2)
        assert got.dtype == x.dtype
        np.testing.assert_allclose(got, x**2, rtol=2e-3)
        got = call(elementwise.map, lambda a, n: a * n, np.ones(3, dtype), 2**70)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got, np.ones(3, dtype) * 2**70)
    with pytest.raises(ArgumentOverflowError, match="an int of 2001 bits"):
        elementwise.map(powers, np.ones(3), 2**2000)
    with pytest.raises(ArgumentOverflowError, match="an int of 2001 bits"):
        elementwise.where(np.ones(3) > 0, np.ones(3), 2**2000)


def test_ints_at_every_place_and_of_subclasses(call):
    class Level(enum.IntEnum):
        HIGH = 3

    big = np.array([2**63 + 3, 9], np.uint64)
    np.testing.assert_array_equal(call(elementwise.map, lambda n, a: a // n, 3, big), big // 3)
    np.testing.assert_array_equal(
        call(elementwise.map, lambda a, n: a // n, big, Level.HIGH), big // 3
    )
    mixed = call(elementwise.map, lambda a, b, n: a + b + n, np.int8([1, 2]), np.int32([5]), 300)
    assert mixed.dtype == np.int32
    assert mixed.tolist() == [306, 307]
    with pytest.raises(ArgumentOverflowError, match=r"arrays\[0\] is -1"):
        elementwise.map(lambda n, a: a + n, -1, big)
    with pytest.raises(ArgumentOverflowError, match=r"arrays\[2\] is 128"):
        elementwise.map(lambda a, b, n: a + b + n, np.int8([1]), True, 128)


@pytest.mark.parametrize("dtype", full_beyond(["complex64", "complex128"], ["complex64"]))
@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (lambda z: 1 / z, lambda z: 1 / z),
        (lambda z: z / abs(z), lambda z: z / np.abs(z)),
        (lambda z: z / 0, lambda z: z / 0),
        (lambda z: np.reciprocal(z), np.reciprocal),
        (lambda z: np.sign(z), np.sign),
    ],
)
def test_complex_division_by_zero_loses_no_element(dtype, function, exact, rng):
    z = random_array(rng, 999, dtype)
    z[rng.choice(999, 20, replace=False)] = 0
    with np.errstate(all="ignore"):
        # NumPy's own parts of a number of this width are up to 3 ulp off.
        expected = exact(z.astype(np.clongdouble))
        assert_within_ulp(elementwise.map(function, z), expected, 3, dtype)


def test_complex_numbers_become_truth_values(call, rng):
    x = rng.integers(-1, 2, (5, 7)) + 1j * rng.integers(-1, 2, (5, 7))
    x[0, :3] = complex(0, np.nan), -0.0, complex(np.nan, 0)
    for each in (x, x.astype(np.complex64), x[::2, ::-1]):
        got = call(lambda v: elementwise.astype(v, bool), each)
        np.testing.assert_array_equal(got, each.astype(bool))
