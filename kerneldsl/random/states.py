"""Arrays of states of xoroshiro128+ streams, each 2**64 numbers after the one before it.

The states are computed on the host. The generator is linear, so a jump over 2**64 numbers is a
matrix of 128 by 128 bits. A power of it computes as many further states as are known already.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.kernels import wrong_type
from kerneldsl.errors.values import as_int
from kerneldsl.kernels.decorators import func
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.copies import copy
from kerneldsl.memory.creation import empty
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = [
    "create_xoroshiro128p_states",
    "init_xoroshiro128p_states",
    "xoroshiro128p_dtype",
    "xoroshiro128p_next",
    "xoroshiro128p_normal_float32",
    "xoroshiro128p_normal_float64",
    "xoroshiro128p_uniform_float32",
    "xoroshiro128p_uniform_float64",
]

#: A state: two words, as numba.cuda has them.
xoroshiro128p_dtype = np.dtype([("s0", np.uint64), ("s1", np.uint64)], align=True)

#: Two words of each state, or of the column of a matrix.
_Words = npt.NDArray[np.uint64]

#: The published coefficients of the jump.
_JUMP = 0xBEAC0467EBA5FACB | 0xD86B048B86AA9922 << 64
_MASK = 2**64 - 1


@shorten_errors
def create_xoroshiro128p_states(
    n: int, seed: int, subsequence_start: int = 0, stream: Any = None
) -> DeviceArray:
    """Make the states of `n` streams, in a new array on the current device.

    Parameters
    ----------
    n : int
        Number of streams.
    seed, subsequence_start, stream
        As of :func:`init_xoroshiro128p_states`.

    Returns
    -------
    DeviceArray
        Of shape ``(n,)`` and dtype `xoroshiro128p_dtype`, for the functions ``xoroshiro128p_…``
        of kernels.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If a number is of another type, or out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def estimate_pi(states, draws, inside):
    ...     i = kd.grid(1)
    ...     for _ in range(draws):
    ...         x = kd.random.xoroshiro128p_uniform_float32(states, i)
    ...         y = kd.random.xoroshiro128p_uniform_float32(states, i)
    ...         if x * x + y * y <= 1:
    ...             inside[i] += 1
    >>> states = kd.random.create_xoroshiro128p_states(1000, seed=1)
    >>> inside = np.zeros(1000, np.int64)
    >>> estimate_pi.forall(1000)(states, 1000, inside)
    >>> round(4 * int(inside.sum()) / 1e6, 2)
    3.14
    """
    states = empty(_read("n", n, 2**48), xoroshiro128p_dtype, stream=stream or None)
    init_xoroshiro128p_states(states, seed, subsequence_start, stream)
    return states


@shorten_errors
def init_xoroshiro128p_states(
    states: DeviceArray | npt.NDArray[np.void],
    seed: int,
    subsequence_start: int = 0,
    stream: Any = None,
) -> None:
    """Set the states of streams that follow each other at distances of 2**64 numbers.

    Parameters
    ----------
    states : DeviceArray or ndarray, of shape (n,) and dtype xoroshiro128p_dtype
        What is written.
    seed : int
        Of all of them, of 64 bits.
    subsequence_start : int, optional
        How many distances lie before the first.
    stream : optional
        Stream in which a device array is written; by default, and for 0, the current one.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If a number is of another type or out of range, or the array has another dtype or rank.
    """
    is_array = isinstance(states, DeviceArray | np.ndarray)
    if not is_array or states.ndim != 1 or states.dtype != xoroshiro128p_dtype:
        raise wrong_type(
            "states",
            states,
            "States are an array of rank 1 and dtype kd.random.xoroshiro128p_dtype",
            "Make them with kd.random.create_xoroshiro128p_states(n, seed)",
        )
    start = _read("subsequence_start", subsequence_start, 2**64)
    first = _first_state(_read("seed", seed, 2**64, -(2**63)))
    words = np.ascontiguousarray(_consecutive(first, len(states), start))
    copy(states, words.view(xoroshiro128p_dtype)[:, 0], stream or None)


def _read(name: str, value: Any, end: int, low: int = 0) -> int:
    number = as_int(value)
    if number is None:
        raise wrong_type(name, value, f"{name} must be an int")
    if not low <= number < end:
        raise ArgumentValueError(
            f"{name} is {number}", value=value, limit=f"It must be from {low} to {end - 1}"
        )
    return number


def _first_state(seed: int) -> _Words:
    """Return both words of a seed, which SplitMix64 gives once."""
    bits = (seed + 0x9E3779B97F4A7C15) & _MASK
    bits = ((bits ^ bits >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ bits >> 27) * 0x94D049BB133111EB) & _MASK
    bits ^= bits >> 31
    return np.array([[bits, bits]], np.uint64)


def _consecutive(first: _Words, count: int, start: int) -> _Words:
    """Return so many states at distances of one jump, from `start` jumps after a state on."""
    power = _jump_matrix()
    at = first
    while start:
        if start & 1:
            at = _applied(power, at)
        power, start = _applied(power, power), start >> 1
    states, power = at[:count], _jump_matrix()
    while len(states) < count:
        states = np.concatenate([states, _applied(power, states[: count - len(states)])])
        power = _applied(power, power)
    return states


def _jump_matrix() -> _Words:
    """Return the columns of the jump: the states that it makes of the states of one bit."""
    bits = np.uint64(1) << np.arange(64, dtype=np.uint64)
    state = np.zeros((128, 2), np.uint64)
    state[:64, 0], state[64:, 1] = bits, bits
    jumped = np.zeros_like(state)
    for bit in range(128):
        if _JUMP >> bit & 1:
            jumped ^= state
        state = _after_one(state)
    return jumped


def _after_one(states: _Words) -> _Words:
    """Return the states after one number; see ``xoroshiro128p_next``."""
    first, mixed = states[:, 0], states[:, 0] ^ states[:, 1]
    turned = first << np.uint64(55) | first >> np.uint64(9)
    second = mixed << np.uint64(36) | mixed >> np.uint64(28)
    return np.stack([turned ^ mixed ^ mixed << np.uint64(14), second], axis=1)


def _applied(matrix: _Words, states: _Words) -> _Words:
    """Return the products of a matrix of bits with states, a byte of each state at a time."""
    products = np.zeros_like(states)
    bytes_of_states = np.ascontiguousarray(states.astype("<u8")).view(np.uint8)
    for position in range(16):
        table = np.zeros((1, 2), np.uint64)
        for column in matrix[8 * position : 8 * position + 8]:
            table = np.concatenate([table, table ^ column])
        products ^= table[bytes_of_states[:, position]]
    return products


# Streams of numba.cuda's random generator, xoroshiro128+, as device functions.
#
# A draw advances the state at an index of an array of states, which one thread at a time may do.
# The numbers, and the states after them, are numba.cuda's bit for bit. Those of a normal
# distribution are as exact as the target's ``log`` and ``cos``. See `kerneldsl.random.states` for
# the arrays.
#
# See D. Blackman and S. Vigna, ``xoroshiro128plus.c`` of 2016 (rotations by 55, 14 and 36);
# Numba, "CUDA Random Number Generation".


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
