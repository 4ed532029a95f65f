"""Operations on float16, as device functions of their expressions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kerneldsl.kernels.decorators import func
from kerneldsl.kernels.made_functions import made_functions
from kerneldsl.language.intrinsics.values import bitcast

#: Functions computed in the narrow type itself.
EXACT = {
    "hadd(a, b)": "a + b",
    "hsub(a, b)": "a - b",
    "hmul(a, b)": "a * b",
    "hdiv(a, b)": "a / b",
    "hneg(a)": "-a",
    "habs(a)": "abs(a)",
    "heq(a, b)": "a == b",
    "hne(a, b)": "a < b or a > b",
    "hlt(a, b)": "a < b",
    "hle(a, b)": "a <= b",
    "hgt(a, b)": "a > b",
    "hge(a, b)": "a >= b",
    # The maximum or minimum of a NaN and a number is the number.
    "hmax(a, b)": "b if a < b or a != a else a",
    "hmin(a, b)": "b if a > b or a != a else a",
}
#: Functions computed in float32, and rounded to the narrow type.
ROUNDED = {
    "hsin(a)": "math.sin(a)",
    "hcos(a)": "math.cos(a)",
    "hlog(a)": "math.log(a)",
    "hlog2(a)": "math.log2(a)",
    "hlog10(a)": "math.log10(a)",
    "hexp(a)": "math.exp(a)",
    "hexp2(a)": "math.pow(np.float32(2), a)",
    "hexp10(a)": "math.pow(np.float32(10), a)",
    "htanh(a)": "math.tanh(a)",
    "hsqrt(a)": "math.sqrt(a)",
    "hrsqrt(a)": "np.float32(1) / math.sqrt(a)",
    "hrcp(a)": "np.float32(1) / a",
    "hfloor(a)": "math.floor(a)",
    "hceil(a)": "math.ceil(a)",
    "hrint(a)": "np.rint(a)",
    "htrunc(a)": "np.trunc(a)",
}
#: One instruction of a GPU on the bits of the numbers.
_FUSED_PTX = b"""
.version 6.0
.target sm_60
.address_size 64
.visible .func (.param .b32 result) kd_fma_f16(.param .b32 a, .param .b32 b, .param .b32 c)
{
    .reg .b16 %h<5>;
    .reg .b32 %r<2>;
    ld.param.u16 %h1, [a];
    ld.param.u16 %h2, [b];
    ld.param.u16 %h3, [c];
    fma.rn.f16 %h4, %h1, %h2, %h3;
    cvt.u32.u16 %r1, %h4;
    st.param.b32 [result], %r1;
    ret;
}
"""


@func(link=_FUSED_PTX, signature="uint16(uint16, uint16, uint16)", name="kd_fma_f16", pure=True)
def _fused_bits(a: Any, b: Any, c: Any) -> Any:
    """Return the bits of ``a * b + c``, rounded once.

    The product is exact in float64, and the sum loses no bits that the rounding to float16 needs.
    """
    first, second = np.float64(bitcast(a, np.float16)), np.float64(bitcast(b, np.float16))
    return bitcast(np.float16(first * second + np.float64(bitcast(c, np.float16))), np.uint16)


_BITS = ", ".join(f"bitcast({name}, np.uint16)" for name in "abc")
_FUSED = {"hfma(a, b, c)": f"bitcast(fused_bits({_BITS}), np.float16)"}


def texts(narrow: str, exact: dict[str, str], rounded: dict[str, str]) -> str:
    """Return the text of functions; their heads and expressions are given.

    - `narrow`: name of the narrow type in the text.
    """
    return "\n\n".join(
        [
            *(_text(head, each, narrow, narrow, "") for head, each in exact.items()),
            *(_text(head, each, narrow, "np.float32", narrow) for head, each in rounded.items()),
        ]
    )


def _text(head: str, expression: str, narrow: str, kind: str, result: str) -> str:
    names = [each.strip() for each in head.partition("(")[2].rstrip(")").split(",")]
    read = "{}({})" if kind == narrow else f"{kind}({{}}({{}}))"
    lines = [f"    {each} = {read.format(narrow, each)}" for each in names]
    value = f"{result}({expression})" if result else expression
    return "\n".join(
        [f"def {head}:", f'    """Return {expression}."""', *lines, f"    return {value}"]
    )


_TEXT = texts("np.float16", {**EXACT, **_FUSED}, ROUNDED)
_GIVEN = {"math": math, "np": np, "bitcast": bitcast, "fused_bits": _fused_bits}
globals().update(made_functions(_TEXT, __name__, _GIVEN))
