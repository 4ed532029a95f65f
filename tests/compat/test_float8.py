"""numba.cuda's 8-bit floats, against ml_dtypes and exact powers of two."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numba import types

from kerneldsl import cuda

fp8 = pytest.importorskip("kerneldsl.math_api.float8")
ml_dtypes = pytest.importorskip("ml_dtypes")
E4M3, E5M2 = fp8.fp8_interpretation_t.E4M3, fp8.fp8_interpretation_t.E5M2
ZERO, UP = 1, 2  # of cudaRoundMode


@cuda.jit
def _convert(x, out):
    i = cuda.grid(1)
    if i < x.size:
        v = np.float32(x[i])
        out[0, i] = fp8.cvt_float_to_fp8(v, fp8.saturation_t.NOSAT, E4M3)
        out[1, i] = fp8.cvt_float_to_fp8(v, fp8.saturation_t.SATFINITE, E4M3)
        out[2, i] = fp8.cvt_double_to_fp8(x[i], fp8.saturation_t.NOSAT, E5M2)
        out[3, i] = fp8.cvt_double_to_fp8(x[i], fp8.saturation_t.SATFINITE, E5M2)
        out[4, i] = fp8.cvt_float_to_e8m0(v, fp8.saturation_t.NOSAT, ZERO)
        out[5, i] = fp8.cvt_float_to_e8m0(v, fp8.saturation_t.SATFINITE, UP)
        out[6, i] = fp8.cvt_double_to_e8m0(x[i], fp8.saturation_t.NOSAT, UP)


def _scale(value, *, rounds_up, saturates):
    size = abs(Fraction(value))
    found = next((e for e in range(254) if Fraction(2) ** (e - 126) > size), 254)
    if rounds_up and size > Fraction(2) ** (found - 127):
        found += 1
    return min(found, 254 if saturates else 255)


def test_conversions(rng):
    values = rng.normal(size=300) * 2.0 ** rng.integers(-160, 40, 300)
    values[:9] = 0, 448, 464, 465, 57344, 61440, 2.0**-127, 1.75 * 2.0**127, -3
    values = values.astype(np.float32).astype(np.float64)
    out = np.full((7, 300), 99, np.uint8)
    _convert.forall(300)(values, out)
    with np.errstate(over="ignore"):
        e4m3, e5m2 = (
            [x.astype(d).view(np.uint8) for x in (values, np.clip(values, -largest, largest))]
            for d, largest in ((ml_dtypes.float8_e4m3fn, 448), (ml_dtypes.float8_e5m2, 57344))
        )
    for found, expected in zip(out, [*e4m3, *e5m2], strict=False):
        np.testing.assert_array_equal(found, expected)
    for found, up, saturates in ((out[4], 0, 0), (out[5], 1, 1), (out[6], 1, 0)):
        exact = [_scale(float(v), rounds_up=up, saturates=saturates) for v in values]
        assert found.tolist() == exact


def test_constructors_saturate():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        out[0, i] = np.float32(fp8.fp8_e4m3(x[i]))
        out[1, i] = np.float32(fp8.fp8_e5m2(x[i]))
        out[2, i] = np.float32(fp8.fp8_e8m0(x[i]))
        out[3, i] = fp8.cvt_e8m0_to_bf16raw(i).x

    x = np.array([1e300, -1e300, np.nan, 3])
    out = np.full((4, 4), 99, np.float32)
    kernel[1, 4](x, out)
    expected = [
        *([448, -448, np.nan, 3], [57344, -57344, np.nan, 3], [2.0**127, 2.0**127, np.nan, 4]),
        [0x40, 0x80, 0x100, 0x180],
    ]
    np.testing.assert_array_equal(out, expected)


def test_numbas_float16():
    @cuda.jit
    def kernel(x, out):
        out[0] = types.float16(x[0]) + types.float16(0.1)

    out = np.full(1, 99, np.float32)
    kernel[1, 1](np.array([1.0]), out)
    assert out[0] == np.float16(1) + np.float16(0.1)
