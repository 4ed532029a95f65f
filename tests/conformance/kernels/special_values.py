"""NaN, infinities, signed zeros and halves; functions with two results; complex functions."""

from __future__ import annotations

import cmath
import math

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("special_values")
CASES = _list.cases
_SIZE = 150


@kd.kernel
def classification(x, out):
    i = kd.grid(1)
    out[0, i] = math.isnan(x[i])
    out[1, i] = math.isinf(x[i])
    out[2, i] = math.isfinite(x[i])
    out[3, i] = np.isnan(x[i])
    out[4, i] = np.isinf(x[i])
    out[5, i] = np.isfinite(x[i])
    out[6, i] = np.signbit(x[i])
    out[7, i] = x[i] != x[i]


def _classified(x, out):
    nan, inf, finite = np.isnan(x), np.isinf(x), np.isfinite(x)
    return {1: np.stack([nan, inf, finite, nan, inf, finite, np.signbit(x), nan])}


_SPECIAL_VALUES = (0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-40)
for _dtype in ("float32", "float64"):
    _list.add(
        f"classification_{_dtype}",
        classification,
        lambda rng, d=_dtype: (np.array(_SPECIAL_VALUES, d), poisoned((8, 8), bool)),
        extent=(8,),
        expected=_classified,
    )


@kd.kernel
def whole_powers(x, n, out):
    i = kd.grid(1)
    out[0, i] = x[i] ** n[i]
    out[1, i] = math.pow(x[i], n[i])
    out[2, i] = x[i] ** -1
    out[3, i] = x[i] ** -2


def _powers(x, n, out):
    with np.errstate(divide="ignore"):
        return {2: np.stack([x**n, x**n, x**-1.0, x**-2.0]).astype(x.dtype)}


# Zero to a negative power is infinite, and threads behind it have their own results.
for _dtype in ("float32", "float64"):
    _list.add(
        f"whole_powers_{_dtype}",
        whole_powers,
        lambda rng, d=_dtype: (
            np.array((2.0, 0.0, -0.0, -2.0, np.inf, 0.0, -0.0, np.nan, 0.5), d),
            np.array((-1, -1, -1, -3, -2, -2, -4, -1, 5)),
            poisoned((4, 9), d),
        ),
        extent=(9,),
        expected=_powers,
    )


@kd.kernel
def literal_powers(x, n, out):
    i = kd.grid(1)
    out[0, i] = x[i] ** n[i]
    out[1, i] = x[i] ** 13
    out[2, i] = x[i] ** 0
    out[3, i] = pow(x[i], 13)


def _thirteenth(x, n, out):
    """Multiply as the loop over the bits of the exponent does."""
    with np.errstate(over="ignore", invalid="ignore"):
        fourth = (x * x) * (x * x)
        power = (x * fourth) * (fourth * fourth)
        return {2: np.stack([power, power, np.ones_like(x), power])}


def _some_of(rng, dtype):
    if dtype[0] != "f":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, _SIZE, dtype)
    return np.append(rng.normal(0, 50, _SIZE - 8), _SPECIAL_VALUES).astype(dtype)


for _dtype in ("float32", "float64", "int64", "uint64"):
    _list.add(
        f"literal_powers_{_dtype}",
        literal_powers,
        lambda rng, d=_dtype: (
            _some_of(rng, d),
            np.full(_SIZE, 13, d if d == "uint64" else "int64"),
            poisoned((4, _SIZE), d),
        ),
        extent=(_SIZE,),
        expected=_thirteenth,
    )


@kd.kernel
def decomposition(x, out):
    i = kd.grid(1)
    mantissa, exponent = math.frexp(x[i])
    fraction, whole = math.modf(x[i])
    out[0, i] = mantissa
    out[1, i] = exponent
    out[2, i] = fraction
    out[3, i] = whole
    out[4, i] = math.ldexp(x[i], 3)


def _decomposed(x, out):
    mantissa, exponent = np.frexp(x)
    fraction, whole = np.modf(x)
    return {1: np.stack([mantissa, exponent.astype(x.dtype), fraction, whole, np.ldexp(x, 3)])}


for _dtype in ("float32", "float64"):
    _list.add(
        f"decomposition_{_dtype}",
        decomposition,
        lambda rng, d=_dtype: (
            rng.uniform(-100, 100, _SIZE).astype(d),
            poisoned((5, _SIZE), d),
        ),
        extent=(_SIZE,),
        expected=_decomposed,
    )


@kd.kernel
def special_values(x, out):
    i = kd.grid(1)
    out[0, i] = math.sqrt(x[i])
    out[1, i] = math.fabs(x[i])
    out[2, i] = np.floor(x[i])
    out[3, i] = np.rint(x[i])
    out[4, i] = np.maximum(x[i], x[0])
    out[5, i] = np.fmin(x[i], x[3])
    out[6, i] = math.copysign(x[2], x[i])


