"""Shifts: PTX's instructions, which clamp the count, and constants beyond the bits."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.lowering.shifts import define_shifts
from tests.ptx.helpers import body_of, compile_ptx


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_all_bits_of_a_count_are_compared(dtype: str) -> None:
    """PTX's instruction reads the lower 32 bits of a count."""

    def shifted(x, counts, out):
        out[0] = x[0] << counts[0]

    body = body_of(compile_ptx(shifted, f"{dtype}[::1], {dtype}[::1], {dtype}[::1]"))
    assert body.count("shl.b64") == 1
    assert body.count("setp.lt.u64") == 1


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32"])
def test_counts_of_fewer_bits_need_no_test(dtype: str) -> None:
    """The instruction moves all bits out by itself, also by a negative count."""

    def shifted(x, counts, out):
        out[0] = x[0] << counts[0]
        out[1] = kd.uint64(x[0]) >> counts[0]

    body = body_of(compile_ptx(shifted, f"int64[::1], {dtype}[::1], int64[::1]"))
    assert body.count("shl.b64") == body.count("shr.u64") == 1
    assert not any(each in body for each in ("setp", "selp", "min."))


def test_an_exponential_number_needs_no_test_of_a_count() -> None:
    def drawn(seed, out):
        i = kd.grid(1)
        out[i] = kd.random.exponential_float32(seed, i)

    body = body_of(compile_ptx(drawn, "uint64, float32[::1]"))
    assert "shl.b64" in body
    assert not any(each in body for each in ("setp", "selp", "min."))


def test_shifts_of_32_bits_clamp_by_themselves() -> None:
    def shifted(x, counts, out):
        out[0] = np.left_shift(x[0], counts[0])

    body = body_of(compile_ptx(shifted, "uint32[::1], uint32[::1], uint32[::1]"))
    assert body.count("shl.b32") == 1
    assert not any(each in body for each in ("setp", "selp", "min."))


def test_known_counts_cost_nothing() -> None:
    def shifted(x, out):
        k = x[1] & 15
        out[0] = (x[0] >> 3) + (x[0] << 5) + (x[0] >> k)

    body = body_of(compile_ptx(shifted, "int64[::1], int64[::1]"))
    assert body.count("shr.s64") == 2
    assert not any(each in body for each in ("setp", "selp", "min."))


def test_constants_beyond_the_bits_are_stored() -> None:
    """LLVM's own instruction has no value there, and a store of none is left out."""

    def shifted(x, out):
        i = kd.grid(1)
        out[i] = (x[i] << 64) + 77

    assert ", 77;" in body_of(compile_ptx(shifted, "int64[::1], int64[::1]"))


@pytest.mark.parametrize("count", ["-1", "64", "%n", '%".7 a"'])
def test_calls(count: str) -> None:
    text = define_shifts(f"  %r = ashr i64 %x, {count}, !dbg !4\n")
    first = f"  %r = call i64 @kerneldsl.ashr.i64(i64 %x, i64 {count}), !dbg !4"
    assert text.splitlines()[0] == first
    assert text.count("define ") == 1
