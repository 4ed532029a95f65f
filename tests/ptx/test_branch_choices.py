"""Choices of float64 numbers as branches around one instruction give the same."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from targets.cuda.compile.choices import branch_choices
from tests.ptx.helpers import body_of, compile_ptx
from tests.ptx.interpreter import run_ptx
from tests.ptx.pass_kernels import artifact_for_pass

#: Which two of the last four numbers each choice is between, and by which predicate.
_STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(1, 2)),
    min_size=1,
    max_size=8,
)


def _choices(steps: list[tuple[int, int, int, int]], predicates: list[bool]) -> str:
    """Return a function that adds and multiplies numbers, and chooses of them."""
    lines = [f"setp.lt.s64 %p{n + 1}, 0, {each:d};" for n, each in enumerate(predicates)]
    lines += [f"mov.b64 %rd{n}, {n + 3};" for n in range(4)]
    held, fresh = [0, 1, 2, 3], 4
    for one, other, third, predicate in steps:
        lines += [
            f"add.f64 %rd{fresh}, %rd{held[one]}, %rd{held[other]};",
            f"mul.f64 %rd{fresh + 1}, %rd{held[other]}, %rd{held[third]};",
            f"selp.f64 %rd{fresh + 2}, %rd{fresh + third % 2}, "
            f"%rd{held[one] if one == other else fresh + (third + 1) % 2}, %p{predicate};",
        ]
        held, fresh = [*held[1:], fresh + 2], fresh + 3
    return "\n".join(["{", *lines, f"mov.b64 %rd999, %rd{held[-1]};", "ret;", "}"])


@settings(deadline=None)
@given(steps=_STEPS, predicates=st.tuples(st.booleans(), st.booleans()))
def test_choices_of_choices_give_the_same(steps, predicates) -> None:
    ptx = _choices(steps, list(predicates))
    before, after = run_ptx(ptx), run_ptx(branch_choices(ptx))
    assert before is not None
    assert after is not None
    assert after["%rd999"] == before["%rd999"]


_BLOCK = """.entry e()
{{
mul.f64 %rd3, %rd1, %rd1;
fma.rn.f64 %rd4, %rd1, %rd2, %rd2;
{lines}
selp.f64 %rd5, %rd3, %rd4, %p1;
st.global.b64 [%rd6], %rd5;
{after}
ret;
}}"""


def _is_branched(lines: str = "", after: str = "") -> bool:
    text = _BLOCK.format(lines=lines, after=after)
    return branch_choices(text) != text


def test_one_of_two_numbers_is_computed_where_it_is_chosen() -> None:
    assert _is_branched()
    assert _is_branched("add.f64 %rd7, %rd3, %rd1;")


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ("", "st.global.b64 [%rd6], %rd3;"),  # reads the one that is kept
        ("", "st.global.b64 [%rd6], %rd4;"),
        ("add.f64 %rd2, %rd1, %rd1;", ""),  # changes an operand
        ("mul.f64 %rd5, %rd1, %rd1;", ""),  # writes the result, too
        ("$L1:", ""),
        ("@%p2 bra $L1;", "$L1:"),
        ("call.uni (r), f, (p);", ""),
        ("add.f64 %rd7, %rd5, %rd5;", ""),  # reads the result of an iteration before
    ],
)
def test_other_choices_stay(lines: str, after: str) -> None:
    assert not _is_branched(lines, after)


def test_blocks_that_are_written_earlier_read_the_result() -> None:
    before = "{\nbra.uni $L1;\n$L0:\nst.global.v2.b64 [%rd6], {%rd5, %rd7};\nret;\n$L1:\n"
    text = branch_choices(_BLOCK.format(lines="", after="bra.uni $L0;").replace("{\n", before, 1))
    assert "$KD_choice0" in text
    assert "{%rd3, %rd7}" in text
    assert "%rd5" not in text


def test_choices_in_innermost_loops_stay() -> None:
    loop = _BLOCK.format(lines="", after="@%p2 bra $L1;").replace("{\n", "{\n$L1:\n", 1)
    assert branch_choices(loop) == loop


def test_a_kernel_computes_one_of_two_numbers() -> None:
    """Golden."""
    body = body_of(artifact_for_pass("branch-choices"))
    assert "selp" not in body
    assert re.search(
        r"@(%p\d+) bra \t\$KD_choice0;\n\tfma\.rn\.f64 \t(%rd\d+), [^;]+;\n\$KD_choice0:", body
    )


def test_a_sine_chooses_its_polynomial_and_its_sign_by_branches() -> None:
    def sines(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = math.sin(x[i])

    body = body_of(compile_ptx(sines, "float64[::1], float64[::1]"))
    assert body.count("$KD_choice") == 4


_EARLIER_BLOCK = """.entry e()
{
bra.uni $L2;
$L1:
st.global.b64 [%rd6], %rd5;
ret;
$L2:
mul.rn.f64 %rd3, %rd1, %rd1;
fma.rn.f64 %rd4, %rd1, %rd2, %rd2;
selp.f64 %rd5, %rd3, %rd4, %p1;
@%p2 bra $L1;
ret;
}"""


def test_a_block_that_reads_the_result_may_be_earlier_in_the_text() -> None:
    written = branch_choices(_EARLIER_BLOCK)
    assert "st.global.b64 [%rd6], %rd3;" in written
    assert "%rd5" not in written
