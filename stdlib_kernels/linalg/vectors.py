"""Neighbours of a row of a matrix, which a thread of a GPU reads as vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import Array, is_contiguous

__all__ = ["read_vectors", "vectors_of"]


def read_vectors(vectors: Any, r: Any, c: Any, numbers: Any, first: Any, count: Any) -> None:
    """Read `count` numbers of row `r` from column `c` on into a local array from `first` on.

    Both are multiples of a vector's length.
    """
    width = len(vectors[0, 0])
    for i in range(0, count, width):
        v = vectors[r, (c + i) // width]
        for j in range(width):
            numbers[first + i + j] = v[j]


def vectors_of(dtype: np.dtype[Any], *arrays: Array) -> dict[str, Any]:
    """Return the dtype of 16 bytes of such floats, and its length: 1 where rows have not such."""
    vector, width = (kd.float32x4, 4) if dtype == np.float32 else (kd.float64x2, 2)
    fits = dtype.kind == "f" and all(
        is_contiguous(x) and x.dtype == dtype and x.shape[-1] % width == 0 for x in arrays
    )
    return {"vector": vector, "width": width if fits else 1}
