"""Integers of hashes may overflow; those of extents, coordinates and strides are taken not to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.ir.overflow import overflowing_values
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


def below_a_large_literal(x, out, n):
    i = kd.grid(1)
    h = i + 1
    while 0 < h < 2**60:
        h = h * 31 + 1
    out[i] = x[h >> 58]


def twice_below_a_large_literal(x, out, n):
    i = kd.grid(1)
    h = i + 1
    while 0 < h < 2**63 - 1:
        h += h
    out[i] = x[h >> 58]


def below_an_argument(x, out, n):
    i = kd.grid(1)
    h = i + 1
    while h < n:
        h = h * 65
    out[i] = x[h >> 58]


def each_below_an_argument(x, out, n):
    i = kd.grid(1)
    h = g = i + 1
    while h < n and g < n:
        h = g * 31 + 1
        g = h * 31 + 5
    out[i] = x[h >> 58]


def after_a_limit(x, out, n):
    i = kd.grid(1)
    h = i + 1
    while h < 2**30:
        h = h * 50000
    h = h * 50000
    out[i] = x[h * 50000 >> 58]


def times_an_argument(x, out, n):
    i = kd.grid(1)
    h = i + 1
    while h < n:
        h = h * n
    out[i] = x[h >> 58]


def negative_below_a_limit(x, out, n):
    i = kd.grid(1)
    h = -1 - i
    while h < x.size and n > 0:
        h = h * 31
        n -= 1
    out[i] = x[-h >> 58]


def difference_below_a_limit(x, out, n):
    i = kd.grid(1)
    h, g, k = i + 1, i, 0
    while h - g < 100 and k < n:
        h = h * 31
        g = h - 1
        k += 1
    out[i] = x[h >> 58]


def narrowed_below_a_limit(x, out, n):
    i = kd.grid(1)
    h, k = i + 1, 0
    while np.int8(h) < 100 and k < n:
        h = h * 31
        k += 1
    out[i] = x[h >> 58]


def means_and_sums(x, out, n):
    i = kd.grid(1)
    h, g = i, 1
    for _ in range(n):
        middle = (h + g) // 2
        h, g = middle + g, middle
    out[i] = x[h >> 57]


def sums_and_their_halves(x, out, n):
    i = kd.grid(1)
    h, g = i, 1
    for _ in range(n):
        total = h + g
        h, g = total // 2, total
    out[i] = x[h >> 57]


def weighted_means(x, out, n):
    i = kd.grid(1)
    h, g = i, 1
    for _ in range(n):
        h, g = g + (h - g) // 2, h + (h - g) // 2
    out[i] = x[h >> 57]


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


def searched_by_for(x, out, n):
    i = kd.grid(1)
    low, high = 0, n
    for _ in range(40):
        middle = (low + high) // 2
        if x[middle] < i:
            low = middle + 1
        else:
            high = middle
    out[low] = high


def searched_by_steps(x, out, n):
    i = kd.grid(1)
    low, high = 0, n - 1
    for _ in range(n):
        if low <= high:
            middle = low + ((high - low) >> 1)
            if x[middle] < i:
                low = middle + 1
            else:
                high = middle - 1
    out[low] = high


def gaps_of_a_sort(x, out, n):
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    out[gap] = x[gap]


def below_a_size(x, out, n):
    i = kd.grid(1)
    h = 1
    while i + h < x.size and h * h < n:
        h = h * 10 + 1
    out[i] = x[h * 100]


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
        below_a_large_literal,
        twice_below_a_large_literal,
        below_an_argument,
        each_below_an_argument,
        after_a_limit,
        times_an_argument,
        negative_below_a_limit,
        difference_below_a_limit,
        narrowed_below_a_limit,
        means_and_sums,
        sums_and_their_halves,
        weighted_means,
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
        searched_by_for,
        searched_by_steps,
        gaps_of_a_sort,
        below_a_size,
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
    return len(overflowing_values(read.body))


@pytest.mark.parametrize("function", HASHES, ids=lambda each: each.__name__)
def test_integers_of_hashes_may_overflow(function: Callable[..., Any]) -> None:
    assert _overflowing(function) > 0


@pytest.mark.parametrize("function", OTHERS, ids=lambda each: each.__name__)
def test_integers_of_extents_do_not_overflow(function: Callable[..., Any]) -> None:
    assert _overflowing(function) == 0
