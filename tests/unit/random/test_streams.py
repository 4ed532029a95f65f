"""xoroshiro128+ streams against the generator's reference code and numba.cuda's own."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.cuda import random as numba_random

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError

_LOW = 2**64 - 1
_SEEDS = st.integers(0, 2**64 - 1)


class _Reference:
    """``xoroshiro128plus.c`` of 2016 and ``splitmix64.c``, in Python's integers."""

    def __init__(self, seed: int) -> None:
        z = seed + 0x9E3779B97F4A7C15 & _LOW
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _LOW
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _LOW
        self.state = (z ^ z >> 31, z ^ z >> 31)

    def next(self) -> int:
        def turned(x: int, k: int) -> int:
            return x << k & _LOW | x >> 64 - k

        s0, s1 = self.state
        s1 ^= s0
        result = self.state[0] + self.state[1] & _LOW
        self.state = (turned(s0, 55) ^ s1 ^ s1 << 14 & _LOW, turned(s1, 36))
        return result

    def jump(self) -> None:
        s0 = s1 = 0
        for word in (0xBEAC0467EBA5FACB, 0xD86B048B86AA9922):
            for bit in range(64):
                if word >> bit & 1:
                    s0, s1 = s0 ^ self.state[0], s1 ^ self.state[1]
                self.next()
        self.state = (s0, s1)


def _words(states: kd.DeviceArray) -> np.ndarray:
    """The states' words, of shape (n, 2)."""
    return states.copy_to_host().view(np.uint64).reshape(-1, 2)


def _numba_states(n: int, seed: int, start: int) -> np.ndarray:
    states = np.empty(n, numba_random.xoroshiro128p_dtype)
    numba_random.init_xoroshiro128p_states_cpu(states, np.uint64(seed), np.uint64(start))
    return states


def test_splitmix_of_its_published_sequence() -> None:
    """The first number of splitmix64.c from a state of 1234567."""
    assert _Reference(1234567).state[0] == 6457827717110365317


@given(_SEEDS, st.integers(0, 20), st.integers(0, 5))
def test_states_are_those_of_the_reference(seed: int, n: int, start: int) -> None:
    with kd.use("cpu"):
        found = _words(kd.random.create_xoroshiro128p_states(n, seed, start))
    generator = _Reference(seed)
    for _ in range(start):
        generator.jump()
    for state in found.tolist():
        assert tuple(state) == generator.state
        generator.jump()
    assert len(found) == n


@pytest.mark.parametrize(("n", "seed", "start"), [(1000, 1, 0), (37, 2**63 + 5, 11), (1, 0, 3)])
def test_states_are_those_of_numba_cuda(n: int, seed: int, start: int) -> None:
    with kd.use("cpu"):
        found = _words(kd.random.create_xoroshiro128p_states(n, seed, start))
    wanted = _numba_states(n, seed, start).view(np.uint64).reshape(-1, 2)
    np.testing.assert_array_equal(found, wanted)


def test_states_are_records_as_numba_cuda_has_them() -> None:
    theirs = numba_random.xoroshiro128p_dtype
    assert kd.random.xoroshiro128p_dtype == theirs
    again = _numba_states(3, 1, 0)
    wanted = [numba_random.xoroshiro128p_uniform_float32(again, i) for i in range(3)]
    for state in (kd.random.xoroshiro128p_type, numba_random.xoroshiro128p_type):

        @kd.kernel((state[:], numba.float32[:]))
        def draw(states, out):
            i = kd.grid(1)
            out[i] = kd.random.xoroshiro128p_uniform_float32(states, i)

        states, out = np.empty(3, theirs), np.empty(3, np.float32)
        kd.random.init_xoroshiro128p_states(states, 1)
        with kd.use("cpu"):
            draw.forall(3)(states, out)
        np.testing.assert_array_equal(out, wanted)


def test_a_far_start_is_that_many_jumps() -> None:
    """Jumps of 2**40 + 3 and 3 more are those of 2**40 + 6."""
    with kd.use("cpu"):
        one = _words(kd.random.create_xoroshiro128p_states(8, 5, 2**40 + 3))
        other = _words(kd.random.create_xoroshiro128p_states(5, 5, 2**40 + 6))
    np.testing.assert_array_equal(one[3:], other)


_DTYPES = {
    "next": np.uint64,
    "uniform_float32": np.float32,
    "uniform_float64": np.float64,
    "normal_float32": np.float32,
    "normal_float64": np.float64,
}


@pytest.mark.parametrize("name", _DTYPES)
def test_numbers_are_those_of_numba_cuda(name: str) -> None:
    function = getattr(kd.random, f"xoroshiro128p_{name}")
    wanted_function: Any = getattr(numba_random, f"xoroshiro128p_{name}")

    @kd.kernel
    def draw(states, out):
        i = kd.grid(1)
        for j in range(out.shape[1]):
            out[i, j] = function(states, i)

    out = np.empty((9, 40), _DTYPES[name])
    with kd.use("cpu"):
        states = kd.random.create_xoroshiro128p_states(9, 42)
        draw.forall(9)(states, out)
    theirs = _numba_states(9, 42, 0)
    wanted = [[wanted_function(theirs, i) for _ in range(40)] for i in range(9)]
    np.testing.assert_array_equal(_words(states), theirs.view(np.uint64).reshape(-1, 2))
    if name.startswith("normal"):
        # Near a zero of the cosine its error is one of the angle's.
        np.testing.assert_allclose(out, wanted, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(out, np.array(wanted, out.dtype))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((-1, 0), ArgumentValueError),
        (("a", 0), ArgumentTypeError),
        ((3, 2**64), ArgumentValueError),
        ((3, 1.5), ArgumentTypeError),
        ((3, 1, -1), ArgumentValueError),
    ],
)
def test_wrong_numbers_are_refused(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        kd.random.create_xoroshiro128p_states(*arguments)


def test_other_arrays_are_refused() -> None:
    dtype = kd.random.xoroshiro128p_dtype
    for states in (np.zeros((3, 3), dtype), np.zeros(3, np.int64), [0, 0]):
        with pytest.raises(ArgumentTypeError, match="create_xoroshiro128p_states"):
            kd.random.init_xoroshiro128p_states(states, 1)
