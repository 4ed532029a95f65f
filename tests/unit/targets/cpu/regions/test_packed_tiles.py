"""Tiles of packed numbers: inside an array, at its ends, and beyond them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kerneldsl as kd

_ROWS, _COLUMNS = 3, 24


@kd.kernel
def load_row(words: Any, out: Any, at: Any) -> None:
    kd.tile.store(out, 0, kd.tile.load(kd.packed(words[1], kd.int4), at, 10, other=9))


@kd.kernel
def load_plane(words: Any, out: Any, row: Any, column: Any) -> None:
    t = kd.tile.load(kd.packed(words, kd.int4), (row, column), (2, 10), other=9)
    kd.tile.store(out, (0, 0), t)


def _words() -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.integers(0, 1 << 32, (_ROWS, _COLUMNS // 8), dtype=np.uint32)


def _expected(numbers: np.ndarray, row: int, column: int, rows: int) -> np.ndarray:
    padded = np.full((_ROWS + 40, _COLUMNS + 80), 9, np.int8)
    padded[20 : 20 + _ROWS, 40 : 40 + _COLUMNS] = numbers
    return padded[20 + row : 20 + row + rows, 40 + column : 40 + column + 10]


@pytest.mark.parametrize("block", [4, 32])
def test_what_is_inside_is_read_and_the_rest_is_other(block: int) -> None:
    words = _words()
    numbers = kd.int4.unpack(words)
    with kd.use("cpu"):
        for at in range(-12, _COLUMNS + 3):
            out = np.zeros(10, np.int8)
            load_row[1, block](words, out, at)
            assert np.array_equal(out, _expected(numbers, 1, at, 1)[0])
        for row in range(-3, _ROWS + 2):
            for column in (-12, -1, 0, 3, 14, 15, _COLUMNS):
                plane = np.zeros((2, 10), np.int8)
                load_plane[1, block](words, plane, row, column)
                assert np.array_equal(plane, _expected(numbers, row, column, 2))


def test_a_tile_inside_is_loaded_without_tests() -> None:
    source = load_row.cpu_source("uint32[:, ::1], int8[::1], int64", block=32)
    assert "is_guarded=True" in source
