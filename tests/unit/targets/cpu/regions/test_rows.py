"""Rows of elements: bounds, parts, and what is loaded once."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from targets.cpu.regions.compile import is_short
from targets.cpu.regions.read import read_kernel
from tests.support.region_text import region_text, rows_of
from tests.unit.targets.cpu.regions import test_counter_signs, test_ends_of_rows
from tests.unit.targets.cpu.runtime import test_interrupts

f32 = np.float32


def text_of(kernel, signature: str, forall: int) -> str:
    """Return the region of a kernel of elements."""
    return region_text(kernel, signature, forall=forall)


@kd.kernel
def scaled(x, shift, out):
    i, j = kd.grid(2)
    if 0 < i < out.shape[0] and j + shift < out.shape[1] and x[j] > 0:
        out[i, j] = x[j] * x[i]


def test_guards_are_bounds() -> None:
    text = text_of(scaled, "float32[::1], int64, float32[:, ::1]", 2)
    narrow, careful = rows_of(text)
    assert narrow.split("} {\n  }")[0].count("if ") == 1  # that x[j] is above 0
    assert careful.count("if ") > 2
    for shift in (0, 3, -2, 2**63 - 1, -(2**63), 2**62):
        x, out = np.array([1, -2, 3, 4], f32), np.zeros((3, 4), f32)
        scaled.forall(3, 4)(x, shift, out)
        expected = np.zeros_like(out)
        for i in range(1, 3):
            for j in range(4):
                if (j + shift + 2**63) % 2**64 - 2**63 < 4 and x[j] > 0:
                    expected[i, j] = x[j] * x[i]
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", test_ends_of_rows.KERNELS)
def test_the_middle_of_a_row_reads_plain_neighbours(name: str) -> None:
    signature = "float32[:, ::1], int64, int64, float32[:, :, ::1]"
    text = text_of(test_ends_of_rows.KERNELS[name], signature, 2)
    middle, ends = rows_of(text)
    middle = middle.split("for ")[0]
    assert "if " not in middle
    for word in ("mod", "min", "max"):
        assert word not in middle.split("{")[1]
    assert any(word in ends for word in ("mod", "min", "max", "if "))


@pytest.mark.parametrize("name", test_ends_of_rows.QUICK)
def test_neighbours(name: str) -> None:
    for shape in test_ends_of_rows.SHAPES:
        for image in test_ends_of_rows.images(shape):
            test_ends_of_rows.compare(name, image, np.int64(shape[1]), 1)


@pytest.mark.parametrize("name", test_ends_of_rows.BRANCHES)
def test_a_part_of_a_row_takes_one_branch(name: str) -> None:
    signature = "float64[:, ::1], int64, float64[:, ::1], float64[:, ::1]"
    text = text_of(test_ends_of_rows.branching_kernel(name), signature, 2)
    if name == "every_second":
        assert "for " not in text
        return
    for row in rows_of(text)[:2]:
        assert row.split("\n}")[0].split("else")[0].count("array.store %out") == 1
    test_ends_of_rows.test_branches_of_parts_of_a_row(name)


@kd.kernel
def shorten(distance, k):
    i, j = kd.grid(2)
    if i < distance.shape[0] and j < distance.shape[1]:
        through = distance[i, k] + distance[k, j]
        if through < distance[i, j]:
            distance[i, j] = through


def test_what_a_row_shares_is_loaded_once() -> None:
    text = text_of(shorten, "float32[:, ::1], int64", 2)
    before, row = text.split("\n    row ")
    assert before.count("array.load") == 1
    assert row.count("array.load") == 2
    rng = np.random.default_rng(3)
    found = rng.integers(1, 99, (40, 40)).astype(f32)
    expected = found.copy()
    for k in range(40):
        shorten.forall(40, 40)(found, k)
        np.minimum(expected, expected[:, k, None] + expected[k], out=expected)
    np.testing.assert_array_equal(found, expected)


def test_loops_have_a_version_for_starts_that_are_not_negative() -> None:
    signature = "float32[::1], int32[::1], int32[::1], float32[::1]"
    text = text_of(test_counter_signs.row_sums, signature, 1)
    upward, downward = text.split("for ")[1:]
    assert "may_wrap" not in upward
    assert "may_wrap" in downward
    promised = kd.kernel(test_counter_signs.row_sums.function, wraparound=False)
    assert text_of(promised, signature, 1).count("for ") == 1


def test_what_is_alike_for_a_row_chooses_no_loop() -> None:
    text = text_of(test_ends_of_rows.padded, "float32[::1], int64, float32[::1]", 1)
    middle = rows_of(text)[0].split("for ")[0]
    assert middle.count("if ") == 1
    assert "numba.gt %flag" in text.split("row ")[0]


def test_a_decision_of_the_whole_row_stays_in_it() -> None:
    """LLVM takes it out of the loop: both ways of a row take the time of one."""
    text = text_of(test_ends_of_rows.two_ways, "float64[::1], int64, float64[::1]", 1)
    middle, rest = rows_of(text)
    assert middle.count("if ") == 1
    assert rest.count("if ") > 1


def test_vectors_are_stored_by_rows_of_them() -> None:
    text = text_of(test_ends_of_rows.quarters.member(count=4), "float32[::1], float32[::1]", 1)
    middle = rows_of(text)[0].split("for ")[0]
    assert "float32x4" in middle
    assert "if " not in middle


@kd.kernel
def first_warp(x, out):
    i, t = kd.grid(1), kd.threadIdx.x
    value = x[i] if i < x.size else f32(0)
    kd.syncthreads()
    if t // 32 == 1:
        out[i] = value


def test_a_guard_of_a_warp_bounds_threads() -> None:
    text = region_text(first_warp, "float32[::1], float32[::1]", block=128)
    assert re.search(r"const\[32\]", text)
    assert re.search(r"const\[64\]", text)
    assert "floordiv" not in text
    middle, ends = rows_of(text)[:2]
    assert "array.load" in middle.split("}")[0]
    assert "array.load" not in ends.split("}")[0]
    assert "if " not in middle.split("}")[0] + ends.split("}")[0]
    x, out = np.arange(300, dtype=f32), np.zeros(384, f32)
    first_warp[3, 128](x, out)
    places = np.arange(384)
    expected = np.where(places % 128 // 32 == 1, np.where(places < 300, places, 0), 0)
    np.testing.assert_array_equal(out, expected)


@kd.kernel
def exponential(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = np.exp(max(x[i], x[i - 1 if i > 0 else x.size - 1]))


SIGNATURE = "float64, float64[::1], float64[::1]"


@pytest.mark.parametrize(
    ("kernel", "signature", "expected"),
    [
        (exponential, "float32[::1], float32[::1]", True),
        (test_interrupts.axpy, SIGNATURE, True),
        (test_interrupts.takes_a_mean, SIGNATURE, False),
        (test_interrupts.takes_a_largest, SIGNATURE, False),
        (test_interrupts.takes_a_sum, SIGNATURE, False),
        (test_counter_signs.row_sums, "float32[::1], int32[::1], int32[::1], float32[::1]", False),
    ],
)
def test_kernels_that_are_short(kernel, signature: str, expected: bool) -> None:
    _, spec = kernel.specialization(signature, forall=1, target="cpu")
    assert is_short(read_kernel(spec)[1]) == expected


@kd.kernel
def rounds(x, out, *, count):
    i = kd.grid(1)
    if i < out.size:
        value = x[i]
        for k in range(count):
            value = value * value + f32(k)
        out[i] = value


@pytest.mark.parametrize(("count", "is_strip"), [(10, False), (100, True)])
def test_loops_that_llvm_unrolls_need_no_strips(count: int, is_strip: bool) -> None:
    kernel = rounds.member(count=count)
    assert ("lane" in text_of(kernel, "float32[::1], float32[::1]", 1)) == is_strip
