"""Rows of elements whose indices or branches are chosen at the ends, against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.utilities.written_functions import written_function
from tests.support.extent import full_beyond

f32 = np.float32
#: Left and right neighbours of an index `i`, for an extent `n` and a distance `k`.
WAYS = {
    "remainders": ("(i - k) % n", "(i + k) % n"),
    "remainders_of_sums": ("(i - 1 + n) % n", "(n + i + 1) % n"),
    "comparisons": ("i - 1 if i > 0 else n - 1", "i + 1 if i < n - 1 else 0"),
    "equalities": ("n - 1 if i == 0 else i - 1", "0 if n - 1 == i else i + 1"),
    "inequalities": ("i - 1 if i != 0 else n - 1", "i + 1 if i != n - 1 else 0"),
    "others_first": ("0 if i < k else min(i - k, n - 1)", "n - 1 if i + 1 >= n else i + 1"),
    "limits": ("max(min(i - k, n - 1), 0)", "min(max(0, i + k), n - 1)"),
}
TEXT = """
def neighbours(u, m, shift, out):
    i, j = kd.grid(2)
    if i < out.shape[0] and j < m:
        up, down = {up}, {down}
        left = {left}
        out[i, j, 0], out[i, j, 1] = u[up, j], u[down, j]
        out[i, j, 2], out[i, j, 3] = u[i, left], u[i, {right}]
"""


def kernel_of(ends: tuple[str, str], **options: Any) -> Any:
    """Return a kernel that reads the neighbours of each element along both axes."""

    def along(text: str, **names: str) -> str:
        return re.sub(r"\b[ink]\b", lambda found: names[found[0]], text)

    up, down = (along(each, i="i", n="out.shape[0]", k="1") for each in ends)
    left, right = (along(each, i="j", n="m", k="shift") for each in ends)
    text = TEXT.format(up=up, down=down, left=left, right=right)
    return kd.kernel(**options)(written_function("neighbours", text, {"kd": kd}, __name__))


KERNELS = {name: kernel_of(each) for name, each in WAYS.items()}
#: A remainder, a comparison, and what is read in the other order.
QUICK = ["remainders", "comparisons", "others_first"]
SHAPES = [(1, 1), (2, 2), (3, 17), (1, 40), (37, 65), (2, 3000)]
KINDS = [np.int32, np.int64, np.uint32, np.uint16, np.int8]
VALUES = np.array([1.5, -0.0, 0.0, np.nan, -np.inf, 2.5e-42, -3.0], f32)


def images(shape: tuple[int, int]) -> list[np.ndarray[Any, Any]]:
    """Return images of special values: contiguous, with gaps, mirrored, one row many times."""
    rng = np.random.default_rng(5)
    whole = rng.choice(VALUES, (2 * shape[0], 2 * shape[1] + 3))
    row = rng.choice(VALUES, shape[1])
    return [
        np.ascontiguousarray(whole[: shape[0], : shape[1]]),
        whole[::2, 1 : 2 * shape[1] : 2],
        whole[: shape[0], : shape[1]][::-1, ::-1],
        np.broadcast_to(row, shape),
    ]


def index_of(text: str, count: int, n: Any, k: Any) -> list[int]:
    """Compute a neighbour's index for each of the first ones, in int64 that wraps."""
    code = compile(text, "index", "eval")
    names: dict[str, Any] = {"n": n, "k": np.int64(k)}
    with np.errstate(over="ignore"):
        return [int(eval(code, {}, {**names, "i": np.int64(i)})) for i in range(count)]  # noqa: S307


def compare(name: str, image: Any, width: Any, shift: Any) -> None:
    found = np.full((*image.shape, 4), 7.5, f32)
    with kd.use("cpu"):
        KERNELS[name].forall(*image.shape)(image, width, shift, found)
    expected = np.full_like(found, 7.5)
    rows, columns = image.shape[0], int(width)
    for place, text in enumerate(WAYS[name]):
        above = index_of(text, rows, np.int64(rows), 1)
        beside = index_of(text, columns, width, shift)
        expected[:, :columns, place] = image[above, :columns]
        expected[:, :columns, place + 2] = image[:, beside]
    np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize("name", full_beyond(KERNELS, QUICK))
@pytest.mark.parametrize("shape", full_beyond(SHAPES, SHAPES[::2]))
def test_neighbours(name: str, shape: tuple[int, int]) -> None:
    for image in images(shape):
        for shift in (1, 0, 2, shape[1], -1):
            if name == "others_first" and shift < 0:
                continue  # it reads behind the end then
            compare(name, image, np.int64(shape[1]), shift)


@pytest.mark.parametrize("name", ["remainders", "limits"])
@pytest.mark.parametrize("shift", [2**63 - 1, -(2**63), 2**62, -(2**62), 1000])
def test_any_distance(name: str, shift: int) -> None:
    compare(name, images((3, 33))[0], np.int64(33), shift)


