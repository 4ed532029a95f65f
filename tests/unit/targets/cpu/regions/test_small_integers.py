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
