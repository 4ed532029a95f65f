"""numba.cuda.fp16: operations on float16, as device functions of their expressions."""

from __future__ import annotations

import math

import numpy as np

from kerneldsl.kernels.made_functions import made_functions

#: In the narrow type itself.
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
    # Of a NaN and a number the number.
    "hmax(a, b)": "b if a < b or a != a else a",
    "hmin(a, b)": "b if a > b or a != a else a",
}
#: In float32, and rounded to the narrow type.
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
#: The product is exact in float64, and the sum of no further bits is lost before it is rounded.
_FUSED = {"hfma(a, b, c)": "a * b + c"}


def texts(narrow: str, exact: dict[str, str], rounded: dict[str, str]) -> str:
    """Return the text of functions; their heads and expressions are given.

    - `narrow`: what the text calls the narrow type.
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


_TEXT = texts("np.float16", EXACT, ROUNDED) + "\n\n"
_TEXT += "\n\n".join(
    _text(*each, "np.float16", "np.float64", "np.float16") for each in _FUSED.items()
)
_NAMES = [head.partition("(")[0] for head in (*EXACT, *ROUNDED, *_FUSED)]
globals().update(made_functions(_TEXT, __name__, _NAMES, {"math": math, "np": np}))
