"""Elementwise functions of one array, with the dtypes of NumPy's functions.

References
----------
Python array API standard 2024.12, "Element-wise functions"; NumPy, NEP 50, "Promotion rules for
Python scalars".
"""

from __future__ import annotations

import numpy as np

from stdlib_kernels.array_api import scalars
from stdlib_kernels.array_api.computing import Rule
from stdlib_kernels.array_api.making import unary

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_invert",
    "ceil",
    "conj",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "floor",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_not",
    "negative",
    "positive",
    "real",
    "reciprocal",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]

abs = unary(
    "abs",
    "Compute the size of each element, of a complex number its modulus.",
    Rule(np.absolute, scalars.absolute),
    "[-3.0, 4.0]",
    "[3.0, 4.0]",
)
acos = unary(
    "acos",
    "Compute the arc cosine of each element, in radians.",
    Rule(np.arccos, scalars.acos, "fc"),
    "[1.0]",
    "[0.0]",
)
acosh = unary(
    "acosh",
    "Compute the inverse hyperbolic cosine of each element.",
    Rule(np.arccosh, scalars.acosh, "fc"),
    "[1.0]",
    "[0.0]",
)
asin = unary(
    "asin",
    "Compute the arc sine of each element, in radians.",
    Rule(np.arcsin, scalars.asin, "fc"),
    "[0.0]",
    "[0.0]",
)
asinh = unary(
    "asinh",
    "Compute the inverse hyperbolic sine of each element.",
    Rule(np.arcsinh, scalars.asinh, "fc"),
    "[0.0]",
    "[0.0]",
)
atan = unary(
    "atan",
    "Compute the arc tangent of each element, in radians.",
    Rule(np.arctan, scalars.atan, "fc"),
    "[0.0]",
    "[0.0]",
)
atanh = unary(
    "atanh",
    "Compute the inverse hyperbolic tangent of each element.",
    Rule(np.arctanh, scalars.atanh, "fc"),
    "[0.0]",
    "[0.0]",
)
bitwise_invert = unary(
    "bitwise_invert",
    "Invert the bits of each element; of a boolean, the truth.",
    Rule(np.invert, {"b": scalars.logical_not, "iu": scalars.invert}, "biu"),
    "[0, 5]",
    "[-1, -6]",
)
ceil = unary(
    "ceil",
    "Round each element up to an integer.",
    Rule(np.ceil, {"f": scalars.ceil, "biu": scalars.positive}, "biuf", keeps_integers=True),
    "[1.2, -1.2]",
    "[2.0, -1.0]",
)
conj = unary(
    "conj",
    "Compute the complex conjugate of each element.",
    Rule(np.conjugate, {"c": scalars.conj, "iuf": scalars.real}, "iufc"),
    "[1 + 2j]",
    "[(1-2j)]",
)
cos = unary(
    "cos",
    "Compute the cosine of each element, in radians.",
    Rule(np.cos, scalars.cos, "fc"),
    "[0.0]",
    "[1.0]",
)
cosh = unary(
    "cosh",
    "Compute the hyperbolic cosine of each element.",
    Rule(np.cosh, scalars.cosh, "fc"),
    "[0.0]",
    "[1.0]",
)
exp = unary(
    "exp",
    "Compute e to the power of each element.",
    Rule(np.exp, scalars.exp, "fc"),
    "[0.0]",
    "[1.0]",
)
expm1 = unary(
    "expm1",
    "Compute e to the power of each element, less 1, exact for small ones.",
    Rule(np.expm1, scalars.expm1, "fc"),
    "[0.0]",
    "[0.0]",
)
floor = unary(
    "floor",
    "Round each element down to an integer.",
    Rule(np.floor, {"f": scalars.floor, "biu": scalars.positive}, "biuf", keeps_integers=True),
    "[1.2, -1.2]",
    "[1.0, -2.0]",
)
imag = unary(
    "imag",
    "Take the imaginary part of each complex element.",
    Rule(np.conjugate, scalars.imag, "c", is_component=True),
    "[1 + 2j]",
    "[2.0]",
)
isfinite = unary(
    "isfinite",
    "Tell for each element whether it is neither infinite nor NaN.",
    Rule(np.isfinite, {"fc": scalars.isfinite, "biu": scalars.always}),
    "[1.0, float('inf')]",
    "[True, False]",
)
isinf = unary(
    "isinf",
    "Tell for each element whether it is infinite.",
    Rule(np.isinf, {"fc": scalars.isinf, "biu": scalars.never}),
    "[1.0, float('inf')]",
    "[False, True]",
)
isnan = unary(
    "isnan",
    "Tell for each element whether it is NaN.",
    Rule(np.isnan, {"fc": scalars.isnan, "biu": scalars.never}),
    "[1.0, float('nan')]",
    "[False, True]",
)
log = unary(
    "log",
    "Compute the natural logarithm of each element.",
    Rule(np.log, scalars.log, "fc"),
    "[1.0]",
    "[0.0]",
)
log10 = unary(
    "log10",
    "Compute the logarithm of each element to base 10.",
    Rule(np.log10, scalars.log10, "fc"),
    "[100.0]",
    "[2.0]",
)
log1p = unary(
    "log1p",
    "Compute the natural logarithm of 1 and each element, exact for small ones.",
    Rule(np.log1p, scalars.log1p, "fc"),
    "[0.0]",
    "[0.0]",
)
log2 = unary(
    "log2",
    "Compute the logarithm of each element to base 2.",
    Rule(np.log2, scalars.log2, "fc"),
    "[1.0]",
    "[0.0]",
)
logical_not = unary(
    "logical_not",
    "Tell for each element whether it is zero.",
    Rule(np.logical_not, scalars.logical_not),
    "[0, 5]",
    "[True, False]",
)
negative = unary(
    "negative",
    "Negate each element.",
    Rule(np.negative, scalars.negative, "iufc"),
    "[1, -2]",
    "[-1, 2]",
)
positive = unary(
    "positive",
    "Copy each element.",
    Rule(np.positive, scalars.positive, "iufc"),
    "[1, -2]",
    "[1, -2]",
)
real = unary(
    "real",
    "Take the real part of each element.",
    Rule(
        np.conjugate,
        {"fc": scalars.real, "biu": scalars.positive},
        keeps_integers=True,
        is_component=True,
    ),
    "[1 + 2j]",
    "[1.0]",
)
reciprocal = unary(
    "reciprocal",
    "Compute 1 divided by each element.",
    Rule(np.reciprocal, scalars.reciprocal, "fc"),
    "[4.0]",
    "[0.25]",
)
round = unary(
    "round",
    "Round each element to the nearest integer, halves to even ones.",
    Rule(
        np.rint,
        {"c": scalars.nearest_complex, "f": scalars.nearest, "biu": scalars.positive},
        "biufc",
        keeps_integers=True,
    ),
    "[1.5, 2.5]",
    "[2.0, 2.0]",
)
sign = unary(
    "sign",
    "Compute the sign of each element; of a complex number, it divided by its modulus.",
    Rule(np.sign, {"c": scalars.sign_complex, "iuf": scalars.sign}, "iufc"),
    "[-3, 0, 7]",
    "[-1, 0, 1]",
)
signbit = unary(
    "signbit",
    "Tell for each element whether its sign bit is set.",
    Rule(np.signbit, scalars.signbit, "f"),
    "[-0.0, 1.0]",
    "[True, False]",
)
sin = unary(
    "sin",
    "Compute the sine of each element, in radians.",
    Rule(np.sin, scalars.sin, "fc"),
    "[0.0]",
    "[0.0]",
)
sinh = unary(
    "sinh",
    "Compute the hyperbolic sine of each element.",
    Rule(np.sinh, scalars.sinh, "fc"),
    "[0.0]",
    "[0.0]",
)
sqrt = unary(
    "sqrt",
    "Compute the square root of each element.",
    Rule(np.sqrt, scalars.sqrt, "fc"),
    "[9.0]",
    "[3.0]",
)
square = unary(
    "square",
    "Compute the square of each element.",
    Rule(np.square, scalars.square, "iufc"),
    "[-3]",
    "[9]",
)
tan = unary(
    "tan",
    "Compute the tangent of each element, in radians.",
    Rule(np.tan, scalars.tan, "fc"),
    "[0.0]",
    "[0.0]",
)
tanh = unary(
    "tanh",
    "Compute the hyperbolic tangent of each element.",
    Rule(np.tanh, scalars.tanh, "fc"),
    "[0.0]",
    "[0.0]",
)
trunc = unary(
    "trunc",
    "Round each element towards zero.",
    Rule(np.trunc, {"f": scalars.trunc, "biu": scalars.positive}, "biuf", keeps_integers=True),
    "[1.7, -1.7]",
    "[1.0, -1.0]",
)
