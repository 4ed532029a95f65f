"""Functions of numbers against NumPy's at special values: signed zeros, NaN, infinities, limits.

Each case has what NumPy computes for arrays, of every pair of values for functions of two. A thread
whose operation has no ordinary result, such as a division by zero, stands between threads that have
one; so a case also shows that it ends none of them, in debug mode neither.
"""

from __future__ import annotations

import cmath
import math
import operator

import numpy as np

import kerneldsl as kd
from tests.conformance.kernels.mathematics import BOUNDS, spelled
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("scalar_sweep")
CASES = _list.cases

_FLOATS = ("float32", "float64")
#: Functions of float16 are those of float32, whose exact results are rounded once.
_ALL_FLOATS = ("float16", *_FLOATS)
_COMPLEX = ("complex64", "complex128")
_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


def _unary(function, *, debug=False):
    @kd.kernel(debug=debug)
    def unary(x, out):
        i = kd.grid(1)
        if i < x.size:
            out[i] = function(x[i])

    return unary


def _binary(function, *, debug=False):
    @kd.kernel(debug=debug)
    def binary(x, y, out):
        i = kd.grid(1)
        if i < x.size:
            out[i] = function(x[i], y[i])

    return binary


def _values(dtype):
    """The special values of a dtype, both zeros among them."""
    kind = np.dtype(dtype)
    if kind.kind == "c":
        parts = (0.0, -0.0, 1.0, -2.0, math.inf, -math.inf, math.nan, 2.0**90)
        return np.array([complex(a, b) for a in parts for b in parts], kind)
    if kind.kind == "f":
        limits = np.finfo(kind)
        positive = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.3, 1e20, math.inf]
        positive += [limits.max, limits.tiny, limits.smallest_subnormal]
        return np.array([*positive, *(-each for each in positive), math.nan], kind)
    limits = np.iinfo(kind)
    near = (0, 1, 2, 3, 5, 7, 64, 100, -1, -2, -7, limits.min, limits.min + 1, limits.max - 1)
    return np.array([*(v for v in near if limits.min <= v <= limits.max), limits.max], kind)


def _pairs(dtype, *, without=None):
    """Every pair of special values but those of which `without` says that they have no result."""
    x, y = (each.ravel() for each in np.meshgrid(_values(dtype), _values(dtype)))
    if without is None:
        return x, y
    chosen = ~without(x, y)
    return x[chosen], y[chosen]


def _expected(reference, count):
    def expected(*args):
        with np.errstate(all="ignore"):
            return {count: np.asarray(reference(*args[:count]))}

    return expected


def _add(name, kernel, inputs, reference, *, ulp=0):
    with np.errstate(all="ignore"):
        exact = np.asarray(reference(*inputs))
    dtype = exact.dtype
    if ulp and dtype.kind == "f":
        # A bound on the error says nothing of the sign of a zero.
        is_special = (exact == 0) | ~np.isfinite(exact)
        _add(f"{name}_specials", kernel, tuple(each[is_special] for each in inputs), reference)
    size = inputs[0].size
    _list.add(
        name,
        kernel,
        lambda rng: (*(each.copy() for each in inputs), poisoned(size, dtype)),
        extent=(size,),
        expected=_expected(reference, len(inputs)),
        ulp=ulp,
    )


def _add_unary(label, function, dtypes, reference=None, *, ulp=0):
    kernel = _unary(function)
    for dtype in dtypes:
        _add(f"{label}_{dtype}", kernel, (_values(dtype),), reference or function, ulp=ulp)


def _add_binary(label, function, dtypes, reference=None, *, ulp=0, without=None, debug=False):
    kernel = _binary(function, debug=debug)
    for dtype in dtypes:
        inputs = _pairs(dtype, without=without)
        _add(f"{label}_{dtype}", kernel, inputs, reference or function, ulp=ulp)


# -- exact functions of one number ----------------------------------------------------------------

