"""Addresses that a loop steps: the same ones, by fewer additions."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import ArrayPromises, Promises
from targets.cuda.compile.step_pointers import step_pointers
from tests.ptx.helpers import body_of, compile_ptx
from tests.ptx.pass_kernels import artifact_for_pass

_LOOP = """.entry e()
{{
add.s64 %rd1, %rd9, 8;
mul.wide.u32 %rd2, %r8, 4;
mul.wide.u32 %rd3, %r9, 4;
{before}
$L1:
add.s64 %rd4, %rd1, %rd2;
ld.global.b32 %r1, [%rd4];
add.s64 %rd5, %rd3, %rd1;
ld.global.b32 %r2, [%rd5+8];
{inside}
add.s64 %rd1, %rd1, %rd6;
{rest}
@%p1 bra $L1;
{after}
ret;
}}"""


def _written(**lines: str) -> str:
    text = _LOOP.format(**{"before": "", "inside": "", "rest": "", "after": "", **lines})
    written = step_pointers(text)
    return "" if written == text else written


def test_each_address_has_its_own_step() -> None:
    written = _written(inside="add.s64 %rd7, %rd1, %rd2;\nst.global.b32 [%rd7], %r1;")
    loop = written.partition("$L1:")[2].partition("bra")[0]
    assert written.count("add.s64 \t%kd_step0, %rd1, %rd2;") == 1
    assert written.count("add.s64 \t%kd_step1, %rd1, %rd3;") == 1
    assert "%rd1," not in loop
    assert "[%kd_step1+8]" in loop
    assert "st.global.b32 [%kd_step0], %r1;" in loop
    assert loop.count("add.s64") == 2
    assert "add.s64 \t%kd_step0, %kd_step0, %rd6;" in loop


def test_branches_to_the_loop_begin_its_addresses() -> None:
    written = _written(before="@%p2 bra $L1;", after="@%p3 bra $L1;")
    assert written == ""  # two ways around
    written = _written(before="@%p2 bra $L1;")
    assert "@%p2 bra $KD_step0;" in written
    assert written.count("bra $L1;") == 1


def test_pointers_that_are_added_stay() -> None:
    text = _LOOP.format(before="", inside="", rest="", after="")
    for pointer in ("ld.param.b64 %rd3, [e_param_0];", "add.s64 %rd3, %rd8, %rd9;"):
        other = text.replace("mul.wide.u32 %rd3, %r9, 4;", pointer)
        assert step_pointers(text) != text
        assert step_pointers(other) == other


@pytest.mark.parametrize(
    "lines",
    [
        {"inside": "ld.global.b32 %r3, [%rd1];"},  # the address itself is read
        {"after": "st.global.b32 [%rd1], %r1;"},
        {"after": "st.global.b32 [%rd4], %r1;"},
        {"rest": "ld.global.b32 %r3, [%rd4];"},  # a sum is read after the step
        {"inside": "add.s64 %rd2, %rd2, 8;"},  # what is added changes
        {"inside": "add.s64 %rd6, %rd6, 8;"},
        {"inside": "@%p2 add.s64 %rd1, %rd1, 8;"},
        {"inside": "@%p2 bra $L2;", "after": "$L2:"},
        {"inside": "$L2:"},
    ],
)
def test_other_addresses_stay(lines: dict[str, str]) -> None:
    assert not _written(**lines)


def covariances(data, out):
    i, j = kd.grid(2)
    rows, columns = data.shape
    if i < columns and j < columns:
        total = np.float32(0.0)
        for k in range(rows):
            total += data[k, i] * data[k, j]
        out[i, j] = total


def test_a_loop_over_rows_steps_two_columns() -> None:
    """Golden: four rows an iteration, with an address of each column from row to row."""
    promises = Promises((ArrayPromises(),) * 2, is_disjoint=True, is_narrow=True)
    signature = "float32[:, ::1], float32[:, ::1]"
    body = body_of(compile_ptx(covariances, signature, "sm_90", promises=promises))
    loops = re.findall(r"^\$KD_step\d+:.*?^(\$\w+):(.*?)bra \t?\1;", body, re.M | re.S)
    assert len(loops) == 2
    assert sorted(loop.count("add.s64") for _, loop in loops) == [2, 8]
    assert sorted(loop.count("ld.global.nc") for _, loop in loops) == [2, 8]


def test_a_kernel_of_the_pass() -> None:
    assert "$KD_step0:" in artifact_for_pass("step-pointers").ptx
