"""Products with a bit, which LLVM has turned into choices, are products in PTX."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from targets.cuda.compile.peepholes import multiply_by_bits
from tests.ptx.helpers import body_of, compile_ptx

_CHOICE = """
	and.b32 	%r2, %r1, 1;
	setp.ne.b32 	%p1, %r2, 0;
	selp.b32 	%r3, -306674912, 0, %p1;
	ret;
}
"""


def test_a_checksum_multiplies() -> None:
    def checksum(x, out):
        i = kd.grid(1)
        crc = x[i]
        for _ in range(8):
            low = np.uint32(crc & np.uint32(1))
            crc = np.uint32((crc >> np.uint32(1)) ^ (low * np.uint32(0xEDB88320)))
        out[i] = crc

    body = body_of(compile_ptx(checksum, "uint32[::1], uint32[::1]"))
    assert body.count("mul.lo.s32") == 8
    assert "selp" not in body


def test_what_is_written() -> None:
    written = multiply_by_bits(_CHOICE)
    assert written.splitlines()[2].split() == ["mul.lo.s32", "%r3,", "%r2,", "-306674912;"]
    assert "setp" not in written


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ret;", "@%p1 bra $L;\n\tret;"),  # something else depends on it
        ("%r1, 1;", "%r1, 2;"),  # 2 times the bit
        ("%r2, 0;", "%r2, 1;"),
        ("%r2, 0;", "%r4, 0;"),
        (", 0, %p1", ", 1, %p1"),
        ("setp.ne", "setp.eq"),
    ],
)
def test_other_choices_stay(old: str, new: str) -> None:
    other = _CHOICE.replace(old, new)
    assert other != _CHOICE
    assert multiply_by_bits(other) == other


def test_predicates_of_other_functions_do_not_matter() -> None:
    other = _CHOICE.replace("ret;", "@%p1 bra $L;\n\tret;")
    assert multiply_by_bits(other + _CHOICE) == other + multiply_by_bits(_CHOICE)
