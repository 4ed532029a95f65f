"""Numbers of congruential generators are computed one from another in PTX."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kerneldsl as kd
from targets.cuda.compile.peepholes import step_through_chains
from tests.ptx.helpers import body_of, compile_ptx

_WIDTH = 2**32
_WORDS = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-9, 9))
_MAD = re.compile(r"mad\.lo\.s32 %r(\d), %r(\d), (-?\d+), (-?\d+);")


def _run(ptx: str, first: int) -> list[int]:
    values = [first] * 4
    for result, source, multiplier, addend in _MAD.findall(ptx):
        values[int(result)] = (values[int(source)] * int(multiplier) + int(addend)) % _WIDTH
    return values


def _signed(number: int) -> int:
    return (number + _WIDTH // 2) % _WIDTH - _WIDTH // 2


@given(
    lines=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), _WORDS),
        min_size=1,
        max_size=9,
    ),
    multiplier=_WORDS,
    first=_WORDS,
)
def test_values_are_the_same(lines, multiplier, first) -> None:
    ptx = "\n".join(
        f"mad.lo.s32 %r{result}, %r{source}, {_signed(multiplier**power)}, {addend};"
        for result, source, power, addend in lines
    )
    assert _run(step_through_chains(ptx), first) == _run(ptx, first)


def test_a_generator_has_one_multiplier() -> None:
    def draws(x, out):
        i = kd.grid(1)
        state = x[i]
        total = np.uint32(0)
        for _ in range(4):
            state = np.uint32(state * np.uint32(1664525) + np.uint32(1013904223))
            total ^= state >> np.uint32(8)
        out[i] = total

    body = body_of(compile_ptx(draws, "uint32[::1], uint32[::1]"))
    found = re.findall(r"mad\.lo\.s32\s+(%r\d+), (%r\d+), (\d+), 1013904223;", body)
    assert len(found) == 4
    assert {multiplier for *_, multiplier in found} == {"1664525"}
    assert [source for _, source, _ in found[1:]] == [result for result, *_ in found[:-1]]


@pytest.mark.parametrize(
    "second",
    [
        "mad.lo.s32 %r3, %r1, 35, 42;",  # 7 is no multiplier that is known
        "mad.lo.s32 %r3, %r4, 25, 42;",
        "add.s32 %r1, %r1, 1;\nmad.lo.s32 %r3, %r1, 25, 42;",
        "add.s32 %r2, %r2, 1;\nmad.lo.s32 %r3, %r1, 25, 42;",
        "$L1:\nmad.lo.s32 %r3, %r1, 25, 42;",
    ],
)
def test_other_products_stay(second: str) -> None:
    ptx = f"mad.lo.s32 %r2, %r1, 5, 7;\n{second}"
    assert step_through_chains(ptx) == ptx
