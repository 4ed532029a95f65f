"""Integers of hashes may overflow; those of extents, coordinates and strides are taken not to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.ir.overflow import overflowing_values
from kerneldsl.ir.ranges import INTERVALS
from kerneldsl.ir.simplify import simplify
from tests.support.regions.reading import as_written, specialized


def large_factor(x, out, n):
    i = kd.grid(1)
    out[i] = x[(n * 65536) >> 20]


def large_shift(x, out, n):
    i = kd.grid(1)
    out[i] = x[(n << 16) >> 20]


def fourth_power(x, out, n):
    i = kd.grid(1)
    out[i] = x[((n + 1) * (n + 2) * (n + 3) * n) >> 55]


def power(x, out, n):
    i = kd.grid(1)
    out[i] = x[n**13 >> 55]


def rolling(x, out, n):
    i = kd.grid(1)
    h = 0
    for k in range(n):
        h = h * 31 + x[k]
    out[i] = x[h >> 55]


def shifted(x, out, n):
    i = kd.grid(1)
    h, k = 5381, 0
    while k < n:
        if x[k] > 0:
            h = (h << 5) ^ k
        k += 1
    out[i] = x[h >> 55]


def doubled(x, out, n):
    i = kd.grid(1)
    h = 1
    for _ in range(n):
        h += h
    out[i] = x[h >> 55]


def through_an_inner_loop(x, out, n):
    i = kd.grid(1)
    h = 1
    for _ in range(n):
        t = 0
        for k in range(n):
            t += h * k
        h = t
    out[i] = x[h >> 55]


def halves(x, out, n):
    i = kd.grid(1)
    h = i + 3
    for _ in range(n):
        h += h >> 1
    out[i] = x[h >> 57]


def fibonacci(x, out, n):
    i = kd.grid(1)
    a, b = i, 1
    for _ in range(n):
        a, b = b, a + b
    out[i] = x[a >> 57]


def filled(x, out, n):
    i = kd.grid(1)
    h = i
    for _ in range(n):
        h = (h | h >> 1) + 1
    out[i] = x[h >> 57]


def until_a_remainder(x, out, n):
    i = kd.grid(1)
    h = i
    while h % 64 < 60:
        h = h * 5 + 3
    out[i] = x[h >> 58]


def above_a_limit(x, out, n):
    i = kd.grid(1)
    h = i
    while h >= i and n > 0:
        h = h * 3 + 1
        n -= 1
    out[i] = x[h >> 58]


def below_what_grows(x, out, n):
    i = kd.grid(1)
    a, b = i, i + 1
    while a < b and n > 0:
        a *= 2
        b *= 3
        n -= 1
    out[i] = x[a >> 58]


def below_itself(x, out, n):
    i = kd.grid(1)
    h = i + 1
    while h < h + 1 and n > 0:
        h = h * 3
        n -= 1
    out[i] = x[h >> 58]


def magnitudes(x, out, n):
    i = kd.grid(1)
    h = i
    for _ in range(n):
        h = abs(h) + abs(h)
    out[i] = x[h >> 58]


def written_out(x, out, n):
    i = kd.grid(1)
    h = ((i * 31 + 7) * 31 + 7) * 31 + 7
    h = ((h * 31 + 7) * 31 + 7) * 31 + 7
    out[i] = x[(h * 31 + 7) >> 30]


def sums_of_an_inner_loop(x, out, n):
    i = kd.grid(1)
    h = i
    for _ in range(n):
        t = 0
        for _ in range(n):
            t += h
        h = t
    out[i] = x[h >> 57]


def narrowed(x, out, n):
    i = kd.grid(1)
    out[i] = x[np.int8(i)]


def narrowed_product(x, out, n):
    i = kd.grid(1)
    out[i] = x[np.int32(i * 60000) >> 25]


def narrowed_hash(x, out, n):
    i = kd.grid(1)
    h = np.int32(0)
    for k in range(n):
        h = np.int32(np.int64(h) * 31 + k)
    out[i] = x[h >> 24]


def shifted_by_an_argument(x, out, n):
    i = kd.grid(1)
    out[i] = x[(i << n) >> 56]


def rows_of_four_axes(x, out, n):
    i = kd.grid(1)
    out[i] = x[((i * n + 1) * n + 2) * n + 3]


def searched(x, out, n):
    i = kd.grid(1)
    low, high = 0, n
    while low < high:
        middle = low + (high - low) // 2
        if x[middle] < i:
            low = middle + 1
        else:
            high = middle
    out[i] = low


def both_searched(x, out, n):
    low, high, most = 0, n, n * 2
    while low < high and high < most:
        mid = (low + high) // 2
        if x[mid] < 3:
            low = mid + 1
        else:
            high = mid
    out[low] = high


def axes_of_a_row(x, out, n):
    i = kd.grid(1)
    out[i] = x[((((i * 64 + n) * 64 + n) * 64 + n) * 64 + n) * 4]


def strides(x, out, n):
    i = kd.grid(1)
    stride = 1
    while stride < n:
        out[i] += x[i + stride]
        stride *= 2


def heap(x, out, n):
    i = kd.grid(1)
    parent = 0
    while 2 * parent + 1 < n:
        parent = 2 * parent + 1 + (x[parent] > i)
    out[i] = parent


def remainders(x, out, n):
    i = kd.grid(1)
    h = 1
    for k in range(n):
        h = (h * 31 + k) % 127
    for k in range(n):
        h = (h * 33 + k) & 1023
    out[i] = x[h]


def sums_of_sums(x, out, n):
    i = kd.grid(1)
    one, two, half = 0, i, n
    for k in range(n):
        two += one + half
        one += k
        half -= half % 7
        for _ in range(n):
            two += k
    out[i] = x[two // 2]


def sums_of_products(x, out, n):
    i = kd.grid(1)
    total = 0
    for k in range(n):
        total += k * n
    out[i] = total


def coordinates_of_32_bits(x, out, n):
    i = np.int32(kd.grid(1))
    j = np.int32(kd.blockIdx.x * kd.blockDim.x + kd.threadIdx.x)
    if i < np.int32(x.size) and j < np.int32(x.shape[0] // 2):
        out[i] = x[np.int16(i % 100)] + x[j]


def strides_of_powers(x, out, n):
    i = kd.grid(1)
    for k in range(9):
        out[i] += x[(i << k) ^ (1 << k)]


HASHES = (
    *(large_factor, large_shift, fourth_power, power, rolling, shifted, doubled),
    *(
        halves,
        fibonacci,
        filled,
        until_a_remainder,
        above_a_limit,
        below_what_grows,
        below_itself,
        magnitudes,
        written_out,
        sums_of_an_inner_loop,
        through_an_inner_loop,
        narrowed,
        narrowed_product,
        narrowed_hash,
        shifted_by_an_argument,
    ),
)
OTHERS = (
    *(
        rows_of_four_axes,
        axes_of_a_row,
        searched,
        both_searched,
        strides,
        heap,
        remainders,
        sums_of_sums,
        sums_of_products,
    ),
    *(coordinates_of_32_bits, strides_of_powers),
)


def _overflowing(function: Callable[..., Any]) -> int:
    read = as_written(specialized(kd.kernel(function), ("int64[::1], int64[::1], int64",)))
    simplify(read.body)
    return len(overflowing_values(read.body, INTERVALS))


@pytest.mark.parametrize("function", HASHES, ids=lambda each: each.__name__)
def test_integers_of_hashes_may_overflow(function: Callable[..., Any]) -> None:
    assert _overflowing(function) > 0


@pytest.mark.parametrize("function", OTHERS, ids=lambda each: each.__name__)
def test_integers_of_extents_do_not_overflow(function: Callable[..., Any]) -> None:
    assert _overflowing(function) == 0
