"""Products of 16 bits in 32: what is computed is the same."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from targets.cuda.compile.peepholes import widen_products
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


_SHIFTED = """{{
mov.b16 %rs1, {a};
mad.lo.s16 %rs2, %rs1, {factor}, 29;
shr.{kind}16 %rs3, %rs2, {count};
st.global.b8 [%rd1], %rs3;
{more}
ret;
}}"""


@settings(deadline=None)
@given(a=_NUMBERS, factor=_NUMBERS, kind=st.sampled_from("su"), count=st.integers(0, 15))
def test_the_lowest_byte_of_a_shift_is_the_same(a, factor, kind, count) -> None:
    written = widen_products(_SHIFTED.format(a=a, factor=factor, kind=kind, count=count, more=""))
    assert (f"shr.{kind}16" in written) == (count > 8)
    value = (a * factor + 29) % 2**16
    if kind == "s" and value >= 2**15:
        value -= 2**16
    if count <= 8:
        found = run_ptx(written.replace("st.global.b8 [%rd1], %rs3;", ""))
        assert found is not None
        assert found["%rs3"] % 256 == (value >> count) % 256


def test_a_shift_that_more_than_a_byte_of_is_read_stays() -> None:
    parts = {"a": 7, "factor": 9, "kind": "u", "count": 8}
    for more in ("st.global.b16 [%rd1+2], %rs3;", "cvt.u32.u16 %r1, %rs3;"):
        assert "shr.u16" in widen_products(_SHIFTED.format(**parts, more=more))
