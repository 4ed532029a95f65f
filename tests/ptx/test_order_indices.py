"""The threads of a block are read before its number."""

from __future__ import annotations

import re

import pytest

import kerneldsl as kd
from targets.cuda.compile.peepholes import order_indices
from tests.ptx.helpers import body_of, compile_ptx


def doubled(x, out):
    column, row = kd.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = 2 * x[row, column]


_SIGNATURE = "int32[:, ::1], int32[:, ::1]"


def test_the_threads_of_each_axis_come_first() -> None:
    """Golden: of both axes."""
    artifact = compile_ptx(doubled, _SIGNATURE, "sm_90")
    body = body_of(artifact)
    for axis in "xy":
        assert re.search(rf"%ntid\.{axis};\n\s*mov\.u32\s+%r\d+, %ctaid\.{axis};", body)
    assert "order-indices: 2 block numbers read after the number of threads" in map(
        str, artifact.passes
    )


@pytest.mark.parametrize(
    "lines",
    [
        "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.y;\n",
        "mov.u32 %r1, %ctaid.x;\nmov.u32 %r1, %ntid.x;\n",
        "mov.u32 %r1, %ctaid.x;\nadd.s32 %r2, %r1, 1;\nmov.u32 %r3, %ntid.x;\n",
    ],
)
def test_other_lines_stay(lines: str) -> None:
    assert order_indices(lines) == lines
