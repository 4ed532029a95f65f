"""Products and logarithms in fixed point, of integer operations alone: alike on every target."""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.kernels.decorators import func

__all__ = ["negative_logarithm", "product"]


@func
def product(left: Any, right: Any) -> Any:
    """Return the product of two numbers with 30 bits behind the point, of 32 bits each."""
    return (np.int64(np.int32(left)) * np.int64(np.int32(right))) >> np.int64(30)


@func
def negative_logarithm(word: Any) -> Any:
    """Return ``-ln u``, of ``u = (word + 1) / 2**32``, as an int64 with 58 bits behind the point.

    Its error, relative to it, is below 2**-26.
    """
    number, shifts = np.int64(np.uint32(word)) + np.int64(1), np.int64(0)
    # Double it until it is above 2**31, of at most 2**32: up to 32 times.
    for step in (16, 8, 4, 2, 1, 1):
        is_small = number <= np.int64(1) << np.int64(32 - step)
        number = number << np.int64(step) if is_small else number
        shifts = shifts + np.int64(step) if is_small else shifts
    # -ln(1 - y) / y, of y in [0, 1/2): a polynomial in 4 y - 1 that interpolates at Chebyshev's
    # nodes, with an error below 2**-27.
    distance = np.int64(0x100000000) - number
    at = distance - np.int64(0x40000000)
    quotient = np.int64(23620) + product(np.int64(7101), at)
    quotient = np.int64(61773) + product(quotient, at)
    quotient = np.int64(212826) + product(quotient, at)
    quotient = np.int64(765056) + product(quotient, at)
    quotient = np.int64(2772070) + product(quotient, at)
    quotient = np.int64(10485602) + product(quotient, at)
    quotient = np.int64(42538412) + product(quotient, at)
    quotient = np.int64(196070674) + product(quotient, at)
    quotient = np.int64(1235585097) + product(quotient, at)
    # The point is before the last 32 bits of y, 30 of the quotient, 58 of the sum; the second term
    # is ln 2 for each doubling.
    exact = np.int64(np.int32(distance)) * np.int64(np.int32(quotient))
    return (exact >> np.int64(4)) + shifts * np.int64(199786072581291495)
