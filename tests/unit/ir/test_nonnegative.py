"""Which indices are proved not to be negative, from conditions and loops around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.ir.nonnegative import mark_indices
from kerneldsl.ir.simplify import simplify
from tests.support.regions.reading import as_written, specialized


def before(x, out):
    i = kd.grid(1)
    if 0 < i < x.size:
        out[i] = x[i - 1]


def before_if_not_first(x, out):
    i = kd.grid(1)
    if i != 0:
        out[i] = x[i - 1]


def after_a_return(x, out):
    i = kd.grid(1)
    if i == 0 or i >= x.size:
        return
    out[i] = x[i - 1]


def strided(x, out):
    i = kd.grid(1)
    while i < x.size:
        out[i] = x[i]
        i += kd.gridsize(1)


def downwards(x, out):
    i = x.size - 1
    while i >= 0:
        out[i] = x[i]
        i -= 1
    for k in range(x.size - 1, -1, -1):
        out[k] = x[k]


def within_rows(x, out):
    width = 16
    t = kd.threadIdx.x
    for row in range(x.size // width):
        out[row * width + t % width] = x[row * width + (width - 1) - t % width]


def searched(x, out):
    low, high = 0, x.size
    while low < high:
        middle = (low + high) // 2
        if x[middle] < 3:
            low = middle + 1
        else:
            high = middle
    out[low] = 1


def clamped(x, out):
    i = kd.grid(1)
    if i < x.size:
        out[i] = x[min(max(i - 1, 0), x.size - 1)]


def distance(x, out):
    first = kd.blockIdx.x * kd.blockDim.x
    i = first + kd.threadIdx.x
    while i < x.size:
        out[i - first] = x[i]
        i += 7


def until_the_block(x, out):
    out[kd.blockDim.x - 1 - kd.threadIdx.x] = x[kd.threadIdx.x]


def unknown(x, out):
    i = kd.grid(1)
    out[i] = x[i - 1]


def without_a_bound(x, out, n):
    i = kd.grid(1)
    if i < n:
        out[i] = x[n - i - 2]


def stale(x, out):
    i = kd.grid(1)
    k = i
    if k > 3:
        k -= 5
    out[i] = x[k]


def by_a_small_uint64(x, out):
    i = kd.grid(1)
    out[i] = x[i + np.uint64(3)]


def by_a_large_uint64(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i + np.uint64(2**64 - 1)]


def by_a_loaded_uint64(x, out):
    i = kd.grid(1)
    out[i] = x[i + np.uint64(x[i])]


def by_a_quotient(x, out):
    i = kd.grid(1)
    out[i] = x[np.uint64(2**63 + 5) // x.size]


UNKNOWN = [
    *(unknown, without_a_bound, stale),
    *(by_a_large_uint64, by_a_loaded_uint64, by_a_quotient),
]
PROVED = [
    *(before, before_if_not_first, after_a_return, strided, downwards, within_rows, searched),
    *(clamped, distance, until_the_block, by_a_small_uint64),
]


def _marks(function: Callable[..., Any], *, wraparound: bool = True) -> list[bool]:
    kernel = kd.kernel(function)
    count = function.__code__.co_argcount
    signature = ", ".join(("int64[::1], int64[::1]", "int64")[: count - 1])
    read = as_written(specialized(kernel, (signature,)))
    simplify(read.body)
    mark_indices(read, wraparound=wraparound)
    return [all(each.attributes.get("nonnegative", ())) for each in read.body.walk()]


@pytest.mark.parametrize("function", PROVED, ids=lambda each: each.__name__)
def test_an_index_is_proved(function: Callable[..., Any]) -> None:
    assert all(_marks(function))


@pytest.mark.parametrize("function", UNKNOWN, ids=lambda each: each.__name__)
def test_an_index_that_may_be_negative_is_not_marked(function: Callable[..., Any]) -> None:
    assert not all(_marks(function))
    assert all(_marks(function, wraparound=False))


@pytest.mark.filterwarnings("ignore:.*becomes negative")
def test_a_uint64_beside_an_index_is_an_int64() -> None:
    x, out = np.arange(16), np.zeros(16, np.int64)
    with kd.use("cpu"):
        kd.kernel(by_a_large_uint64).forall(16)(x, out)
    assert np.array_equal(out, np.roll(x, 1))
