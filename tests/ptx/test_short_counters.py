"""Loops of PTX that are left early and count in 32 bits: what they compute is the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kerneldsl.contract import Promises
from targets.cuda.compile.loop_counters import shorten_counters
from tests.ptx.helpers import body_of, compile_ptx
from tests.ptx.interpreter import RELATIONS, run_ptx

_LIMIT = 2**29
_LOOP = """.entry e()
{{
mov.b64 %rd1, {start};
mov.b64 %rd2, {bound};
mov.b64 %rd3, {most};
mov.b64 %rd5, {other};
mov.b64 %rd9, 0;
$L1:
{comparison}
{branches}
$L4:
add.s64 %rd1, %rd1, {step};
mov.b64 %rd6, %rd5;
cvt.u32.u64 %r1, %rd1;
add.s64 %rd5, %rd5, {other_step};
add.s64 %rd9, %rd9, 1;
setp.eq.b64 %p2, %rd3, %rd9;
@%p2 bra $L3;
bra.uni $L1;
$L2:
mov.b64 %rd8, 7;
$L3:
{kept}
ret;
}}"""
_ENDS = {
    "true": "@%p1 bra $L2;",
    "false": "@!%p1 bra $L2;",
    "elsewhere": "@%p1 bra $L4;\nbra.uni $L2;",
}
_NUMBERS = st.one_of(
    st.integers(-5, 50),
    st.integers(_LIMIT - 50, _LIMIT + 50),
    st.sampled_from([2**31 - 3, 2**31 + 2, 2**32 - 2, 2**63 - 5, -(2**63)]),
)


@settings(deadline=None)
@given(
    start=_NUMBERS,
    bound=_NUMBERS,
    other=_NUMBERS,
    most=st.integers(1, 60),
    relation=st.sampled_from(sorted(RELATIONS)),
    is_swapped=st.booleans(),
    is_literal=st.booleans(),
    end=st.sampled_from(sorted(_ENDS)),
    step=st.sampled_from([1, -1]),
    other_step=st.sampled_from([1, -1]),
    is_unsigned=st.booleans(),
    kept=st.sets(st.sampled_from([1, 5, 6, 9])),
)
def test_what_is_computed_is_the_same(
    start,
    bound,
    other,
    most,
    relation,
    is_swapped,
    is_literal,
    end,
    step,
    other_step,
    is_unsigned,
    kept,
) -> None:
    kind = "b64" if relation in ("eq", "ne") else "u64" if is_unsigned else "s64"
    numbers = ["%rd1", str(bound) if is_literal else "%rd2"]
    comparison = f"setp.{relation}.{kind} %p1, {', '.join(numbers[:: -1 if is_swapped else 1])};"
    ptx = _LOOP.format(
        start=start,
        bound=bound,
        most=most,
        other=other,
        step=step,
        other_step=other_step,
        comparison=comparison,
        branches=_ENDS[end],
        kept="\n".join(f"mov.b64 %rd2{each}, %rd{each};" for each in sorted(kept)),
    )
    ptx = ptx.replace("mov.b64 %rd5,", "mov.b64 %rd6, 0;\nmov.b64 %rd5,", 1)
    written, expected = shorten_counters(ptx), run_ptx(ptx)
    assert expected is not None
    found = run_ptx(written)
    assert found is not None
    for name in ["%rd8", "%r1", *(f"%rd2{each}" for each in kept)]:
        assert found.get(name) == expected.get(name)
    assume(written != ptx)


def _plain(**changes: str) -> str:
    parts = {
        "start": "0",
        "bound": "9",
        "most": "20",
        "other": "3",
        "step": "1",
        "other_step": "1",
        "comparison": "setp.eq.b64 %p1, %rd1, %rd2;",
        "branches": "@%p1 bra $L2;",
        "kept": "",
    }
    return _LOOP.format(**parts | changes)


def test_small_counters_have_32_bits() -> None:
    written = shorten_counters(_plain())
    assert written.count("add.s32") == 3
    assert written.count("setp.eq.b32") == 2
    values = run_ptx(written)
    assert values is not None
    assert values["%r1"] == 9
    assert "%kd_short0_0" in values


@pytest.mark.parametrize(("start", "bound"), [(_LIMIT, 9), (0, _LIMIT), (-1, 9), (9, 0)])
def test_large_counters_have_64(start: int, bound: int) -> None:
    """An end that is passed already is reached after 2**64 turns, and not after 2**32."""
    values = run_ptx(shorten_counters(_plain(start=str(start), bound=str(bound))))
    assert values is not None
    assert "%kd_short0_0" not in values


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cvt.u32.u64 %r1, %rd1;", "bar.sync 0;"),
        ("cvt.u32.u64 %r1, %rd1;", "shfl.sync.down.b32 %r1, %r2, 1, 31, -1;"),
        ("cvt.u32.u64 %r1, %rd1;", "$L9:\nsetp.eq.b32 %p4, %r4, 0;\n@%p4 bra $L9;"),
        ("@%p2 bra $L3;\n", ""),  # one way out
        ("mov.b64 %rd8, 7;", "bra.uni $L4;"),  # another way in
        ("@%p1 bra $L2;", "@%p3 bra $L2;"),  # the comparison decides nothing
        ("%rd1, 1;", "%rd1, 2;"),
        ("setp.eq.b64 %p1, %rd1, %rd2;", "add.s64 %rd2, %rd2, 1;\nsetp.eq.b64 %p1, %rd1, %rd2;"),
    ],
)
def test_other_loops_stay(old: str, new: str) -> None:
    ptx = _plain(kept="setp.eq.b64 %p2, %rd3, %rd2;").replace(
        "setp.eq.b64 %p2, %rd3, %rd9;", "setp.eq.b32 %p2, %r7, 1;"
    )
    assert shorten_counters(ptx) != ptx
    other = ptx.replace(old, new)
    assert other != ptx
    assert shorten_counters(other) == other


@pytest.mark.parametrize("is_small", [False, True])
def test_a_loop_that_is_left_early(is_small: bool) -> None:
    """Of a number that is known not to be negative, comparisons have no signs."""

    def escape(a, b, out, most):
        x, y, count = 0.0, 0.0, 0
        while count < most and x * x + y * y < 4.0:
            x, y = x * x - y * y + a, 2.0 * x * y + b
            count += 1
        out[0] = count

    promises = Promises(has_narrow_integers=is_small)
    signature = "float64, float64, int32[::1], int64"
    body = body_of(compile_ptx(escape, signature, promises=promises))
    assert re.search(r"add\.s32 %kd_short0_0, %kd_short0_0, 1;", body)
