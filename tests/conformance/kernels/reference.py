"""Cases whose expected values come from Numba's own CPU compiler.

Its error model is NumPy's, as ours; it compiles the same Python function, without contraction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba

import kerneldsl as kd

__all__ = ["INTEGERS", "SIZE", "binary_case", "unary_case"]

#: Elements of the arrays; not a multiple of a vector's length.
SIZE = 67
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@cache
def _reference(function: Callable[..., Any], argument_count: int) -> Callable[..., Any]:
    """Numba's loop that calls ``function(*elements, out, i)`` for each index."""
    element = numba.njit(error_model="numpy")(function)
    if argument_count == 1:

        @numba.njit(error_model="numpy")
        def one(x, out):
            for i in range(x.size):
                element(x[i], out, i)

        return one

    @numba.njit(error_model="numpy")
    def two(x, y, out):
        for i in range(x.size):
            element(x[i], y[i], out, i)

    return two


def unary_case(function, **options):
    device = kd.func(function)

    @kd.kernel(contract=False, **options)
    def unary(x, out):
        i = kd.grid(1)
        if i < x.size:
            device(x[i], out, i)

    def expected(x, out):
        _reference(function, 1)(x, out)
        return {1: out}

    return unary, expected


def binary_case(function, **options):
    device = kd.func(function)

    @kd.kernel(contract=False, **options)
    def binary(x, y, out):
        i = kd.grid(1)
        if i < x.size:
            device(x[i], y[i], out, i)

    def expected(x, y, out):
        _reference(function, 2)(x, y, out)
        return {2: out}

    return binary, expected