for _name in ("sign", "absolute", "negative", "square"):
    _add_unary(f"np_{_name}", getattr(np, _name), (*_ALL_FLOATS, *_SIGNED, *_UNSIGNED))
for _name in ("fabs", "floor", "ceil", "trunc", "rint", "sqrt", "reciprocal", "positive"):
    _add_unary(f"np_{_name}", getattr(np, _name), _ALL_FLOATS)
for _name in ("isnan", "isinf", "isfinite", "signbit", "logical_not"):
    _add_unary(f"np_{_name}", getattr(np, _name), _ALL_FLOATS)
for _name in ("sign", "conjugate", "negative"):
    _add_unary(f"np_{_name}", getattr(np, _name), _COMPLEX)
_add_unary(
    "np_reciprocal",
    np.reciprocal,
    (*_SIGNED, *_UNSIGNED),
    lambda x: np.where(np.abs(x) == 1, x, 0).astype(x.dtype),
)
_add_unary("np_spacing", np.spacing, _FLOATS)
_add_unary("np_reciprocal", np.reciprocal, _COMPLEX, ulp=2)
for _name in ("floor", "ceil", "trunc"):
    _add_unary(f"math_{_name}_of_integers", getattr(math, _name), ("int64", "uint64"), np.positive)

# -- functions with bounds: what they give of zeros, infinities and NaN ---------------------------

for _name, (_bound32, _bound64) in BOUNDS.items():
    for _dtype, _bound in zip(_FLOATS, (_bound32, _bound64), strict=True):
        _function = getattr(np, spelled(_name))
        # Of huge arguments the reference in a wider type is as exact as its reduction by pi.
        _inputs = _values(_dtype)
        _inputs = _inputs[~(np.abs(_inputs) > 1e15) | np.isinf(_inputs)]
        _add(
            f"bounded_np_{spelled(_name)}_{_dtype}",
            _unary(_function),
            (_inputs,),
            lambda x, f=_function: f(x.astype(np.longdouble)).astype(x.dtype),
            ulp=max(_bound, 1),
        )

# Cube roots of numbers of every magnitude; the bound of float64 is explained in `mathematics`.
for _label, _function in (("np", np.cbrt), ("math", math.cbrt), ("kd", kd.cbrt)):
    for _dtype in _FLOATS:
        _limits = np.finfo(_dtype)
        _powers = np.ldexp(1.1, np.arange(_limits.minexp - _limits.nmant, _limits.maxexp))
        _inputs = np.concatenate([_powers, -_powers, _values(_dtype)]).astype(_dtype)
        _add(
            f"{_label}_cbrt_{_dtype}",
            _unary(_function),
            (_inputs,),
            lambda x: np.cbrt(x.astype(np.longdouble)).astype(x.dtype),
            ulp=2,
        )

_add_unary("kd_rsqrt", kd.rsqrt, _FLOATS, lambda x: (1 / np.sqrt(x)).astype(x.dtype), ulp=2)


def _saturated(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))


_add_unary("kd_saturate", kd.saturate, _FLOATS, _saturated)

# At the poles, where Python raises, both have what C's functions give.
_AT = np.array([0.0, -0.0, -1.0, -7.0, 1.0, 2.0, math.inf, -math.inf, math.nan])
_GAMMA = np.array([math.inf, -math.inf, math.nan, math.nan, 1, 1, math.inf, math.nan, math.nan])
_LGAMMA = np.array([math.inf, math.inf, math.inf, math.inf, 0, 0, math.inf, math.inf, math.nan])
for _function, _exact in ((math.gamma, _GAMMA), (math.lgamma, _LGAMMA)):
    for _dtype in _FLOATS:
        _add(
            f"math_{_function.__name__}_at_poles_{_dtype}",
            _unary(_function),
            (_AT.astype(_dtype),),
            lambda x, exact=_exact: exact.astype(x.dtype),
        )


def _bit_count(value):
    return value.bit_count()


def _bit_counts(x: np.ndarray) -> np.ndarray:
    return np.array([int(each).bit_count() for each in x])


