"""The networks sort every sequence of zeros and ones, and so every sequence.

References
----------
D. E. Knuth, "The Art of Computer Programming", volume 3, section 5.3.4: the zero-one principle.
"""

from __future__ import annotations

import numpy as np
import pytest

from targets.cuda.compile.tiles.sorts import MAX_CHUNK_BITS, merge_pairs, sort_pairs


def _after(rows: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    rows = rows.copy()
    for low, high in pairs:
        one, two = rows[:, low].copy(), rows[:, high].copy()
        rows[:, low], rows[:, high] = np.minimum(one, two), np.maximum(one, two)
    return rows


def _zeros_and_ones(count: int) -> np.ndarray:
    return np.arange(1 << count)[:, None] >> np.arange(count) & 1


@pytest.mark.parametrize("bits", range(1, MAX_CHUNK_BITS + 1))
def test_sort(bits: int) -> None:
    rows = _zeros_and_ones(1 << bits)
    assert (np.diff(_after(rows, sort_pairs(1 << bits)), axis=1) >= 0).all()


@pytest.mark.parametrize("bits", range(1, MAX_CHUNK_BITS + 1))
def test_merge(bits: int) -> None:
    count = 1 << bits
    rows = _zeros_and_ones(count)
    half = count // 2
    rises = (np.diff(rows[:, :half], axis=1) >= 0).all(1)
    falls = (np.diff(rows[:, half:], axis=1) <= 0).all(1)
    rows = rows[rises & falls]
    pairs = [pair for bit in range(bits - 1, -1, -1) for pair in merge_pairs(count, bit)]
    assert len(rows) == (half + 1) ** 2
    assert (np.diff(_after(rows, pairs), axis=1) >= 0).all()
