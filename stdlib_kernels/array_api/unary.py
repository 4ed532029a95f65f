"""Elementwise functions of one array, with the dtypes of NumPy's functions.

A function here is of numbers, in the language of kernels; `elementwise` makes that of arrays.

References
----------
Python array API standard 2024.12, "Element-wise functions"; NumPy, NEP 50, "Promotion rules for
Python scalars".
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from stdlib_kernels.array_api import scalars
from stdlib_kernels.array_api.making import RULES, elementwise
from stdlib_kernels.copying import itself


@elementwise(np.absolute, "biufc", "[-3.0, 4.0] → [3.0, 4.0]")
def abs(v: Any) -> Any:
    """Compute the size of each element, of a complex number its modulus."""
    return builtins.abs(v)


@elementwise(np.arccos, "fc", "[1.0] → [0.0]")
def acos(v: Any) -> Any:
    """Compute the arc cosine of each element, in radians."""
    return np.arccos(v)


@elementwise(np.arccosh, "fc", "[1.0] → [0.0]")
def acosh(v: Any) -> Any:
    """Compute the inverse hyperbolic cosine of each element."""
    return np.arccosh(v)


@elementwise(np.arcsin, "fc", "[0.0] → [0.0]")
def asin(v: Any) -> Any:
    """Compute the arc sine of each element, in radians."""
    return np.arcsin(v)


@elementwise(np.arcsinh, "fc", "[0.0] → [0.0]")
def asinh(v: Any) -> Any:
    """Compute the inverse hyperbolic sine of each element."""
    return np.arcsinh(v)


@elementwise(np.arctan, "fc", "[0.0] → [0.0]")
def atan(v: Any) -> Any:
    """Compute the arc tangent of each element, in radians."""
    return np.arctan(v)


@elementwise(np.arctanh, "fc", "[0.0] → [0.0]")
def atanh(v: Any) -> Any:
    """Compute the inverse hyperbolic tangent of each element."""
    return np.arctanh(v)


@elementwise(np.invert, "biu", "[0, 5] → [-1, -6]", others={"b": scalars.is_zero})
def bitwise_invert(v: Any) -> Any:
    """Invert the bits of each element; of a boolean, the truth."""
    return ~v


@elementwise(
    np.ceil, "biuf", "[1.2, -1.2] → [2.0, -1.0]", others={"biu": itself}, keeps_integers=True
)
def ceil(v: Any) -> Any:
    """Round each element up to an integer."""
    return np.ceil(v)


@elementwise(np.conjugate, "iufc", "[1 + 2j] → [(1-2j)]", others={"iuf": scalars.real})
def conj(v: Any) -> Any:
    """Compute the complex conjugate of each element."""
    return np.conj(v)


@elementwise(np.cos, "fc", "[0.0] → [1.0]")
def cos(v: Any) -> Any:
    """Compute the cosine of each element, in radians."""
    return np.cos(v)


@elementwise(np.cosh, "fc", "[0.0] → [1.0]")
def cosh(v: Any) -> Any:
    """Compute the hyperbolic cosine of each element."""
    return np.cosh(v)


@elementwise(np.exp, "fc", "[0.0] → [1.0]")
def exp(v: Any) -> Any:
    """Compute e to the power of each element."""
    return np.exp(v)


@elementwise(np.expm1, "fc", "[0.0] → [0.0]")
def expm1(v: Any) -> Any:
    """Compute e to the power of each element, less 1, exact for small ones."""
    return np.expm1(v)


@elementwise(
    np.floor, "biuf", "[1.2, -1.2] → [1.0, -2.0]", others={"biu": itself}, keeps_integers=True
)
def floor(v: Any) -> Any:
    """Round each element down to an integer."""
    return np.floor(v)


@elementwise(np.conjugate, "c", "[1 + 2j] → [2.0]", is_component=True)
def imag(v: Any) -> Any:
    """Take the imaginary part of each complex element."""
    return v.imag


@elementwise(
    np.isfinite, "biufc", "[1.0, float('inf')] → [True, False]", others={"biu": scalars.always}
)
def isfinite(v: Any) -> Any:
    """Test for each element whether it is neither infinite nor NaN."""
    return np.isfinite(v)


@elementwise(
    np.isinf, "biufc", "[1.0, float('inf')] → [False, True]", others={"biu": scalars.never}
)
def isinf(v: Any) -> Any:
    """Test for each element whether it is infinite."""
    return np.isinf(v)


@elementwise(
    np.isnan, "biufc", "[1.0, float('nan')] → [False, True]", others={"biu": scalars.never}
)
def isnan(v: Any) -> Any:
    """Test for each element whether it is NaN."""
    return np.isnan(v)


@elementwise(np.log, "fc", "[1.0] → [0.0]")
def log(v: Any) -> Any:
    """Compute the natural logarithm of each element."""
    return np.log(v)


@elementwise(np.log10, "fc", "[100.0] → [2.0]")
def log10(v: Any) -> Any:
    """Compute the logarithm of each element to base 10."""
    return np.log10(v)


@elementwise(np.log1p, "fc", "[0.0] → [0.0]")
def log1p(v: Any) -> Any:
    """Compute the natural logarithm of 1 and each element, exact for small ones."""
    return np.log1p(v)


@elementwise(np.log2, "fc", "[1.0] → [0.0]")
def log2(v: Any) -> Any:
    """Compute the logarithm of each element to base 2."""
    return np.log2(v)


@elementwise(np.logical_not, "biufc", "[0, 5] → [True, False]")
def logical_not(v: Any) -> Any:
    """Test for each element whether it is zero."""
    return v == 0


@elementwise(np.negative, "iufc", "[1, -2] → [-1, 2]")
def negative(v: Any) -> Any:
    """Negate each element."""
    return -v


@elementwise(np.positive, "iufc", "[1, -2] → [1, -2]")
def positive(v: Any) -> Any:
    """Copy each element."""
    return v


@elementwise(
    np.conjugate,
    "biufc",
    "[1 + 2j] → [1.0]",
    others={"biu": itself},
    keeps_integers=True,
    is_component=True,
)
def real(v: Any) -> Any:
    """Take the real part of each element."""
    return v.real


@elementwise(np.reciprocal, "fc", "[4.0] → [0.25]")
def reciprocal(v: Any) -> Any:
    """Compute 1 divided by each element."""
    return 1 / v


@elementwise(
    np.rint,
    "biufc",
    "[1.5, 2.5] → [2.0, 2.0]",
    others={"c": scalars.nearest_complex, "biu": itself},
    keeps_integers=True,
)
def round(v: Any) -> Any:
    """Round each element to the nearest integer, halves to even ones."""
    return np.rint(v)


@elementwise(np.sign, "iufc", "[-3, 0, 7] → [-1, 0, 1]", others={"c": scalars.sign_complex})
def sign(v: Any) -> Any:
    """Compute the sign of each element; of a complex number, it divided by its modulus."""
    return np.sign(v)


@elementwise(np.signbit, "f", "[-0.0, 1.0] → [True, False]")
def signbit(v: Any) -> Any:
    """Test for each element whether its sign bit is set."""
    return np.signbit(v)


@elementwise(np.sin, "fc", "[0.0] → [0.0]")
def sin(v: Any) -> Any:
    """Compute the sine of each element, in radians."""
    return np.sin(v)


@elementwise(np.sinh, "fc", "[0.0] → [0.0]")
def sinh(v: Any) -> Any:
    """Compute the hyperbolic sine of each element."""
    return np.sinh(v)


@elementwise(np.sqrt, "fc", "[9.0] → [3.0]")
def sqrt(v: Any) -> Any:
    """Compute the square root of each element."""
    return np.sqrt(v)


@elementwise(np.square, "iufc", "[-3] → [9]")
def square(v: Any) -> Any:
    """Compute the square of each element."""
    return v * v


@elementwise(np.tan, "fc", "[0.0] → [0.0]")
def tan(v: Any) -> Any:
    """Compute the tangent of each element, in radians."""
    return np.tan(v)


@elementwise(np.tanh, "fc", "[0.0] → [0.0]")
def tanh(v: Any) -> Any:
    """Compute the hyperbolic tangent of each element."""
    return np.tanh(v)


@elementwise(
    np.trunc, "biuf", "[1.7, -1.7] → [1.0, -1.0]", others={"biu": itself}, keeps_integers=True
)
def trunc(v: Any) -> Any:
    """Round each element towards zero."""
    return np.trunc(v)


__all__ = [name for name, rule in RULES.items() if rule.ufunc.nin == 1]
