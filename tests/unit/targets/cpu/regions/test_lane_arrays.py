"""Local arrays with the elements of neighbouring threads side by side.

In debug mode each thread runs by itself, from its beginning to its end: that is the oracle.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from tests.unit.targets.cpu.regions.test_divergent_loops import pair, same
from tests.unit.targets.cpu.regions.test_lanes import lines_of, text_of

f32 = np.float32
SIGNATURE = "float32[:, ::1], int64[::1], float32[::1], int64"
LAID_OUT = "lanes=64]"


def turns(x, places, out, rounds):
    i = kd.grid(1)
    if i < out.size:
        ring = kd.local.array(8, f32)
        for j in range(8):
            ring[j] = x[0, i]
        for j in range(rounds):
            ring[j % 8] = ring[(j + 3) % 8] * f32(0.5) + x[j, i]
        out[i] = ring[0] - ring[7]


def test_lanes_have_their_elements_side_by_side() -> None:
    text = text_of(kd.kernel(turns), SIGNATURE, forall=1)
    lines = lines_of(text)
    (declared,) = [line for line in lines if "local.array" in line]
    expected = "%ring: float32[:, ::1] = local.array[shape=(8,), dtype=float32, lanes=64]"
    assert declared == expected
    begin = next(n for n, line in enumerate(lines) if "%rounds" in line)
    assert lines[begin : lines.index("  }", begin) + 1] == [
        "  for %, %rounds, % (%j.1: int64) {",
        "    %: int64 = numba.add %j.1, %",
        "    %: int64 = numba.mod %, %",
        "    %: int64 = numba.mod %j.1, %",
        "    row (%lane.1: int64) {",
        "      %x.2: int64 = numba.add %strip, %lane.1",
        "      %: int64 = numba.sub %x.2, %strip",
        "      %: float32 = array.load %ring, %, %",
        "      %: float32 = numba.mul %, %",
        "      %: float32 = array.load %x.1, %j.1, %x.2",
        "      %: float32 = numba.add %, %",
        "      array.store %ring, %, %, %",
        "    }",
        "  }",
    ]


def is_negative(x, places, out, rounds):
    """Count from the end, in several axes, of several arrays."""
    i = kd.grid(1)
    if i < out.size:
        one, two = kd.local.array((3, 5), f32), kd.local.array(4, np.int8)
        for j in range(15):
            one[j % 3, j % 5] = f32(j) + x[0, i]
        for j in range(4):
            two[j] = j
        for j in range(rounds):
            one[-1 - j % 3, j % 5 - 5] += x[j, i] * f32(two[-1 - j % 4])
            two[j % 4 - 4] = two[j % 3] + 1
        total = f32(0)
        for j in range(15):
            total = total * f32(0.5) + one[j % 3, j // 3] + f32(two[j % 4])
        out[i] = total


def is_guarded(x, places, out, rounds):
    """Store where some threads alone come."""
    i = kd.grid(1)
    if i < out.size:
        ring = kd.local.array(8, f32)
        for j in range(8):
            ring[j] = f32(j)
        for j in range(rounds):
            if x[j, i] > f32(0):
                ring[j % 8] += x[j, i]
                if places[i] % 2 == 0:
                    continue
            ring[(j + 1) % 8] -= f32(1)
        out[i] = ring[rounds % 8] + ring[(rounds + 1) % 8]


def is_nested(x, places, out, rounds):
    """Access the array in two loops, one in the other, and in a ``while``."""
    i = kd.grid(1)
    if i < out.size:
        ring = kd.local.array(6, f32)
        for j in range(6):
            ring[j] = x[0, i]
        for j in range(rounds):
            for k in range(j % 4):
                ring[(j + k) % 6] += x[j, i] * ring[k]
        total, j = f32(0), 0
        while j < rounds % 6:
            total += ring[j]
            j += 1
        out[i] = total


def is_left(x, places, out, rounds):
    """Leave a loop that does not access the array."""
    i = kd.grid(1)
    if i < out.size:
        ring = kd.local.array(8, f32)
        for j in range(8):
            ring[j] = x[0, i]
        for j in range(rounds):
            ring[j % 8] = ring[(j + 3) % 8] + x[j, i]
        value = ring[0]
        for j in range(rounds):
            if value > f32(8):
                break
            value = value * f32(1.5) + f32(j)
        out[i] = value + ring[1]


def has_gathered_ends(x, places, out, rounds):
    """Read an element of the thread's choice after the loops."""
    i = kd.grid(1)
    if i < out.size:
        ring = kd.local.array(8, f32)
        for j in range(8):
            ring[j] = f32(j)
        for j in range(rounds):
            ring[j % 8] += x[j, i]
        ring[places[i]] *= f32(2)
        out[i] = ring[places[i]] - ring[(places[i] + 1) % 8]


def indexes_by_thread(x, places, out, rounds):
    """Index by what differs between threads."""
    i = kd.grid(1)
    if i < out.size:
        ring = kd.local.array(8, f32)
        for j in range(8):
            ring[j] = x[0, i]
        for j in range(rounds):
            ring[(j + places[i]) % 8] += x[j, i] * ring[(i + j) % 8]
        out[i] = ring[3] + ring[places[i]]


