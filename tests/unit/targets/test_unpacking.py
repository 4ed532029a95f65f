"""Tiles of packed numbers on a CPU: whole vectors of them, odd places, and edges."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.language.packed_numbers import PACKED_NUMBERS
from targets.cpu.codegen.levels import features_in_use

ROWS = 16


@kd.kernel
def unpacked(words, one, out, at, *, numbers, columns):
    """Multiply the tile that begins at an index of the numbers by 1."""
    tile = kd.tile.load(kd.packed(words, numbers), (1, at), (ROWS, columns), other=5)
    factor = kd.tile.load(one, (0, 0), (ROWS, ROWS))
    kd.tile.store(out, (0, 0), kd.mma(factor, tile))


@pytest.mark.parametrize("name", PACKED_NUMBERS)
@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint64"])
@pytest.mark.parametrize("columns", [8, 16, 48, 128])
def test_tiles_of_numbers(rng, name, dtype, columns):
    numbers = PACKED_NUMBERS[name]
    words = rng.integers(0, 256, (ROWS + 2, 256), dtype=np.uint8).view(dtype)
    wide, one = numbers.unpack(words), np.eye(ROWS, dtype=np.int8)
    for at in (0, 4, 1, 37, 128, wide.shape[1] - columns, wide.shape[1] - columns + 3, -2):
        out = np.empty((ROWS, columns), np.int32)
        with kd.use("cpu"):
            unpacked[1, 32](words, one, out, at, numbers=numbers, columns=columns)
        expected = np.full_like(out, 5)
        inside = [n for n in range(columns) if 0 <= at + n < wide.shape[1]]
        expected[:, inside] = wide[1 : 1 + ROWS][:, [at + n for n in inside]]
        assert np.array_equal(out, expected), at


@pytest.mark.skipif("avx512vbmi" not in features_in_use(), reason="no AVX512-VBMI")
def test_a_vector_of_numbers_takes_a_few_instructions():
    member = unpacked.member(numbers=kd.ternary, columns=256)
    signature = "uint32[:, ::1], int8[:, ::1], int32[:, ::1], int64"
    assert "vpunpcklbw" in member.artifact(signature, target="cpu", block=32).text("asm")
