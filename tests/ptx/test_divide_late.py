"""Divisions and square roots right before their uses."""

from __future__ import annotations

import math
import re

import pytest

import kerneldsl as kd
from targets.cuda.compile.divisions import divide_late
from tests.ptx.helpers import body_of, compile_ptx

_BLOCKS = """.entry e()
{{
{before}
sqrt.rn.f32 %r2, %r1;
{middle}
add.f32 %r3, %r9, %r9;
mul.f32 %r4, %r3, %r3;
mul.f32 %r5, %r4, %r4;
mul.f32 %r6, %r5, %r5;
{after}
div.rn.f32 %r7, %r2, %r6;
st.global.b32 [%rd1], %r7;
{end}
ret;
}}"""


def _is_late(before: str = "", middle: str = "", after: str = "", end: str = "") -> bool:
    text = _BLOCKS.format(before=before, middle=middle, after=after, end=end)
    written = divide_late(text)
    assert sorted(written.split("\n")) == sorted(text.split("\n"))
    return "sqrt.rn.f32 %r2, %r1;\ndiv" in written


def test_roots_are_computed_after_other_arithmetic() -> None:
    assert _is_late()
    assert _is_late("bar.sync 0;", "bar.sync 0;", "ld.global.b32 %r8, [%rd1];")


def test_roots_move_to_a_later_block() -> None:
    assert _is_late(middle="@%p1 bra $L1;\nadd.f32 %r8, %r9, %r9;\n$L1:")


@pytest.mark.parametrize(
    "lines",
    [
        {"middle": "add.f32 %r8, %r2, %r2;"},  # the first use
        {"middle": "@%p1 bra $L1;\nadd.f32 %r8, %r2, %r2;\n$L1:"},  # a use in another block
        {"before": "neg.f32 %r1, %r9;", "middle": "abs.f32 %r1, %r9;"},  # another operand
        {"before": "sqrt.rn.f32 %r2, %r8;"},  # two results in one register
    ],
)
def test_other_roots_stay(lines: dict[str, str]) -> None:
    assert not _is_late(**lines)


def test_roots_do_not_move_into_loops() -> None:
    assert not _is_late(after="$L1:", end="@%p1 bra $L1;")


def test_a_root_is_taken_after_the_cosine_that_it_is_multiplied_by() -> None:
    """Golden: the cosine has several blocks, and the root is taken in the last of them."""

    def normals(x, out):
        i = kd.grid(1)
        if i < out.size - 1:
            radius = math.sqrt(x[i])
            out[i] = radius * math.cos(x[i + 1])

    body = body_of(compile_ptx(normals, "float32[::1], float32[::1]"))
    root = re.search(r"sqrt\.rn\.f32 \t(%r\d+), %r\d+;\n\tmul\.f32 \t%r\d+, \1, %r\d+;", body)
    assert root is not None
    assert len(re.findall(r"\bbra\b", body[: root.start()])) > 3
