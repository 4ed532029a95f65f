"""The state of a generator, and the functions that draw two or four numbers from a counter.

These are functions of ``(key, index, beyond, a, b, c)``.

`index` and `beyond` are the lower and the upper half of the counter; `a`, `b` and `c` are the
parameters of the distribution. Kernels fill arrays with the numbers: a thread takes one counter,
and stores its numbers as vectors. The counter of a number, and its part of it, depend only on the
number's index in the array.
"""

from __future__ import annotations

import math
import secrets
import threading
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import kerneldsl as kd
from kerneldsl import random
from stdlib_kernels.arrays import finish, is_contiguous, on_device
from stdlib_kernels.checks import Out, check_array, check_out
from stdlib_kernels.parameters import integer_of, shape_of, wrong_type

__all__ = ["WEIGHTED", "Counter", "Draw", "State", "draw_of", "drawn", "integer_draw"]


class State(NamedTuple):
    """The state of a generator: the key of Philox4x32-10, and the counter of the next draw.

    Attributes
    ----------
    key : int
        64 bits.
    counter : int
        128 bits. A draw of n numbers advances it by n / 4, or n / 2 for numbers of more than 32
        bits, rounded up. Draws above 2**96 may meet the numbers that `Generator.integers` rejects.
    """

    key: int
    counter: int


class Counter:
    """The state of a generator that threads may share, and the device of its arrays."""

    def __init__(self, seed: int | None = None, *, device: Any = None) -> None:
        # The key of no seed is not foreseen.
        key = secrets.randbits(64) if seed is None else _of_bits("seed", seed, 64)
        self._state, self._device = State(key, 0), device
        self._lock = threading.Lock()

    @property
    def state(self) -> State:
        """The state; a tuple like it may be assigned."""
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        try:
            key, counter = value
        except (TypeError, ValueError) as error:
            limit = "It must be a key and a counter, as a generator's `state` gives them"
            raise wrong_type("state", value, limit) from error
        found = State(_of_bits("key", key, 64), _of_bits("counter", counter, 128))
        with self._lock:
            self._state = found

    def take(self, count: int) -> State:
        """Return the state, and advance the counter."""
        with self._lock:
            now = self._state
            self._state = State(now.key, (now.counter + count) % (1 << 128))
        return now


def _of_bits(name: str, value: Any, bits: int) -> int:
    return integer_of(name, value, 0, (1 << bits) - 1)


class Draw(NamedTuple):
    """A function of a counter, and the number of its results."""

    function: Any
    per_counter: int


def _plain(numbers: Any) -> Any:
    return lambda key, index, beyond, a, b, c: numbers(key, index, beyond)


def _unit_of(bits: int) -> Any:
    def unit(key: Any, index: Any, beyond: Any, a: Any, b: Any, c: Any) -> Any:
        w = random.philox(key, index, beyond)
        return _upper(w[0], bits), _upper(w[1], bits), _upper(w[2], bits), _upper(w[3], bits)

    return unit


def _upper(word: Any, bits: Any) -> Any:
    """Return the upper bits of a uint32 as a float32 in [0, 1)."""
    return np.float32(word >> np.uint32(32 - bits)) / np.float32(1 << bits)


def _scaled(fours: Any, pairs: Any) -> tuple[Any, Any]:
    """Return the draws ``a + b * v`` of a distribution's numbers ``v``, of four and of two."""

    def scaled_4(key: Any, index: Any, beyond: Any, a: Any, b: Any, c: Any) -> Any:
        v = fours(key, index, beyond)
        return kd.fma(b, v[0], a), kd.fma(b, v[1], a), kd.fma(b, v[2], a), kd.fma(b, v[3], a)

    def scaled_2(key: Any, index: Any, beyond: Any, a: Any, b: Any, c: Any) -> Any:
        v = pairs(key, index, beyond)
        return kd.fma(b, v[0], a), kd.fma(b, v[1], a)

    return scaled_4, scaled_2


def _redrawn(key: Any, index: Any, beyond: Any, lane: Any, turn: Any) -> Any:
    """Return four words for a number that was rejected, of counters that no draw begins at."""
    upper = (np.uint64(turn) * np.uint64(4) + np.uint64(lane)) << np.uint64(32)
    return random.philox(key, index, beyond ^ upper)


def _below_32(word: Any, key: Any, index: Any, beyond: Any, lane: Any, n: Any, least: Any) -> Any:
    """Return a number from 0 to n - 1, each as likely as any other, of n up to 2**32."""
    low = np.uint64(0xFFFFFFFF)
    product, turn = np.uint64(word) * n, np.uint64(0)
    while (product & low) < least:
        turn += np.uint64(1)
        product = np.uint64(_redrawn(key, index, beyond, lane, turn)[0]) * n
    return product >> np.uint64(32)


def _below_64(
    first: Any, second: Any, key: Any, index: Any, beyond: Any, lane: Any, n: Any, least: Any
) -> Any:
    """Return a number from 0 to n - 1, each as likely as any other, of any n; 0 is 2**64."""
    bits = _joined(first, second)
    turn = np.uint64(0)
    while bits * n < least:
        turn += np.uint64(1)
        words = _redrawn(key, index, beyond, lane, turn)
        bits = _joined(words[0], words[1])
    return bits if n == 0 else kd.mulhi(bits, n)


def _joined(low: Any, high: Any) -> Any:
    return (np.uint64(high) << np.uint64(32)) | np.uint64(low)


