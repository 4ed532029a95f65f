"""Loops that threads leave one by one, or in which they take turns, run for many threads at once.

In debug mode each thread runs by itself, from its beginning to its end: that is the oracle, bit for
bit where nothing is contracted.
"""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

import kerneldsl as kd
from kerneldsl.lowering.loop_marks import (
    FULLY_UNROLLED,
    NOT_UNROLLED,
    UNROLLED_AS_VECTORS,
    leave_as_it_is,
    mark_loop,
    unroll_in_full,
    with_loop_marks,
)
from tests.support.extent import examples

f32, i32 = np.float32, np.int32
EXTENTS = (0, 1, 15, 16, 17, 31, 64, 65, 200, 1000)
_WIDTH = 48


def escapes(x, out, most):
    """Iterate until a value is large: a ``while`` of two tests, values assigned at once."""
    i = kd.grid(1)
    if i < out.size:
        re, im = x[i], f32(0.5) * x[i]
        a, b = f32(0), f32(0)
        n = 0
        while n < most and a * a + b * b <= f32(4):
            a, b = a * a - b * b + re, f32(2) * a * b + im
            n += 1
        out[i] = n + a


def leaves_in_the_middle(x, out, most):
    """Leave at two places, and skip what is left of some iterations."""
    i = kd.grid(1)
    if i < out.size:
        v = x[i]
        total = f32(0)
        last = f32(-1)
        for k in range(most):
            v = v * f32(1.25) + f32(0.125)
            if v > f32(40):
                break
            if k % 3 == 1:
                continue
            last = v
            if math.isnan(v):
                total = f32(-3)
                break
            total += v
        out[i] = total + last


def counts_differ(x, out, most):
    """Run so often as an argument says, backwards for some threads; with an early return."""
    i = kd.grid(1)
    if i >= out.size:
        return
    v = x[i]
    first = int(abs(v) * f32(3)) % 7
    total = 0.0
    for k in range(first, most % 23 - 4, 2):
        total += k * v
    for k in range(most % 11, first, -1):
        total -= math.sqrt(abs(v)) / (k + 1)
    out[i] = total


def returns_from_loop(x, out, most):
    """Return out of a loop, after which others go on."""
    i = kd.grid(1)
    if i < out.size:
        v = x[i]
        k = 0
        out[i] = f32(7)
        while True:
            v = v * v - f32(0.75)
            k += 1
            if k > most:
                return
            if v > f32(1):
                break
        out[i] = v + k


def halves(x, out, most):
    """Count with integers that wrap, shift and divide by a constant."""
    i = kd.grid(1)
    if i < out.size:
        n = int(abs(x[i]) * f32(1000)) + i
        steps = 0
        while n > 1 and steps < most:
            n = n // 2 if n & 1 == 0 else 3 * n + 1
            steps += 1
        out[i] = steps


def one_in_many(x, out, most):
    """Assign in the loop what is read behind it, and was never assigned before."""
    i = kd.grid(1)
    if i < out.size:
        v = x[i]
        rounds = 0
        while rounds == 0 or (v < f32(100) and rounds < most):
            found = v
            v = v + abs(v) + f32(0.5)
            rounds += 1
        out[i] = found


def becomes_a_float(x, out, most):
    """Leave with a float what is an integer if the loop ends by itself."""
    i = kd.grid(1)
    if i < out.size:
        v = x[i]
        n = most
        for k in range(most):
            v = v * f32(1.25) + f32(0.125)
            if v > f32(40):
                n = v * 0.5
                break
            n = n - k
        out[i] = n


def becomes_long(x, out, most):
    """Leave with an integer of 64 bits what has few bits in the loop."""
    i = kd.grid(1)
    if i < out.size:
        v = x[i]
        n = 0
        for k in range(10):
            v = v * f32(1.25) + f32(0.125)
            if v > f32(4):
                n = 2**40 * (k + most)
                break
            n = k
        out[i] = n


DIVERGENT = (escapes, leaves_in_the_middle, counts_differ, returns_from_loop)
DIVERGENT += (halves, one_in_many, becomes_a_float, becomes_long)


def pair(function):
    """Return a kernel, and the same run thread by thread."""
    return kd.kernel(contract=False)(function), kd.kernel(contract=False, debug=True)(function)


PAIRS = {function.__name__: pair(function) for function in DIVERGENT}


