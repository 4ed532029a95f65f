"""Loops of PTX that end by one branch: what they compute is the same."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from targets.cuda.compile.merge_branches import merge_exits
from tests.ptx.helpers import body_of, compile_ptx
from tests.ptx.interpreter import RELATIONS, run_ptx
from tests.support.simulated_grid import SimulatedGrid

_LOOP = """.entry e()
{{
mov.b64 %rd1, {start};
mov.b64 %rd2, {bound};
mov.b64 %rd3, {most};
mov.b64 %rd4, 0;
mov.b64 %rd5, 0;
$L1:
setp.{relation} %p1, %rd1, %rd2;
mov.b64 %rd5, %rd2;
{leave}
add.s64 %rd1, %rd1, 1;
add.s64 %rd4, %rd4, %rd1;
mov.b64 %rd5, %rd1;
setp.{other} %p2, %rd4, %rd3;
{again}
$L2:
add.s64 %rd7, %rd5, 3;
$L3:
ret;
}}"""
_LEAVES = {
    "true": "@%p1 bra $L3;",
    "false": "@!%p1 bra $L3;",
    "to the same": "@%p1 bra $L2;",
    "around": "@%p1 bra $L4;\nbra.uni $L3;\n$L4:",
}
_AGAIN = {
    "true": "@%p2 bra $L1;",
    "false": "@!%p2 bra $L1;",
    "out": "@%p2 bra $L3;\nbra.uni $L1;",
    "out if false": "@!%p2 bra $L2;\nbra.uni $L1;",
}


def _relation(name: str) -> str:
    return f"{name}.{'b' if name in ('eq', 'ne') else 's'}64"


def _plain(**changes: str) -> str:
    parts = {
        "start": "0",
        "bound": "9",
        "most": "20",
        "relation": "eq.b64",
        "other": "le.s64",
        "leave": _LEAVES["true"],
        "again": _AGAIN["true"],
    }
    return _LOOP.format(**parts | changes)


@settings(deadline=None)
@given(
    start=st.integers(-3, 6),
    bound=st.integers(-3, 9),
    most=st.integers(-5, 40),
    relation=st.sampled_from(sorted(RELATIONS)),
    other=st.sampled_from(sorted(RELATIONS)),
    leave=st.sampled_from(sorted(_LEAVES)),
    again=st.sampled_from(sorted(_AGAIN)),
)
def test_what_is_computed_is_the_same(start, bound, most, relation, other, leave, again) -> None:
    ptx = _plain(
        start=start,
        bound=bound,
        most=most,
        relation=_relation(relation),
        other=_relation(other),
        leave=_LEAVES[leave],
        again=_AGAIN[again],
    )
    written, expected = merge_exits(ptx), run_ptx(ptx)
    assert written.count("setp") == 3
    found = run_ptx(written)
    if expected is None:
        assert found is None
        return
    assert found is not None
    for name in ("%rd1", "%rd4", "%rd5", "%rd7"):
        assert found.get(name) == expected.get(name)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("add.s64 %rd4, %rd4, %rd1;", "@%p3 bra $L1;"),  # another way back
        ("add.s64 %rd4, %rd4, %rd1;", "add.s64 %rd4, %rd4, %rd5;"),  # the copy is read
        ("mov.b64 %rd5, %rd1;\n", ""),  # the copy is read after the other end
        ("mov.b64 %rd5, %rd1;", "@%p3 mov.b64 %rd5, %rd1;"),
        ("add.s64 %rd7, %rd5, 3;", "selp.b64 %rd7, 1, 0, %p1;"),  # the predicate is read
        ("mov.b64 %rd5, %rd2;", "ld.global.b64 %rd5, [%rd2];"),
        ("setp.eq.b64", "setp.eq.f64"),
    ],
)
def test_other_loops_stay(old: str, new: str) -> None:
    other = _plain().replace(old, new)
    assert other != _plain()
    assert merge_exits(other) == other


def test_a_loop_of_two_conditions_ends_by_one_branch() -> None:
    def escape(a, b, out, most):
        x, y, count = 0.0, 0.0, 0
        while count < most and x * x + y * y < 4.0:
            x, y = x * x - y * y + a, 2.0 * x * y + b
            count += 1
        out[0] = count

    body = body_of(compile_ptx(escape, "float64, float64, int32[::1], int64"))
    turn = re.search(r"^(\$L\w+):(?:(?!^\$).)*?bra\s+\1;", body, re.M | re.S)
    assert turn is not None
    assert turn[0].count("bra") == 1
    assert "mov" not in turn[0]


def test_a_range_that_is_left_early_ends_by_one_branch() -> None:
    """Golden: LLVM moves both tests to the end of an iteration."""

    def escape(x, y, out, most):
        count = most
        for k in range(most):
            xx, yy = x * x, y * y
            if xx + yy > 4.0:
                count = k
                break
            x, y = xx - yy + 0.25, 2.0 * x * y + 0.5
        out[0] = count

    artifact = compile_ptx(escape, "float64, float64, int32[::1], int64")
    remarks = [each.text for each in artifact.passes if each.name == "merge-exits"]
    assert remarks == ["1 loop ended by one branch instead of two"]


def _first_outside(x: float, y: float, most: int) -> int:
    return next((k for k in range(3, most, 2) if x * k + y > 40.0), -1)


def test_where_a_range_is_left_is_the_same() -> None:
    def search(x, y, out, most):
        found = -1
        for k in range(3, most, 2):
            if x * k + y > 40.0:
                found = k
                break
            out[1] = k
        out[0] = found

    grid = SimulatedGrid(compile_ptx(search, "float64, float64, int64[::1], int64"))
    out = np.zeros(2, np.int64)
    for most in (-2, 0, 3, 4, 5, 6, 17, 100):
        for x, y in ((1.0, 0.0), (50.0, 0.0), (0.0, 0.0), (2.5, 1.0)):
            out[:] = 0
            grid.run((1, 1, 1), (1, 1, 1), (x, y, out.ctypes.data, out.size, most))
            found = _first_outside(x, y, most)
            passed = [k for k in range(3, most, 2) if found < 0 or k < found]
            assert out.tolist() == [found, passed[-1] if passed else 0]
