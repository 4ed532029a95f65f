"""A kernel that the IR reads warns of changed signs, also if an earlier one has the same types."""

from __future__ import annotations

import warnings

import pytest

import kerneldsl as kd
from tests.support.source import exec_source

_KERNEL = """
import numpy as np
import kerneldsl as kd

@kd.kernel
def kernel(a, n, out):
    i = kd.grid(1)
    v = {}
    out[i] = v
"""


@pytest.mark.parametrize(
    "expression",
    ["a[i] if a[i] > 3 else n[i]", "a[i] + n[i]", "a[i] & n[i]", "np.where(i > 2, a[i], n[i])"],
)
def test_each_kernel_warns(expression: str) -> None:
    for _ in range(2):
        kernel = exec_source(_KERNEL.format(expression))["kernel"]
        with pytest.warns(kd.KernelWarning, match="so the result is int64"):
            kernel.ptx("uint64[::1], int64[::1], float64[::1]", forall=1)


def test_equal_types_are_not_warned_of() -> None:
    kernel = exec_source(_KERNEL.format("a[i] if i > 3 else a[0]"))["kernel"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel.ptx("uint64[::1], int64[::1], float64[::1]", forall=1)
