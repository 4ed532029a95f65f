"""numba.cuda.bf16 against exact rational numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from kerneldsl import cuda

bf16 = pytest.importorskip("kerneldsl.math_api.bfloat16")
ALL = np.arange(1 << 16, dtype=np.uint16)
MODES = ("rn", "rz", "rd", "ru")


def _floats(bits):
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _rounded(number, mode="rn"):
    """Return the bits of a rational number as a bfloat16."""
    size, is_negative = abs(Fraction(number)), number < 0
    power = size.numerator.bit_length() - size.denominator.bit_length()
    power -= Fraction(2) ** power > size
    unit = Fraction(2) ** (max(power, -126) - 7)
    kept = size // unit
    lost = size / unit - kept
    is_up = {
        "rn": lost > Fraction(1, 2) or (lost == Fraction(1, 2) and kept % 2 == 1),
        "rz": False,
        "rd": is_negative and lost > 0,
        "ru": not is_negative and lost > 0,
    }[mode]
    found = (kept + is_up) * unit
    if found >= Fraction(2) ** 128:
        bits = 0x7F80
    else:
        bits = int(np.float32(float(found)).view(np.uint32) >> 16)
    return bits | (0x8000 if is_negative else 0)


def _each(function, out, *arrays):
    """Return the values of a device function of the elements of arrays."""

    @cuda.jit
    def one(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(x[i])

    @cuda.jit
    def three(x, y, z, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(x[i], y[i], z[i])

    (three if len(arrays) > 1 else one).forall(out.size)(*arrays, out)
    return out


def test_a_product_and_a_sum_are_rounded_once(rng):
    bits = rng.integers(0, 1 << 16, (3, 2000), dtype=np.uint16)
    # Sums of terms of like size, which lose the most.
    exponents = (bits[0] >> 7 & 255).astype(int) + (bits[1] >> 7 & 255) - 127
    near = np.clip(exponents + rng.integers(-20, 60, 2000), 1, 254).astype(np.uint16)
    bits[2] = bits[2] & 0x807F | near << 7
    out = np.full(2000, 7, bf16.bfloat16)
    _each(bf16.hfma, out, *(each.view(bf16.bfloat16) for each in bits))
    found = out.view(np.uint16)
    values = _floats(bits)
    for i in np.flatnonzero(np.isfinite(values).all(axis=0)):
        a, b, c = (Fraction(float(each)) for each in values[:, i])
        expected = _rounded(a * b + c)
        assert found[i] == expected or (not expected and found[i] == 0x8000), values[:, i]


@pytest.mark.parametrize("kind", ["int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("mode", MODES)
class TestIntegers:
    def test_from(self, kind, mode, rng):
        limits = np.iinfo(kind)
        values = rng.integers(limits.min, limits.max, 500, dtype=kind, endpoint=True)
        values >>= rng.integers(0, limits.bits, 500).astype(kind)
        values[:4] = limits.min, limits.max, 0, 1
        out = np.full(500, 7, bf16.bfloat16)
        _each(getattr(bf16, f"{kind}_to_bfloat16_{mode}"), out, values)
        assert out.view(np.uint16).tolist() == [_rounded(int(v), mode) for v in values]

    def test_to(self, kind, mode):
        limits, values = np.iinfo(kind), _floats(ALL).astype(np.float64)
        out = np.full(ALL.size, 7, kind)
        _each(getattr(bf16, f"bfloat16_to_{kind}_{mode}"), out, ALL.view(bf16.bfloat16))
        round_ = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}[mode]
        of_nan = (int(limits.min) or 1 << 63) if limits.bits == 64 else 0
        expected = [
            of_nan
            if v != v
            else int(limits.max)
            if v > limits.max
            else max(int(limits.min), int(limits.max if v == limits.max else v))
            if v > limits.min
            else int(limits.min)
            for v in round_(values).tolist()
        ]
        assert out.tolist() == expected


@pytest.mark.parametrize("mode", MODES)
def test_from_float32(mode, rng):
    values = rng.integers(0, 1 << 32, 1000, dtype=np.uint32).view(np.float32)
    values[:3] = np.inf, -np.inf, -0.0
    out = np.full(1000, 7, bf16.bfloat16)
    found = _each(getattr(bf16, f"float32_to_bfloat16_{mode}"), out, values).view(np.uint16)
    assert found[:3].tolist() == [0x7F80, 0xFF80, 0x8000]
    for bits, value in zip(found[3:], values[3:].tolist(), strict=True):
        if np.isnan(value):
            assert np.isnan(_floats(bits.reshape(1)))
        elif np.isfinite(value) and value:
            assert bits == _rounded(Fraction(value), mode), value


def test_from_float64_is_rounded_once(rng):
    halves = 1 + (2 * rng.integers(0, 128, 500) + 1) / 256
    values = halves * (1 + rng.integers(-1, 2, 500) * 2.0**-50)
    out = _each(bf16.float64_to_bfloat16, np.full(500, 7, bf16.bfloat16), values)
    assert out.view(np.uint16).tolist() == [_rounded(Fraction(float(v))) for v in values]


def test_what_nan_compares_with():
    @cuda.jit
    def kernel(a, b, out):
        i = cuda.grid(1)
        x, y = a[i], b[i]
        out[0, i], out[1, i], out[2, i] = bf16.heq(x, y), bf16.hne(x, y), bf16.hlt(x, y)
        out[3, i], out[4, i], out[5, i] = bf16.hequ(x, y), bf16.hneu(x, y), bf16.hltu(x, y)
        out[6, i], out[7, i] = bf16.hisnan(x), bf16.hisinf(y)
        out[8, i] = bf16.hmax(x, y)
        out[9, i] = bf16.hmin_nan(x, y)
        out[10, i] = bf16.hadd_sat(x, y)
        out[11, i] = bf16.hfma_relu(x, x, y)

    nan, inf = np.nan, np.inf
    a, b = np.array([[1, nan, -2, 3], [1, 2, -inf, nan]], bf16.bfloat16)
    out = np.full((12, 4), 9, np.float32)
    kernel[1, 4](a, b, out)
    expected = [
        *([1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [1, 1, 0, 1], [0, 1, 1, 1], [0, 1, 0, 1]),
        *([0, 1, 0, 0], [0, 0, -1, 0], [1, 2, -2, 3], [1, nan, -inf, nan], [1, 0, 0, 0]),
        [2, nan, 0, nan],
    ]
    np.testing.assert_array_equal(out, expected)


def test_float16_does_not_differ_from_nan():
    @cuda.jit
    def kernel(x, out):
        out[0] = cuda.fp16.hne(x[0], x[0])
        out[1] = cuda.fp16.hne(x[0], x[1])
        out[2] = cuda.fp16.hne(x[1], np.float16(2))

    out = np.full(3, 7)
    kernel[1, 1](np.array([np.nan, 1], np.float16), out)
    assert out.tolist() == [0, 0, 1]


def test_words_of_cuda_c():
    assert bf16.short_as_bfloat16 is bf16.int16_as_bfloat16
    assert bf16.float2bfloat16_rz is bf16.float32_to_bfloat16_rz
    assert bf16.bfloat162ull_rd is bf16.bfloat16_to_uint64_rd
    assert cuda.bf16.bfloat162float is bf16.bfloat16_to_float32


def test_a_number_without_an_array_of_them_in_a_fresh_process(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, kerneldsl as kd\n"
        "@kd.kernel\n"
        "def kernel(out):\n"
        "    a, b = kd.bfloat16(1), kd.bfloat16(1)\n"
        "    out[0] = a == b\n"
        "out = np.zeros(1)\n"
        "with kd.use('cpu'):\n"
        "    kernel[1, 1](out)\n"
        "print(out[0])\n"
    )
    environment = {**os.environ, "KERNELDSL_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "1.0\n"
