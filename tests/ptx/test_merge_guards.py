"""Guards that follow each other, tested by one branch."""

from __future__ import annotations

import re

import pytest

import kerneldsl as kd
from kerneldsl.contract import ArrayPromises, Promises
from targets.cuda.compile.merge_branches import merge_guards
from tests.ptx.helpers import body_of, compile_ptx
from tests.ptx.interpreter import run_ptx

_GUARDS = """.entry e()
{
setp.eq.b32 %p1, %r1, 0;
@%p1 bra $L1;
mov.u32 %r2, %ctaid.y;
setp.eq.b32 %p2, %r2, 0;
@%p2 bra $L1;
st.global.b32 [%rd1], %r2;
$L1:
ret;
}"""


def test_two_guards_are_one_branch() -> None:
    written = merge_guards(_GUARDS)
    assert written.count("bra $L1;") == 1
    assert "or.pred %kd_guard0, %p1, %p2;" in written


def test_three_guards_are_one_branch() -> None:
    third = "mov.u32 %r3, %ctaid.z;\nsetp.eq.b32 %p3, %r3, 0;\n@%p3 bra $L1;\nst.global"
    written = merge_guards(_GUARDS.replace("st.global", third))
    assert written.count("bra $L1;") == 1
    assert "or.pred %kd_guard1, %kd_guard0, %p3;" in written


_AROUND = "@%p1 bra $L2;\nbra.uni $L1;\n$L2:"


@pytest.mark.parametrize("first", ["@%p1 bra $L1;", "@!%p1 bra $L1;", _AROUND])
@pytest.mark.parametrize("second", ["@%p2 bra $L1;", "@!%p2 bra $L1;", _AROUND])
def test_guards_may_be_negated(first: str, second: str) -> None:
    """As that of an extent, which LLVM writes as a branch around a jump to the end."""
    second = second.replace("p1", "p2").replace("$L2", "$L3")
    text = _GUARDS.replace("mov.u32 %r2, %ctaid.y;", "mov.b32 %r2, {two};")
    text = text.replace("setp.eq.b32 %p1, %r1, 0;", "mov.b32 %r1, {one};\n\\g<0>")
    text = text.replace("\\g<0>", "setp.eq.b32 %p1, %r1, 0;").replace("%rd1", "%r3")
    text = text.replace("st.global.b32 [%r3], %r2;", "mov.b32 %r9, 1;")
    text = text.replace("@%p1 bra $L1;", first).replace("@%p2 bra $L1;", second)
    written = merge_guards(text)
    assert written.count("bra") == 1
    for one in "01":
        for two in "01":
            known = [
                run_ptx(each.replace("{one}", one).replace("{two}", two))
                for each in (text, written)
            ]
            assert known[0] is not None
            assert known[1] is not None
            assert known[0].get("%r9") == known[1].get("%r9")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mov.u32 %r2, %ctaid.y;", "ld.global.b32 %r2, [%rd2];"),  # may be out of bounds
        ("mov.u32 %r2, %ctaid.y;", "mov.u32 %r2, %clock;"),
        ("mov.u32 %r2, %ctaid.y;", "div.s32 %r2, %r3, %r4;"),  # takes long
        ("mov.u32 %r2, %ctaid.y;", "bar.sync 0;\nmov.u32 %r2, %ctaid.y;"),
        ("mov.u32 %r2, %ctaid.y;", "$L2:\nmov.u32 %r2, %ctaid.y;"),  # another way in
        ("mov.u32 %r2, %ctaid.y;", "mov.u32 %r2, %ctaid.y;\n" * 40),
        ("@%p1 bra $L1;", "@%p1 bra $L2;\nbra.uni $L1;\n$L2:\n@%p7 bra $L2;"),  # another way in
        ("$L1:", "$L1:\nst.global.b32 [%rd1], %r3;"),  # more than the end
    ],
)
def test_other_branches_stay(old: str, new: str) -> None:
    text = _GUARDS.replace(old, new)
    assert text != _GUARDS
    assert merge_guards(text) == text


def test_the_guard_of_a_stencil_is_one_branch() -> None:
    """Golden: special registers of three axes are read before the only branch."""

    def stencil(a, out, side):
        x, y, z = kd.grid(3)
        if 0 < x < a.shape[2] - 1 and 0 < y < a.shape[1] - 1 and 0 < z < a.shape[0] - 1:
            out[z, y, x] = side * (a[z, y, x - 1] + a[z, y + 1, x] + a[z - 1, y, x])

    signature = "int32[:, :, ::1], int32[:, :, ::1], int32"
    promises = Promises((ArrayPromises(),) * 2, is_disjoint=True, is_narrow=True)
    body = body_of(compile_ptx(stencil, signature, "sm_90", promises=promises))
    assert len(re.findall(r"\bbra\b", body)) == 1
    assert body.index("%tid.z") < body.index("bra")