_add_unary("bit_count", _bit_count, (*_SIGNED, *_UNSIGNED), _bit_counts)
_add_unary("np_bitwise_count", np.bitwise_count, (*_SIGNED, *_UNSIGNED))

# -- functions of two numbers ---------------------------------------------------------------------


def _are_zeros_of_two_signs(x, y):
    """Of these the extremes of NumPy are either, by the length of the array."""
    return (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))


def _overflows(x, y):
    """The least integer by -1, which has no quotient."""
    return (x == np.iinfo(x.dtype).min) & (y + 1 == 0) & (x != 0)


def _is_negative_power(x, y):
    return y < 0


for _name in ("heaviside", "copysign", "fmod", "remainder", "floor_divide"):
    _add_binary(f"np_{_name}", getattr(np, _name), _ALL_FLOATS)


def _remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    has_none = np.isinf(x) | (y == 0)  # of which Python's function raises
    pairs = zip(np.where(has_none, math.nan, x), y, strict=True)
    return np.array([math.remainder(*each) for each in pairs], x.dtype)


_add_binary("math_remainder", math.remainder, _FLOATS, _remainder)


def _is_near(x, y):
    return math.isclose(x, y, rel_tol=0.4, abs_tol=1e-300)


def _logarithm(x: np.ndarray, base: np.ndarray) -> np.ndarray:
    wide = np.longdouble
    exact = np.log(x.astype(wide)) / np.log(base.astype(wide))
    return exact.astype(np.result_type(x, np.float32))


_PLAIN = tuple(each.ravel() for each in np.meshgrid((1.5, 3.0, 7.3, 1e18), (2.0, 3.5, 10.0, 1e9)))
_add_binary("math_isclose", _is_near, _FLOATS, np.vectorize(_is_near))
for _dtype in (*_FLOATS, "int64"):
    _inputs = tuple(each.astype(_dtype) for each in _PLAIN)
    _add(f"math_log_of_base_{_dtype}", _binary(math.log), _inputs, _logarithm, ulp=8)
_add_binary("np_nextafter", np.nextafter, _FLOATS)
for _name in ("fmax", "fmin", "maximum", "minimum"):
    _add_binary(f"np_{_name}", getattr(np, _name), _ALL_FLOATS, without=_are_zeros_of_two_signs)
for _name in ("fmod", "remainder", "floor_divide"):
    _function = getattr(np, _name)
    _add_binary(f"np_{_name}", _function, (*_SIGNED, *_UNSIGNED))
for _name in ("gcd", "lcm", "maximum", "minimum"):
    _add_binary(f"np_{_name}", getattr(np, _name), (*_SIGNED, *_UNSIGNED))
_add_binary("np_power", np.power, (*_SIGNED, *_UNSIGNED), without=_is_negative_power)


# -- operators that Python's own numbers refuse for some operands ---------------------------------


def _quotient(a, b):
    return divmod(a, b)[0]


def _rest(a, b):
    return divmod(a, b)[1]


def _power(a, b):
    """Of the integers to a negative power: 1, -1, the least one of 0, and else 0."""
    least = np.iinfo(a.dtype).min
    negative = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), np.where(a == 0, least, 0)))
    return np.where(b < 0, negative, a ** np.where(b < 0, 0, b)).astype(a.dtype)


_truediv, _floordiv, _mod, _pow = operator.truediv, operator.floordiv, operator.mod, operator.pow
for _debug in (False, True):
    _end = "_debug" if _debug else ""
    _add_binary(f"truediv{_end}", _truediv, (*_FLOATS, "int64"), debug=_debug)
    _add_binary(f"truediv{_end}", _truediv, _COMPLEX, ulp=2, debug=_debug)
    for _name, _function, _reference in (
        ("floordiv", _floordiv, np.floor_divide),
        ("mod", _mod, np.remainder),
        ("divmod_quotient", kd.func(_quotient), np.floor_divide),
        ("divmod_rest", kd.func(_rest), np.remainder),
    ):
        _label = f"{_name}{_end}"
        _add_binary(_label, _function, _FLOATS, _reference, debug=_debug)
        _add_binary(_label, _function, ("int64",), _reference, without=_overflows, debug=_debug)
    for _function in (operator.lshift, operator.rshift):
        _add_binary(f"{_function.__name__}{_end}", _function, ("int64", "uint64"), debug=_debug)
    _add_binary(f"pow{_end}", _pow, ("int64",), _power, debug=_debug)
    _add_binary(f"pow{_end}", _pow, ("uint64",), debug=_debug)
