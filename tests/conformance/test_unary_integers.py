"""``-x``, ``~x`` and ``abs(x)`` of integers keep the width; two operands compute in 64 bits."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond


@kd.kernel
def unary(x, negative, inverse, magnitude, difference):
    i = kd.grid(1)
    negative[i] = -x[i]
    inverse[i] = ~x[i]
    magnitude[i] = abs(x[i])
    difference[i] = 0 - x[i]


DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"]


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, ["int8", "int64", "uint32"]))
def test_unary_operators_are_numpys(computing_target: str, dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.min + 1, 0, 5, limits.max], dtype)
    found = [np.full(x.size, 99, np.int64) for _ in range(4)]
    with kd.use(computing_target):
        unary.forall(x.size)(x, *found)
    for one, expected in zip(found, (-x, ~x, np.abs(x), 0 - x.astype(np.int64)), strict=True):
        np.testing.assert_array_equal(one, expected.astype(np.int64))
