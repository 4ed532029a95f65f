"""Accuracy of the device's mathematical functions over wide ranges.

Every function is evaluated on random and special arguments and compared with a reference in higher
precision; the bounds are the CUDA guide's, in units of the last place.

References
----------
CUDA C++ Programming Guide, appendix "Mathematical Functions", tables "Single-Precision" and
"Double-Precision Mathematical Standard Library Functions with Maximum ULP Error".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import kerneldsl as kd
from tests.support.arrays import assert_same_bits, assert_within_ulp, random_array

_COUNT = 200_000

# function: (low, high, bound of float32, bound of float64, reference)
_ONE_ARGUMENT: dict[str, tuple[float, float, int, int, Callable[..., Any]]] = {
    "sin": (-1e5, 1e5, 2, 2, np.sin),
    "cos": (-1e5, 1e5, 2, 2, np.cos),
    "tan": (-1e3, 1e3, 4, 2, np.tan),
    "asin": (-1, 1, 4, 2, np.arcsin),
    "acos": (-1, 1, 2, 2, np.arccos),
    "atan": (-1e6, 1e6, 2, 2, np.arctan),
    "sinh": (-80, 80, 3, 2, np.sinh),
    "cosh": (-80, 80, 2, 1, np.cosh),
    "tanh": (-20, 20, 2, 2, np.tanh),
    "asinh": (-1e6, 1e6, 4, 3, np.arcsinh),
    "acosh": (1, 1e6, 4, 3, np.arccosh),
    "atanh": (-1, 1, 3, 2, np.arctanh),
    "exp": (-80, 80, 2, 1, np.exp),
    "expm1": (-80, 80, 1, 1, np.expm1),
    "log": (1e-30, 1e30, 1, 1, np.log),
    "log1p": (-0.999, 1e6, 2, 1, np.log1p),
    "log2": (1e-30, 1e30, 1, 1, np.log2),
    "log10": (1e-30, 1e30, 3, 1, np.log10),
    "sqrt": (0, 1e30, 0, 0, np.sqrt),
}
#: Functions whose reference is itself of double precision: float32 alone is measured.
_SINGLE_ONLY: dict[str, tuple[float, float, int, Callable[..., Any]]] = {
    "erf": (-5, 5, 2, special.erf),
    "erfc": (-3, 9, 6, special.erfc),
    "gamma": (0.01, 33, 11, special.gamma),
    "lgamma": (3, 1e5, 6, special.gammaln),
}
_SPECIALS = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan]


def _unary(function: Callable[..., Any]) -> kd.Kernel:
    @kd.kernel
    def unary(x, out):
        i = kd.grid(1)
        if i < x.size:
            out[i] = function(x[i])

    return unary


def _binary(function: Callable[..., Any]) -> kd.Kernel:
    @kd.kernel
    def binary(x, y, out):
        i = kd.grid(1)
        if i < x.size:
            out[i] = function(x[i], y[i])

    return binary


def _arguments(rng: np.random.Generator, low: float, high: float, dtype: str) -> np.ndarray:
    """Arguments spread evenly, and over every magnitude, between two bounds."""
    even = rng.uniform(low, high, _COUNT // 2)
    largest = max(abs(low), abs(high))
    sizes = largest * 10.0 ** rng.uniform(-12, 0, _COUNT // 2)
    signed = sizes * rng.choice([-1.0, 1.0], sizes.size)
    inside = signed[(signed > low) & (signed < high)]
    return np.concatenate([even, inside]).astype(dtype)


def _run(kernel: kd.Kernel, *arguments: np.ndarray) -> np.ndarray:
    out = np.full(arguments[0].shape, 777.0, arguments[0].dtype)
    kernel.forall(out.size)(*arguments, out)
    return out


@pytest.mark.parametrize("name", _ONE_ARGUMENT)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_argument(rng: np.random.Generator, name: str, dtype: str) -> None:
    low, high, *bounds, reference = _ONE_ARGUMENT[name]
    x = _arguments(rng, low, high, dtype)
    got = _run(_unary(getattr(math, name)), x)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.longdouble))
    assert_within_ulp(got, exact, bounds[dtype == "float64"], f"{name} {dtype}")


@pytest.mark.parametrize("name", _SINGLE_ONLY)
def test_special_functions(rng: np.random.Generator, name: str) -> None:
    low, high, bound, reference = _SINGLE_ONLY[name]
    x = _arguments(rng, low, high, "float32")
    got = _run(_unary(getattr(math, name)), x)
    assert_within_ulp(got, reference(x.astype(np.float64)), bound, name)


@pytest.mark.parametrize("name", [n for n in _ONE_ARGUMENT if n != "acosh"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(name: str, dtype: str) -> None:
    x = np.array(_SPECIALS, dtype)
    got = _run(_unary(getattr(math, name)), x)
    with np.errstate(all="ignore"):
        expected = _ONE_ARGUMENT[name][-1](x)
    assert_within_ulp(got, expected.astype(np.longdouble), 4, f"{name} {dtype}")
    assert_same_bits(np.isnan(got), np.isnan(expected), f"{name} {dtype}, NaN")


@pytest.mark.parametrize(
    ("name", "bounds", "reference"),
    [
        ("pow", (4, 2), np.power),
        ("atan2", (3, 2), np.arctan2),
        ("hypot", (3, 2), np.hypot),
        ("fmod", (0, 0), np.fmod),
        ("copysign", (0, 0), np.copysign),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_two_arguments(
    rng: np.random.Generator,
    name: str,
    bounds: tuple[int, int],
    reference: Callable[..., Any],
    dtype: str,
) -> None:
    low = 0.001 if name == "pow" else -50.0
    x = rng.uniform(low, 50, _COUNT).astype(dtype)
    y = rng.uniform(-15, 15, _COUNT).astype(dtype)
    got = _run(_binary(getattr(math, name)), x, y)
    bound = bounds[dtype == "float64"]
    wide = np.longdouble if bound else np.dtype(dtype)
    exact = reference(x.astype(wide), y.astype(wide))
    assert_within_ulp(got, exact, bound, f"{name} {dtype}")


@kd.kernel(contract=False)
def four_operations(x, y, out):
    i = kd.grid(1)
    if i < x.size:
        out[0, i] = x[i] + y[i]
        out[1, i] = x[i] - y[i]
        out[2, i] = x[i] * y[i]
        out[3, i] = x[i] / y[i]
        out[4, i] = math.sqrt(abs(x[i]))
        out[5, i] = x[i] * y[i] + x[i]


def _bit_patterns(rng: np.random.Generator, dtype: str) -> np.ndarray:
    """Floats of every kind: any bit pattern, subnormal numbers, infinities and NaN included."""
    bits = random_array(rng, _COUNT, "uint32" if dtype == "float32" else "uint64")
    return bits.view(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arithmetic_is_numpys_to_the_bit(rng: np.random.Generator, dtype: str) -> None:
    x, y = _bit_patterns(rng, dtype), _bit_patterns(rng, dtype)
    x[: len(_SPECIALS)] = _SPECIALS
    out = np.full((6, x.size), 777.0, dtype)
    four_operations.forall(x.size)(x, y, out)
    with np.errstate(all="ignore"):
        expected = np.stack([x + y, x - y, x * y, x / y, np.sqrt(np.abs(x)), x * y + x])
    assert_same_bits(out, expected, dtype)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_integer_division_is_pythons(rng: np.random.Generator, dtype: str) -> None:
    @kd.kernel
    def divide(x, y, quotient, rest):
        i = kd.grid(1)
        if i < x.size:
            quotient[i] = x[i] // y[i]
            rest[i] = x[i] % y[i]

    x, y = random_array(rng, 10_000, dtype), random_array(rng, 10_000, dtype)
    y[y == 0] = 1
    if np.dtype(dtype).kind == "i":
        y[y == -1] = 3  # the smallest integer divided by -1 overflows
    quotient, rest = np.zeros_like(x), np.zeros_like(x)
    divide.forall(x.size)(x, y, quotient, rest)
    assert_same_bits(quotient, x // y, f"{dtype} //")
    assert_same_bits(rest, x % y, f"{dtype} %")


@pytest.mark.parametrize("contract", [True, False])
def test_contraction_is_what_was_asked_for(contract: bool) -> None:
    # (1 + e)(1 - e) - 1 is -e² when rounded once, 0 when the product is rounded first.
    @kd.kernel(contract=contract)
    def difference(x, y, out):
        out[0] = x[0] * y[0] + out[0]

    e = 2.0**-30
    out = np.array([-1.0])
    difference[1, 1](np.array([1 + e]), np.array([1 - e]), out)
    assert out[0] == (-(e**2) if contract else 0.0)
