"""Numbers of a counter, four or two, as functions of ``(key, index, beyond, a, b, c)``.

`index` and `beyond` are the lower and the upper half of the counter; `a`, `b` and `c` are what the
distribution takes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import kerneldsl as kd
from kerneldsl import random

__all__ = ["Draw", "draw_of", "integer_draw", "weighted_draw"]


class Draw(NamedTuple):
    """A function of a counter, and how many numbers it gives."""

    function: Any
    per_counter: int


def _unit_4(key: Any, index: Any, beyond: Any, a: Any, b: Any, c: Any) -> Any:
    return random.uniform4_float32(key, index, beyond)


def _unit_2(key: Any, index: Any, beyond: Any, a: Any, b: Any, c: Any) -> Any:
    return random.uniform2_float64(key, index, beyond)


def _unit_11(key: Any, index: Any, beyond: Any, a: Any, b: Any, c: Any) -> Any:
    w = random.philox(key, index, beyond)
    return _upper(w[0], 11), _upper(w[1], 11), _upper(w[2], 11), _upper(w[3], 11)


def _unit_8(key: Any, index: Any, beyond: Any, a: Any, b: Any, c: Any) -> Any:
    w = random.philox(key, index, beyond)
    return _upper(w[0], 8), _upper(w[1], 8), _upper(w[2], 8), _upper(w[3], 8)


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
    """Return the first place whose cumulative sum is above a part of the last one."""
    first, last = 0, sums.size - 1
    while first < last:
        middle = (first + last) // 2
        is_above = sums[middle] / sums[sums.size - 1] > u
        last = middle if is_above else last
        first = first if is_above else middle + 1
    return first


#: Draws by their names, of numbers of 32 bits and of 64.
_DRAWS = {
    "unit": (_unit_4, _unit_2),
    "uniform": _scaled(random.uniform4_float32, random.uniform2_float64),
    "normal": _scaled(random.normal4_float32, random.normal2_float64),
    "exponential": _scaled(random.exponential4_float32, random.exponential2_float64),
}
#: Of float16 and bfloat16 numbers that need not be rounded.
_NARROW_UNITS = {"float16": Draw(_unit_11, 4), "bfloat16": Draw(_unit_8, 4)}


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


def weighted_draw() -> Draw:
    """Return the draw of places by their cumulative weights, an array that it takes as `a`."""
    return Draw(_weighted_2, 2)
