"""Elementwise functions of the standard against NumPy's, of every dtype and of special values."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

import kerneldsl as kd
from stdlib_kernels import array_api as xp
from stdlib_kernels.array_api.making import RULES
from tests.support.extent import IS_QUICK, full_beyond, sample

FLOATS = [-np.inf, -2.5, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 7.25, np.inf, np.nan]
INTS = [-128, -7, -3, -1, 0, 1, 2, 3, 5, 8, 9, 100, 127]
DTYPES = ["bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64"]
DTYPES += ["complex64", "complex128"]
UNARY = sorted(n for n, rule in RULES.items() if rule.ufunc.nin == 1)
BINARY = sorted(n for n, rule in RULES.items() if rule.ufunc.nin == 2)


def of_every_dtype(names):
    """Pairs of a function and a dtype; in a quick run float64 of each, and integers of some."""
    pairs = [pytest.param(name, dtype) for name in names for dtype in DTYPES]
    some = [n for n in names if "f" not in RULES[n].kinds or "div" in n] + list(names[::4])
    quick = [pytest.param(name, "float64") for name in names]
    return full_beyond(pairs, quick + [pytest.param(name, "int8") for name in some])


def numbers(dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind == "c":
        parts = np.array([-np.inf, -1.5, -0.0, 0.0, 2.0, np.nan])
        return (parts[:, None] + 1j * parts).astype(dtype).ravel()
    if dtype.kind == "f":
        return np.array(FLOATS, dtype)
    return np.array(INTS).astype(dtype)


def expected(name, *values):
    rule = RULES[name]
    if name in ("real", "imag"):
        return getattr(np, name)(*values)
    if name in ("ceil", "floor", "trunc", "round") and values[0].dtype.kind in "biu":
        return values[0]
    with np.errstate(all="ignore"):
        return rule.ufunc(*values)


def check(found, wanted):
    """Compare bits of integers, and floats within a few units in the last place."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    host = found.copy_to_host()
    if wanted.dtype.kind not in "fc":
        np.testing.assert_array_equal(host, wanted)
        return
    rtol = 8 * np.finfo(wanted.dtype).eps
    if wanted.dtype.kind == "c":
        # Of complex numbers at infinity C libraries differ in the sign and the other part.
        is_finite = np.isfinite(wanted)
        scale = np.abs(wanted[is_finite]).astype(np.float64)
        assert np.all(
            np.abs(host[is_finite] - wanted[is_finite]) <= rtol * np.maximum(scale, 1e-30)
        )
        return
    np.testing.assert_allclose(host, wanted, rtol=rtol)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(host[known]), np.signbit(wanted[known]))


