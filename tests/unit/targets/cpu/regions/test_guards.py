"""Guards on a thread's index bound the loop over threads, whatever their values."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd

_LIMITS = np.iinfo(np.int64)
_VALUES = (_LIMITS.min, _LIMITS.min + 1, -1, 0, 5, 250, _LIMITS.max - 1, _LIMITS.max)


def count_below(out, n, m):
    i = kd.grid(1)
    if i < n and i >= m and i < out.size:
        out[i] += 1


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("shape", ["elements", "blocks"])
def test_limits_near_the_ends_of_int64(shape: str, debug: bool) -> None:
    kernel = kd.kernel(debug=debug)(count_below)
    with kd.use("cpu"):
        for n in _VALUES:
            for m in _VALUES:
                out = np.zeros(300, np.int32)
                launch = kernel.forall(300) if shape == "elements" else kernel[5, 64]
                launch(out, n, m)
                index = np.arange(300)
                np.testing.assert_array_equal(out, (index < n) & (index >= m), f"{n} {m}")


def keep_last(out, n):
    i = kd.grid(1)
    if i < n:
        out[0] = i


def test_no_thread_runs_below_the_least_limit() -> None:
    """Also in later segments of a row, which begin beyond zero."""
    with kd.use("cpu"):
        out = np.full(1, -7)
        kd.kernel(keep_last).forall(3_000_000)(out, _LIMITS.min)
        assert out[0] == -7
