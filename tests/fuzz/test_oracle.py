"""The oracle's operations against Numba's own compiled code, for every pair of dtypes."""

from __future__ import annotations

import operator

import numba
import numpy as np
import pytest

from tests.fuzz import typing
from tests.support.arrays import assert_same_bits, random_array

_SIZE = 40


def _values(rng: np.random.Generator, dtype: str) -> np.ndarray:
    values = random_array(rng, _SIZE, dtype)
    values[::2] = rng.integers(0, 20, values[::2].shape)
    return values


@pytest.mark.parametrize(
    "op", ["+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "<", "=="]
)
def test_binary_operations(op: str, rng: np.random.Generator) -> None:
    function = typing._OPERATORS[op]
    compiled = numba.njit(error_model="numpy")(lambda a, b: function(a, b))
    dtypes = typing.DTYPES if op in "+-*/<==" and op not in ("<<", "//") else typing.INTEGERS
    for left in dtypes:
        for right in dtypes:
            for a, b in zip(_values(rng, left), _values(rng, right), strict=True):
                if op in ("<<", ">>"):
                    b = typing.cast(int(b) & 15, right)
                if op in ("//", "%"):
                    b = typing.cast((int(b) & 7) + 1, right)
                got = compiled(a, b)
                if op in ("<", "=="):
                    assert bool(got) == typing.compare(op, a, b), (op, a, b, left, right)
                    continue
                mine = typing.binary(op, a, b)
                wide = np.array(got).astype(mine.dtype)
                assert_same_bits(wide, np.array(mine), f"{a!r} {op} {b!r}")


@pytest.mark.parametrize("op", ["neg", "invert"])
def test_unary_operations(op: str, rng: np.random.Generator) -> None:
    function = {"neg": operator.neg, "invert": operator.invert}[op]
    compiled = numba.njit(lambda a: function(a))
    for dtype in typing.DTYPES if op == "neg" else typing.INTEGERS:
        for a in _values(rng, dtype):
            mine = typing.unary(op, a)
            assert_same_bits(np.array(compiled(a)).astype(mine.dtype), np.array(mine), repr(a))


@pytest.mark.parametrize("dtype", typing.DTYPES)
def test_conversions(dtype: str, rng: np.random.Generator) -> None:
    kind = getattr(np, dtype)
    compiled = numba.njit(lambda a: kind(a))
    for source in typing.INTEGERS if dtype in typing.INTEGERS else typing.DTYPES:
        for a in _values(rng, source):
            mine = typing.cast(a, dtype)
            assert_same_bits(np.array(compiled(a)).astype(dtype), np.array(mine), repr(a))
