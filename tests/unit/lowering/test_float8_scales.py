"""float8_e8m0fnu, powers of two: every bit is ml_dtypes'."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd

ml_dtypes = pytest.importorskip("ml_dtypes")
SCALE = np.dtype(ml_dtypes.float8_e8m0fnu)
#: Bits of a float32: middles between two powers with their neighbours, and the ends of ranges.
_EXPONENTS = np.arange(512, dtype=np.uint32) << 23
_EDGES = (0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x7F7FFFFF, 0x7F800000, 0x80000000, 0xFF800000)


@kd.kernel
def convert(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i]


@kd.kernel
def scaled(x, scales, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] * kd.float32(scales[i // 32])


def _converted(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    out = np.zeros(x.size, dtype)
    with kd.use("cpu"):
        convert.forall(x.size)(x, out)
    return out


def test_floats_become_the_nearest_power() -> None:
    some = np.random.default_rng(1).integers(0, 2**32, 200_000, dtype=np.uint32)
    near = [_EXPONENTS + np.uint32(each) for each in (0, 1, 0x3FFFFF, 0x400000, 0x400001)]
    x = np.concatenate([some, *near, np.array(_EDGES, np.uint32)]).view(np.float32)
    with np.errstate(all="ignore"):
        wanted = x.astype(SCALE)
    assert np.array_equal(_converted(x, SCALE).view(np.uint8), wanted.view(np.uint8))


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint8, np.float16, np.bool_])
def test_other_numbers_become_the_nearest_power(dtype: type) -> None:
    x = np.arange(-300, 300).astype(dtype)
    with np.errstate(all="ignore"):
        wanted = x.astype(SCALE)
    assert np.array_equal(_converted(x, SCALE).view(np.uint8), wanted.view(np.uint8))


def test_every_scale_as_a_float() -> None:
    x = np.arange(256, dtype=np.uint8).view(SCALE)
    np.testing.assert_array_equal(_converted(x, np.dtype(np.float32)), x.astype(np.float32))


def test_blocks_of_numbers_are_scaled() -> None:
    x = np.random.default_rng(2).normal(size=256).astype(ml_dtypes.float8_e4m3fn)
    scales = np.arange(120, 128, dtype=np.uint8).view(SCALE)
    out = np.zeros(x.size, np.float32)
    with kd.use("cpu"):
        scaled.forall(x.size)(x, scales, out)
    wanted = x.astype(np.float32) * np.repeat(scales.astype(np.float32), 32)
    np.testing.assert_array_equal(out, wanted)


def test_the_array_interface_names_another_type() -> None:
    """NumPy has one name for both, which is read as float8_e4m3fn."""
    assert SCALE.str == np.dtype(ml_dtypes.float8_e4m3fn).str
    assert kd.from_dlpack(kd.to_device(np.ones(3, SCALE))).dtype == SCALE


def test_it_compiles_for_gpus() -> None:
    assert "shl.b32" in convert.ptx("float8_e8m0fnu[::1], float32[::1]", forall=1)
    assert "setp" in convert.ptx("float32[::1], float8_e8m0fnu[::1]", forall=1)
