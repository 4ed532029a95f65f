"""Loops of threads that run for strips of neighbouring threads at once.

In debug mode each thread runs by itself, from its beginning to its end: that is the oracle.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.ir.printer import print_region
from targets.cpu.regions.read import read_kernel
from tests.unit.targets.cpu.regions import test_divergent_loops as divergent

f32 = np.float32
DIVERGENT = {function.__name__: divergent.pair(function) for function in divergent.DIVERGENT}


def text_of(kernel, signature: str, **how) -> str:
    """Return the region of a kernel."""
    _, spec = kernel.specialization(signature, target="cpu", **how)
    return print_region(read_kernel(spec)[1])


def lines_of(text: str) -> list[str]:
    """Return the lines of a region, without constants, numbers of values and places."""
    text = re.sub(r"%\d+", "%", re.sub(r"row\[.*?\] %\d+, %\d+", "row", text))
    lines = [line.split("  #")[0].rstrip() for line in text.splitlines()]
    return [line for line in lines if "const[" not in line]


@kd.kernel
def powers(x, out, rounds):
    i = kd.grid(1)
    if i < out.size:
        value = x[i]
        for _ in range(rounds):
            value = value * f32(0.5) + f32(1)
        out[i] = value


def test_a_loop_that_all_threads_run_moves_outside() -> None:
    lines = lines_of(text_of(powers, "float32[::1], float32[::1], int64", forall=1))
    first = lines.index(next(line for line in lines if line.startswith("%rest: int64 = for")))
    end = lines.index("}", first)
    assert lines[first + 1 : end] == [
        "  %value_lanes: float32 = lane.slot[threads=64]",
        "  row (%lane: int64) {",
        "    %x: int64 = numba.add %strip, %lane",
        "    %value: float32 = array.load %x.1, %x",
        "    lane.store %value_lanes, %value, %lane",
        "  }",
        "  for %, %rounds, % (%_: int64) {",
        "    row (%lane.1: int64) {",
        "      %value.1: float32 = lane.load %value_lanes, %lane.1",
        "      %: float32 = numba.mul %value.1, %",
        "      %value.2: float32 = numba.add %, %",
        "      lane.store %value_lanes, %value.2, %lane.1",
        "    }",
        "  }",
        "  row (%lane.2: int64) {",
        "    %x.2: int64 = numba.add %strip, %lane.2",
        "    %value.3: float32 = lane.load %value_lanes, %lane.2",
        "    array.store %out, %x.2, %value.3",
        "  }",
        "  %: int64 = numba.add %strip, %",
        "  yield %",
    ]


@kd.kernel
def escapes(x, out, most):
    i = kd.grid(1)
    if i < out.size:
        value, count = x[i], most
        for k in range(most):
            if value > f32(4):
                count = k
                break
            value = value * value
        out[i] = count


def test_a_loop_that_threads_leave_runs_under_a_mask() -> None:
    text = text_of(escapes, "float32[::1], int32[::1], int64", forall=1)
    begin = text.index("lane.head")
    assert lines_of(text[begin : text.index("array.store")]) == [
        "lane.head",
        "    %: int64 = numba.add %, %",
        "    row (%lane.1: int64) {",
        "      %: bool = lane.load %inside_lanes, %lane.1",
        "      %: float32 = lane.load %value_lanes, %lane.1",
        "      %: int64 = lane.load %count_lanes, %lane.1",
        "      %: bool, %: int64, %: float32, %: int64 = labeled[label=break] {",
        "        %: int64 = undefined",
        "        %: bool = numba.gt %, %",
        "        if % {",
        "          leave[label=break] %, %, %, %",
        "        } {",
        "        }",
        "        %value.1: float32 = numba.mul %, %",
        "        yield %, %, %value.1, %",
        "      }",
        "      %: bool = numba.lt %, %most",
        "      %: bool = bool.and %, %",
        "      %: int64 = int.select %, %, %",
        "      %: float32 = int.select %, %, %",
        "      lane.store %value_lanes, %, %lane.1",
        "      %: int64 = int.select %, %, %",
        "      lane.store %count_lanes, %, %lane.1",
        "      %: bool = bool.and %, %",
        "      lane.store %inside_lanes, %, %lane.1",
        "    }",
        "    yield %",
        "  }",
        "  row (%lane.2: int64) {",
        "    %count: int64 = lane.load %count_lanes, %lane.2",
        "    %x.2: int64 = numba.add %strip, %lane.2",
        "    %: int32 = cast %count",
        "",
    ]


@pytest.mark.parametrize("name", DIVERGENT)
def test_strips_compute_what_each_thread_does(name: str) -> None:
    kernel, alone = DIVERGENT[name]
    for n in (0, 1, 16, 17, 65, 200):
        x = np.random.default_rng(n).standard_normal(n).astype(f32) * f32(2)
        for most in (0, 1, 60):
            found, expected = np.full(n, np.nan, f32), np.full(n, np.nan, f32)
            kernel.forall(n)(x, found, most)
            alone.forall(n)(x, expected, most)
            divergent.same(found, expected)
            if n:
                found[:] = np.nan
                kernel[-(-n // 33), 33](x, found, most)
                divergent.same(found, expected)


@pytest.mark.parametrize("name", [name for name in DIVERGENT if name != "returns_from_loop"])
def test_divergent_loops_run_in_strips(name: str) -> None:
    text = text_of(DIVERGENT[name][0], "float32[::1], float32[::1], int64", forall=1)
    assert "lane.any" in text


TURNING = {
    "two_passes": (divergent.pair(divergent.two_passes), 48),
    "rows_of_a_block": (divergent.pair(divergent.rows_of_a_block), (16, 3)),
    "sums_of_the_grid": (divergent.pair(divergent.sums_of_the_grid), 32),
    "turns_of_the_grid": (divergent.pair(divergent.turns_of_the_grid), 64),
}


@pytest.mark.parametrize("name", TURNING)
def test_turns_give_each_thread_its_elements(name: str) -> None:
    (kernel, alone), block = TURNING[name]
    for columns in (0, 1, 47, 48, 49, 200):
        x = np.random.default_rng(columns).standard_normal((3, columns)).astype(f32)
        for first in (0, 7, 60):
            found, expected = np.full_like(x, np.nan), np.full_like(x, np.nan)
            kernel[3, block](x, found, first)
            alone[3, block](x, expected, first)
            divergent.same(found, expected)


@kd.kernel
def folded(x, out):
    t = kd.threadIdx.x
    total = f32(0)
    for j in range(t, x.size, kd.blockDim.x):
        total += x[j]
    out[t] = total


def test_threads_take_turns_together() -> None:
    text = text_of(folded, "float32[::1], float32[::1]", block=128)
    begin = text.index("for %")
    lines = lines_of(text[begin : text.index("} {", begin)])
    assert [line.strip() for line in lines] == [
        "for %, %, % (%base: int64) {",
        "%: int64 = int.saturating_sub %, %base",
        "%: int64 = int.saturating_sub %, %",
        "%room: int64 = int.min %, %",
        "%: bool = numba.eq %room, %",
        "if % {",
        "row (%lane.1: int64) {",
        "%tx: int64 = numba.add %, %lane.1",
        "%total.1: float32 = lane.load %total_lanes, %lane.1",
        "%j: int64 = numba.add %base, %tx",
        "%: float32 = array.load %x, %j",
        "%total.2: float32 = numba.iadd %total.1, %",
        "lane.store %total_lanes, %total.2, %lane.1",
        "}",
        "",
    ]


@kd.kernel
def swapped(x, step, span):
    t = kd.threadIdx.x
    keys = kd.shared.array(64, f32)
    keys[t] = x[t]
    kd.syncthreads()
    other = t ^ step
    if other > t:
        low, high = keys[t], keys[other]
        if (low > high) == ((t & span) == 0):
            keys[t] = high
            keys[other] = low
    kd.syncthreads()
    x[t] = keys[t]


def test_halves_of_a_butterfly_have_separate_rows() -> None:
    text = text_of(swapped, "float32[::1], int64, int64", block=64)
    begin = text.rindex("for %")
    lines = lines_of(text[begin : text.index("} {", begin)])
    assert [line.strip() for line in lines] == [
        "for %, %, % (%group.3: int64) {",
        "%: int64 = numba.add %group.3, %",
        "%: int64 = numba.and_ %, %span",
        "row[marks=()] %, %step (%: int64) {",
        "%: int64 = numba.add %group.3, %",
        "%: int64 = numba.add %, %step",
        "%low.4: float32 = array.load %keys, %",
        "%high.4: float32 = array.load %keys, %",
        "%: bool = numba.gt %low.4, %high.4",
        "%: bool = numba.eq %, %",
        "%: bool = numba.eq %, %",
        "%: float32 = int.select %, %high.4, %low.4",
        "array.store %keys, %, %",
        "%: float32 = int.select %, %low.4, %high.4",
        "array.store %keys, %, %",
        "}",
        "}",
        "}",
        "}",
        "}",
        "}",
    ]


@pytest.mark.parametrize("step", [0, 1, 2, 3, 4, 8, 12, 16, 32, -8])
def test_partners_are_swapped(step: int) -> None:
    for span in (0, 2 * step, 64, 5):
        x = np.random.default_rng(step + 64).standard_normal(64).astype(f32)
        expected = x.copy()
        for t in range(64):
            other = t ^ step
            if other > t and (x[t] > x[other]) == ((t & span) == 0):
                expected[[t, other]] = x[[other, t]]
        swapped[1, 64](x, step, span)
        if 0 <= step <= 32:
            np.testing.assert_array_equal(x, expected)


@kd.kernel
def shifted(x, out, distance):
    t = kd.threadIdx.x
    sums = kd.shared.array(256, f32)
    sums[t] = x[t]
    kd.syncthreads()
    for _ in range(3):
        value = sums[t]
        if 0 <= t - distance < 256:
            value += sums[t - distance]
        kd.syncthreads()
        sums[t] = value
        kd.syncthreads()
    out[t] = sums[t]


@kd.kernel
def of_both_sides(x, out, distance):
    t = kd.threadIdx.x
    sums = kd.shared.array(256, f32)
    sums[t] = x[t]
    kd.syncthreads()
    value = sums[max(t - 1, 0)] + distance * sums[min(t + 1, 255)]
    kd.syncthreads()
    sums[t] = value
    kd.syncthreads()
    out[t] = sums[t]


def test_rows_of_a_scan_run_strip_by_strip() -> None:
    text = text_of(shifted, "float32[::1], float32[::1], int64", block=256)
    begin = text.index("(%strip: int64)")
    lines = [line.strip() for line in lines_of(text[begin:])]
    # The first version, in which all threads of the strip pass the guard, has no branches.
    first, stored = map(
        lines.index,
        ("row (%lane: int64) {", "lane.store %value_lanes, %value.1, %lane"),
    )
    assert not any("if" in line for line in lines[first:stored])
    assert sum("lane.store %value_lanes" in line for line in lines) == 2
    part = lines[stored:]
    assert part[:7] == [
        "lane.store %value_lanes, %value.1, %lane",
        "}",
        "row (%lane.1: int64) {",
        "%: int64 = numba.add %strip, %lane.1",
        "%value.2: float32 = lane.load %value_lanes, %lane.1",
        "array.store %sums, %, %value.2",
        "}",
    ]
    assert "%strip" not in text_of(of_both_sides, "float32[::1], float32[::1], int64", block=256)


@kd.kernel
def scanned(x, out):
    t = kd.threadIdx.x
    sums = kd.shared.array(256, x.dtype)
    sums[t] = x[t]
    kd.syncthreads()
    step = 1
    while step < 256:
        value = sums[t]
        if t >= step:
            value += sums[t - step]
        kd.syncthreads()
        sums[t] = value
        kd.syncthreads()
        step *= 2
    out[t] = sums[t]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_a_scan_of_integers_wraps(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.random.default_rng(6).integers(limits.min, limits.max, 256, dtype, endpoint=True)
    out = np.full_like(x, 77)
    with kd.use("cpu"):
        scanned[1, 256](x, out)
    np.testing.assert_array_equal(out, np.cumsum(x, dtype=dtype))


@pytest.mark.parametrize("distance", [0, 1, -1, 3, 63, 64, 65, -64, -200, 255, 300])
def test_a_scan_reads_what_was_there_before(distance: int) -> None:
    x = np.random.default_rng(5).standard_normal(256).astype(f32)
    expected = x.copy()
    for _ in range(3):
        before = expected.copy()
        for t in range(256):
            if 0 <= t - distance < 256:
                expected[t] = before[t] + before[t - distance]
    out = np.zeros_like(x)
    shifted[1, 256](x, out, distance)
    np.testing.assert_array_equal(out, expected)
    of_both_sides[1, 256](x, out, 1)
    t = np.arange(256)
    np.testing.assert_array_equal(out, x[np.maximum(t - 1, 0)] + x[np.minimum(t + 1, 255)])


@kd.kernel
def clamped(image, out):
    x, y = kd.grid(2)
    ty, tx = kd.threadIdx.y, kd.threadIdx.x
    tile = kd.shared.array((8, 32), f32)
    for k in range(ty, 8, 4):
        tile[k, tx] = image[k, min(x, image.shape[1] - 1)]
    kd.syncthreads()
    if x < out.shape[1]:
        out[y, x] = tile[ty, tx] + tile[ty + 4, tx]


def test_rows_over_lanes_have_a_version_without_limits() -> None:
    text = text_of(clamped, "float32[:, ::1], float32[:, ::1]", block=(32, 4))
    loop = text[text.index("(%k: int64)") :]
    whole, part = re.split(r"row\[marks=\(.*\)\] %", loop)[1:3]
    assert "min" not in whole
    assert "min" in part.split("}")[0]
    for width in (1, 31, 32, 33, 64, 70):
        image = np.random.default_rng(width).standard_normal((8, width)).astype(f32)
        out = np.zeros((4, width), f32)
        clamped[(-(-width // 32), 1), (32, 4)](image, out)
        np.testing.assert_array_equal(out, image[:4] + image[4:])


def batches(x, out, rounds):
    """Fold whole batches, if there are any, and what is left of one."""
    t, step = kd.threadIdx.x, kd.blockDim.x
    value = x[min(t, x.size - 1)]
    if rounds > 0:
        for k in range(step, rounds * step, step):
            value += x[k + t]
        value = value / f32(rounds)
    end = rounds * step
    if end + t < x.size:
        value -= x[end + t]
    out[t] = value


BATCHES = divergent.pair(batches)


@pytest.mark.parametrize("block", [32, 256])
def test_a_branch_that_threads_share_has_rows_in_it(block: int) -> None:
    lines = lines_of(text_of(BATCHES[0], "float32[::1], float32[::1], int64", block=block))
    loop = [n for n, line in enumerate(lines) if "(%k" in line][-1]
    depth = lines[loop].index("for")
    around = [line for line in lines[:loop] if len(line) - len(line.lstrip()) < depth]
    assert around[-1].strip() == "if % {"
    for rounds in (0, 1, 3):
        for left in (1, block - 1, block):
            x = np.random.default_rng(left).standard_normal(rounds * block + left).astype(f32)
            found, expected = np.full(block, np.nan, f32), np.full(block, np.nan, f32)
            BATCHES[0][1, block](x, found, rounds)
            BATCHES[1][1, block](x, expected, rounds)
            divergent.same(found, expected)


@kd.kernel
def nearest_of(x, places, out, found):
    i = kd.grid(1)
    if i < out.size:
        own = math.sqrt(x[i] / f32(3))
        least, place = f32(math.inf), -1
        for k in range(places.size):
            away = abs(own - places[k])
            if away < least:
                least, place = away, k
        out[i], found[i] = least, place


def test_vectors_of_a_loop_are_not_joined_to_longer_ones() -> None:
    """Lanes begin with 16 numbers of 32 bits at a time, but compare 8 with integers of 64."""
    signature = "float32[::1], float32[::1], float32[::1], int64[::1]"
    text = text_of(nearest_of, signature, forall=1)
    starts = text[text.index("row[marks=('llvm.loop.vectorize.width'") :].split("}")[0]
    assert [line.split()[1] for line in starts.splitlines()[1:-1]] == [
        "%least_lanes,",
        "%place_lanes,",
    ]
    x = np.random.default_rng(3).uniform(0, 9, 130).astype(f32)
    places = np.sqrt(x[:17] / f32(3)) + f32(0.01)
    out, found = np.zeros_like(x), np.zeros(x.size, np.int64)
    nearest_of.forall(x.size)(x, places, out, found)
    away = abs(np.sqrt(x / f32(3))[:, None] - places)
    np.testing.assert_array_equal(found, away.argmin(axis=1))
    np.testing.assert_array_equal(out, away.min(axis=1))


def test_rows_of_one_long_strip_pass_their_own_guards() -> None:
    text = text_of(BATCHES[0], "float32[::1], float32[::1], int64", block=256)
    first, clamped, *_ = re.split(r"row\[marks=\(.*\)\] %", text)[1:]
    assert "kerneldsl.min" not in first
    assert "kerneldsl.min" in clamped
    *_, last, guarded = re.split(r"row\[marks=\(.*\)\] %", text)
    assert "if %" not in last
    assert "if %" in guarded


def test_a_short_row_is_one_strip() -> None:
    @kd.kernel
    def short(x, out):
        i, t = kd.grid(1), kd.threadIdx.x
        own = kd.shared.array(32, f32)
        own[t] = t
        kd.syncthreads()
        if i < out.size:
            total = f32(0)
            for k in range(32):
                total += own[k] * x[i]
            out[i] = total

    text = text_of(short, "float32[::1], float32[::1]", block=32)
    assert "lane.slot[threads=32]" in text
    assert "lane.slot[threads=64]" not in text


@kd.kernel
def products(x, weights, out):
    i = kd.grid(1)
    if i < out.size:
        total = np.float32(0)
        for p in range(weights.shape[0]):
            for q in range(weights.shape[1]):
                total += weights[p, q] * x[p, i + q]
        out[i] = total


@kd.kernel
def restarted(x, weights, out):
    i = kd.grid(1)
    if i < out.size:
        total = np.float32(0)
        for p in range(weights.shape[0]):
            before = total
            for q in range(weights.shape[1]):
                total += weights[p, q] * x[p, i + q]
            total -= before * np.float32(0.5)
        out[i] = total


@pytest.mark.parametrize(("kernel", "slots"), [(products, 1), (restarted, 2)])
def test_variables_of_nested_loops_share_a_slot(kernel, slots: int) -> None:
    _, spec = kernel.specialization(
        "float32[:, ::1], float32[:, ::1], float32[::1]", forall=1, target="cpu"
    )
    text = print_region(read_kernel(spec)[1])
    assert text.count("lane.slot") == 2 * slots  # of whole strips, and of what is left
    rng = np.random.default_rng(2)
    x, weights = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((3, 140), (3, 5)))
    out = np.zeros(135, np.float32)
    kernel.forall(135)(x, weights, out)
    expected = np.zeros(135)
    for p in range(3):
        before = expected.copy()
        for q in range(5):
            expected += weights[p, q] * x[p, q : q + 135]
        if kernel is restarted:
            expected -= before * 0.5
    np.testing.assert_array_equal(out, expected.astype(np.float32))


@kd.kernel
def nearest(points, centres, out):
    i = kd.grid(1)
    if i < out.size:
        least, found, sum_of = f32(np.inf), 0, 0
        for k in range(16):
            distance = abs(points[i] - centres[k])
            if distance < least:
                least, found = distance, k
            sum_of += k * i
        out[i] = found if sum_of >= 0 else sum_of


def test_integers_that_are_small_have_narrow_slots() -> None:
    text = text_of(nearest, "float32[::1], float32[::1], int64[::1]", forall=1)
    assert "%found_lanes: int32 = lane.slot" in text
    assert "%sum_of_lanes: int64 = lane.slot" in text
    points = np.linspace(-1, 20, 150).astype(f32)
    out = np.zeros(150, np.int64)
    nearest.forall(150)(points, np.arange(16, dtype=f32), out)
    np.testing.assert_array_equal(out, abs(points[:, None] - np.arange(16)).argmin(axis=1))


@kd.kernel
def folded_with_rest(x, out):
    t = kd.threadIdx.x
    rounds = x.size // kd.blockDim.x
    total = x[min(t, x.size - 1)]
    for k in range(rounds):
        total += x[k * kd.blockDim.x + t]
    rest = rounds * kd.blockDim.x + t
    if rest < x.size:
        total += x[rest]
    out[t] = total


def test_rows_that_miss_a_guard_run_in_strips_too() -> None:
    text = text_of(folded_with_rest, "float32[::1], float32[::1]", block=32)
    assert text.count("%total_lanes") >= 2
    assert text.count("lane.slot") == 2
    for size in (1, 31, 32, 64, 70):
        x, out = np.arange(size, dtype=f32), np.zeros(32, f32)
        folded_with_rest[1, 32](x, out)
        t = np.arange(32)
        expected = x[np.minimum(t, size - 1)].copy()
        for first in range(0, size, 32):
            expected += np.pad(x[first : first + 32], (0, max(0, 32 - (size - first))))
        np.testing.assert_array_equal(out, expected)


@kd.kernel
def folded_within(out, first, end, rounds):
    i = kd.grid(1)
    if first <= i < end:
        one, two = f32(i), f32(1)
        for k in range(rounds):
            if one < two + k:
                one, two = two, one
        out[i] = one + 2 * two


def test_strips_of_a_row_that_ends_at_the_least_integers() -> None:
    text = text_of(folded_within, "float32[::1], int64, int64, int64", forall=1)
    assert "%strip" in text
    for first in (0, 3, 2**63 - 1):
        for end in (-(2**63), -(2**63) + 1, -(2**63) + 63, -1, 3):
            out = np.zeros(100, f32)
            folded_within.forall(100)(out, first, end, 4)
            i = np.arange(100)
            np.testing.assert_array_equal(out != 0, (first <= i) & (i < end))
