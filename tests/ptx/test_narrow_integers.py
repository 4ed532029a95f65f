"""Integers that a launch has checked to be small are computed with in 32 bits."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import Promises
from tests.ptx.helpers import body_of, compile_ptx

_SIGNATURE = "uint32[::1], int64"


def _steps(out, rounds):
    i = kd.threadIdx.x
    x = out[i]
    for _ in range(rounds):
        x = np.uint32(np.uint32(1664525) * x + np.uint32(1013904223))
        if x < np.uint32(1000):
            x = np.uint32(x ^ np.uint32(7))
    out[i] = x


def _remainder(out, modulus):
    i = kd.threadIdx.x
    out[i] = np.uint32(i % modulus)


def _body(function, *, is_small: bool) -> str:
    promises = Promises(is_narrow=True, has_narrow_integers=is_small)
    return body_of(compile_ptx(function, _SIGNATURE, promises=promises))


def test_a_loop_over_a_small_number_counts_in_32_bits() -> None:
    count = re.compile(r"setp\.\w+\.[bsu]64")
    assert count.search(_body(_steps, is_small=False))
    assert not count.search(_body(_steps, is_small=True))


def test_a_remainder_by_a_small_number_has_no_other_form() -> None:
    division = re.compile(r"\b(?:div|rem)\.")
    small, large = (_body(_remainder, is_small=each) for each in (True, False))
    assert len(division.findall(small)) < len(division.findall(large))


@pytest.mark.parametrize(
    ("numbers", "is_small"),
    [((0,), True), ((2**31 - 1,), True), ((2**31,), False), ((-1,), False), ((5, -5), False)],
)
def test_integers_are_checked(numbers: tuple[int, ...], is_small: bool) -> None:
    @kd.kernel
    def kernel(x, numbers):
        x[0] = numbers[0]

    x = np.zeros(4)
    made = kernel._dispatcher.request(kernel[1, 1]._shape, (x, numbers), None, "sm_90")
    table = made.state.promises
    assert table[table.number_of(made.binding, None, (1, 1, 1))].has_narrow_integers == is_small
