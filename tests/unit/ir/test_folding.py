"""Operators of constants are folded as int64 computes them, or not at all."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types

import kerneldsl as kd
from kerneldsl.ir.rewriter import Builder
from kerneldsl.ir.simplify import folded
from kerneldsl.ir.typing import Typing
from kerneldsl.lowering.numba_internals.host_code import host_contexts
from tests.support.extent import examples

_COMPUTED = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.floordiv: np.floor_divide,
    operator.mod: np.remainder,
    operator.lt: np.less,
    operator.le: np.less_equal,
    operator.gt: np.greater,
    operator.ge: np.greater_equal,
    operator.eq: np.equal,
    operator.ne: np.not_equal,
}
_NEAR_LIMITS = st.sampled_from([-(2**63), -(2**63) + 1, -(2**31), -1, 0, 1, 2**31, 2**63 - 1])
_NUMBERS = _NEAR_LIMITS | st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)


def _fold(function, one, two, kind=types.int64):
    """Return the constant that an operator of two constants becomes, and its type."""
    build = Builder(Typing.of(host_contexts().typing_context))
    operands = build.constant(one, kind), build.constant(two)
    found = folded(build.numba(function, *operands).owner)
    if found is None:
        return None
    ((made,), (result,)) = found
    assert made.name == "const"
    return made.attributes["value"], result.type


@pytest.mark.parametrize("function", _COMPUTED, ids=lambda each: each.__name__)
@settings(max_examples=examples(200, 50), deadline=None)
@given(one=_NUMBERS, two=_NUMBERS)
def test_constants_are_those_of_int64_unless_it_overflows(function, one, two):
    found = _fold(function, one, two)
    if function in (operator.floordiv, operator.mod) and two == 0:
        assert found is None
        return
    exact = function(one, two)
    if not -(2**63) <= exact < 2**63:
        assert found is None
        return
    expected = _COMPUTED[function](np.int64(one), np.int64(two))
    assert found == (expected, types.int64 if expected.dtype == np.int64 else types.boolean)


def test_a_uint64_beside_an_int64_stays():
    assert _fold(operator.floordiv, 2**63 + 5, 64, types.uint64) is None


@kd.kernel
def by_block(quotients, remainders):
    i = kd.threadIdx.x
    shared = kd.shared.array(64, np.int64)
    shared[i] = 0
    kd.syncthreads()
    quotients[i] = np.uint64(2**63 + 5) // kd.blockDim.x + shared[63 - i]
    remainders[i] = np.uint64(2**63 + 5) % kd.blockDim.x


@kd.kernel
def by_argument(quotients, remainders, n):
    i = kd.threadIdx.x
    quotients[i] = np.uint64(2**63 + 5) // n
    remainders[i] = np.uint64(2**63 + 5) % n


@pytest.mark.filterwarnings("ignore:.*becomes negative")
def test_a_block_divides_a_uint64_as_an_argument_does():
    with kd.use("cpu"):
        known, given = (np.zeros((2, 64), np.int64) for _ in range(2))
        by_block[1, 64](*known)
        by_argument[1, 64](*given, 64)
    assert np.array_equal(known, given)
    assert known[0, 0] < 0  # it is computed modulo 2**64, as an int64
