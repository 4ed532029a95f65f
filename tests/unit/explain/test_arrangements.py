"""Longer rows and swizzles that explanations suggest, against kernels that are rewritten so."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.explain.arrangements import Padding, Swizzle, arrangements_of
from kerneldsl.explain.values import Memory, Space
from tests.support.extent import full_beyond

pytest.importorskip("sympy", reason="the sym extra is not installed")

IMAGES = "float32[:, ::1], float32[:, ::1]"
DOUBLES = "float64[:, ::1], float64[:, ::1]"
HALVES = "int16[:, ::1], int16[:, ::1]"


@kd.kernel
def transpose(a, out):
    tile = kd.shared.array((32, 32), np.float32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    tile[ty, tx] = a[ty, tx]
    kd.syncthreads()
    out[ty, tx] = tile[tx, ty]


@kd.kernel
def swizzled_transpose(a, out):
    tile = kd.shared.array((32, 32), np.float32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    tile[ty, tx ^ (ty & 31)] = a[ty, tx]
    kd.syncthreads()
    out[ty, tx] = tile[tx, ty ^ (tx & 31)]


@kd.kernel
def padded_transpose(a, out):
    tile = kd.shared.array((32, 33), np.float32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    tile[ty, tx] = a[ty, tx]
    kd.syncthreads()
    out[ty, tx] = tile[tx, ty]


@kd.kernel
def doubles(a, out):
    tile = kd.shared.array((32, 32), np.float64)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    tile[ty, tx] = a[ty, tx]
    kd.syncthreads()
    out[ty, tx] = tile[tx, ty]


@kd.kernel
def swizzled_doubles(a, out):
    tile = kd.shared.array((32, 32), np.float64)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    tile[ty, tx ^ (ty & 31)] = a[ty, tx]
    kd.syncthreads()
    out[ty, tx] = tile[tx, ty ^ (tx & 31)]


@kd.kernel
def short_rows(a, out):
    tile = kd.shared.array((128, 8), np.float32)
    t = kd.threadIdx.x
    for k in range(8):
        tile[t, k] = a[t, k]
    kd.syncthreads()
    for k in range(8):
        out[t, k] = tile[127 - t, k]


@kd.kernel
def swizzled_short_rows(a, out):
    tile = kd.shared.array((128, 8), np.float32)
    t = kd.threadIdx.x
    for k in range(8):
        tile[t, k ^ (t >> 2 & 7)] = a[t, k]
    kd.syncthreads()
    for k in range(8):
        i = 127 - t
        out[t, k] = tile[i, k ^ (i >> 2 & 7)]


@kd.kernel
def halves(a, out):
    tile = kd.shared.array((64, 64), np.int16)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    for k in range(0, 64, 32):
        for m in range(0, 64, 32):
            tile[ty + k, tx + m] = a[ty + k, tx + m]
    kd.syncthreads()
    for k in range(0, 64, 32):
        for m in range(0, 64, 32):
            out[ty + k, tx + m] = tile[tx + m, ty + k]


@kd.kernel
def swizzled_halves(a, out):
    tile = kd.shared.array((64, 64), np.int16)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    for k in range(0, 64, 32):
        for m in range(0, 64, 32):
            i = ty + k
            tile[i, (tx + m) ^ ((i & 31) << 1)] = a[ty + k, tx + m]
    kd.syncthreads()
    for k in range(0, 64, 32):
        for m in range(0, 64, 32):
            i = tx + m
            out[ty + k, tx + m] = tile[i, (ty + k) ^ ((i & 31) << 1)]


@kd.kernel
def flat(a, out):
    cells = kd.shared.array(1024, np.float32)
    t = kd.threadIdx.x
    for k in range(32):
        cells[32 * k + t] = a[k, t]
    kd.syncthreads()
    for k in range(32):
        out[k, t] = cells[32 * t + k]


@kd.kernel
def swizzled_flat(a, out):
    cells = kd.shared.array(1024, np.float32)
    t = kd.threadIdx.x
    for k in range(32):
        i = 32 * k + t
        cells[i ^ (i >> 5 & 31)] = a[k, t]
    kd.syncthreads()
    for k in range(32):
        i = 32 * t + k
        out[k, t] = cells[i ^ (i >> 5 & 31)]


@kd.kernel
def planes(a, out):
    tile = kd.shared.array((2, 32, 32), np.float32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    for k in range(2):
        tile[k, ty, tx] = a[ty, tx] + np.float32(k)
    kd.syncthreads()
    out[ty, tx] = tile[0, tx, ty] + tile[1, tx, ty]


@kd.kernel
def swizzled_planes(a, out):
    tile = kd.shared.array((2, 32, 32), np.float32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    for k in range(2):
        tile[k, ty, tx ^ (ty & 31)] = a[ty, tx] + np.float32(k)
    kd.syncthreads()
    out[ty, tx] = tile[0, tx, ty ^ (tx & 31)] + tile[1, tx, ty ^ (tx & 31)]


#: Kernel, the same rewritten as the finding says, signature, block, and the formula in the finding.
CASES = {
    "transpose": (transpose, swizzled_transpose, IMAGES, (32, 32), "[i, j ^ (i & 31)]"),
    "doubles": (doubles, swizzled_doubles, DOUBLES, (32, 32), "[i, j ^ (i & 31)]"),
    "short rows": (short_rows, swizzled_short_rows, IMAGES, 128, "[i, j ^ (i >> 2 & 7)]"),
    "halves": (halves, swizzled_halves, HALVES, (32, 32), "[i, j ^ ((i & 31) << 1)]"),
    "one axis": (flat, swizzled_flat, IMAGES, 32, "i ^ (i >> 5 & 31)"),
    "three axes": (planes, swizzled_planes, IMAGES, (32, 32), "[…, i, j ^ (i & 31)]"),
}


def explained(kernel: Any, signature: str, block: Any) -> Any:
    sizes = {"a": (128, 128), "out": (128, 128)}
    return kernel.explain(
        signature, block=block, grid=1, sizes=sizes, arch="sm_90", occupancy=False
    )


def wavefronts(found: Any) -> float:
    return sum(each.wavefronts for each in found.shared_accesses)


def remedy_of(found: Any) -> str:
    return next(each.remedy for each in found.findings if each.kind == "bank conflicts")


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_that_is_swizzled_so_has_that_many_wavefronts(name: str) -> None:
    kernel, swizzled, signature, block, formula = CASES[name]
    found = explained(kernel, signature, block)
    remedy = remedy_of(found)
    said = re.search(
        re.escape(f"at {formula}") + r".*?: (\S+) wavefronts .*? become (\S+)$", remedy
    )
    assert said is not None, remedy
    after = wavefronts(explained(swizzled, signature, block))
    assert float(said[2].replace("k", "e3")) == pytest.approx(after, rel=0.005)
    assert after < wavefronts(found)
    assert float(said[1].replace("k", "e3")) == pytest.approx(wavefronts(found), rel=0.005)


@pytest.mark.parametrize("name", full_beyond(CASES, [*CASES][::3]))
def test_a_kernel_that_is_swizzled_so_computes_the_same(name: str) -> None:
    kernel, swizzled, signature, block, _ = CASES[name]
    dtype = np.dtype(signature.partition("[")[0])
    a = np.arange(128 * 128).reshape(128, 128).astype(dtype)
    results = []
    for each in (kernel, swizzled):
        out = np.zeros_like(a)
        with kd.use("cpu"):
            each[1, block](a, out)
        results.append(out)
    assert results[0].any()
    np.testing.assert_array_equal(*results)


def test_longer_rows_give_the_number_that_is_said() -> None:
    remedy = remedy_of(explained(transpose, IMAGES, (32, 32)))
    said = re.match(r"Make the array \(32, 33\) .* become (\S+)\. Or put element", remedy)
    assert said is not None, remedy
    assert float(said[1]) == wavefronts(explained(padded_transpose, IMAGES, (32, 32)))


@kd.kernel
def broadcast_words(a, out):
    cells = kd.shared.array((32, 32), np.float32)
    t = kd.threadIdx.x
    for k in range(32):
        cells[k, t] = a[k, t]
    kd.syncthreads()
    words = kd.view(cells, kd.float32x4)
    for k in range(8):
        out[t, k] = words[t, k].x


def test_an_array_that_is_read_in_vectors_is_not_swizzled() -> None:
    assert "^" not in remedy_of(explained(broadcast_words, IMAGES, 32))


@pytest.mark.parametrize(
    ("shape", "itemsize"),
    [
        ((32, 32), 4),
        ((32, 33), 4),
        ((128, 8), 4),
        ((64, 48), 2),
        ((16, 20), 8),
        ((96,), 4),
        ((3, 8, 64), 1),
    ],
)
def test_a_swizzle_gives_each_element_a_place_of_its_own(
    shape: tuple[int, ...], itemsize: int
) -> None:
    memory = Memory("tile", Space.SHARED, "float32", shape, (), itemsize)
    index = tuple(np.indices(shape).reshape(len(shape), -1))
    every = list(arrangements_of(memory))
    assert sum(isinstance(each, Padding) for each in every) == 4
    for each in every:
        places = each.place(memory, index)
        assert len(np.unique(places)) == places.size
        if isinstance(each, Swizzle):
            assert (np.sort(places) == np.arange(places.size)).all()
            # Words stay whole.
            words = places.reshape(-1, max(1, 4 // itemsize)) if itemsize < 4 else places[:, None]
            assert (np.diff(words, axis=1) == 1).all()
