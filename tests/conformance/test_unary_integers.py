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


@kd.kernel
def literals(out):
    out[0] = -9223372036854775808
    out[1] = 2**-1
    out[2] = -(2**63) + 1
    out[3] = +True
    out[4] = 7 // -2


def test_python_computes_with_literals(computing_target: str) -> None:
    out = np.zeros(5)
    with kd.use(computing_target):
        literals[1, 1](out)
    assert out.tolist() == [-(2.0**63), 0.5, -(2.0**63), 1.0, -4.0]


@kd.kernel
def of_branches(a, b, out):
    i = kd.grid(1)
    out[i, 0] = -(a[i] if i else b[i])
    out[i, 1] = np.float64(~(a[i] if i else b[i]))
    out[i, 2] = abs(a[i] if i else b[i])


def test_branches_have_their_common_type_before_an_operator(computing_target: str) -> None:
    a, b, out = np.full(2, 7, np.uint32), np.full(2, -3, np.int8), np.zeros((2, 3))
    with kd.use(computing_target):
        of_branches.forall(2)(a, b, out)
    assert out.tolist() == [[3, 2, 3], [-7, -8, 7]]
