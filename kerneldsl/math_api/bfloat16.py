"""Operations on bfloat16, as device functions of their expressions.

References
----------
CUDA Math API, "Bfloat16 Precision Intrinsics".
PTX ISA, section "cvt": rounding, and what NaN and numbers beyond the result's range become.
Sylvie Boldo and Guillaume Melquiond, "Emulation of a FMA and Correctly Rounded Sums: Proved
Algorithms Using Rounding to Odd", IEEE Transactions on Computers 57 (2008).
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from kerneldsl.kernels.made_functions import made_functions
from kerneldsl.language.intrinsics.values import bitcast, clz
from kerneldsl.language.other_names import WORDS_OF_C
from kerneldsl.math_api import half

#: Named as the elements of arrays and, as numba-cuda's bindings do, as CUDA C++ does.
bfloat16 = nv_bfloat16 = ml_dtypes.bfloat16

#: Functions computed in bfloat16, besides those of float16.
_EXACT = {
    "hadd_rn(a, b)": "a + b",
    "hsub_rn(a, b)": "a - b",
    "hmul_rn(a, b)": "a * b",
    # The maximum or minimum of a NaN and a number is the NaN.
    "hmax_nan(a, b)": "b if a < b or b != b else a",
    "hmin_nan(a, b)": "b if a > b or b != b else a",
    "hequ(a, b)": "not (a < b or a > b)",
    "hneu(a, b)": "not a == b",
    "hltu(a, b)": "not a >= b",
    "hleu(a, b)": "not a > b",
    "hgtu(a, b)": "not a <= b",
    "hgeu(a, b)": "not a < b",
    "hisnan(a)": "a != a",
    "hisinf(a)": "np.int32(np.float32(a) == math.inf) - np.int32(np.float32(a) == -math.inf)",
    "bfloat16_to_float32(a)": "np.float32(a)",
    "bfloat16_as_int16(a)": "bitcast(a, np.int16)",
    "bfloat16_as_uint16(a)": "bitcast(a, np.uint16)",
}
_ROUNDED = {"htanh_approx(a)": "math.tanh(a)"}

#: Numbers that are clamped to [0, 1], NaN to 0, and below by 0.
_LIMITED = """
def _saturated(v):
    return bfloat16(0) if not v > bfloat16(0) else bfloat16(1) if v > bfloat16(1) else v

def hadd_sat(a, b):
    return _saturated(hadd(a, b))

def hsub_sat(a, b):
    return _saturated(hsub(a, b))

def hmul_sat(a, b):
    return _saturated(hmul(a, b))

def hfma_sat(a, b, c):
    return _saturated(hfma(a, b, c))

def hfma_relu(a, b, c):
    return hmax_nan(hfma(a, b, c), bfloat16(0))
"""

#: Each inexact step gets an odd last bit, so that only the last one rounds.
_FUSED = """
def _odd(v, rest, bits):
    if (rest < 0 or rest > 0) and not bits & 1:
        bits += 1 if (rest > 0) == (v > 0) else -1
    return bits

def odd_float32(a):
    a = np.float64(a)
    near = np.float32(a)
    bits = _odd(a, a - np.float64(near), bitcast(near, np.int32))
    return bitcast(np.int32(bits), np.float32)

def float64_to_bfloat16(a):
    return bfloat16(odd_float32(a))

def hfma(a, b, c):
    product = np.float64(bfloat16(a)) * np.float64(bfloat16(b))
    third = np.float64(bfloat16(c))
    total = product + third
    added = total - product
    error = (product - (total - added)) + (third - added)
    bits = _odd(total, error, bitcast(total, np.int64))
    return float64_to_bfloat16(bitcast(np.int64(bits), np.float64))
"""

#: Conditions for rounding a magnitude of the bits `kept` up. It loses the bits `lost`, of `half *
#: 2`.
_ROUNDS_UP = {
    "rn": "lost > half or (lost == half and kept & one)",
    "rz": "False",
    "rd": "is_negative and lost",
    "ru": "not is_negative and lost",
}

#: Floats are magnitudes and a sign already.
_FROM_FLOAT = """
def float32_to_bfloat16_{mode}(a):
    a = np.float32(a)
    if a != a:
        return bfloat16(a)
    one, half = np.uint32(1), np.uint32(0x8000)
    bits = bitcast(a, np.uint32)
    is_negative = a < 0
    kept, lost = np.uint32(bits >> np.uint32(16)), np.uint32(bits & np.uint32(0xFFFF))
    if {rounds_up}:
        kept += one
    return bitcast(np.uint16(kept), bfloat16)
