"""Integers of expressions, among integers of arrays: NumPy's answers, or a refusal like its own."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from tests.support.extent import examples

X, A = sympy.symbols("x a")
IX = sympy.Symbol("i", integer=True)
U, OUT = map(sympy.IndexedBase, ("u", "out"))
DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
#: Operations with a constant, by SymPy and by NumPy.
OPERATIONS = {
    "+": (lambda x, c: x + c, np.add),
    "*": (lambda x, c: x * c, np.multiply),
    "max": (sympy.Max, np.maximum),
    "<": (sympy.Lt, np.less),
    "<=": (sympy.Le, np.less_equal),
    ">": (sympy.Gt, np.greater),
    ">=": (sympy.Ge, np.greater_equal),
    "==": (sympy.Eq, np.equal),
    "!=": (sympy.Ne, np.not_equal),
}
_exponents = st.sampled_from([6, 7, 8, 15, 16, 31, 32, 63, 64, 70])
_constants = st.builds(
    lambda sign, exponent, more: sign * 2**exponent + more,
    st.sampled_from([-1, 1]),
    _exponents,
    st.integers(-2, 2),
) | st.integers(-3, 3)


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(DTYPES), st.sampled_from(sorted(OPERATIONS)), _constants)
def test_constants_are_numpys(dtype, operation, constant):
    by_sympy, by_numpy = OPERATIONS[operation]
    limits = np.iinfo(dtype)
    x = np.array([limits.min, 0, 1, limits.max], dtype)
    formula = by_sympy(X, sympy.Integer(constant))
    if not formula.has(X):
        return
    with kd.use("cpu"):
        try:
            wanted = by_numpy(x, constant)
        except OverflowError:
            if operation in "+*" and limits.min <= -constant <= limits.max:
                return  # to SymPy a difference
            with pytest.raises(ArgumentValueError, match=f"{constant}, which does not fit {dtype}"):
                kd.from_expression({"out": formula})(x)
            return
        np.testing.assert_array_equal(kd.from_expression({"out": formula})(x), wanted, strict=True)


@pytest.mark.parametrize("number", [1000, np.int64(1000), sympy.Integer(1000)])
def test_numbers_of_calls_are_refused_as_constants_are(number):
    x = np.arange(3, dtype=np.int8)
    with kd.use("cpu"):
        with pytest.raises(ArgumentValueError, match="computed with a = 1000") as caught:
            kd.from_expression(X + A)(a=number, x=x)
        assert "int8 holds -128 to 127" in caught.value.limit
        assert "astype(np.int64)" in caught.value.remedy
        assert not kd.from_expression(X > A)(a=number, x=x).any()
        assert kd.from_expression(X / A)(a=number, x=x)[2] == 0.002


def test_launches_are_refused_as_calls_are():
    made = kd.from_expression(X + 1000)
    x = np.arange(3, dtype=np.int8)
    wide = np.empty(3, np.int32)
    with kd.use("cpu"):
        made.forall(3)(x, wide)
        np.testing.assert_array_equal(wide, [1000, 1001, 1002])
        np.testing.assert_array_equal(made(x, out=wide), [1000, 1001, 1002])
        with pytest.raises(ArgumentValueError, match="1000, which does not fit int8"):
            made.forall(3)(x, np.empty(3, np.int8))
    with pytest.raises(ArgumentValueError, match="1000, which does not fit int8"):
        made.ptx("int8[::1], int8[::1]", forall=1, arch="sm_90")
    with pytest.raises(ArgumentValueError, match="-1, which does not fit uint64"):
        kd.from_expression(X > -1).ptx("uint64[::1], bool[::1]", forall=1, arch="sm_90")


def test_a_result_of_floats_holds_them():
    x = np.arange(3, dtype=np.int8)
    with kd.use("cpu"):
        np.testing.assert_array_equal(kd.from_expression(X / 1000)(x), x / 1000.0)
        with pytest.raises(ArgumentValueError, match="more is computed with 1000"):
            kd.from_expression({"part": X / 2, "more": X + 1000})(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_integers_among_floats(computing, dtype):
    x = np.array([-1.5, 0, 2], dtype)
    formula = {"a": X * 10**30, "b": X + 2**64, "c": X - 2**63, "d": X < 10**30}
    product, more, less, below = kd.from_expression(formula)(x)
    np.testing.assert_array_equal(product, x * dtype(10**30), strict=True)
    np.testing.assert_array_equal(more, x + dtype(2**64), strict=True)
    np.testing.assert_array_equal(less, x - dtype(2**63), strict=True)
    assert below.all()


@pytest.mark.parametrize("cval", [np.nan, np.inf, -np.inf, -0.0, 1e300])
def test_any_float_beyond_the_ends(computing, cval):
    made = kd.from_expression(sympy.Eq(OUT[IX], U[IX + 1]), boundary="constant", cval=cval)
    got = made(np.arange(3.0))
    np.testing.assert_array_equal(got, [1, 2, cval])
    assert np.signbit(got[2]) == np.signbit(cval)


@pytest.mark.parametrize("cval", [np.nan, -np.inf, 0.5, 1e300])
def test_what_is_no_integer_beyond_the_ends_of_integers(cval):
    made = kd.from_expression(sympy.Eq(OUT[IX], U[IX + 1]), boundary="constant", cval=cval)
    with kd.use("cpu"), pytest.raises(ArgumentValueError, match=r"cval is .* integers"):
        made(np.arange(3))
