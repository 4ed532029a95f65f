"""Small local arrays become variables where all their indices are known; results stay the same.

In debug mode each thread runs by itself, and has its array in memory: that is the oracle, bit for
bit where nothing is contracted.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond
from tests.support.region_text import region_text

f32, i8, i32, u8 = np.float32, np.int8, np.int32, np.uint8
WIDTH = 4
LAST = -1
BLOCK = 32


def sums_in_a_tile(x, y, out):
    """Add products to a tile of registers, whose rows and columns are read first."""
    i = kd.grid(1)
    acc = kd.local.array((WIDTH, 3), np.float32)
    near, far = kd.local.array(WIDTH, np.float32), kd.local.array(3, np.float64)
    for r in range(WIDTH):
        for c in range(3):
            acc[r, c] = 0
    for k in range(x.shape[0] - 4):
        for r in range(WIDTH):
            near[r] = x[k + r, i]
        for c in range(3):
            far[c] = y[k, i] + c
        for r in range(len(near)):
            for c in range(acc.shape[1]):
                acc[r][c] += near[r] * far[c]
    for r in range(WIDTH):
        for c in range(3):
            out[r, i] += acc[r, c]


def sorts(x, y, out):
    """Exchange neighbours that are in the wrong order, in two ways."""
    i = kd.grid(1)
    v = kd.local.array(6, np.float32)
    for k in range(6):
        v[k] = x[k, i]
    for first in range(2):
        for k in range(first, 5, 2):
            if v[k] > v[k + 1]:
                v[k], v[k + 1] = v[k + 1], v[k]
        for k in range(4 + first, 0, -2):
            if v[k] < v[k - 1]:
                t = v[k]
                v[k] = v[k - 1]
                v[k - 1] = t
    for k in range(6):
        out[k, i] = v[k]


def stands_beside_others(x, y, out):
    """Declare arrays beside other values, and in what is called."""
    i = kd.grid(1)
    v, start = kd.local.array(3, np.float32), x[0, i]
    (w, scale), n = (kd.local.array((2, 1), np.float32), y[0, i]), 3
    for k in range(3):
        v[k], start = start * scale, x[k, i] + n
    w[0, 0], w[1, 0] = v[2], v[0]
    w[0, 0], w[1, 0] = w[1, 0], w[0, 0]
    out[0, i], out[1, i] = w[0, 0], w[1, 0] + total_of_two(v)


def total_of_two(v):
    sums, more = kd.local.array(2, np.float64), 1.5
    sums[0], sums[1] = v[0] + more, v[1]
    return sums[0] + sums[1]


def slides(x, y, out):
    """Move a window along, by conditions on the index that keep it inside."""
    i = kd.grid(1)
    window = kd.local.array(5, np.float32)
    window[:] = 0
    for j in range(x.shape[0]):
        for k in range(5):
            window[k] = window[k + 1] if k < 4 else x[j, i]
        total = 0.0
        for k in range(5):
            if k > 0 and window[k - 1] < window[k]:
                total += window[k] * k
            if k == 0:
                total -= window[LAST]
            else:
                total += window[k - 1] / k
        out[j % out.shape[0], i] += total


def converts(x, y, out):
    """Store what does not fit: it is rounded, or wraps around."""
    i = kd.grid(1)
    small, byte = kd.local.array(3, np.int8), kd.local.array(2, np.uint8)
    truth, wide = kd.local.array(2, np.bool_), kd.local.array(2, np.complex64)
    for k in range(3):
        small[k] = i * 57 + k
        small[k] *= 3
        small[k] -= 100
    for k in range(2):
        byte[k] = i - 3 * k
        byte[k] <<= 1
        truth[k] = x[k, i] > 0
        truth[k] |= small[k] > 3
        wide[k] = x[k, i] + 1j * y[k, i] / 3
        wide[k] *= wide[k] - k
    out[0, i] = small[0] + small[1] * small[2]
    out[1, i] = byte[0] // 3 + byte[-1]
    out[2, i] = (2 if truth[0] else 3) + truth[1]
    out[3, i] = wide[0].real * wide[1].imag + abs(wide[1])


def keeps_types(x, y, out):
    """Use the index where its value or its type decides how is computed."""
    i = kd.grid(1)
    v = kd.local.array(4, np.float32)
    for k in range(4):
        v[k] = x[k, i] ** k
        if k == 0:
            t = 1
        else:
            t = v[k - 1]
        v[k] += t / 3 * t
        u = v[k - 1] if k > 0 else 0
        v[k] = u * u + k**2 + (k or y[k, i]) * v[k]
    for k in range(4):
        out[k, i] = v[k]


def lives_on(x, y, out):
    """Keep elements across barriers, under conditions, with an early return."""
    t, i = kd.threadIdx.x, kd.grid(1)
    shared = kd.shared.array(BLOCK, np.float32)
    v = kd.local.array((2, 2), np.float32)
    if i >= x.shape[1]:
        return
    v[0, 0] = x[0, i]
    v[1, 1] = 2
    for step in range(3):
        if t > 5:
            for k in range(2):
                v[k, 1 - k] = step * 0.1 + k
        shared[t] = v[0, 0]
        kd.syncthreads()
        v[0, 0] = shared[t] * 0.5 + step
        if t <= 5:
            v[0, 1], v[1, 0] = v[1, 1], v[0, 0]
        v[1, 1] += v[0, 1] - v[1, 0]
        kd.syncthreads()
    for k in range(2):
        out[k, i] = v[k, 0]
        out[2 + k, i] = v[k, 1]


def stays_in_rounds(x, y, out):
    """Carry elements and variables from one round of an outer loop to the next."""
    i = kd.grid(1)
    last = f32(0)
    for j in range(3):
        v = kd.local.array(3, np.float32)
        for k in range(3):
            place = k + j
            here = x[place, i]
            v[k] = here - last
            last = here
            other = (k + 1) % 3
            if j > 0:
                v[k] += v[other] if other < k else y[other, i]
        out[j, i] = v[0] + v[1] * v[2]


def leaves_loops_inside(x, y, out):
    """Hold loops that are left early in one that is written out."""
    i = kd.grid(1)
    v = kd.local.array(3, np.int32)
    for k in range(3):
        n = 0
        while True:
            n += 1
            if n > i % 7 + k:
                break
        for j in range(x.shape[0]):
            if x[j, i] > k * 0.5:
                continue
            n += j
        v[k] = n
    for k in range(3):
        out[k, i] = v[k]


@kd.func
def order(v, k, other):
    low, high = min(v[k], v[other]), max(v[k], v[other])
    v[k], v[other] = low, high


@kd.func
def median(v):
    for k in range(len(v)):
        for other in range(k + 1, len(v)):
            order(v, k, other)
    return v[len(v) // 2]


@kd.func
def determinant(x, i, j):
    m = kd.local.array((2, 2), np.float64)
    for r in range(2):
        for c in range(2):
            m[r, c] = x[j + 2 * r + c, i]
    return m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]


def is_given_to_functions(x, y, out):
    """Give arrays to functions that give them to others, and have arrays in functions."""
    i = kd.grid(1)
    v = kd.local.array(5, np.float32)
    for j in range(3):
        for k in range(5):
            v[k] = x[j + k, i]
        middle = median(v)
        out[j, i] = middle + v[0] * 2
    out[3, i] = determinant(y, i, 1) - 2 * determinant(x, i, 4)


def shifts_none(x, y, out):
    """Have loops over elements with no rounds."""
    i = kd.grid(1)
    near, total = kd.local.array(1, np.float32), kd.local.array(1, np.float32)
    total[0] = 0
    for j in range(x.shape[0]):
        for k in range(len(near) - 1):
            near[k] = near[k + 1]
        near[len(near) - 1] = x[j, i]
        for k in range(len(near)):
            total[k] += near[k] * y[j, i]
    out[0, i] = total[0]


def has_parts(x, y, out):
    """Use slices and rows with constant bounds, also in a loop that threads leave early."""
    i = kd.grid(1)
    v, w = kd.local.array(6, np.float32), kd.local.array((3, 4), np.float32)
    for k in range(6):
        v[k] = x[k, i]
    for r in range(3):
        for c in range(4):
            w[r, c] = y[(r * 4 + c) % 12, i]
    j = 0
    while j < x.shape[0] and abs(x[j, i]) < 2:
        step = kd.local.array(4, np.float32)
        for k in range(4):
            step[k] = v[1:][k] - w[1][k]
        rest, back, column = step[1:3], v[::-2], w[1:, -2]
        rest[1] += column[0] * back[2]
        column[-1] = rest[0] + w[2, 1:][0]
        v[-2:][0] = step[2] + step[-1]
        j += 1
    for k in range(6):
        out[k, i] = v[k] + w[2, k % 4]


BECOME = (
    *(
        has_parts,
        shifts_none,
        sums_in_a_tile,
        sorts,
        slides,
        converts,
        keeps_types,
        lives_on,
        stays_in_rounds,
    ),
    *(leaves_loops_inside, is_given_to_functions, stands_beside_others),
)


def counts(x, y, out):
    """Index by data."""
    i = kd.grid(1)
    bins = kd.local.array(4, np.int32)
    for k in range(4):
        bins[k] = 0
    for j in range(x.shape[0]):
        bins[int(abs(x[j, i]) * 2) % 4] += 1
    for k in range(4):
        out[k, i] = bins[k]


def is_aliased(x, y, out):
    """Have another name for the array, and a view of it."""
    i = kd.grid(1)
    v, w = kd.local.array(4, np.float32), kd.local.array((2, 2), np.float32)
    other, row = v, w[1]
    for k in range(4):
        v[k] = x[k, i]
        other[k] += 1
    for k in range(2):
        w[k, 0] = w[k, 1] = v[k]
        row[k] = v[k + 2]
    for k in range(4):
        out[k, i] = v[k] + w[k // 2, k % 2]


def ends_early(x, y, out):
    """Break out of the loop over the elements."""
    i = kd.grid(1)
    v = kd.local.array(4, np.float32)
    for k in range(4):
        v[k] = 0
    for k in range(4):
        if x[k, i] > 1:
            break
        v[k] = x[k, i]
    for k in range(4):
        out[k, i] = v[k]


def asks_the_counter(x, y, out):
    """Read the loop's variable behind the loop."""
    i = kd.grid(1)
    v = kd.local.array(4, np.float32)
    k = 7
    for k in range(3):
        v[k] = x[k, i]
    out[0, i] = v[0] + v[1] + v[2] + k


