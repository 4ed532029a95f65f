"""Neighbours along a row, which a thread of a GPU reads as vectors of 16 bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import is_contiguous
from stdlib_kernels.checks import Array

__all__ = ["read_vectors", "vector_of", "vectors_of"]


def read_vectors(vectors: Any, r: Any, c: Any, numbers: Any, first: Any, count: Any) -> None:
    """Read `count` numbers of row `r` from column `c` on into a local array from `first` on.

    Both are multiples of a vector's length.
    """
    width = len(vectors[0, 0])
    for i in range(0, count, width):
        v = vectors[r, (c + i) // width]
        for j in range(width):
            numbers[first + i + j] = v[j]


def vector_of(dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the dtype of 16 bytes of such floats, and its length."""
    if dtype == np.float32:
        return {"vector": kd.float32x4, "width": 4}
    return {"vector": kd.float64x2, "width": 2}


def vectors_of(dtype: np.dtype[Any], *arrays: Array) -> dict[str, Any]:
    """Return the same for reading arrays, with a length of 1 where their rows have no vectors."""
    found = vector_of(dtype)
    fits = dtype.kind == "f" and all(
        is_contiguous(x) and x.dtype == dtype and x.shape[-1] % found["width"] == 0 for x in arrays
    )
    return found if fits else {**found, "width": 1}
