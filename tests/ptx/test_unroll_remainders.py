"""Loops over what remains of unrolled loops, which ptxas unrolls."""

from __future__ import annotations

import pytest

from targets.cuda.compile.peepholes import unroll_remainders
from tests.ptx.pass_kernels import artifact_for_pass

_NAME = "unroll-remainders"
_LOOP = """.entry e()
{
and.b64 %rd1, %rd4, 7;
$L1:
.pragma "nounroll";
ld.global.b32 %r1, [%rd2];
add.s64 %rd1, %rd1, -1;
setp.ne.b64 %p1, %rd1, 0;
@%p1 bra $L1;
ret;
}"""


def test_a_loop_that_loads_is_unrolled() -> None:
    assert unroll_remainders(_LOOP) == _LOOP.replace('.pragma "nounroll";\n', "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%rd4, 7;", "%rd4, 3;"),  # at most three turns
        ("ld.global.b32 %r1, [%rd2];", "add.s32 %r1, %r1, 1;"),  # waits for nothing
        ("ld.global.b32 %r1, [%rd2];", "atom.global.add.u32 %r1, [%rd2], 1;"),
        ("[%rd2];", "[%rd2];\nst.global.b32 [%rd3], %r1;"),
        ("-1;", "-2;"),
        ("%rd1, 0;", "%rd1, 2;"),
        ("$L1:", "@%p2 mov.b64 %rd1, %rd5;\n$L1:"),  # another count
    ],
)
def test_other_loops_keep_the_pragma(old: str, new: str) -> None:
    text = _LOOP.replace(old, new)
    assert text != _LOOP
    assert unroll_remainders(text) == text


def test_only_the_loop_over_a_remainder_changes() -> None:
    """Golden: of a kernel's loops, the one by single elements loses its pragma."""
    found = artifact_for_pass(_NAME).ptx, artifact_for_pass(_NAME, _NAME).ptx
    assert [each.count("nounroll") for each in found] == [0, 1]
