"""Values that parameters decide are computed again after loops."""

from __future__ import annotations

import re

import pytest

import kerneldsl as kd
from kerneldsl.contract import ArrayPromises, Promises
from targets.cuda.compile.recompute_late import recompute_late
from tests.ptx.helpers import body_of, compile_ptx

_LOOPS = """.entry e()
{{
ld.param.b64 %rd1, [e_param_0];
ld.param.b32 %r1, [e_param_1];
{before}
$L1:
ld.global.b32 %r5, [%rd1];
add.s64 %rd1, %rd1, 4;
{inside}
setp.ne.b64 %p1, %rd1, 4096;
@%p1 bra $L1;
{after}
$L2:
st.global.b32 [%rd1], %r5;
{again}
add.s64 %rd1, %rd1, 4;
setp.ne.b64 %p2, %rd1, 8192;
@%p2 bra $L2;
ret;
}}"""


def _loops(before: str = "", inside: str = "", after: str = "", again: str = "") -> str:
    return _LOOPS.format(before=before, inside=inside, after=after, again=again)


def _written(before: str = "", inside: str = "", after: str = "", again: str = "") -> str:
    return recompute_late(_loops(before, inside, after, again))


def test_a_value_is_computed_where_it_is_read() -> None:
    written = _written("and.b32 %r2, %r1, 3;", after="st.global.b32 [%rd1], %r2;")
    assert written.index("$L1") < written.index("and.b32 %kd_late1, %kd_late0, 3;")
    assert "[%rd1], %kd_late1;" in written
    assert "%r2" not in written


def test_it_is_computed_before_a_later_loop_that_reads_it() -> None:
    written = _written("mul.wide.u32 %rd2, %r1, 4;", again="add.s64 %rd1, %rd1, %rd2;")
    assert written.index("@%p1") < written.index("mul.wide.u32 %kd_late1") < written.index("$L2")


def test_a_counter_of_a_later_loop_begins_before_that_loop() -> None:
    written = _written("and.b32 %r2, %r1, 3;", again="add.s32 %r2, %r2, -1;")
    assert written.count("%r2") == 3
    assert written.index("@%p1") < written.index("mov.b32 %r2, %kd_late1;") < written.index("$L2")


@pytest.mark.parametrize(
    "parts",
    [
        {"before": "and.b32 %r2, %r1, 3;", "inside": "add.s32 %r5, %r5, %r2;"},  # is read in it
        {"before": "mov.u32 %r2, %tid.x;"},
        {"before": "ld.global.b32 %r2, [%rd1];"},
        {"before": "@%p3 and.b32 %r2, %r1, 3;"},
        {"before": "and.b32 %r2, %r1, 3;\nadd.s32 %r2, %r2, 1;"},
        {"before": "ld.param.b64 %rd3, [e_param_2];\nmov.b64 {_, %r2}, %rd3;"},  # a half
    ],
)
def test_other_values_are_kept(parts: dict[str, str]) -> None:
    parts = {"after": "st.global.b32 [%rd1], %r2;"} | parts
    ptx = _loops(**parts)
    assert recompute_late(ptx) == ptx


def test_a_counter_that_begins_once_is_kept() -> None:
    """It goes on from where it was, in the next turn of a loop around the later one."""
    ptx = _loops("and.b32 %r2, %r1, 3;\n$L0:", again="neg.s32 %r2, %r2;")
    ptx = ptx.replace("ret;", "@%p3 bra $L0;\nret;")
    assert recompute_late(ptx) == ptx


def test_the_rest_of_an_unrolled_loop_keeps_nothing_during_the_loop() -> None:
    def product(a, x, y):
        j = kd.grid(1)
        if j < y.size:
            total = y[j] - y[j]
            for i in range(x.size):
                total += a[i, j] * x[i]
            y[j] = total

    promises = Promises((ArrayPromises(),) * 3, is_disjoint=True, is_narrow=True)
    signature = "float32[:, ::1], float32[::1], float32[::1]"
    body = body_of(compile_ptx(product, signature, promises=promises))
    first = body.index("$KD_enter0")
    rest = re.compile(r"and\.b32 .*, [37];")
    assert not rest.search(body[:first])
    assert rest.search(body[first:])
