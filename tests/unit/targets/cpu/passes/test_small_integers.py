"""Integers that 32 bits hold are kept in as many, and computed with as the int64 that they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.language.signatures import parse_signature
from targets.cpu.passes.magnitudes import small_integers
from targets.cpu.passes.rematerialization import Rematerializable
from tests.support.extent import examples

f32, i32 = np.float32, np.int32
_LARGE = 2**31 - 1


def found(function, signature: str) -> frozenset[str]:
    unit = make_unit(function)
    pure = Rematerializable(unit.tree, unit, tuple(parse_signature(signature)), frozenset())
    return small_integers(unit.tree, pure)


def test_what_stays_small_is_found() -> None:
    def kernel(x, n, byte):
        a = 0
        b = -1
        for k in range(16):
            for j in range(k, 100, 3):
                a = k if x[k] > x[j] else b
                b = min(j, a) + 0 * k
                c, d = k * 100, byte
        x[0] = a + b + c + d + n

    assert found(kernel, "int64[::1], int64, uint8") >= {"a", "k", "j", "c", "d"}


def test_what_may_grow_is_not() -> None:
    def kernel(x, n, word):
        counted = 0
        bounded = _LARGE
        beyond = _LARGE + 1
        follows = 0
        of_memory = 0
        halves = 0.5
        for k in range(n):
            counted += 1
            follows = k
            of_memory = x[k]
        for each in x:
            bounded = bounded + each * halves
        for j in range(x.shape[0]):
            of_extent = j
        shifted = 1 << 40
        first, second = x.shape
        wide = word
        x[0] = counted + beyond + follows + of_memory + of_extent + shifted + first + second + wide

    names = found(kernel, "int64[:, ::1], int64, uint32")
    assert not names, names


def test_a_variable_is_as_small_as_what_it_is_given() -> None:
    def kernel(x):
        a = 1
        b = a
        for _ in range(3):
            a = b * 2
            b = a
        x[0] = a

    # Twice what is taken to be small may be too large, and so is what comes from it.
    assert "a" not in found(kernel, "int64[::1]")
    assert {"_"} == found(kernel, "int64[::1]")


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