def _special_values(x, out):
    with np.errstate(all="ignore"):
        rows = [
            np.sqrt(x),
            np.abs(x),
            np.floor(x),
            np.rint(x),
            np.maximum(x, x[0]),
            np.fmin(x, x[3]),
            np.copysign(x[2], x),
        ]
    return {1: np.stack(rows)}


for _dtype in ("float32", "float64"):
    _list.add(
        f"special_values_{_dtype}",
        special_values,
        # Of two zeros of different sign maximum may give either: x[0] and x[3] are not zero.
        lambda rng, d=_dtype: (np.array((0.25, *_SPECIAL_VALUES), d), poisoned((7, 9), d)),
        extent=(9,),
        expected=_special_values,
    )


@kd.kernel
def divisions(x, y, out):
    i = kd.grid(1)
    out[0, i], out[1, i] = np.divmod(x[i], y[i])
    out[2, i], out[3, i] = divmod(x[i], y[i])
    out[4, i] = np.floor_divide(x[i], y[i])
    out[5, i] = x[i] // y[i]
    out[6, i] = np.remainder(x[i], y[i])
    out[7, i] = x[i] % y[i]


def _divided(x, y, out):
    with np.errstate(all="ignore"):
        quotient, remainder = np.divmod(x, y)
    return {2: np.stack([*[quotient, remainder] * 2, *[quotient] * 2, *[remainder] * 2])}


_DIVIDED = np.array((*_SPECIAL_VALUES, 3.0, -3.0, 7.5, 1e30))
for _dtype in ("float32", "float64"):
    _pairs = [each.ravel().astype(_dtype) for each in np.meshgrid(_DIVIDED, _DIVIDED)]
    _list.add(
        f"divisions_{_dtype}",
        divisions,
        lambda rng, xy=_pairs: (*(each.copy() for each in xy), poisoned((8, 144), xy[0].dtype)),
        extent=(144,),
        expected=_divided,
    )


@kd.kernel
def rounding(x, out):
    i = kd.grid(1)
    out[i] = math.floor(x[i]) * 1000000 + math.ceil(x[i]) * 1000 + round(x[i]) + math.trunc(x[i])


def _rounded_integers(x, out):
    values = [
        math.floor(v) * 1000000 + math.ceil(v) * 1000 + round(float(v)) + math.trunc(float(v))
        for v in x
    ]
    return {1: np.array(values, np.int64)}


for _dtype in ("float32", "float64"):
    _list.add(
        f"rounding_{_dtype}",
        rounding,
        lambda rng, d=_dtype: (
            np.concatenate([rng.uniform(-99, 99, 50), np.arange(-5, 5) + 0.5]).astype(d),
            poisoned(60, np.int64),
        ),
        extent=(60,),
        expected=_rounded_integers,
    )


@kd.kernel
def complex_functions(x, out):
    i = kd.grid(1)
    out[0, i] = cmath.exp(x[i])
    out[1, i] = cmath.sqrt(x[i])
    out[2, i] = np.conj(x[i])
    out[3, i] = np.abs(x[i])
    out[4, i] = x[i].real * x[i].imag


def _complex_exact(x, out):
    w = x.astype(np.clongdouble)
    return {1: np.stack([np.exp(w), np.sqrt(w), w.conj(), abs(w) + 0j, w.real * w.imag + 0j])}


for _dtype in ("complex64", "complex128"):
    _list.add(
        f"complex_{_dtype}",
        complex_functions,
        lambda rng, d=_dtype: (
            (rng.uniform(-2, 2, _SIZE) + 1j * rng.uniform(-2, 2, _SIZE)).astype(d),
            poisoned((5, _SIZE), d),
        ),
        extent=(_SIZE,),
        expected=_complex_exact,
        ulp=6,
    )


@kd.kernel
def integers_into_functions(x, out):
    i = kd.grid(1)
    out[i] = math.sqrt(x[i]) + math.exp(-x[i]) + np.sqrt(x[i]) + math.pow(x[i], 2)


def _from_integers(x, out):
    w = x.astype(np.longdouble)
    return {1: np.sqrt(w) * 2 + np.exp(-w) + w * w}


_list.add(
    "integers_into_functions",
    integers_into_functions,
    lambda rng: (rng.integers(0, 20, 50), poisoned(50, np.float64)),
    extent=(50,),
    expected=_from_integers,
    ulp=4,
)


@kd.kernel
def constants(x, out):
    i = kd.grid(1)
    out[i] = x[i] * math.pi + math.e - np.pi + (0.0 if x[i] < math.inf else np.nan)


def _with_constants(x, out):
    return {1: x * math.pi + math.e - math.pi}


_list.add(
    "constants",
    constants,
    lambda rng: (rng.uniform(1, 2, 50), poisoned(50, np.float64)),
    extent=(50,),
    expected=_with_constants,
    ulp=4,
)
