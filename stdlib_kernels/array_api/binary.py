"""Elementwise functions of two arrays, or an array and a number, with NumPy's dtypes.

References
----------
Python array API standard 2024.12, "Element-wise functions"; NumPy, NEP 50, "Promotion rules for
Python scalars".
"""

from __future__ import annotations

import numpy as np

from stdlib_kernels import operations
from stdlib_kernels.array_api import scalars
from stdlib_kernels.array_api.computing import Rule
from stdlib_kernels.array_api.making import binary

__all__ = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "copysign",
    "divide",
    "equal",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "less",
    "less_equal",
    "logaddexp",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "nextafter",
    "not_equal",
    "pow",
    "remainder",
    "subtract",
]

add = binary("add", "Add the elements.", Rule(np.add, scalars.add), "[1, 2], [10, 20]", "[11, 22]")
atan2 = binary(
    "atan2",
    "Compute the angle of each point (x2, x1), in radians.",
    Rule(np.arctan2, scalars.atan2, "f"),
    "[0.0], [1.0]",
    "[0.0]",
)
bitwise_and = binary(
    "bitwise_and",
    "Compute the bitwise and of the elements.",
    Rule(np.bitwise_and, scalars.bitwise_and, "biu"),
    "[12, 10], [10, 3]",
    "[8, 2]",
)
bitwise_left_shift = binary(
    "bitwise_left_shift",
    "Shift the bits of the elements of x1 to the left by x2.",
    Rule(np.left_shift, scalars.shift_left, "iu"),
    "[1, 2], [3, 1]",
    "[8, 4]",
)
bitwise_or = binary(
    "bitwise_or",
    "Compute the bitwise or of the elements.",
    Rule(np.bitwise_or, scalars.bitwise_or, "biu"),
    "[12, 10], [10, 3]",
    "[14, 11]",
)
bitwise_right_shift = binary(
    "bitwise_right_shift",
    "Shift the bits of the elements of x1 to the right by x2, keeping signs.",
    Rule(np.right_shift, {"i": scalars.shift_right, "u": scalars.unsigned_shift_right}, "iu"),
    "[8, -4], [3, 1]",
    "[1, -2]",
)
bitwise_xor = binary(
    "bitwise_xor",
    "Compute the bitwise exclusive or of the elements.",
    Rule(np.bitwise_xor, scalars.bitwise_xor, "biu"),
    "[12, 10], [10, 3]",
    "[6, 9]",
)
copysign = binary(
    "copysign",
    "Give the elements of x1 the signs of those of x2.",
    Rule(np.copysign, scalars.copysign, "f"),
    "[1.0], [-0.0]",
    "[-1.0]",
)
divide = binary(
    "divide",
    "Divide the elements of x1 by those of x2.",
    Rule(np.divide, scalars.divide, "fc"),
    "[1, 3], [2, 4]",
    "[0.5, 0.75]",
)
equal = binary(
    "equal",
    "Tell for each pair of elements whether they are equal.",
    Rule(np.equal, scalars.equal),
    "[1, 2], [1, 3]",
    "[True, False]",
)
floor_divide = binary(
    "floor_divide",
    "Divide the elements of x1 by those of x2, and round down.",
    Rule(
        np.floor_divide,
        {
            "i": scalars.floor_divide,
            "u": scalars.unsigned_floor_divide,
            "f": scalars.float_floor_divide,
        },
        "iuf",
    ),
    "[7, -7], [2, 2]",
    "[3, -4]",
)
greater = binary(
    "greater",
    "Tell for each pair of elements whether that of x1 is greater.",
    Rule(np.greater, scalars.greater, "biuf"),
    "[1, 3], [2, 2]",
    "[False, True]",
)
greater_equal = binary(
    "greater_equal",
    "Tell for each pair of elements whether that of x1 is not less.",
    Rule(np.greater_equal, scalars.greater_equal, "biuf"),
    "[1, 2], [2, 2]",
    "[False, True]",
)
hypot = binary(
    "hypot",
    "Compute the square root of the sum of squares, without overflow in between.",
    Rule(np.hypot, scalars.hypot, "f"),
    "[3.0], [4.0]",
    "[5.0]",
)
less = binary(
    "less",
    "Tell for each pair of elements whether that of x1 is less.",
    Rule(np.less, scalars.less, "biuf"),
    "[1, 3], [2, 2]",
    "[True, False]",
)
less_equal = binary(
    "less_equal",
    "Tell for each pair of elements whether that of x1 is not greater.",
    Rule(np.less_equal, scalars.less_equal, "biuf"),
    "[2, 3], [2, 2]",
    "[True, False]",
)
logaddexp = binary(
    "logaddexp",
    "Compute the logarithm of the sum of e to the power of each.",
    Rule(np.logaddexp, scalars.logaddexp, "f"),
    "[0.0], [float('-inf')]",
    "[0.0]",
)
logical_and = binary(
    "logical_and",
    "Tell for each pair of elements whether both are not zero.",
    Rule(np.logical_and, scalars.logical_and),
    "[1, 0], [2, 3]",
    "[True, False]",
)
logical_or = binary(
    "logical_or",
    "Tell for each pair of elements whether one of them is not zero.",
    Rule(np.logical_or, scalars.logical_or),
    "[1, 0], [0, 0]",
    "[True, False]",
)
logical_xor = binary(
    "logical_xor",
    "Tell for each pair of elements whether exactly one of them is not zero.",
    Rule(np.logical_xor, scalars.logical_xor),
    "[1, 1], [0, 1]",
    "[True, False]",
)
maximum = binary(
    "maximum",
    "Choose the greater one of each pair of elements, or one that is NaN.",
    Rule(np.maximum, operations.larger, "biuf"),
    "[1, 5], [3, 2]",
    "[3, 5]",
)
minimum = binary(
    "minimum",
    "Choose the lesser one of each pair of elements, or one that is NaN.",
    Rule(np.minimum, operations.smaller, "biuf"),
    "[1, 5], [3, 2]",
    "[1, 2]",
)
multiply = binary(
    "multiply",
    "Multiply the elements.",
    Rule(np.multiply, scalars.multiply),
    "[1, 2], [10, 20]",
    "[10, 40]",
)
nextafter = binary(
    "nextafter",
    "Find the number next to each element of x1 in the direction of x2.",
    Rule(np.nextafter, scalars.nextafter, "f", has_halves=False),
    "[0.0], [0.0]",
    "[0.0]",
)
not_equal = binary(
    "not_equal",
    "Tell for each pair of elements whether they differ.",
    Rule(np.not_equal, scalars.not_equal),
    "[1, 2], [1, 3]",
    "[False, True]",
)
pow = binary(
    "pow",
    "Compute the elements of x1 to the power of those of x2.",
    Rule(np.power, {"iu": scalars.integer_power, "fc": scalars.power}, "iufc"),
    "[2, 3], [10, 2]",
    "[1024, 9]",
)
remainder = binary(
    "remainder",
    "Compute the remainder of each quotient; it has the sign of the divisor.",
    Rule(
        np.remainder,
        {"i": scalars.remainder, "u": scalars.unsigned_remainder, "f": scalars.float_remainder},
        "iuf",
    ),
    "[7, -7], [3, 3]",
    "[1, 2]",
)
subtract = binary(
    "subtract",
    "Subtract the elements of x2 from those of x1.",
    Rule(np.subtract, scalars.subtract, "iufc"),
    "[1, 2], [10, 20]",
    "[-9, -18]",
)