def same(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_strips_compute_what_each_thread_does(name: str, data) -> None:
    n = data.draw(st.sampled_from(EXTENTS))
    most = data.draw(st.integers(0, 60))
    seed = data.draw(st.integers(0, 2**32 - 1))
    x = np.random.default_rng(seed).standard_normal(n).astype(f32) * f32(2)
    if n:
        x[seed % n] = data.draw(st.sampled_from([-0.0, 0.0, np.nan, 1e-40, 3.0]))
    if name == "halves":
        x[np.isnan(x)] = 1
    kernel, alone = PAIRS[name]
    found, expected = np.full(n, np.nan, f32), np.full(n, np.nan, f32)
    with kd.use("cpu"):
        if data.draw(st.booleans()):
            kernel.forall(n)(x, found, most)
        elif n:
            block = data.draw(st.sampled_from([1, 7, 16, 33, 128]))
            kernel[-(-n // block), block](x, found, most)
        alone.forall(n)(x, expected, most)
    same(found, expected)


def test_a_result_depends_on_the_argument_alone() -> None:
    kernel = kd.kernel(escapes)
    x = np.random.default_rng().standard_normal(130).astype(f32)
    together, alone = np.empty_like(x), np.empty_like(x)
    with kd.use("cpu"):
        kernel.forall(x.size)(x, together, 40)
        for i in range(x.size):
            kernel.forall(1)(x[i : i + 1], alone[i : i + 1], 40)
    same(together, alone)


# -- loops in which threads take turns ----------------------------------------------------------


def two_passes(x, out, first):
    """Fold every so many elements of a row, twice with one counter, around barriers."""
    t, row = kd.threadIdx.x, kd.blockIdx.x
    part = kd.shared.array(_WIDTH, f32)
    total = f32(0)
    for j in range(t + first, x.shape[1], _WIDTH):
        total += x[row, j]
    part[t] = total
    kd.syncthreads()
    largest = part[_WIDTH - 1 - t]
    for j in range(first + t, x.shape[1], kd.blockDim.x):
        largest = max(largest, x[row, j] - total)
        out[row, j] = x[row, j] + largest


def rows_of_a_block(x, out, first):
    """Take turns along x in a block of two axes, from a start that differs between its rows."""
    t, u = kd.threadIdx.x, kd.threadIdx.y
    row = kd.blockIdx.x
    for j in range(t + 16 * u + first, x.shape[1], 48):
        out[row, j] = f32(2) * x[row, j] + u


def turns_of_the_grid(x, out, first):
    """Step through all elements with as many threads as the launch has."""
    columns = x.shape[1]
    for i in range(kd.grid(1) + first, x.size, kd.gridsize(1)):
        row, column = i // columns, i % columns
        if column % 5 == 2:
            continue
        out[row, column] = x[row, column] - f32(1)


def sums_of_the_grid(x, out, first):
    """Step through rows with as many threads as the launch has, and add up what they hold."""
    total = f32(0)
    i = kd.grid(1)
    for j in range(i, x.shape[1], kd.gridsize(1)):
        total += x[0, j] * f32(0.5)
    if i < x.shape[1]:
        out[0, i] = total + first


TURNING = {
    "two_passes": (pair(two_passes), _WIDTH),
    "rows_of_a_block": (pair(rows_of_a_block), (16, 3)),
    "sums_of_the_grid": (pair(sums_of_the_grid), 32),
}


@pytest.mark.parametrize("name", [*TURNING, "turns_of_the_grid"])
@settings(max_examples=examples(30), deadline=None)
@given(
    columns=st.sampled_from([0, 1, 15, 47, 48, 49, 96, 200, 1001]),
    first=st.integers(0, 60),
    seed=st.integers(0, 2**32 - 1),
)
def test_turns_give_each_thread_its_elements(name: str, columns, first, seed) -> None:
    (kernel, alone), block = TURNING.get(name, (_OF_THE_GRID, 64))
    x = np.random.default_rng(seed).standard_normal((3, columns)).astype(f32)
    found, expected = np.full_like(x, np.nan), np.full_like(x, np.nan)
    with kd.use("cpu"):
        kernel[3, block](x, found, first)
        alone[3, block](x, expected, first)
    same(found, expected)


_OF_THE_GRID = pair(turns_of_the_grid)


@kd.kernel
def counts_to_the_end(first, out, stop):
    """Go up by more than one for some threads, and down for others."""
    i = kd.grid(1)
    if i < out.size:
        up = down = 0
        for _ in range(first[i], stop, 5):
            up += 1
            if up > 9:
                break
        for _ in range(-first[i], -stop, -3):
            down += 1
            if down > 9:
                break
        out[i] = 100 * up + down


def test_counters_end_at_the_ends_of_int64() -> None:
    stop = 2**63 - 1
    first = np.array([stop - k for k in (0, 1, 3, 5, 7, 20, 2**62, stop)] * 5)
    out = np.zeros(first.size, np.int64)
    with kd.use("cpu"):
        counts_to_the_end.forall(first.size)(first, out, stop)
    lengths = [
        (range(int(each), stop, 5)[:10], range(-int(each), -stop, -3)[:10]) for each in first
    ]
    assert out.tolist() == [100 * len(up) + len(down) for up, down in lengths]


def test_a_counter_that_is_read_afterwards_keeps_its_loop() -> None:
    @kd.kernel
    def reads_counter(x, out):
        t = kd.threadIdx.x
        j = -1
        for j in range(t, x.size, 32):
            out[j] = x[j]
        out[t] = j

    x = np.arange(100, dtype=f32)
    out = np.zeros_like(x)
    with kd.use("cpu"):
        reads_counter[1, 32](x, out)
    np.testing.assert_array_equal(out[:4], [96, 97, 98, 99])


def test_loops_over_lanes_are_unrolled(capfd: pytest.CaptureFixture[str]) -> None:
    """LLVM warns on standard error of a loop that it was told to unroll and did not."""

    @kd.kernel
    def collatz(x, out):
        i = kd.grid(1)
        if i < x.size:
            n, steps = x[i], 0
            while n != 1:
                if n & 1:
                    n = 3 * n + 1
                else:
                    n >>= 1
                steps += 1
            out[i] = steps

    @kd.kernel
    def mandelbrot(out, width, height):
        x, y = kd.grid(2)
        if x < width and y < height:
            c = complex(-2 + 3 * x / width, -1.5 + 3 * y / height)
            z = 0j
            n = 0
            while n < 50 and z.real * z.real + z.imag * z.imag < 4:
                z = z * z + c
                n += 1
            out[y, x] = n

    x, steps = np.arange(1, 31), np.zeros(30)
    inside = np.full((6, 20), -1, i32)
    with kd.use("cpu"):
        collatz.forall(30)(x, steps)
        mandelbrot[(3, 2), (8, 4)](inside, 20, 6)
    assert steps[26] == 111
    assert inside[3, 13] == 50
    assert capfd.readouterr() == ("", "")


def test_llvms_pipeline_is_told_to_unroll_nothing() -> None:
    """It would warn on standard error where it cannot, in a program of whatever kind."""
    module = ir.Module("loop")
    builder = ir.IRBuilder(
        ir.Function(module, ir.FunctionType(ir.VoidType(), ()), "f").append_basic_block()
    )
    loop = builder.append_basic_block()
    builder.branch(loop)
    builder.position_at_end(loop)
    builder.branch(loop)
    mark_loop(builder, NOT_UNROLLED, UNROLLED_AS_VECTORS)
    text = with_loop_marks(module, str)
    assert UNROLLED_AS_VECTORS in text
    assert FULLY_UNROLLED not in text
    assert FULLY_UNROLLED in unroll_in_full(text)
    assert leave_as_it_is(unroll_in_full(text)) == text


_SEVERAL_VECTORS = """
import numpy as np
import kerneldsl as kd
f32 = np.float32
@kd.kernel
def k(x, out):
    i = kd.grid(1)
    if i < out.size:
        a, b = x[i], f32(0.5)
        while a * a + b * b <= f32(4.0):
            a, b = a * a - b * b + f32(0.3), f32(2.0) * a * b + f32(0.1)
        out[i] = a
asm = k.asm("float32[::1], float32[::1]", forall=1)
print(asm.count("mulps"))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="its vectors of four are asked for")
def test_strips_of_several_vectors_are_unrolled(tmp_path: Path) -> None:
    """The values of a strip lie in registers, also where they fill four."""
    narrow = {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""}
    path = tmp_path / "several_vectors.py"
    path.write_text(_SEVERAL_VECTORS)
    done = subprocess.run(
        [sys.executable, path],
        env=os.environ | narrow | {"KERNELDSL_CACHE": "off"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) >= 5 * 4


# -- accesses that LLVM may reorder between threads -----------------------------------------------


def test_one_array_read_and_written_by_neighbours_is_vectorized() -> None:
    @kd.kernel
    def shorten(distance, k):
        j, i = kd.grid(2)
        if i < distance.shape[0] and j < distance.shape[1]:
            through = distance[i, k] + distance[k, j]
            if through < distance[i, j]:
                distance[i, j] = through

    distance = np.random.default_rng().uniform(1, 9, (67, 67)).astype(f32)
    np.fill_diagonal(distance, 0)
    expected = distance.copy()
    with kd.use("cpu"):
        for k in range(67):
            shorten.forall((67, 67))(distance, k)
            expected = np.minimum(expected, expected[:, k, None] + expected[None, k])
    same(distance, expected)


@pytest.mark.parametrize("block", [32, 96])
def test_what_threads_share_one_after_the_other_keeps_its_order(block: int) -> None:
    @kd.kernel
    def shares(x, out, counts):
        t = kd.threadIdx.x
        own = kd.local.array(4, i32)
        seen = kd.shared.array(8, i32)
        if t < 8:
            seen[t] = 0
        kd.syncthreads()
        for k in range(4):
            own[k] = x[t] + k
        kd.atomic.add(seen, x[t] % 8, 1)
        kd.syncthreads()
        out[t] = own[x[t] % 4]
        if t < 8:
            counts[t] = seen[t]

    x = np.random.default_rng().integers(0, 1000, block).astype(i32)
    out, counts = np.full(block, -1, i32), np.full(8, -1, i32)
    with kd.use("cpu"):
        shares[1, block](x, out, counts)
    np.testing.assert_array_equal(out, x + x % 4)
    np.testing.assert_array_equal(counts, np.bincount(x % 8, minlength=8))
