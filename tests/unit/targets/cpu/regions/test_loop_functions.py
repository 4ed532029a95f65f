"""Loops in device functions run for many threads at once, as the kernel's own do.

In debug mode nothing is inlined for its loops and each thread runs by itself: that is the oracle,
bit for bit, since nothing is contracted.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from tests.support.extent import examples, full_beyond

f32, i32 = np.float32, np.int32
_SHORT = 4


@kd.func
def nearest(value, places):
    """Search all places; the loop has an end that threads share."""
    best = -1
    least = f32(math.inf)
    for k in range(places.size):
        apart = abs(places[k] - value)
        if apart < least:
            least = apart
            best = k
    if best < 0:
        return f32(-1)
    return places[best] + least


@kd.func
def escape_time(re, im, most):
    """Iterate, and return out of the loop."""
    a, b = f32(0), f32(0)
    for n in range(most):
        a, b = a * a - b * b + re, f32(2) * a * b + im
        if a * a + b * b > f32(4):
            return n
    return most


@kd.func
def root(value, most):
    """Assign the parameter, and leave the loop when nothing changes any more."""
    guess = value + f32(1)
    value = abs(value)
    while most > 0:
        better = f32(0.5) * (guess + value / guess)
        if better == guess:
            break
        guess = better
        most -= 1
    return guess


@kd.func
def root_of_nearest(value, places, most):
    return root(nearest(value, places), most) - value


@kd.func
def sums(values, count):
    """Return two values at once."""
    total, squares = f32(0), f32(0)
    for k in range(count):
        total += values[k]
        squares += values[k] * values[k]
    return total, squares


@kd.func
def added_up(out, i, most):
    """Write memory in the loop, in the order of its rounds."""
    for k in range(most):
        out[i] = out[i] * f32(0.5) + k
    return out[i]


@kd.func
def shortly(value):
    for k in range(_SHORT):
        value = value * f32(0.5) + k
    return value


@kd.func
def with_own_array(value, most):
    own = kd.local.array(8, f32)
    for k in range(8):
        own[k] = value + k
    total = f32(0)
    for k in range(most):
        total += own[k % 8]
    return total


def searches(x, places, out, most):
    i = kd.grid(1)
    if i < out.size:
        out[i] = nearest(x[i], places)


def escapes(x, places, out, most):
    i = kd.grid(1)
    if i < out.size:
        out[i] = escape_time(x[i], f32(0.5) * x[i], most) + f32(0.25)


def finds_roots(x, places, out, most):
    i = kd.grid(1)
    if i >= out.size:
        return
    value = x[i]
    found = root(value, most)
    out[i] = found * value + most


def calls_through(x, places, out, most):
    i = kd.grid(1)
    if i < out.size:
        out[i] = root_of_nearest(x[i], places, most)


def unpacks(x, places, out, most):
    i = kd.grid(1)
    if i < out.size:
        total, squares = sums(places, min(most, places.size))
        out[i] = total * x[i] + squares


def keeps_the_order(x, places, out, most):
    """Read what a call then writes, before and after it in one expression."""
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i]
        out[i] = out[i] + added_up(out, i, most) * out[i]


def around_a_barrier(x, places, out, most):
    """Search in shared memory, between barriers."""
    i, t = kd.grid(1), kd.threadIdx.x
    near = kd.shared.array(16, f32)
    for k in range(t, 16, kd.blockDim.x):
        near[k] = f32(0.25) * k - f32(2)
    kd.syncthreads()
    value = x[i] if i < out.size else f32(0)
    found = nearest(value, near)
    kd.syncthreads()
    if i < out.size:
        out[i] = found + root(value, most)


def sometimes(x, places, out, most):
    """Call where an expression may have no room for statements, and in branches."""
    i = kd.grid(1)
    if i < out.size:
        value = x[i]
        near = nearest(value, places) if value > f32(0) else f32(7)
        if value > f32(1):
            near += root(value, most)
        else:
            near -= escape_time(value, value, most)
        out[i] = near


KERNELS = (
    searches,
    escapes,
    finds_roots,
    calls_through,
    unpacks,
    keeps_the_order,
    around_a_barrier,
    sometimes,
)


def pair(function):
    """Return a kernel, and the same run thread by thread."""
    return kd.kernel(contract=False)(function), kd.kernel(contract=False, debug=True)(function)


PAIRS = {function.__name__: pair(function) for function in KERNELS}


@pytest.mark.parametrize("name", full_beyond(PAIRS, [*PAIRS][::2]))
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_each_thread_computes_what_it_does_alone(name: str, data) -> None:
    n = data.draw(st.sampled_from([1, 15, 16, 17, 31, 64, 65, 200, 1000]))
    most = data.draw(st.integers(0, 60))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    x = rng.standard_normal(n).astype(f32) * f32(2)
    x[rng.integers(n)] = data.draw(st.sampled_from([-0.0, 0.0, np.nan, 1e-40, 3.0]))
    places = rng.standard_normal(data.draw(st.integers(0, 40))).astype(f32)
    kernel, alone = PAIRS[name]
    found, expected = np.full(n, np.nan, f32), np.full(n, np.nan, f32)
    block = data.draw(st.sampled_from([1, 7, 16, 33, 128]))
    grid = -(-n // block)
    with kd.use("cpu"):
        kernel[grid, block](x, places, found, most)
        alone[grid, block](x, places, expected, most)
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))
