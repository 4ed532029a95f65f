"""numba.cuda.fp16: operations on float16, as device functions of their expressions."""

from __future__ import annotations

import math

import numpy as np

from kerneldsl.kernels.made_functions import made_functions

#: In float16.
_EXACT = {
    "hadd(a, b)": "a + b",
    "hsub(a, b)": "a - b",
    "hmul(a, b)": "a * b",
    "hdiv(a, b)": "a / b",
    "hneg(a)": "-a",
    "habs(a)": "abs(a)",
    "heq(a, b)": "a == b",
    "hne(a, b)": "a != b",
    "hlt(a, b)": "a < b",
    "hle(a, b)": "a <= b",
    "hgt(a, b)": "a > b",
    "hge(a, b)": "a >= b",
    # Of a NaN and a number the number.
    "hmax(a, b)": "b if a < b or a != a else a",
    "hmin(a, b)": "b if a > b or a != a else a",
}
#: In float32, rounded to float16.
_ROUNDED = {
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
#: The product is exact in float64, and the sum of no further bits is lost before it is rounded.
_FUSED = {"hfma(a, b, c)": "a * b + c"}


def _text(head: str, expression: str, kind: str, *, rounds: bool) -> str:
    names = [each.strip() for each in head.partition("(")[2].rstrip(")").split(",")]
    lines = [f"    {each} = np.{kind}(np.float16({each}))" for each in names]
    value = f"np.float16({expression})" if rounds else expression
    return "\n".join(
        [f"def {head}:", f'    """Return {expression}."""', *lines, f"    return {value}"]
    )


_TEXTS = [
    *(_text(head, each, "float16", rounds=False) for head, each in _EXACT.items()),
    *(_text(head, each, "float32", rounds=True) for head, each in _ROUNDED.items()),
    *(_text(head, each, "float64", rounds=True) for head, each in _FUSED.items()),
]
_NAMES = [head.partition("(")[0] for head in (*_EXACT, *_ROUNDED, *_FUSED)]
globals().update(made_functions("\n\n".join(_TEXTS), __name__, _NAMES, {"math": math, "np": np}))
