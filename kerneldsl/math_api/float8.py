"""8-bit floats: constructors and conversions, as device functions.

Arrays of kerneldsl's own 8-bit floats are numbers; their conversions do not saturate.

References
----------
CUDA Math API, "FP8 Conversion and Data Movement".
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from kerneldsl.kernels.made_functions import made_functions
from kerneldsl.language.intrinsics.values import bitcast
from kerneldsl.math_api.bfloat16 import odd_float32


class saturation_t(IntEnum):
    """Result for a number beyond the largest: an infinity or NaN, or the largest."""

    NOSAT = 0
    SATFINITE = 1


class fp8_interpretation_t(IntEnum):
    """Format of the eight bits."""

    E4M3 = 0
    E5M2 = 1


class _Bits(NamedTuple):
    """The bits of a bfloat16."""

    x: Any


#: Value of ``cudaRoundMode`` for rounding up. ``cudaRoundZero``, the other mode for scales, drops
#: all bits.
_UP = 2
_TEXT = f"""
def _clamped(v, largest, saturate):
    if not saturate or v != v:
        return v
    return min(max(v, -largest), largest)

def cvt_float_to_fp8(x, saturate, interpretation):
    v = np.float32(x)
    if interpretation == {int(fp8_interpretation_t.E5M2)}:
        return bitcast(e5m2(_clamped(v, np.float32(57344), saturate)), np.uint8)
    return bitcast(e4m3(_clamped(v, np.float32(448), saturate)), np.uint8)

def cvt_double_to_fp8(x, saturate, interpretation):
    return cvt_float_to_fp8(odd_float32(x), saturate, interpretation)

def cvt_bfloat16raw_to_fp8(x, saturate, interpretation):
    v = np.float32(bitcast(np.uint16(x.x), bfloat16))
    return cvt_float_to_fp8(v, saturate, interpretation)

def cvt_float_to_e8m0(x, saturate, rounding):
    bits = bitcast(np.float32(x), np.uint32) & 0x7FFFFFFF
    scale = bits >> 23
    if rounding == {_UP} and bits & 0x7FFFFF and 0x400000 < bits < 0x7F800000:
        scale += 1
    if saturate and scale == 255 and bits <= 0x7F800000:
        scale -= 1
    return np.uint8(scale)

def cvt_double_to_e8m0(x, saturate, rounding):
    return cvt_float_to_e8m0(odd_float32(x), saturate, rounding)

def cvt_bfloat16raw_to_e8m0(x, saturate, rounding):
    return cvt_float_to_e8m0(np.float32(bitcast(np.uint16(x.x), bfloat16)), saturate, rounding)

def cvt_e8m0_to_bf16raw(x):
    bits = np.uint16(x) << 7
    return Bits(np.uint16(0x7FFF if x == 255 else 0x40 if x == 0 else bits))

def fp8_e5m2(x):
    return e5m2(_clamped(odd_float32(x), np.float32(57344), True))

def fp8_e4m3(x):
    return e4m3(_clamped(odd_float32(x), np.float32(448), True))

def fp8_e8m0(x):
    return bitcast(cvt_double_to_e8m0(x, 1, {_UP}), e8m0)
"""
_GIVEN: dict[str, Any] = {
    **{"np": np, "bitcast": bitcast, "odd_float32": odd_float32, "Bits": _Bits},
    **{"e5m2": ml_dtypes.float8_e5m2, "e4m3": ml_dtypes.float8_e4m3fn},
    **{"e8m0": ml_dtypes.float8_e8m0fnu, "bfloat16": ml_dtypes.bfloat16},
}
globals().update(made_functions(_TEXT, __name__, _GIVEN))
