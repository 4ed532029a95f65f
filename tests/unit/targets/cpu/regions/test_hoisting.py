"""Loads that leave a loop beside stores: where arrays overlap, threads load what they stored.

In debug mode each thread runs by itself, from its beginning to its end: that is the oracle, bit for
bit where nothing is contracted.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from tests.support.extent import examples
from tests.support.region_text import region_text

N = 150


def adds(x, y, out, rounds):
    """Load three elements of a row in each iteration."""
    i = kd.grid(1)
    if i < out.shape[1]:
        for m in range(rounds):
            out[m, i] += y[m, 0] * x[i, 0] - x[i, 1] + x[i, 2]


def sums(x, y, out, rounds):
    """Carry a sum on, and load by an index that the loop computes."""
    i = kd.grid(1)
    if i < out.shape[1]:
        total = x[i, 2]
        for m in range(rounds, 0, -1):
            total += x[i, 1 - 1] * y[m - 1, 0]
            out[m - 1, i] = total
        out[0, i] += total


def loads_under_a_condition(x, y, out, rounds):
    """Load an element in some iterations alone: it may lie outside of the array."""
    i = kd.grid(1)
    if i < out.shape[1]:
        for m in range(rounds):
            value = x[i, 0]
            if m > 1000:
                value += x[i, 100_000_000]
            out[m, i] -= value


def has_loops_inside(x, y, out, rounds):
    """Store in a loop around another one, which may have no iterations."""
    i = kd.grid(1)
    if i < out.shape[1]:
        for m in range(rounds):
            for k in range(m % 3):
                out[m, i] += x[i, k] * y[k, 0]
                out[k, i] -= x[i, 1]
            out[m, i] *= x[i, 2]


def stores_to_two(x, y, out, rounds):
    """Store to the array with the factors, too."""
    i = kd.grid(1)
    if i < out.shape[1]:
        for m in range(rounds):
            out[m, i] += x[i, 0]
            if i == 0:
                y[m, 0] = x[i, 1]


def finds_the_row(x, y, out, rounds):
    """Load the index of what is loaded."""
    i = kd.grid(1)
    if i < out.shape[1]:
        for m in range(rounds):
            row = int(abs(x[i, 2])) % 3
            out[m, i] += x[i, row] - m


KERNELS = (*(adds, sums, loads_under_a_condition, has_loops_inside, stores_to_two, finds_the_row),)
PAIRS = {
    each.__name__: (
        kd.kernel(contract=False)(each),
        kd.kernel(contract=False, debug=True)(each),
    )
    for each in KERNELS
}
SIGNATURE = "float64[:, :], float64[:, ::1], float64[:, ::1], int64"
HOISTED = [each.__name__ for each in KERNELS if each is not stores_to_two]


def run_both(name, memory, arguments, n, block):
    """Run a kernel and its oracle on copies of memory; return both."""
    results = []
    for kernel in PAIRS[name]:
        copy = memory.copy()
        with kd.use("cpu"):
            launch = kernel.forall(n) if block is None else kernel[-(-n // block), block]
            launch(*arguments(copy))
        results.append(copy.view(np.uint8))
    return results


@pytest.mark.parametrize("name", HOISTED)
@pytest.mark.parametrize("block", [None, 32, 128])
def test_loads_run_before_a_loop(name, block):
    how = {"forall": 1} if block is None else {"block": (block, 1, 1)}
    text = region_text(PAIRS[name][0], SIGNATURE, **how)
    assert "array.disjoint %x, %out" in text


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_each_thread_loads_what_it_stored(name, data):
    """Columns of one matrix are both arrays: a thread meets its own elements alone."""
    rounds, first = data.draw(st.integers(0, 6)), data.draw(st.integers(0, 8))
    block, n = data.draw(st.sampled_from([None, 32, 128])), data.draw(st.integers(1, N))
    turned = data.draw(st.booleans())
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    memory = rng.integers(-4, 5, (9 + 8, n)).astype(float)
    memory[rng.random(memory.shape) < 0.1] = np.nan
    memory[rng.random(memory.shape) < 0.1] = -0.0
    factors = rng.normal(size=(8, 1))

    def arguments(copy):
        x = copy[3:6].T
        if turned:
            x = x[:, ::-1]
        return x, factors.copy(), copy[first : first + 8], rounds

    found, expected = run_both(name, memory, arguments, n, block)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_one_thread_meets_any_bytes(name, data):
    """One thread runs, and its arrays begin at any element."""
    x_at, out_at = data.draw(st.integers(0, 20)), data.draw(st.integers(0, 20))
    rounds = data.draw(st.integers(0, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    memory = rng.normal(size=40)
    factors = rng.normal(size=(8, 1))

    def arguments(copy):
        x = copy[x_at : x_at + 3].reshape(1, 3)
        return x, factors.copy(), copy[out_at : out_at + 8].reshape(8, 1), rounds

    found, expected = run_both(name, memory, arguments, 1, None)
    np.testing.assert_array_equal(found, expected)