_add_binary("np_true_divide", np.true_divide, _COMPLEX, ulp=2)


@kd.kernel
def whole_powers(x, n, out):
    i = kd.grid(1)
    out[0, i] = x[i] ** n[i]
    out[1, i] = math.pow(x[i], n[i])


for _dtype in _FLOATS:
    _limits = np.iinfo(np.int64)
    _pair = [
        each.ravel()
        for each in np.meshgrid(
            np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.0, math.inf, -math.inf, math.nan], _dtype),
            np.array([0, 1, -1, 2, -3, 70000, -70001, _limits.min, _limits.max]),
        )
    ]
    _list.add(
        f"whole_powers_{_dtype}",
        whole_powers,
        lambda rng, xn=_pair: (*(each.copy() for each in xn), poisoned((2, 81), xn[0].dtype)),
        extent=(81,),
        expected=lambda x, n, out: {
            2: np.broadcast_to(_expected(np.power, 2)(x, n.astype(x.dtype))[2], (2, 81))
        },
    )


# -- complex functions, whose parts have signs of their own ---------------------------------------


def _real_of(function):
    def real(z):
        return function(z).real

    return kd.func(real)


def _imag_of(function):
    def imag(z):
        return function(z).imag

    return kd.func(imag)


def _complex_values(dtype):
    """One part of infinite numbers is finite: of others C leaves a sign open."""
    near = (0.0, -0.0, 0.5, -1.25, 3.0, math.inf, -math.inf)
    found = [complex(a, b) for a in near for b in near if math.isfinite(a) or math.isfinite(b)]
    most = 100.0 if dtype == "complex64" else 720.0  # e to that is beyond the dtype
    return np.array([*found, complex(-most, 1), complex(1, -most), complex(most, 0)], dtype)


def _is_open(function, z):
    """Signs that C leaves open: those of zeros that are beside NaN."""
    with np.errstate(all="ignore"):
        exact = function(z)
    return np.isnan(exact.real) | np.isnan(exact.imag)


for _name in ("exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arccosh"):
    _function = getattr(np, _name)
    for _dtype in _COMPLEX:
        _inputs = _complex_values(_dtype)
        _inputs = _inputs[~_is_open(_function, _inputs)]
        for _of, _part in ((_real_of, np.real), (_imag_of, np.imag)):
            _add(
                f"np_{_name}{_of.__name__.removesuffix('_of')}_{_dtype}",
                _unary(_of(_function)),
                (_inputs,),
                lambda z, f=_function, part=_part: part(f(z)),
                ulp=8,
            )
            if _name != "expm1":
                _add(
                    f"cmath_{_name}{_of.__name__.removesuffix('_of')}_{_dtype}",
                    _unary(_of(getattr(cmath, _name.replace("arc", "a")))),
                    (_inputs,),
                    lambda z, f=_function, part=_part: part(f(z)),
                    ulp=8,
                )

# -- complex powers, of numbers that are not special but 0 ----------------------------------------


def _complex_powers(x, y):
    """Of 0 to a negative power NaN, as NumPy has it."""
    exact = (x.astype(np.clongdouble) ** y.astype(np.clongdouble)).astype(x.dtype)
    return np.where((x == 0) & (y.real < 0), np.full_like(x, complex(math.nan, math.nan)), exact)


