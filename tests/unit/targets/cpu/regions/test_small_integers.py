"""Integers that 32 bits hold are kept in as many, and computed with as the int64 that they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from tests.support.extent import examples

f32, i32 = np.float32, np.int32
_LARGE = 2**31 - 1


def last_below(x, places, out):
    """Keep an index while others go on, and look at all of its bits afterwards."""
    i = kd.grid(1)
    if i < out.size:
        best = -1
        second = 2147483647
        least = f32(np.inf)
        for k in range(24):
            apart = abs(places[k] - x[i])
            if apart < least:
                least = apart
                second = best
                best = k
        out[i] = kd.popc(best) * 1000003 + (second << 33) + best * 4294967296 - second // 3


def around_barriers(x, places, out):
    i, t = kd.grid(1), kd.threadIdx.x
    own = min(t, 20) - 10
    held = kd.shared.array(32, i32)
    for k in range(3):
        held[t] = own
        kd.syncthreads()
        own = held[(t + k) % kd.blockDim.x] - (0 if k else -2147483648 + 2147483647)
        kd.syncthreads()
        own = own if own > -2147483647 else -2147483647
        own = max(min(own, 2147483647), -2147483647)
    if i < out.size:
        out[i] = own + kd.popc(own) + (own << 35)


PAIRS = {
    f.__name__: (kd.kernel(contract=False)(f), kd.kernel(contract=False, debug=True)(f))
    for f in (last_below, around_barriers)
}


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=examples(30), deadline=None)
@given(count=st.sampled_from([1, 15, 33, 200]), seed=st.integers(0, 2**32 - 1))
def test_results_are_those_of_int64(name: str, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, places = rng.standard_normal(count).astype(f32), rng.standard_normal(24).astype(f32)
    x[rng.integers(count)] = np.nan
    found, expected = np.full(count, -7, np.int64), np.full(count, -7, np.int64)
    kernel, alone = PAIRS[name]
    with kd.use("cpu"):
        kernel[-(-count // 32), 32](x, places, found)
        alone[-(-count // 32), 32](x, places, expected)
    np.testing.assert_array_equal(found, expected)


@kd.kernel
def by_threads(x, y, product, total, difference, contracted):
    i, t = kd.grid(1), kd.threadIdx.x
    product[i] = x[i] * t
    total[i] = (t - 500) + x[i]
    difference[i] = x[i] - (t << 14)
    contracted[i] = kd.float32(x[i] * t) + y[i]


def test_products_of_float32_and_small_integers_are_rounded_once() -> None:
    """They are float64, and stored as float32: an operation of float32 gives the same bits."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 512 * 64, np.uint32)
    bits[:8] = [0, 1 << 31, 1, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x00800000, 0x7FC00000]
    x = np.concatenate([bits.view(f32), rng.standard_normal(512 * 64).astype(f32)])
    x[np.isnan(x)] = np.nan
    y = rng.standard_normal(x.size).astype(f32)
    found = [np.zeros_like(x) for _ in range(4)]
    with kd.use("cpu"):
        by_threads[x.size // 512, 512](x, y, *found)
        code = by_threads.asm(x, y, *found, block=512, target="cpu")
    t = np.arange(x.size) % 512
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        expected = [(wide * t).astype(f32), ((t - 500) + wide).astype(f32)]
        expected += [(wide - (t << 14)).astype(f32), (wide * t).astype(f32) + y]
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_array_equal(np.signbit(mine), np.signbit(theirs))
    assert "cvtps2pd" not in code


def test_a_large_integer_takes_float64() -> None:
    @kd.kernel
    def by_elements(x, n, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = x[i] * n

    x, out = np.full(64, 3.0, f32), np.zeros(64, f32)
    with kd.use("cpu"):
        by_elements.forall(64)(x, 2**24 + 1, out)
    np.testing.assert_array_equal(out, (x.astype(np.float64) * (2**24 + 1)).astype(f32))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16, np.uint32])
def test_numbers_of_every_integer_type_keep_their_sign(rng, kind: type) -> None:
    @kd.kernel
    def by_elements(x, y, out):
        i = kd.grid(1)
        number = kind(x[i])
        out[0, i] = f32(number * y[i])
        out[1, i] = f32(y[i] - number)

    x = rng.integers(-(2**20), 2**20, 333)
    y, out = rng.standard_normal(333).astype(f32), np.zeros((2, 333), f32)
    with kd.use("cpu"):
        by_elements.forall(333)(x, y, out)
    numbers, wide = x.astype(kind).astype(np.float64), y.astype(np.float64)
    np.testing.assert_array_equal(out[0], (numbers * wide).astype(f32))
    np.testing.assert_array_equal(out[1], (wide - numbers).astype(f32))
