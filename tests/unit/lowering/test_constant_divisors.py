"""Quotients and remainders of integers by constants, which are lowered without branches."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond


def kernel_by(dtype: str, divisors: list[int]) -> Any:
    """Return a kernel that divides each element by each constant of its type."""
    lines = ["@kd.kernel", "def divide(x, quotients, remainders):", "    i = kd.grid(1)"]
    lines += ["    if i < x.size:"]
    for place, divisor in enumerate(divisors):
        lines.append(f"        quotients[i, {place}] = x[i] // np.{dtype}({divisor})")
        lines.append(f"        remainders[i, {place}] = x[i] % np.{dtype}({divisor})")
    text, name = "\n".join([*lines, ""]), f"<divisors of {dtype}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"kd": kd, "np": np}
    exec(compile(text, name, "exec"), space)
    return space["divide"]


DTYPES = ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, ["int8", "uint64"]))
def test_results_are_numpys(dtype: str, rng: np.random.Generator) -> None:
    limits = np.iinfo(dtype)
    divisors = [0, 1, 2, 3, 7, 100, limits.max, limits.max - 1]
    if limits.min < 0:
        divisors += [-1, -2, -3, -7, -100, limits.min, limits.min + 1]
    ends = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 7, 99, 100, 101]
    drawn = rng.integers(limits.min, limits.max, 101, dtype=dtype, endpoint=True)
    x = np.concatenate([np.array(ends, dtype), drawn])
    quotients = np.empty((x.size, len(divisors)), dtype)
    remainders = np.empty_like(quotients)
    with kd.use("cpu"):
        kernel_by(dtype, divisors).forall(x.size)(x, quotients, remainders)
    with np.errstate(all="ignore"):
        for place, divisor in enumerate(divisors):
            # Of the least integer by -1 there is no quotient.
            has_value = ~((x == limits.min) & (divisor == -1))
            by = np.array(divisor, dtype)
            np.testing.assert_array_equal(quotients[has_value, place], (x // by)[has_value])
            np.testing.assert_array_equal(remainders[has_value, place], (x % by)[has_value])
