"""Maxima of sums in 32 bits: what is computed is the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from targets.cuda.compile.narrow_maxima import narrow_maxima
from tests.ptx.helpers import body_of, compile_ptx
from tests.ptx.interpreter import run_ptx

_MAXIMA = """{{
mov.b32 %r1, {a};
mov.b32 %r2, {b};
mov.b64 %rd9, {begin};
setp.lt.s64 %p1, {choice}, 0;
cvt.s64.s32 %rd1, %r1;
cvt.s64.s32 %rd2, %r2;
selp.b64 %rd3, {first}, {second}, %p1;
add.s64 %rd4, %rd3, %rd1;
add.s64 %rd5, %rd2, {number};
max.s64 %rd6, %rd5, %rd4;
max.s64 %rd7, %rd6, {least};
max.s64 %rd9, %rd7, %rd9;
add.s64 %rd8, %rd7, 1;
ret;
}}"""
_INT32 = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([-(2**31), 2**31 - 1, -1, 0, 1])
_NUMBERS = st.integers(-(2**30) + 1, 2**30 - 1) | st.integers(-3, 3)
_PLAIN = {"a": 5, "b": 7, "begin": 0, "choice": -1, "first": 2, "second": -1}
_PLAIN |= {"number": -1, "least": 0}


@settings(deadline=None)
@given(
    a=_INT32,
    b=_INT32,
    begin=st.integers(0, 2**32 - 1),
    choice=st.sampled_from([-1, 1]),
    first=_NUMBERS,
    second=_NUMBERS,
    number=_NUMBERS,
    least=st.integers(0, 2**30 - 1) | st.just(0),
)
def test_what_is_computed_is_the_same(**numbers: int) -> None:
    ptx = _MAXIMA.format(**numbers)
    written = narrow_maxima(ptx)
    assert written.count("max.s64") == 1  # nothing reads it
    expected, found = run_ptx(ptx), run_ptx(written)
    assert expected is not None
    assert found is not None
    for name in ("%rd7", "%rd8", "%rd9"):
        assert found[name] == expected[name]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%rd6, 0;", "%rd6, -1;"),
        ("%rd6, 0;", f"%rd6, {2**30};"),
        ("%rd2, -1;", f"%rd2, {2**30};"),
        ("cvt.s64.s32 %rd2", "cvt.u64.u32 %rd2"),
        ("add.s64 %rd8, %rd7", "add.s64 %rd8, %rd6"),  # another reads a part of it
        ("max.s64 %rd6,", "$L1:\nmax.s64 %rd6,"),
        ("add.s64 %rd5,", "mov.b32 %r2, 0;\nadd.s64 %rd5,"),
    ],
)
def test_other_maxima_stay(old: str, new: str) -> None:
    ptx = _MAXIMA.format(**_PLAIN)
    changed = ptx.replace(old, new)
    assert changed != ptx
    assert narrow_maxima(changed) == changed


@pytest.mark.parametrize("begin", ["mov.b64 %rd9, -1;", "mov.b64 %rd9, %rd20;"])
def test_an_accumulator_that_may_be_negative_has_64_bits(begin: str) -> None:
    ptx = _MAXIMA.format(**_PLAIN).replace("mov.b64 %rd9, 0;", begin)
    assert "max.s64 %rd9, %rd7, %rd9;" in narrow_maxima(ptx)


def test_scores_of_an_alignment_have_32_bits() -> None:
    def scores(cells, out):
        t = kd.threadIdx.x
        best = 0
        for k in range(100):
            value = cells[k, t] + (2 if cells[k, 0] == cells[0, t] else -1)
            value = max(max(value, cells[k + 1, t] - 1), 0)
            cells[k, t] = value
            best = max(best, value)
        out[t] = best

    body = body_of(compile_ptx(scores, "int32[:, ::1], int32[::1]"))
    assert "max.s64" not in body
    assert "max.u32" in body