def breaks(x, places, out, rounds):
    """Leave the loop that accesses the array."""
    i = kd.grid(1)
    if i < out.size:
        ring = kd.local.array(8, f32)
        for j in range(8):
            ring[j] = f32(j)
        for j in range(rounds):
            ring[j % 8] += x[j, i]
            if ring[j % 8] < f32(0):
                break
            ring[(j + 1) % 8] = f32(j)
        out[i] = ring[0] + ring[5]


def runs_its_own_rounds(x, places, out, rounds):
    """Run a loop as often as an element of the array says."""
    i = kd.grid(1)
    if i < out.size:
        counts = kd.local.array(4, np.int64)
        for j in range(4):
            counts[j] = places[i] + j
        for j in range(rounds):
            counts[j % 4] = (counts[(j + 1) % 4] + j) % 9
        total = f32(0)
        for j in range(counts[rounds % 4]):
            total += x[0, i] * f32(j)
        out[i] = total


def belongs_to_a_branch(x, places, out, rounds):
    """Declare the array where not all threads come."""
    i = kd.grid(1)
    if i < out.size:
        if x[0, i] > f32(0):
            ring = kd.local.array(8, f32)
            for j in range(8):
                ring[j] = x[0, i]
            for j in range(rounds):
                ring[j % 8] += x[j, i]
            out[i] = ring[2]
        else:
            out[i] = f32(-1)


LAID = (turns, is_negative, is_guarded, is_nested, is_left, has_gathered_ends)
LEFT = (indexes_by_thread, breaks, belongs_to_a_branch)


@pytest.mark.parametrize("function", LAID)
def test_arrays_are_laid_out(function) -> None:
    text = text_of(kd.kernel(function), SIGNATURE, forall=1)
    declared = re.findall(r"local\.array\[.*?\](?=  #)", text)
    assert declared
    assert all(each.endswith(LAID_OUT) for each in declared)


@pytest.mark.parametrize("function", LEFT)
def test_arrays_that_keep_threads_apart_stay_as_they_are(function) -> None:
    text = text_of(kd.kernel(function), SIGNATURE, forall=1)
    assert "local.array" in text
    assert "lanes=" not in text


@pytest.mark.parametrize("function", [*LAID, *LEFT, runs_its_own_rounds])
def test_threads_have_elements_of_their_own(function) -> None:
    kernel, alone = pair(function)
    for n in (1, 63, 64, 65, 200, 2051):
        rng = np.random.default_rng(n)
        x = rng.standard_normal((24, n)).astype(f32)
        places = rng.integers(0, 8, n)
        for rounds in (0, 1, 7, 24):
            expected = np.full(n, np.nan, f32)
            alone.forall(n)(x, places, expected, rounds)
            for launch in (kernel.forall(n), kernel[-(-n // 96), 96], kernel[-(-n // 32), 32]):
                found = np.full(n, np.nan, f32)
                launch(x, places, found, rounds)
                same(found, expected)


def large(x, places, out, rounds):
    i = kd.grid(1)
    if i < out.size:
        ring = kd.local.array(129, f32)
        for j in range(129):
            ring[j] = x[0, i]
        for j in range(rounds):
            ring[j % 129] += x[j, i]
        out[i] = ring[1]


def test_large_arrays_are_not_laid_out() -> None:
    text = text_of(kd.kernel(large), SIGNATURE, forall=1)
    assert "local.array" in text
    assert "lanes=" not in text


def follows_a_barrier(x, out, rounds):
    """Have an array in one part of a block of two axes, and exchange what it gives."""
    tx, ty, block = kd.threadIdx.x, kd.threadIdx.y, kd.blockIdx.x
    shared = kd.shared.array((4, 40), f32)
    shared[ty, tx] = x[block, ty, tx]
    kd.syncthreads()
    ring = kd.local.array(5, f32)
    for j in range(5):
        ring[j] = shared[ty, tx] + f32(j)
    for j in range(rounds):
        ring[j % 5] += shared[j % 4, tx] * ring[(j + 2) % 5]
    value = ring[rounds % 5]
    kd.syncthreads()
    shared[ty, tx] = value
    kd.syncthreads()
    out[block, ty, tx] = shared[3 - ty, 39 - tx]


def exchanges(x, out, rounds):
    """Give other threads of the warp what an array had."""
    tx, ty, block = kd.threadIdx.x, kd.threadIdx.y, kd.blockIdx.x
    number = tx + 40 * ty
    ring = kd.local.array(5, f32)
    for j in range(5):
        ring[j] = x[block, ty, tx]
    for j in range(rounds):
        ring[j % 5] = ring[(j + 2) % 5] * f32(0.75) + f32(j * number)
    value = ring[rounds % 5]
    out[block, ty, tx] = kd.shfl_xor_sync(0xFFFFFFFF, value, 5)


@pytest.mark.parametrize("function", [follows_a_barrier, exchanges])
def test_blocks_have_arrays_of_lanes(function) -> None:
    kernel, alone = pair(function)
    signature = "float32[:, :, ::1], float32[:, :, ::1], int64"
    assert "lanes=" in text_of(kernel, signature, block=(40, 4, 1))
    x = np.random.default_rng(1).uniform(-1, 1, (3, 4, 40)).astype(f32)
    for rounds in (0, 1, 4, 11):
        found, expected = np.zeros_like(x), np.zeros_like(x)
        kernel[3, (40, 4)](x, found, rounds)
        alone[3, (40, 4)](x, expected, rounds)
        same(found, expected)
        assert np.any(found)