_BASES = (0, 1, -1, 2j, 1 + 1j, -3 + 0.5j, 0.25 - 2j)
_EXPONENTS = (0, 1, 2, 3, -1, -2, 0.5, 0.5 + 1j, 2 - 1j, 17)
for _dtype in _COMPLEX:
    _add(
        f"pow_{_dtype}",
        _binary(_pow),
        tuple(each.ravel().astype(_dtype) for each in np.meshgrid(_BASES, _EXPONENTS)),
        _complex_powers,
        ulp=8,
    )


# -- rounding to digits, as Python does it ---------------------------------------------------------


def _round_to(digits):
    def rounded(x):
        return round(x, digits)

    return kd.func(rounded)


def _rounded(x, digits):
    def one(value):
        return round(value, digits) if math.isfinite(value) else value

    return np.array([one(float(each)) for each in x]).astype(x.dtype)


_DECIMALS = np.array([0.3425, 2.675, 0.125, 0.375, 1e-7, 1234.5678, 1.005, 0.15, 25.5, 99999.5])
for _digits in (-3, -1, 0, 1, 2, 3, 10, 25):
    for _dtype in _FLOATS:
        _inputs = np.concatenate([_values(_dtype), *(s * _DECIMALS for s in (1, -1))])
        _add(
            f"round_to_{_digits}_{_dtype}".replace("-", "minus_"),
            _unary(_round_to(_digits)),
            (_inputs.astype(_dtype),),
            lambda x, n=_digits: _rounded(x, n),
        )


@kd.kernel
def round_to_many(x, digits, out):
    i = kd.grid(1)
    out[i] = round(x[i], digits[i])


def _decimals(rng, dtype):
    """Numbers in the middle between two decimals, or next to it, and any others."""
    middles = (rng.integers(-(10**6), 10**6, 200) + 0.5) / 10.0 ** rng.integers(-2, 8, 200)
    others = rng.choice([-1, 1], 200) * 10.0 ** rng.uniform(-12, 18, 200)
    x = np.concatenate([middles, np.nextafter(middles, 0), others]).astype(dtype)
    return x, rng.integers(-6, 18, x.size), poisoned(x.size, dtype)


def _rounded_to_many(x, digits, out):
    return {2: np.array([round(float(a), int(n)) for a, n in zip(x, digits, strict=True)], x.dtype)}


for _dtype in _FLOATS:
    _list.add(
        f"round_to_many_{_dtype}",
        round_to_many,
        lambda rng, d=_dtype: _decimals(rng, d),
        extent=(600,),
        expected=_rounded_to_many,
    )


# -- random operands ------------------------------------------------------------------------------


def _complex_of_all_sizes(rng, dtype, count):
    """Numbers of all exponents of which a quotient has one; their two parts differ in size."""
    bits = 60 if dtype == "complex64" else 500
    real, imag = (
        rng.uniform(-1, 1, count) * np.exp2(rng.uniform(-bits, bits, count)) for _ in range(2)
    )
    return (real + 1j * imag).astype(dtype)


for _dtype in _COMPLEX:
    _list.add(
        f"random_quotients_{_dtype}",
        _binary(_truediv),
        lambda rng, d=_dtype: (
            *(_complex_of_all_sizes(rng, d, 500) for _ in range(2)),
            poisoned(500, d),
        ),
        extent=(500,),
        expected=lambda x, y, out: {2: x.astype(np.clongdouble) / y.astype(np.clongdouble)},
        ulp=4,
    )

_list.add(
    "random_powers_of_integers",
    _binary(_pow),
    lambda rng: (
        rng.integers(-(2**63), 2**63 - 1, 500),
        np.exp2(rng.uniform(0, 62, 500)).astype(np.int64),
        poisoned(500, np.int64),
    ),
    extent=(500,),
    expected=lambda x, y, out: {
        2: np.array(
            [pow(int(a), int(b), 2**64) for a, b in zip(x, y, strict=True)], np.uint64
        ).view(np.int64)
    },
)