def is_long(x, y, out):
    """Have more rounds than are written out."""
    i = kd.grid(1)
    v = kd.local.array(8, np.float32)
    for k in range(8):
        v[k] = x[k % 4, i]
    for j in range(20):
        for k in range(8):
            v[k] = v[(k + j) % 8] * 0.5 + x[k % 4, i]
    for k in range(8):
        out[k % 4, i] += v[k]


@kd.func
def total_of(v):
    total = f32(0)
    for k in range(len(v)):
        total += v[k]
    return total


def is_given(x, y, out):
    """Give the array to a function in a place where it is only sometimes called."""
    i = kd.grid(1)
    v = kd.local.array(4, np.float32)
    for k in range(4):
        v[k] = x[k, i]
    out[0, i] = total_of(v) if x[0, i] > 0 else -1


def turns_round(x, y, out):
    """Index by what is known at run time alone, and is the same for all threads."""
    i = kd.grid(1)
    if i >= x.shape[1]:
        return
    ring, last = kd.local.array(5, np.float32), kd.local.array(3, np.int8)
    ring[:] = 0
    for j in range(x.shape[0] - 2):
        ring[j % 5] = x[j, i]
        ring[(j + 2) % 5] += y[j, i] * ring[j % 5]
        ring[(j + 1) % len(ring)] -= ring[(2 * j + 1) % 5] / 4
        last[j % 3] = i * j
    total = f32(0)
    for k in range(x.shape[0] % 7):
        total += ring[k] * ring[-1 - k] - last[k % 3]
    out[0, i] += total


