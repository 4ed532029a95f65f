"""What is registered with Numba for kernels serves a program's own compiled functions, too."""

from __future__ import annotations

import sys

import numba
import numpy as np

import kerneldsl.lowering.numpy_functions  # noqa: F401 - registers


@numba.njit
def whole(x):
    return x[...]


def test_a_whole_array_counts_its_references() -> None:
    x = np.ones(5)
    before = sys.getrefcount(x)
    for _ in range(5):
        np.testing.assert_array_equal(whole(x), x)
    assert sys.getrefcount(x) == before
    same = whole(x)
    del x
    np.testing.assert_array_equal(same, np.ones(5))
