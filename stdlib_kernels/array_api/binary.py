"""Elementwise functions of two arrays, or an array and a number, with NumPy's dtypes.

A function here is of numbers, in the language of kernels; `elementwise` makes that of arrays.

References
----------
Python array API standard 2024.12, "Element-wise functions"; NumPy, NEP 50, "Promotion rules for
Python scalars".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stdlib_kernels.array_api import scalars
from stdlib_kernels.array_api.making import RULES, elementwise


@elementwise(np.add, "biufc", "[1, 2], [10, 20] → [11, 22]")
def add(a: Any, b: Any) -> Any:
    """Add the elements."""
    return a + b


@elementwise(np.arctan2, "f", "[0.0], [1.0] → [0.0]")
def atan2(a: Any, b: Any) -> Any:
    """Compute the angle of each point (x2, x1), in radians."""
    return np.arctan2(a, b)


@elementwise(np.bitwise_and, "biu", "[12, 10], [10, 3] → [8, 2]")
def bitwise_and(a: Any, b: Any) -> Any:
    """Compute the bitwise and of the elements."""
    return a & b


@elementwise(np.left_shift, "iu", "[1, 2], [3, 1] → [8, 4]")
def bitwise_left_shift(a: Any, b: Any) -> Any:
    """Shift the bits of the elements of x1 to the left by x2."""
    return np.int64(a) << np.int64(b) if 0 <= b < 64 else np.int64(0)


@elementwise(np.bitwise_or, "biu", "[12, 10], [10, 3] → [14, 11]")
def bitwise_or(a: Any, b: Any) -> Any:
    """Compute the bitwise or of the elements."""
    return a | b


@elementwise(
    np.right_shift, "iu", "[8, -4], [3, 1] → [1, -2]", others={"u": scalars.unsigned_shift_right}
)
def bitwise_right_shift(a: Any, b: Any) -> Any:
    """Shift the bits of the elements of x1 to the right by x2, keeping signs."""
    if 0 <= b < 64:
        return np.int64(a) >> np.int64(b)
    return np.int64(-1 if a < 0 else 0)


@elementwise(np.bitwise_xor, "biu", "[12, 10], [10, 3] → [6, 9]")
def bitwise_xor(a: Any, b: Any) -> Any:
    """Compute the bitwise exclusive or of the elements."""
    return a ^ b


@elementwise(np.copysign, "f", "[1.0], [-0.0] → [-1.0]")
def copysign(a: Any, b: Any) -> Any:
    """Give the elements of x1 the signs of those of x2."""
    return np.copysign(a, b)


@elementwise(np.divide, "fc", "[1, 3], [2, 4] → [0.5, 0.75]")
def divide(a: Any, b: Any) -> Any:
    """Divide the elements of x1 by those of x2."""
    return a / b


@elementwise(np.equal, "biufc", "[1, 2], [1, 3] → [True, False]")
def equal(a: Any, b: Any) -> Any:
    """Test for each pair of elements whether they are equal."""
    return a == b


@elementwise(
    np.floor_divide,
    "iuf",
    "[7, -7], [2, 2] → [3, -4]",
    others={"u": scalars.unsigned_floor_divide, "f": scalars.float_floor_divide},
)
def floor_divide(a: Any, b: Any) -> Any:
    """Divide the elements of x1 by those of x2, and round down."""
    if b == 0:
        return a - a
    return -a if b == -1 else a // b  # the least integer by -1 is a fault of the processor's


@elementwise(np.greater, "biuf", "[1, 3], [2, 2] → [False, True]")
def greater(a: Any, b: Any) -> Any:
    """Test for each pair of elements whether that of x1 is greater."""
    return a > b


@elementwise(np.greater_equal, "biuf", "[1, 2], [2, 2] → [False, True]")
def greater_equal(a: Any, b: Any) -> Any:
    """Test for each pair of elements whether that of x1 is not less."""
    return a >= b


@elementwise(np.hypot, "f", "[3.0], [4.0] → [5.0]")
def hypot(a: Any, b: Any) -> Any:
    """Compute the square root of the sum of squares, without overflow in between."""
    return np.hypot(a, b)


@elementwise(np.less, "biuf", "[1, 3], [2, 2] → [True, False]")
def less(a: Any, b: Any) -> Any:
    """Test for each pair of elements whether that of x1 is less."""
    return a < b


@elementwise(np.less_equal, "biuf", "[2, 3], [2, 2] → [True, False]")
def less_equal(a: Any, b: Any) -> Any:
    """Test for each pair of elements whether that of x1 is not greater."""
    return a <= b


@elementwise(np.logaddexp, "f", "[0.0], [float('-inf')] → [0.0]")
def logaddexp(a: Any, b: Any) -> Any:
    """Compute the logarithm of the sum of e to the power of each."""
    return np.logaddexp(a, b)


@elementwise(np.logical_and, "biufc", "[1, 0], [2, 3] → [True, False]")
def logical_and(a: Any, b: Any) -> Any:
    """Test for each pair of elements whether both are not zero."""
    return a != 0 and b != 0


@elementwise(np.logical_or, "biufc", "[1, 0], [0, 0] → [True, False]")
def logical_or(a: Any, b: Any) -> Any:
    """Test for each pair of elements whether one of them is not zero."""
    return a != 0 or b != 0


@elementwise(np.logical_xor, "biufc", "[1, 1], [0, 1] → [True, False]")
def logical_xor(a: Any, b: Any) -> Any:
    """Test for each pair of elements whether exactly one of them is not zero."""
    return (a != 0) != (b != 0)


@elementwise(np.maximum, "biuf", "[1, 5], [3, 2] → [3, 5]")
def maximum(a: Any, b: Any) -> Any:
    """Choose the greater one of each pair of elements, or one that is NaN."""
    return np.maximum(a, b)


@elementwise(np.minimum, "biuf", "[1, 5], [3, 2] → [1, 2]")
def minimum(a: Any, b: Any) -> Any:
    """Choose the lesser one of each pair of elements, or one that is NaN."""
    return np.minimum(a, b)


@elementwise(np.multiply, "biufc", "[1, 2], [10, 20] → [10, 40]")
def multiply(a: Any, b: Any) -> Any:
    """Multiply the elements."""
    return a * b


@elementwise(np.nextafter, "f", "[0.0], [0.0] → [0.0]", has_halves=False)
def nextafter(a: Any, b: Any) -> Any:
    """Find the number next to each element of x1 in the direction of x2."""
    return np.nextafter(a, b)


@elementwise(np.not_equal, "biufc", "[1, 2], [1, 3] → [False, True]")
def not_equal(a: Any, b: Any) -> Any:
    """Test for each pair of elements whether they differ."""
    return a != b


@elementwise(np.power, "iufc", "[2, 3], [10, 2] → [1024, 9]", others={"iu": scalars.integer_power})
def pow(a: Any, b: Any) -> Any:
    """Compute the elements of x1 to the power of those of x2."""
    return np.power(a, b)


@elementwise(
    np.remainder,
    "iuf",
    "[7, -7], [3, 3] → [1, 2]",
    others={"u": scalars.unsigned_remainder, "f": scalars.float_remainder},
)
def remainder(a: Any, b: Any) -> Any:
    """Compute the remainder of each quotient; it has the sign of the divisor."""
    return a - a if b in (0, -1) else a % b


@elementwise(np.subtract, "iufc", "[1, 2], [10, 20] → [-9, -18]")
def subtract(a: Any, b: Any) -> Any:
    """Subtract the elements of x2 from those of x1."""
    return a - b


__all__ = [name for name, rule in RULES.items() if rule.ufunc.nin == 2]
