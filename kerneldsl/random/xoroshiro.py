"""Streams of numba.cuda's random generator, xoroshiro128+, as device functions.

A draw advances the state at an index of an array of states, which one thread at a time may do. The
numbers, and the states after them, are numba.cuda's bit for bit. Those of a normal distribution are
as exact as the target's ``log`` and ``cos``. See :mod:`~kerneldsl.random.states` for the arrays.

References
----------
D. Blackman and S. Vigna, ``xoroshiro128plus.c`` of 2016 (rotations by 55, 14 and 36); Numba,
"CUDA Random Number Generation".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kerneldsl.kernels.decorators import func

__all__ = [
    "xoroshiro128p_next",
    "xoroshiro128p_normal_float32",
    "xoroshiro128p_normal_float64",
    "xoroshiro128p_uniform_float32",
    "xoroshiro128p_uniform_float64",
]


@func
def xoroshiro128p_next(states: Any, index: Any) -> Any:
    """Return the next uint64 of a stream and advance it.

    Parameters
    ----------
    states : array of xoroshiro128p_dtype, of rank 1
        A generator's state in each element.
    index : int
        Which of them.
    """
    first, second = states[index]["s0"], states[index]["s1"]
    result = first + second
    mixed = first ^ second
    turned = (first << np.uint64(55)) | (first >> np.uint64(9))
    states[index]["s0"] = turned ^ mixed ^ (mixed << np.uint64(14))
    states[index]["s1"] = (mixed << np.uint64(36)) | (mixed >> np.uint64(28))
    return result


@func
def xoroshiro128p_uniform_float64(states: Any, index: Any) -> Any:
    """Return a uniform float64 in [0, 1), of the upper 53 bits of the next number."""
    bits = xoroshiro128p_next(states, index) >> np.uint64(11)
    return np.float64(bits) * np.float64(2.0**-53)


@func
def xoroshiro128p_uniform_float32(states: Any, index: Any) -> Any:
    """Return a uniform float32 in [0, 1]: the float64 of the next number, rounded.

    As of numba.cuda, one number of 2**25 is rounded to 1.
    """
    return np.float32(xoroshiro128p_uniform_float64(states, index))


@func
def xoroshiro128p_normal_float32(states: Any, index: Any) -> Any:
    """Return a normal float32 of mean 0 and variance 1, of the next two uniform float32.

    The cosine of Box and Muller's pair, with ``log`` and ``cos`` of float32, which are within the
    bounds of the target's mathematical library. Where the first number is 0 it is infinite or NaN,
    as of numba.cuda.
    """
    first = xoroshiro128p_uniform_float32(states, index)
    second = xoroshiro128p_uniform_float32(states, index)
    radius = math.sqrt(np.float32(-2.0) * math.log(first))
    return np.float32(radius * math.cos(np.float32(2 * math.pi) * second))


@func
def xoroshiro128p_normal_float64(states: Any, index: Any) -> Any:
    """Return a normal float64 of mean 0 and variance 1, of the next two uniform *float32*.

    As of numba.cuda, which draws no more bits for it, and takes the logarithm as float32. See
    :func:`xoroshiro128p_normal_float32`.
    """
    first = xoroshiro128p_uniform_float32(states, index)
    second = xoroshiro128p_uniform_float32(states, index)
    radius = math.sqrt(-2.0 * math.log(first))
    return radius * math.cos(2 * math.pi * second)
