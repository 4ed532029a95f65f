"""Casts between every two dtypes, and stores into narrower elements."""

from __future__ import annotations

import math

import numpy as np

import kerneldsl as kd
from tests.conformance.kernels.reference import INTEGERS, SIZE, unary_case
from tests.support.arrays import poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("conversions")
CASES = _list.cases


def _integer_casts(a, out, i):
    out[0, i] = np.int8(a)
    out[1, i] = np.int16(a)
    out[2, i] = np.int32(a)
    out[3, i] = np.int64(a)
    out[4, i] = np.uint8(a)
    out[5, i] = np.uint16(a)
    out[6, i] = np.uint32(a)
    out[7, i] = int(a)
    out[8, i] = np.bool_(a)
    out[9, i] = bool(a)


_cast_kernel, _cast_expected = unary_case(_integer_casts)
for _name in (*INTEGERS, "bool"):
    _list.add(
        f"casts_from_{_name}",
        _cast_kernel,
        lambda rng, d=_name: (random_array(rng, SIZE, d), poisoned((10, SIZE), np.int64)),
        extent=(SIZE,),
        expected=_cast_expected,
    )


def _float_casts(a, out, i):
    out[0, i] = np.float32(a)
    out[1, i] = np.float64(a)
    out[2, i] = float(a)
    out[3, i] = np.float64(np.float32(a)) + np.float64(a)


_to_float_kernel, _to_float_expected = unary_case(_float_casts)
for _name in (*INTEGERS, "float32", "float64"):
    _list.add(
        f"casts_to_float_from_{_name}",
        _to_float_kernel,
        lambda rng, d=_name: (random_array(rng, SIZE, d), poisoned((4, SIZE), np.float64)),
        extent=(SIZE,),
        expected=_to_float_expected,
    )


def _float_to_integer(a, out, i):
    out[0, i] = np.int32(a)
    out[1, i] = np.int64(a)
    out[2, i] = int(a)
    out[3, i] = round(a)
    out[4, i] = np.int8(a * 0.1)
    out[5, i] = np.uint16(abs(a))


_from_float_kernel, _from_float_expected = unary_case(_float_to_integer)
for _name in ("float32", "float64"):
    _list.add(
        f"casts_to_integer_from_{_name}",
        _from_float_kernel,
        lambda rng, d=_name: (
            np.concatenate([rng.uniform(-999, 999, SIZE), np.arange(-4, 4) + 0.5]).astype(d),
            poisoned((6, SIZE + 8), np.int64),
        ),
        extent=(SIZE + 8,),
        expected=_from_float_expected,
    )


def _stores_narrow(a, out, i):
    out[0, i] = a
    out[1, i] = a + 1
    out[2, i] = a * 3


_narrow_kernel, _narrow_expected = unary_case(_stores_narrow)
for _name, _to in (("int64", "int8"), ("int64", "uint32"), ("uint64", "int32"), ("int32", "uint8")):
    _list.add(
        f"stores_{_name}_into_{_to}",
        _narrow_kernel,
        lambda rng, d=_name, t=_to: (random_array(rng, SIZE, d), poisoned((3, SIZE), t)),
        extent=(SIZE,),
        expected=_narrow_expected,
    )


@kd.kernel
def floats_beyond_limits(x, i8, i16, i32, i64, u8, u16, u32, u64, whole):
    i = kd.grid(1)
    i8[i] = np.int8(x[i])
    i16[i] = np.int16(x[i])
    i32[i] = np.int32(x[i])
    i64[i] = np.int64(x[i])
    u8[i] = np.uint8(x[i])
    u16[i] = np.uint16(x[i])
    u32[i] = np.uint32(x[i])
    u64[i] = np.uint64(x[i])
    whole[0, i] = int(x[i])
    whole[1, i] = round(x[i])


def _saturated(x, dtype):
    """The whole part, the nearest limit beyond the limits, and 0 of NaN."""
    limits = np.iinfo(dtype)
    known = [0 if math.isnan(v) else math.copysign(2.0**70, v) if math.isinf(v) else v for v in x]
    return np.array([min(max(int(v), limits.min), limits.max) for v in known], dtype)


def _saturated_all(x, *outs):
    results = {n: _saturated(x, out.dtype) for n, out in enumerate(outs, 1)}
    return results | {9: np.stack([_saturated(x, np.int64), _saturated(np.rint(x), np.int64)])}


_WIDTHS = (8, 16, 32, 64)
_EDGES = [
    float(s * (2**n + d)) for n in (7, 8, 15, 16, 31, 32) for s in (1, -1) for d in (-1, 0, 0.5, 1)
]
_EDGES += [float(s * 2**n) for n in (63, 64, 70, 120) for s in (1, -1)]
_EDGES += [0.0, -0.0, -0.5, -1.0, -1.5, 0.999, math.inf, -math.inf, math.nan]
for _name in ("float32", "float64"):
    _given = np.array(_EDGES, _name)
    _given = np.concatenate([_given, np.nextafter(_given, 0), np.nextafter(_given, -_given)])
    _list.add(
        f"floats_beyond_limits_{_name}",
        floats_beyond_limits,
        lambda rng, x=_given: (
            x.copy(),
            *(poisoned(x.size, f"int{w}") for w in _WIDTHS),
            *(poisoned(x.size, f"uint{w}") for w in _WIDTHS),
            poisoned((2, x.size), np.int64),
        ),
        extent=(_given.size,),
        expected=_saturated_all,
    )


@kd.kernel
def constants_beyond_limits(out):
    i = kd.grid(1)
    out[0, i] = int(math.inf)
    out[1, i] = int(-math.inf)
    out[2, i] = int(math.nan)
    out[3, i] = np.int32(1e10)
    out[4, i] = np.uint32(-1.0)
    out[5, i] = np.uint8(300.0)


_list.add(
    "constants_beyond_limits",
    constants_beyond_limits,
    lambda rng: (poisoned((6, 40), np.int64),),
    extent=(40,),
    expected=lambda out: {
        0: np.tile(np.array([[2**63 - 1], [-(2**63)], [0], [2**31 - 1], [0], [255]]), 40)
    },
)