def _integers_4(key: Any, i: Any, beyond: Any, low: Any, n: Any, least: Any) -> Any:
    w = random.philox(key, i, beyond)
    return (
        low + _below_32(w[0], key, i, beyond, 0, n, least),
        low + _below_32(w[1], key, i, beyond, 1, n, least),
        low + _below_32(w[2], key, i, beyond, 2, n, least),
        low + _below_32(w[3], key, i, beyond, 3, n, least),
    )


def _integers_2(key: Any, i: Any, beyond: Any, low: Any, n: Any, least: Any) -> Any:
    w = random.philox(key, i, beyond)
    return (
        low + _below_64(w[0], w[1], key, i, beyond, 0, n, least),
        low + _below_64(w[2], w[3], key, i, beyond, 1, n, least),
    )


def _weighted_2(key: Any, index: Any, beyond: Any, sums: Any, b: Any, c: Any) -> Any:
    u = random.uniform2_float64(key, index, beyond)
    return _place(sums, u[0]), _place(sums, u[1])


def _place(sums: Any, u: Any) -> Any:
    """Return the first index with a cumulative sum above a given part of the last one."""
    first, last = 0, sums.size - 1
    while first < last:
        middle = (first + last) // 2
        is_above = sums[middle] / sums[sums.size - 1] > u
        last = middle if is_above else last
        first = first if is_above else middle + 1
    return first


#: Draws by their names, of numbers of 32 bits and of 64.
_DRAWS = {
    "unit": (_plain(random.uniform4_float32), _plain(random.uniform2_float64)),
    "uniform": _scaled(random.uniform4_float32, random.uniform2_float64),
    "normal": _scaled(random.normal4_float32, random.normal2_float64),
    "exponential": _scaled(random.exponential4_float32, random.exponential2_float64),
}
#: Draws of float16 and bfloat16 numbers that need not be rounded.
_NARROW_UNITS = {"float16": Draw(_unit_of(11), 4), "bfloat16": Draw(_unit_of(8), 4)}
#: The draw of places by their cumulative weights, an array that it takes as `a`.
WEIGHTED = Draw(_weighted_2, 2)


def draw_of(name: str, dtype: np.dtype[Any], *, is_wide: bool) -> Draw:
    """Return the draw of a distribution, of numbers of up to 32 bits or, if wide, of 64."""
    if name == "unit" and dtype.name in _NARROW_UNITS:
        return _NARROW_UNITS[dtype.name]
    return Draw(_DRAWS[name][is_wide], 2 if is_wide else 4)


def integer_draw(first: int, count: int) -> tuple[Draw, tuple[Any, Any, Any]]:
    """Return the draw of integers of an interval, and the numbers that it takes."""
    is_wide = count > 1 << 32
    draw = Draw(_integers_2, 2) if is_wide else Draw(_integers_4, 4)
    least = (1 << (64 if is_wide else 32)) % count
    low, n, rejected = (np.uint64(each % (1 << 64)) for each in (first, count, least))
    return draw, (low, n, rejected)


@cache
def _packing(vector: Any, count: int) -> Any:
    """Return what makes a vector of the numbers of a counter, or without one takes the first."""
    if vector is None:
        return lambda v, number: number(v[0])
    if count == 2:
        return lambda v, number: vector(number(v[0]), number(v[1]))
    return lambda v, number: vector(number(v[0]), number(v[1]), number(v[2]), number(v[3]))


@kd.kernel(wraparound=False)
def fill(out, key, counter, above, a, b, c, *, draw, number, count, vector, pack, has_vectors):
    """Store numbers ``count * i`` and on of counter i: ``(out[n], …)``.

    They are stored in one access if there are vectors of that length.
    """
    i = kd.grid(1)
    index = counter + np.uint64(i)
    beyond = above + np.uint64(index < counter)
    numbers = draw(key, index, beyond, a, b, c)
    if has_vectors and i < out.size // count:
        kd.view(out, vector)[i] = pack(numbers, number)
    else:
        _store(out, count * i, number(numbers[0]))
        _store(out, count * i + 1, number(numbers[1]))
        if count == 4:
            _store(out, count * i + 2, number(numbers[2]))
            _store(out, count * i + 3, number(numbers[3]))


def _store(out: Any, at: Any, value: Any) -> None:
    if at < out.size:
        out[at] = value


def drawn(
    source: Counter, draw: Draw, size: Any, dtype: np.dtype[Any], out: Out, *numbers: Any
) -> Any:
    """Fill a new array on the source's device, or `out`; return a NumPy scalar of no `size`."""
    if out is not None:
        check_array("out", out, dtypes=(dtype.name,))
    shape = tuple(out.shape) if out is not None and size is None else shape_of("size", size)
    if out is not None:
        check_out(out, like=out, shape=shape, dtype=dtype)
    result: Any = out
    if out is None or not is_contiguous(out) or on_device(out) is not out:
        on = out.device if isinstance(out, kd.DeviceArray) else source._device
        result = kd.empty(shape, dtype, device=on)
    counters = -(-math.prod(shape) // draw.per_counter)
    state = source.take(counters)
    if result.size:
        words = (state.key, state.counter % (1 << 64), state.counter >> 64)
        number, count = dtype.type, draw.per_counter
        vector = getattr(kd, f"{dtype.name}x{count}", None)
        how = {"draw": draw.function, "count": count, "number": number, "vector": vector or number}
        fill.forall(counters)(
            result.reshape((-1,)), *map(np.uint64, words), *(*numbers, 0, 0)[:3], **how,
            pack=_packing(vector, count), has_vectors=vector is not None,
        )  # fmt: skip
    if out is not None:
        return finish(result, like=out, out=out)
    return result.copy_to_host()[()] if size is None else result