"""

_FROM_INTEGER = """
def {kind}_to_bfloat16_{mode}(a):
    a = np.{kind}(a)
    is_negative = a < 0
    one, half, lost = np.uint64(1), np.uint64(1), np.uint64(0)
    kept = np.uint64(np.uint64(0) - np.uint64(a)) if is_negative else np.uint64(a)
    shift = np.uint64(max(56 - clz(kept), 0))
    scale = np.uint64(one << shift)
    if shift > np.uint64(0):
        half = np.uint64(scale >> one)
        lost = np.uint64(kept & (scale - one))
        kept = np.uint64(kept >> shift)
        if {rounds_up}:
            kept += one
    size = np.float32(kept) * np.float32(scale)
    return bfloat16(-size if is_negative else size)
"""

#: NaN is 0, or the largest power of two of 64 bits; numbers beyond the range are its ends.
_TO_INTEGER = """
def bfloat16_to_{kind}_{mode}(a):
    v = np.{rounding}(np.float32(bfloat16(a)))
    if v != v:
        return np.{kind}({nan})
    if v >= np.float32({beyond:.1f}):
        return np.{kind}({largest})
    if v <= np.float32({least:.1f}):
        return np.{kind}({least})
    return np.{kind}(v)
"""
_ROUNDINGS = {"rn": "rint", "rz": "trunc", "rd": "floor", "ru": "ceil"}
_WORDS = {dtype: word for word, dtype in WORDS_OF_C.items()} | {"int64": "ll", "uint64": "ull"}


def _to_integer(kind: str, mode: str) -> str:
    limits = np.iinfo(kind)
    given = {"largest": int(limits.max), "beyond": int(limits.max) + 1, "least": int(limits.min)}
    if kind.endswith("64"):
        given["nan"] = int(limits.min) or 1 << 63
    return _TO_INTEGER.format(
        kind=kind, mode=mode, rounding=_ROUNDINGS[mode], **{"nan": 0, **given}
    )


_TEXTS = [
    half.texts("bfloat16", {**half.EXACT, **_EXACT}, {**half.ROUNDED, **_ROUNDED}),
    _FUSED,
    _LIMITED,
    "def float32_to_bfloat16(a):\n    return bfloat16(np.float32(a))",
    "def int16_as_bfloat16(a):\n    return bitcast(np.int16(a), bfloat16)",
    "def uint16_as_bfloat16(a):\n    return bitcast(np.uint16(a), bfloat16)",
    *(_to_integer(kind, "rz") for kind in ("int8", "uint8")),
]
for _mode, _rounds_up in _ROUNDS_UP.items():
    _TEXTS.append(_FROM_FLOAT.format(mode=_mode, rounds_up=_rounds_up))
    for _kind in [each for each in _WORDS if "int" in each and not each.endswith("int8")]:
        _TEXTS.append(_FROM_INTEGER.format(kind=_kind, mode=_mode, rounds_up=_rounds_up))
        _TEXTS.append(_to_integer(_kind, _mode))

_TEXT = "\n\n".join(_TEXTS)
_GIVEN: dict[str, Any] = {"math": math, "np": np, "bfloat16": bfloat16}
_MADE = made_functions(_TEXT, __name__, {**_GIVEN, "bitcast": bitcast, "clz": clz})
globals().update(_MADE)
odd_float32 = _MADE["odd_float32"]


def _in_words_of_c(name: str) -> str:
    """Return the name that CUDA C++ has for a conversion, without the underscores before it."""
    source, _, rest = name.partition("_to_" if "_to_" in name else "_as_")
    result, _, mode = rest.partition("_")
    source, result = _WORDS.get(source, source), _WORDS.get(result, result)
    made = f"{source}_as_{result}" if "_as_" in name else f"{source}2{result}"
    return f"{made}_{mode}" if mode else made


for _name in _MADE:
    if "_to_" in _name or "_as_" in _name:
        globals()[_in_words_of_c(_name)] = _MADE[_name]
