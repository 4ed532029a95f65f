"""Calls of the library whose kernels the wheel ships; a script for ``kerneldsl build --trace``.

The kernels of a call depend on dtypes, on axes and on sizes: one block has a small array, several
blocks a larger one, and more parts one that is beyond the caches. They do not depend on contents.
Arguments of the script are the dtypes; by default they are all.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import kerneldsl as kd
import stdlib_kernels as sk

FLOATS, INTEGERS = ("float32", "float64"), ("int32", "int64")
SMALL, LARGE, BEYOND_CACHES = 1000, 100_000, 3_000_000
EXTREMES = ("max", "min", "argmax", "argmin")
REDUCTIONS = ("sum", "mean", "prod", "any", "all", "count_nonzero")


def call_on_vector(x: Any, *, is_float: bool) -> None:
    """Make the calls for an array of one axis."""
    for name in (*EXTREMES, *REDUCTIONS, *(("var", "std", "norm") if is_float else ())):
        getattr(sk, name)(x)
    for name in ("cumsum", "sort", "argsort", "unique"):
        getattr(sk, name)(x)
    sk.histogram(x, 64)
    sk.clip(x, 10, 20)
    sk.dot(x, x)
    if is_float:
        sk.softmax(x)


def call_on_matrix(x: Any, *, is_float: bool) -> None:
    """Make the calls for an array of two axes, along each of them."""
    for axis in (0, 1):
        for name in ("sum", "mean", "max", "argmax", *(("var",) if is_float else ())):
            getattr(sk, name)(x, axis=axis)
    sk.cumsum(x, axis=1)
    sk.sort(x, axis=1)
    sk.transpose(x)
    if is_float:
        sk.softmax(x)
        sk.log_softmax(x)
        sk.layer_norm(x)
        sk.matmul(x, np.ascontiguousarray(x.T) if isinstance(x, np.ndarray) else sk.transpose(x))


def main(dtypes: list[str]) -> None:
    """Make all calls: on NumPy arrays, and on arrays of the device."""
    for dtype in dtypes or (*FLOATS, *INTEGERS):
        is_float = dtype in FLOATS
        for size in (SMALL, LARGE):
            host = np.arange(size, dtype=dtype) % 100
            for x in (host, kd.to_device(host)):
                call_on_vector(x, is_float=is_float)
                call_on_matrix(x.reshape(-1, 100), is_float=is_float)
        large = kd.to_device(np.arange(BEYOND_CACHES, dtype=dtype) % 100)
        for name in EXTREMES:
            getattr(sk, name)(large)


if __name__ == "__main__":
    main(sys.argv[1:])
