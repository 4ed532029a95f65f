"""Reductions: many elements to one, of a whole array or along axes, as NumPy names them.

How an array is laid out for any of them is said in :mod:`stdlib_kernels.reduce.arrangement`.
"""

from stdlib_kernels.families import make_callable
from stdlib_kernels.reduce.extremes import all, any, count_nonzero, max, min
from stdlib_kernels.reduce.moments import std, var
from stdlib_kernels.reduce.places import argmax, argmin
from stdlib_kernels.reduce.summation import mean, norm, prod, reduce, sum

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "max",
    "mean",
    "min",
    "norm",
    "prod",
    "reduce",
    "std",
    "sum",
    "var",
]

make_callable(__name__)