@pytest.mark.parametrize("name", full_beyond(KERNELS, QUICK))
@pytest.mark.parametrize("kind", full_beyond(KINDS, [np.uint16]))
def test_extents_that_are_arguments(name: str, kind: Any) -> None:
    for width in (1, 2, 15, 40):
        compare(name, images((4, 40))[0], kind(width), 1)


@kd.kernel
def padded(u: Any, flag: Any, out: Any) -> None:
    i = kd.grid(1)
    if i < out.size:
        near = u[i - 1] if i >= 1 else f32(-0.0)
        far = u[i + 3] if i + 3 < u.size else f32(2.5)
        alike = u[i] if flag > 0 else f32(9)
        out[i] = near + f32(2) * far + f32(4) * alike


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16, 63, 1000])
@pytest.mark.parametrize("flag", [0, 1])
def test_elements_that_are_read_inside_alone(size: int, flag: int) -> None:
    u = np.random.default_rng(size).integers(-9, 9, size).astype(f32)
    found = np.full(size, np.nan, f32)
    with kd.use("cpu"):
        padded.forall(size)(u, flag, found)
    near = np.concatenate([[f32(-0.0)], u[:-1]])
    far = np.concatenate([u[3:], np.full(min(3, size), 2.5, f32)])
    np.testing.assert_array_equal(found, near + 2 * far + 4 * (u if flag else f32(9)))


@kd.kernel
def two_ways(u: Any, flag: Any, out: Any) -> None:
    i = kd.grid(1)
    if i < out.size:
        if flag > 0:
            out[i] = u[i - 1 if i > 0 else u.size - 1]
        else:
            out[i] = u[i + 1 if i < u.size - 1 else 0]


@pytest.mark.parametrize("size", [1, 2, 3, 40, 1000])
def test_a_decision_of_the_whole_row(size: int) -> None:
    u = np.arange(float(size))
    for flag in (0, 1):
        out = np.full(size, np.nan)
        with kd.use("cpu"):
            two_ways.forall(size)(u, flag, out)
        np.testing.assert_array_equal(out, np.roll(u, 1 if flag else -1))


@kd.kernel
def scattered(u: Any, at: Any, out: Any, count: Any) -> None:
    """Write with an atomic in each element, and choose an index by what an array holds."""
    i = kd.grid(1)
    if i < u.size:
        k = at[i - 1 if i > 0 else at.size - 1]
        out[i] = u[k if k < u.size else 0]
        kd.atomic.add(count, 0, 1)


def test_an_index_that_no_end_tells() -> None:
    rng = np.random.default_rng(8)
    for size in (1, 2, 50, 777):
        u, at = rng.normal(size=size), rng.integers(0, 2 * size, size)
        out, count = np.full(size, np.nan), np.zeros(1, np.int64)
        with kd.use("cpu"):
            scattered.forall(size)(u, at, out, count)
        k = np.roll(at, 1)
        np.testing.assert_array_equal(out, u[np.where(k < size, k, 0)])
        assert count[0] == size


#: Tests of an index `i` of `n`, some of what is alike in a row.
BRANCHES = {
    "below": "i < m",
    "from": "m <= i",
    "at": "i == m",
    "apart": "i != m",
    "between": "3 <= i < m",
    "outside": "i < 3 or i >= m",
    "sum": "i + m < n",
    "wrapping_sum": "i - 1 >= m + 1",
    "vectors": "i < n // 4",
    "row_and_place": "j > 1 and i < m",
    "row_or_place": "not (j > 1 and i < m)",
    "flag": "m > 0 and i < n - 2",
    "every_second": "i % 2 == 0 and i < m",
}
BRANCHING = """
def branching(u, m, out, other):
    j, i = kd.grid(2)
    if j < out.shape[0]:
        n = out.shape[1]
        v = u[j, i] * 2
        other[j, i] += 1
        if {test}:
            out[j, i] = v
        else:
            out[j, i] = -v
            other[j, i] += v
"""


def branching_kernel(name: str) -> Any:
    text = BRANCHING.format(test=BRANCHES[name])
    return kd.kernel(written_function("branching", text, {"kd": kd}, __name__))


