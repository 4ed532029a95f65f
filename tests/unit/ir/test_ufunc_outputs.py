"""A function of NumPy's that is given an array for its result writes it, used or not."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd


@kd.kernel
def sine(r, x):
    np.sin(x, r)


@kd.kernel
def twice(r, x):
    np.add(x, x, r)


@pytest.mark.parametrize(("kernel", "expected"), [(sine, np.sin), (twice, lambda x: x + x)])
def test_the_result_is_written(kernel, expected):
    x, r = np.arange(4.0), np.zeros(4)
    with kd.use("cpu"):
        kernel[1, 1](r, x)
    np.testing.assert_allclose(r, expected(x))
