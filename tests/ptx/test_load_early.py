"""Loads before divisions and square roots."""

from __future__ import annotations

import math
import re

import pytest

import kerneldsl as kd
from kerneldsl.contract import Promises
from targets.cuda.compile.divisions import load_early
from tests.ptx.helpers import body_of, compile_ptx

_BLOCK = """.entry e()
{{
ld.global.nc.b32 %r1, [%rd1];
sqrt.rn.f32 %r2, %r1;
{lines}
ld.global.nc.b32 %r3, [%rd2+4];
div.rn.f32 %r4, %r2, %r3;
st.global.b32 [%rd1], %r4;
ret;
}}"""


def _is_early(*lines: str, load: str = "ld.global.nc.b32") -> bool:
    text = _BLOCK.format(lines="\n".join(lines)).replace("ld.global.nc.b32 %r3", f"{load} %r3")
    written = load_early(text)
    assert sorted(written.split("\n")) == sorted(text.split("\n"))
    return written.index("%r3, [") < written.index("sqrt")


def test_loads_come_first_with_their_addresses() -> None:
    assert _is_early("ld.param.b64 %rd3, [e_param_0];", "add.s64 %rd2, %rd3, 8;")
    assert _is_early("mul.wide.s32 %rd3, %r9, 4;", "neg.s64 %rd2, %rd3;")


def test_memory_is_read_before_it_is_written() -> None:
    assert _is_early(load="ld.global.b32")
    assert _is_early("st.global.b32 [%rd5], %r9;")
    assert not _is_early("st.global.b32 [%rd5], %r9;", load="ld.global.b32")
    assert not _is_early("bar.sync 0;", load="ld.global.b32")
    assert not _is_early("ld.acquire.gpu.global.b32 %r8, [%rd5];", load="ld.global.b32")
    assert not _is_early(load="ld.relaxed.gpu.global.b32")


@pytest.mark.parametrize(
    "lines",
    [
        ("cvt.rzi.s64.f32 %rd2, %r2;",),  # depends on the root
        ("ld.shared.b64 %rd2, [%rd3];",),
        ("@%p1 add.s64 %rd2, %rd3, 8;",),
        ("add.s64 %rd2, %rd2, 8;", "add.s64 %rd2, %rd2, 8;"),  # written twice
        ("@%p1 bra $L1;",),
        ("$L1:",),
    ],
)
def test_other_loads_stay(lines: tuple[str, ...]) -> None:
    assert not _is_early(*lines)


def test_a_kernel_loads_all_before_the_first_root() -> None:
    def weights(a, b, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = math.sqrt(a[i]) / b[i]

    signature = "float32[::1], float32[::1], float32[::1]"
    promises = Promises(is_disjoint=True, is_narrow=True)
    body = body_of(compile_ptx(weights, signature, promises=promises))
    assert len(re.findall("ld.global", body[: body.index("sqrt.rn")])) == 2