@pytest.mark.parametrize("name", full_beyond(BRANCHES, [*BRANCHES][::2]))
def test_branches_of_parts_of_a_row(name: str) -> None:
    kernel, test = branching_kernel(name), compile(BRANCHES[name], "test", "eval")
    for shape in ((1, 1), (3, 7), (4, 40), (2, 1000)):
        rows, n = shape
        ends = [2**63 - 1, -(2**63), 2**62, -(2**62) - 5]
        for m in (*range(-3, 9), n // 2, n - 1, n, n + 1, *ends):
            u = np.arange(1.0, rows * n + 1).reshape(shape)
            out, other = np.full(shape, np.nan), np.ones(shape)
            with kd.use("cpu"):
                kernel.forall(*shape)(u, m, out, other)
            names = {"m": np.int64(m), "n": np.int64(n)}
            with np.errstate(over="ignore"):
                places = [(np.int64(j), np.int64(i)) for j in range(rows) for i in range(n)]
                met = [eval(test, {}, {**names, "j": j, "i": i}) for j, i in places]  # noqa: S307
            is_met = np.reshape(np.array(met, bool), shape)
            np.testing.assert_array_equal(out, np.where(is_met, 2 * u, -2 * u))
            np.testing.assert_array_equal(other, np.where(is_met, 2, 2 + 2 * u))


BETWEEN_BARRIERS = """
def between(u, m, out, other):
    j, i = kd.blockIdx.x, kd.threadIdx.x
    n = kd.blockDim.x
    kept = kd.shared.array(0, f64)
    kept[i] = u[j, i]
    value = -1.0
    for k in range(3):
        kd.syncthreads()
        if {test}:
            value = kept[i] + k
            other[j, i] += value
        kd.syncthreads()
        kept[i] += 1
    out[j, i] = value
"""


@pytest.mark.parametrize("name", full_beyond(BRANCHES, [*BRANCHES][1::2]))
def test_branches_of_parts_of_a_block(name: str) -> None:
    text = BETWEEN_BARRIERS.format(test=BRANCHES[name])
    kernel = kd.kernel(written_function("between", text, {"kd": kd, "f64": np.float64}, __name__))
    test = compile(BRANCHES[name], "test", "eval")
    for blocks, n in ((3, 96), (2, 128), (1, 300)):
        ends = [2**63 - 1, -(2**63), 2**62, -(2**62) - 5]
        for m in (-1, 0, 1, 4, n // 4, n - 3, n - 1, n, n + 1, *ends):
            u = np.random.default_rng(n).integers(-99, 99, (blocks, n)).astype(np.float64)
            out, other = np.full(u.shape, np.nan), np.ones(u.shape)
            with kd.use("cpu"):
                kernel[blocks, n, None, 8 * n](u, m, out, other)
            names = {"m": np.int64(m), "n": np.int64(n)}
            with np.errstate(over="ignore"):
                places = [(np.int64(j), np.int64(i)) for j in range(blocks) for i in range(n)]
                met = [eval(test, {}, {**names, "j": j, "i": i}) for j, i in places]  # noqa: S307
            is_met = np.reshape(np.array(met, bool), u.shape)
            np.testing.assert_array_equal(out, np.where(is_met, u + 4, -1))
            np.testing.assert_array_equal(other, np.where(is_met, 3 * u + 7, 1))


@kd.kernel
def smoothed(u: Any, out: Any, *, count: Any, rounds: Any) -> None:
    """Read both neighbours in shared memory, and what is outside of the block in memory."""
    i, t = kd.grid(1), kd.threadIdx.x
    kept = kd.shared.array(count, f32)
    kept[t] = u[i] if i < u.size else f32(0)
    for _ in range(rounds):
        kd.syncthreads()
        near = kept[t - 1] if t > 0 else f32(7)
        far = kept[t + 1] if t + 1 < count else f32(5)
        kd.syncthreads()
        kept[t] = near + f32(2) * far
        if t == 0:
            kept[t] += f32(1)
    if i < out.size:
        out[i] = kept[t]


@pytest.mark.parametrize("count", [32, 128, 256])
def test_neighbours_in_a_block(count: int) -> None:
    for size in (1, count - 1, count, 2 * count + 5):
        u = np.random.default_rng(size).integers(-9, 9, size).astype(f32)
        out = np.full(size, np.nan, f32)
        blocks = -(-size // count)
        with kd.use("cpu"):
            smoothed[blocks, count](u, out, count=count, rounds=3)
        kept = np.zeros((blocks, count), f32)
        kept.flat[:size] = u
        for _ in range(3):
            ends = np.pad(kept, ((0, 0), (1, 1)))
            ends[:, 0], ends[:, -1] = 7, 5
            kept = ends[:, :-2] + 2 * ends[:, 2:]
            kept[:, 0] += 1
        np.testing.assert_array_equal(out, kept.ravel()[:size])


@kd.kernel
def quarters(u: Any, out: Any, *, count: Any) -> None:
    """Store four elements at once, and what is left over one by one."""
    i = kd.grid(1)
    if i < out.size // count:
        kd.view(out, kd.float32x4)[i] = kd.view(u, kd.float32x4)[i]
    else:
        for k in range(count):
            if count * i + k < out.size:
                out[count * i + k] = u[count * i + k]


def test_vectors_are_stored_by_rows_of_them() -> None:
    for size in (1, 3, 4, 9, 64, 1023):
        u, out = np.arange(size, dtype=f32), np.full(size, np.nan, f32)
        with kd.use("cpu"):
            quarters.forall(-(-size // 4))(u, out, count=4)
        np.testing.assert_array_equal(out, u)
