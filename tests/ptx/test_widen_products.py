"""Products of 16 bits in 32: what is computed is the same."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from targets.cuda.compile.widen_products import widen_products
from tests.ptx.interpreter import run_ptx

_PRODUCTS = """{{
mov.b16 %rs1, {a};
mov.b16 %rs2, {b};
mul.lo.s16 %rs3, %rs1, %rs2;
mad.lo.s16 %rs4, %rs3, {factor}, %rs1;
mul.lo.s16 %rs1, %rs4, %rs3;
mad.lo.s16 %rs5, %rs1, %rs4, {factor};
ret;
}}"""
_NUMBERS = st.integers(-(2**15), 2**15 - 1)


@settings(deadline=None)
@given(a=_NUMBERS, b=_NUMBERS, factor=_NUMBERS)
def test_what_is_computed_is_the_same(**numbers: int) -> None:
    ptx = _PRODUCTS.format(**numbers)
    written = widen_products(ptx)
    assert ".lo.s16" not in written
    expected, found = run_ptx(ptx), run_ptx(written)
    assert expected is not None
    assert found is not None
    for n in range(1, 6):
        assert found[f"%rs{n}"] == expected[f"%rs{n}"]