def turns_its_own_way(x, y, out):
    """Index an array by an element of another one."""
    i = kd.grid(1)
    ring, order = kd.local.array(5, np.float32), kd.local.array(3, np.int8)
    for k in range(x.shape[0]):
        order[k % 3] = 2 * k % 5
        ring[k % 5] = x[k, i]
    for j in range(x.shape[0]):
        ring[order[j % 3]] += y[j, i] * ring[order[(j + 1) % 3]]
    for k in range(x.shape[0] % 5):
        out[k, i] = ring[k]


def is_large(x, y, out):
    """Have more elements than become variables."""
    i = kd.grid(1)
    v = kd.local.array((2, 50), np.float32)
    for k in range(100):
        v[k % 2][k // 2] = x[k % 12, i] * k
    for k in range(1, 50):
        v[1, k] += v[0, k - 1] * y[k % 12, i]
    for k in range(8):
        out[k, i] = v[0, 6 * k] + v[1, 5 * k + 1]


def turns_across_barriers(x, y, out):
    """Keep what is in such an array across barriers."""
    t, i = kd.threadIdx.x, kd.grid(1)
    shared = kd.shared.array(BLOCK, np.float32)
    ring = kd.local.array(3, np.float64)
    for k in range(3):
        ring[k] = k
    for j in range(x.shape[0]):
        shared[BLOCK - 1 - t] = x[j, i]
        kd.syncthreads()
        for k in range(j % 4):
            ring[(j + k) % 3] += shared[t] * y[k, i]
        kd.syncthreads()
    for k in range(min(3, x.shape[0])):
        out[k, i] = ring[k]


SPREAD = (turns_round, is_large, is_long, turns_across_barriers)


def is_of_one_branch(x, y, out):
    """Declare the array where not all threads may come."""
    i = kd.grid(1)
    if x[0, i] > 0:
        out[0, i] = 1
    else:
        ring = kd.local.array(4, np.float32)
        for k in range(x.shape[0]):
            ring[k % 4] = x[k, i]
        for k in range(x.shape[0] % 5):
            out[k, i] = ring[k]


def is_gathered(x, y, out):
    """Fill the array from places that are apart: threads do better one by one."""
    t, i = kd.threadIdx.x, kd.grid(1)
    shared = kd.shared.array((2, BLOCK), np.float32)
    v = kd.local.array(2, np.float32)
    row, place = t % 2, t // 2
    for k in range(2):
        if x[k, i] > -1:
            v[k] = x[row + k, i - t + place]
        else:
            v[k] = k
    for k in range(2):
        shared[k, place + row * (BLOCK // 2)] = v[k]
    kd.syncthreads()
    out[0, i] = shared[0, t]
    out[1, i] = shared[1, t]


STAY = (
    counts,
    is_aliased,
    ends_early,
    asks_the_counter,
    is_given,
    turns_its_own_way,
    is_of_one_branch,
    is_gathered,
)
KINDS = "float32[:, ::1], float32[:, ::1], float32[:, ::1]"


def arguments(rng, n):
    x = rng.normal(size=(12, n)).astype(f32)
    y = rng.normal(size=(12, n)).astype(f32)
    return x, y, np.zeros((8, n), f32)


@cache
def kernels_of(function) -> tuple[kd.Kernel, kd.Kernel]:
    """The kernel, and the one of debug mode, whose arrays are in memory."""
    return kd.kernel(contract=False)(function), kd.kernel(contract=False, debug=True)(function)


_FUNCTIONS = [*BECOME, *STAY, *SPREAD]


@pytest.mark.parametrize(
    "function", full_beyond(_FUNCTIONS, _FUNCTIONS[::3]), ids=lambda f: f.__name__
)
def test_results_are_those_of_arrays_in_memory(function, rng):
    n = 3 * BLOCK
    x, y, out = arguments(rng, n)
    expected = out.copy()
    kernel, in_memory = kernels_of(function)
    with kd.use("cpu"):
        kernel[3, BLOCK](x, y, out)
        in_memory[3, BLOCK](x, y, expected)
    np.testing.assert_array_equal(out.view(np.uint8), expected.view(np.uint8))
    assert np.any(out)


#: Arrays of complex numbers stay in memory by the region IR.
VARIABLES = (sorts, keeps_types, lives_on, leaves_loops_inside, stands_beside_others)
VARIABLES += (ends_early, asks_the_counter, is_gathered, is_given, is_given_to_functions)
VARIABLES += (shifts_none, slides, sums_in_a_tile, stays_in_rounds, is_aliased, has_parts)


@pytest.mark.parametrize("function", VARIABLES, ids=lambda f: f.__name__)
def test_arrays_whose_indices_are_known_become_variables(function):
    text = region_text(kernels_of(function)[0], KINDS, block=(BLOCK, 1, 1))
    assert "local.array" not in text


@pytest.mark.parametrize(
    "function", [f for f in STAY if f not in VARIABLES], ids=lambda f: f.__name__
)
def test_other_arrays_stay_in_memory(function):
    text = region_text(kernels_of(function)[0], KINDS, block=(BLOCK, 1, 1))
    assert "local.array" in text


def test_what_no_element_can_hold_is_told_as_of_an_array():
    @kd.kernel
    def stores(x, y, out):
        v = kd.local.array(2, np.float32)
        v[0] = x[0, 0] * 1j
        out[0, 0] = v[0]

    message = r"complex128 is stored in an element of float32\[::1\], in `v\[0\]`"
    with kd.use("cpu"), pytest.raises(kd.errors.KernelTypingError, match=message):
        stores[1, 1](*(np.ones((2, 2), f32) for _ in range(3)))


@pytest.mark.parametrize("function", [f for f in SPREAD if f is not turns_across_barriers])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_strips_of_any_length_have_an_element_for_each_thread(function, n, rng):
    x, y, out = arguments(rng, n)
    expected = out.copy()
    kernel, in_memory = kernels_of(function)
    with kd.use("cpu"):
        kernel.forall(n)(x, y, out)
        in_memory.forall(n)(x, y, expected)
    np.testing.assert_array_equal(out.view(np.uint8), expected.view(np.uint8))


def test_a_plan_names_the_arrays_that_stay_in_memory(rng):
    arrays = arguments(rng, BLOCK)
    with kd.use("cpu"):
        (note,) = kd.kernel(counts)[1, BLOCK].plan(*arrays).notes
        assert kd.kernel(sorts)[1, BLOCK].plan(*arrays).notes == ()
    assert note.startswith("kd.local.array((4,), int32) (line ")
    assert "by constants or in short loops of constant length, become variables" in note


def activated(v, kind):
    if kind == 0:
        return math.tanh(v)
    if kind == 1:
        return math.atan2(v, 1.0 + v * v)
    return math.sin(v)


def activations(x, kinds, out):
    i = kd.grid(1)
    state = kd.local.array(16, np.float64)
    for k in range(16):
        state[k] = activated(x[i] + k, kinds[k])
    for k in range(16):
        out[i, k] = state[k]


def test_a_function_is_called_for_each_element(rng):
    x, kinds = rng.random(BLOCK), np.arange(16) % 3
    out = np.full((BLOCK, 16), np.nan)
    with kd.use("cpu"):
        kernel = kd.kernel(activations)
        kernel.forall(BLOCK)(x, kinds, out)
    v = x[:, None] + np.arange(16)
    expected = np.choose(kinds, [np.tanh(v), np.arctan2(v, 1 + v * v), np.sin(v)])
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def largest_in_lanes(x, out):
    """Have an array with so many uses that LLVM does not follow all of them."""
    i = kd.grid(1)
    held = kd.local.array(64, np.int64)
    for k in range(64):
        held[k] = x[i, k]
    for at in range(64, x.shape[1] - 63, 64):
        for k in range(64):
            held[k] = max(held[k], x[i, at + k])
    for k in range(16):
        half = max(held[k], held[k + 32])
        held[k] = max(half, max(held[k + 16], held[k + 48]))
    total = held[0]
    for k in range(1, 16):
        total = max(total, held[k])
    out[i] = total


def test_local_arrays_are_not_where_arguments_are(rng):
    x = rng.integers(-(10**6), 10**6, (5, 640))
    out = np.zeros(5, np.int64)
    kernel = kd.kernel(largest_in_lanes)
    with kd.use("cpu"):
        kernel.forall(5)(x, out)
    np.testing.assert_array_equal(out, x.max(axis=1))
    # A test of addresses before each vector loop would keep the array in memory.
    assert "found.conflict" not in kernel.llvm("int64[:, ::1], int64[::1]", forall=1, target="cpu")