@pytest.mark.usefixtures("target")
class TestAgainstNumPy:
    @pytest.mark.parametrize(("name", "dtype"), of_every_dtype(UNARY))
    def test_of_one(self, name, dtype):
        values = numbers(dtype)
        try:
            wanted = expected(name, values)
        except TypeError:
            with pytest.raises(kd.ArgumentTypeError, match=name):
                getattr(xp, name)(xp.asarray(values))
            return
        if RULES[name].kinds and values.dtype.kind not in RULES[name].kinds:
            loop = RULES[name].ufunc.resolve_dtypes((values.dtype, None))
            if loop[0].kind not in RULES[name].kinds:
                with pytest.raises(kd.ArgumentTypeError, match=name):
                    getattr(xp, name)(xp.asarray(values))
                return
        check(getattr(xp, name)(xp.asarray(values)), wanted)

    @pytest.mark.parametrize(("name", "dtype"), of_every_dtype(BINARY))
    def test_of_two(self, name, dtype):
        values = numbers(dtype)
        left, right = values[:, None], values[None, :]
        if name == "pow" and values.dtype.kind == "i":
            right = (np.abs(right.astype(np.int64)) // 16).astype(dtype)  # NumPy refuses the others
        if "shift" in name and values.dtype.kind == "i":
            right = np.abs(right // 2)
        if name == "pow" and values.dtype.kind == "c":  # of others NumPy has rules of its own
            left, right = left[np.isfinite(left[:, 0])], right[:, np.isfinite(right[0])]
        if name in ("maximum", "minimum"):  # which zero it is, is not said
            left = left[left[:, 0] != 0]
        a, b = xp.asarray(left), xp.asarray(right)
        try:
            wanted = expected(name, left, right)
            loop = RULES[name].ufunc.resolve_dtypes((values.dtype, values.dtype, None))
        except TypeError:
            loop = ()
        kind = loop[0].kind if loop else ""
        if (
            not kind
            or kind not in RULES[name].kinds
            or (name == "nextafter" and loop[0] == np.float16)
        ):
            with pytest.raises(kd.ArgumentTypeError, match=name):
                getattr(xp, name)(a, b)
            return
        if name in ("floor_divide", "remainder") and dtype == "float16":
            pytest.skip("NumPy rounds the quotient to float16 before its floor")
        check(getattr(xp, name)(a, b), wanted)

    @pytest.mark.parametrize("name", ["ceil", "floor", "round", "trunc", "real", "abs"])
    def test_large_integers_stay_as_they_are(self, name):
        source = np.array([2**63 + 1, 2**53 + 1], np.uint64)
        check(getattr(xp, name)(xp.asarray(source)), source)

    @pytest.mark.parametrize("exponent", [-3, -2, -1])
    def test_integers_to_negative_powers_have_no_fraction(self, exponent):
        found = xp.pow(xp.asarray([-2, -1, 0, 1, 2]), xp.asarray(exponent))
        assert found.tolist() == [0, 1 if exponent % 2 == 0 else -1, 0, 1, 0]

    @pytest.mark.parametrize("value", [-129, -128, 127, 128, 255, 10**30])
    @pytest.mark.parametrize("name", ["equal", "less", "greater_equal", "not_equal"])
    def test_comparisons_with_ints_beyond_the_dtype(self, name, value):
        source = np.array(INTS, np.int8)
        check(getattr(xp, name)(xp.asarray(source), value), getattr(np, name)(source, value))
        check(getattr(xp, name)(value, xp.asarray(source)), getattr(np, name)(value, source))

    def test_signed_and_unsigned_integers_are_compared_exactly(self):
        signed, unsigned = np.array([-1, 2**62]), np.array([2**64 - 1, 2**62], np.uint64)
        for name in ("equal", "less", "greater"):
            found = getattr(xp, name)(xp.asarray(signed), xp.asarray(unsigned))
            assert found.tolist() == getattr(np, name)(signed, unsigned).tolist()

    @pytest.mark.parametrize("shapes", [((), ()), ((0,), ()), ((3, 1), (4,)), ((2, 0), (1, 1))])
    def test_shapes(self, shapes, rng):
        a, b = (rng.random(shape) for shape in shapes)
        np.testing.assert_array_equal(
            xp.add(xp.asarray(a), xp.asarray(b)).copy_to_host(), np.add(a, b)
        )

    def test_layouts(self, rng):
        source = rng.random((5, 7, 3))
        x = xp.asarray(source)
        for index in (np.s_[::2, ::-1], np.s_[:, 1], np.s_[..., None, 2]):
            np.testing.assert_array_equal(
                xp.multiply(x[index], x[index].T.T).copy_to_host(), source[index] ** 2
            )

    def test_out_and_wrong_arguments(self):
        x, out = xp.asarray([1.0, 4.0]), xp.empty(2)
        assert xp.sqrt(x, out=out) is out
        assert out.tolist() == [1.0, 2.0]
        with pytest.raises(kd.ArgumentTypeError, match="float32"):
            xp.sqrt(x, out=xp.empty(2, dtype=xp.float32))
        with pytest.raises(kd.ArgumentTypeError, match="no array"):
            xp.add(1, 2)
        with pytest.raises(kd.ArgumentValueError, match="broadcast"):
            xp.add(x, xp.ones(3))
        with pytest.raises(kd.ArgumentTypeError, match="subtract"):
            xp.subtract(xp.asarray([True]), xp.asarray([True]))
        with pytest.raises(kd.ArgumentOverflowError):
            xp.add(xp.asarray([1], dtype=xp.int8), 300)

    @pytest.mark.parametrize(
        ("name", "dtype", "remedy"),
        [
            ("bitwise_invert", "float32", r"x\.astype\(np\.int32\)"),
            ("imag", "float32", r"x\.astype\(np\.complex64\)"),
            ("reciprocal", "int32", r"x\.astype\(np\.float32\)"),
            ("floor", "complex64", r"array_api\.real\(x\)"),
        ],
    )
    def test_the_remedy_is_a_dtype_of_the_function(self, name, dtype, remedy):
        with pytest.raises(kd.ArgumentTypeError, match=remedy):
            getattr(xp, name)(xp.ones(2, dtype=getattr(xp, dtype)))


@pytest.mark.parametrize("name", full_beyond(sorted(RULES), ["add", "exp", "pow", "sign"]))
def test_the_example_of_each(name):
    function = getattr(xp, name)
    assert function.__doc__.splitlines()[0].endswith(".")
    (test,) = doctest.DocTestFinder(recurse=False).find(function, name, module=False)
    assert test.examples
    outcome = doctest.DocTestRunner(verbose=False).run(test)
    assert outcome.failed == 0


@pytest.mark.parametrize(
    ("first", "dtype"), list(enumerate(["float32", "float64", "int32", "complex64"]))
)
def test_every_function_compiles_for_a_gpu(first, dtype):
    with kd.use("null"):
        x = kd.to_device(np.ones(4, dtype))
        for name, rule in sample(list(RULES.items())[first if IS_QUICK else 0 :], 2):
            try:
                found = getattr(xp, name)(*[x] * rule.ufunc.nin)
            except kd.ArgumentTypeError:
                continue
            assert found.shape == (4,)
