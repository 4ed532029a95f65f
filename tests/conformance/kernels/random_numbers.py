"""Random numbers of counters and of streams: the same bits on every target."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import HOST_DTYPES, poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("random_numbers")
CASES = _list.cases
_SIZE = 67


@kd.kernel
def words(seed, first, stream, out):
    i = kd.grid(1)
    a, b, c, d = kd.random.philox(seed, first + i, stream)
    if i < out.shape[0]:
        out[i, 0] = a
        out[i, 1] = b
        out[i, 2] = c
        out[i, 3] = d


def _words(rng):
    seed, first, stream = rng.integers(-(2**63), 2**63 - 1, 3).tolist()
    return seed, first, stream, poisoned((_SIZE, 4), np.uint32)


_list.add("philox", words, _words, grid=(3,))


def _drawing(function):
    @kd.kernel
    def draw(seed, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = function(seed, i)

    return draw


def _seed_and(dtype, *shape):
    def make(rng):
        return int(rng.integers(0, 2**63 - 1)), poisoned((_SIZE, *shape), dtype)

    return make


for _name in ("uniform_float16", "uniform_bfloat16", "uniform_float32", "uniform_float64"):
    _dtype = _name.partition("_")[2]
    if _dtype in HOST_DTYPES:
        _list.add(_name, _drawing(getattr(kd.random, _name)), _seed_and(_dtype), grid=(3,))
for _name in ("normal_float32", "exponential_float32"):
    _list.add(_name, _drawing(getattr(kd.random, _name)), _seed_and("float32"), grid=(3,))
#: Each of two targets is within half of it of the exact transform.
_FLOAT64_ULP = 12
for _name in ("normal_float64", "exponential_float64"):
    _function = getattr(kd.random, _name)
    _list.add(_name, _drawing(_function), _seed_and("float64"), grid=(3,), ulp=_FLOAT64_ULP)


@kd.kernel
def added(seed, x, out):
    """What a caller adds may be contracted with the number; its bits must not depend on that."""
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] + kd.random.normal_float32(seed, i)


def _added(rng):
    x = rng.standard_normal(_SIZE).astype(np.float32)
    return int(rng.integers(2**40)), x, poisoned(_SIZE, np.float32)


_list.add("normal_float32_and_a_sum", added, _added, grid=(3,))


@kd.kernel
def four(seed, uniform, normal):
    i = kd.grid(1)
    if i < uniform.shape[0]:
        a, b, c, d = kd.random.uniform4_float32(seed, i)
        uniform[i, 0] = a
        uniform[i, 1] = b
        uniform[i, 2] = c
        uniform[i, 3] = d
        a, b, c, d = kd.random.normal4_float32(seed, i)
        normal[i, 0] = a
        normal[i, 1] = b
        normal[i, 2] = c
        normal[i, 3] = d


def _four(rng):
    seed = int(rng.integers(2**63 - 1))
    return seed, poisoned((_SIZE, 4), np.float32), poisoned((_SIZE, 4), np.float32)


_list.add("four_float32", four, _four, grid=(3,))


@kd.kernel
def two(seed, uniform, normal):
    i = kd.grid(1)
    if i < uniform.shape[0]:
        a, b = kd.random.uniform2_float64(seed, i)
        uniform[i, 0] = a
        uniform[i, 1] = b
        a, b = kd.random.normal2_float64(seed, i)
        normal[i, 0] = a
        normal[i, 1] = b


def _two(rng):
    seed = int(rng.integers(2**63 - 1))
    return seed, poisoned((_SIZE, 2), np.float64), poisoned((_SIZE, 2), np.float64)


_list.add("two_float64", two, _two, grid=(3,), ulp=_FLOAT64_ULP)


def _between(function):
    @kd.kernel
    def draw(seed, low, high, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = function(seed, i, low, high)

    return draw


_INTERVALS = {
    "int32": ((-5, 7), (-(2**31), 2**31), (3, 3)),
    "uint32": ((0, 10), (0, 2**32)),
    "int64": ((-(2**63), 2**63 - 1), (-100, 3_000_000_007)),
    "uint64": ((np.uint64(1), np.uint64(2**64 - 1)), (np.uint64(5), np.uint64(12))),
}
for _dtype, _intervals in _INTERVALS.items():
    _kernel = _between(getattr(kd.random, f"integers_{_dtype}"))
    for _low, _high in _intervals:

        def _integers(rng, low=_low, high=_high, dtype=_dtype):
            return int(rng.integers(2**63 - 1)), low, high, poisoned(_SIZE, dtype)

        _list.add(f"integers_{_dtype}_{_low}_{_high}", _kernel, _integers, grid=(3,))


def _stream(function):
    @kd.kernel
    def draw(states, out):
        i = kd.grid(1)
        if i < out.shape[0]:
            for j in range(out.shape[1]):
                out[i, j] = function(states, i)

    return draw


def _states_and(dtype):
    def make(rng):
        states = np.empty(_SIZE, kd.random.xoroshiro128p_dtype)
        kd.random.init_xoroshiro128p_states(states, int(rng.integers(2**40)), 3)
        return states, poisoned((_SIZE, 5), dtype)

    return make


for _name, _dtype, _ulp in (
    ("next", "uint64", 0),
    ("uniform_float32", "float32", 0),
    ("uniform_float64", "float64", 0),
):
    _function = getattr(kd.random, f"xoroshiro128p_{_name}")
    _list.add(f"xoroshiro_{_name}", _stream(_function), _states_and(_dtype), grid=(3,))


@kd.kernel
def normal_stream(states, out, magnitude):
    i = kd.grid(1)
    if i < out.size:
        out[i] = kd.random.xoroshiro128p_normal_float32(states, i) + magnitude


@kd.kernel
def normal_stream_64(states, out, magnitude):
    i = kd.grid(1)
    if i < out.size:
        out[i] = kd.random.xoroshiro128p_normal_float64(states, i) + magnitude


def _normal_stream(dtype):
    def make(rng):
        states = np.empty(_SIZE, kd.random.xoroshiro128p_dtype)
        kd.random.init_xoroshiro128p_states(states, int(rng.integers(2**40)))
        return states, poisoned(_SIZE, dtype), np.dtype(dtype).type(16)

    return make


# Near a zero of the cosine an error of the angle is large beside the result, so it is compared
# after 16 was added: within 2e-6 and 4e-15, or a single unit of the last place of float32's log.
_list.add("xoroshiro_normal_float32", normal_stream, _normal_stream("float32"), grid=(3,), ulp=2)
_list.add(
    "xoroshiro_normal_float64", normal_stream_64, _normal_stream("float64"), grid=(3,), ulp=2**30
)
