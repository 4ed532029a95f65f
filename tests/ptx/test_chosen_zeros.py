"""Zeros of 64 bits before short branches with a product, which ptxas zeroes too late."""

from __future__ import annotations

import pytest

from targets.cuda.compile.ptxas_workarounds import choose_zeros

_BEFORE = "\tsetp.gt.u64 \t%p1, %rd1, 4;"
_ZERO = "\tmov.b64 \t%rd3, 0;"
_PRODUCT = ("\tld.global.b32 \t%r1, [%rd2];", "\tmul.wide.s32 \t%rd3, %r1, %r1;")


def _text(*lines: str) -> str:
    return "\n".join((_BEFORE, *lines, "\tst.global.b64 \t[%rd1], %rd3;"))


@pytest.mark.parametrize("negated", ["", "!"])
def test_a_zero_that_a_product_replaces_is_chosen(negated: str) -> None:
    branch = f"\t@{negated}%p1 bra \t$L1;"
    found = choose_zeros(_text(_ZERO, branch, *_PRODUCT, "$L1:")).splitlines()
    values = "-1, 0" if negated else "0, -1"
    assert _ZERO not in found
    assert found[1:3] == [f"\tselp.b64 \t%rd3, {values}, %p1;", branch]


@pytest.mark.parametrize(
    "lines",
    [
        # read before the branch
        (_ZERO, "\tadd.s64 \t%rd4, %rd3, 1;", "\t@%p1 bra \t$L1;", *_PRODUCT, "$L1:"),
        # another block
        (_ZERO, "$L0:", "\t@%p1 bra \t$L1;", *_PRODUCT, "$L1:"),
        # no product
        (_ZERO, "\t@%p1 bra \t$L1;", "\tld.global.b64 \t%rd3, [%rd2];", "$L1:"),
        # a loop
        ("$L1:", _ZERO, "\t@%p1 bra \t$L1;", *_PRODUCT),
        # more than one block
        (_ZERO, "\t@%p1 bra \t$L1;", *_PRODUCT, "$L2:", "$L1:"),
    ],
)
def test_other_zeros_stay(lines: tuple[str, ...]) -> None:
    assert choose_zeros(_text(*lines)) == _text(*lines)
