"""Products of narrow integers whose upper bits are kept, in vectors, against NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.extent import full_beyond

SIZE = 333


@kd.kernel
def upper_half(x, y, out):
    i = kd.grid(1)
    out[i] = np.int16(kd.mulhi(np.int32(x[i]), np.int32(y[i])))


@kd.kernel
def upper_half_of_tiles(x, y, out):
    start = kd.blockIdx.x * 32
    a = kd.tile.load(x, start, 32)
    b = kd.tile.load(y, start, 32)
    kd.tile.store(out, start, np.int16(kd.mulhi(np.int32(a), np.int32(b))))


@kd.kernel
def upper_half_of_64_bits(x, y, out):
    i = kd.grid(1)
    out[i] = np.int16(kd.mulhi(np.int64(x[i]), np.int64(y[i])))


def shifted(bits):
    @kd.kernel
    def kernel(x, y, out):
        i = kd.grid(1)
        out[i] = np.int64(x[i]) * np.int64(y[i]) >> bits

    return kernel


def shifted_unsigned(bits):
    bits = np.uint64(bits)

    @kd.kernel
    def kernel(x, y, out):
        i = kd.grid(1)
        out[i] = np.uint64(np.int64(x[i]) * np.int64(y[i])) >> bits

    return kernel


@kd.kernel
def both_halves(x, y, out):
    i = kd.grid(1)
    low = np.uint32(np.uint64(x[i]) * np.uint64(y[i]) & np.uint64(0xFFFFFFFF))
    # A division by a constant: LLVM's simplifications have gone before its pipeline there.
    out[i] = (kd.mulhi(x[i], y[i]) ^ low) + np.uint32(out.size // 3)


def arguments(rng, dtype, out):
    info = np.iinfo(dtype)
    x, y = (rng.integers(info.min, info.max, SIZE, dtype, endpoint=True) for _ in range(2))
    x[:2], y[:2] = info.min, (info.min, info.max)
    return x, y, poisoned(SIZE, out)


@pytest.mark.parametrize(
    "dtype", full_beyond(["int8", "int16", "uint8", "uint16"], ["int8", "uint16"])
)
@pytest.mark.parametrize("out", full_beyond(["int16", "int64"], ["int64"]))
@pytest.mark.parametrize("kernel", [upper_half, upper_half_of_tiles])
def test_mulhi(rng, kernel, dtype, out):
    x, y, found = arguments(rng, np.dtype(dtype), out)
    with kd.use("cpu"):
        if kernel is upper_half:
            kernel.forall(SIZE)(x, y, found)
        else:
            kernel[-(-SIZE // 32), 1](x, y, found)
    assert np.array_equal(found, (x.astype(np.int64) * y >> 32).astype(np.int16))


@pytest.mark.parametrize(
    "bits", full_beyond([8, 15, 16, 17, 31, 32, 33, 47, 48, 63], [15, 16, 33, 63])
)
@pytest.mark.parametrize("out", full_beyond(["int16", "int32", "int64"], ["int16"]))
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_shifts(rng, bits, dtype, out):
    x, y, found = arguments(rng, np.dtype(dtype), out)
    with kd.use("cpu"):
        shifted(bits).forall(SIZE)(x, y, found)
    assert np.array_equal(found, (x.astype(np.int64) * y >> bits).astype(out))


@pytest.mark.parametrize(
    "case",
    full_beyond(
        [(bits, out) for bits in (15, 16, 17, 24, 31, 63) for out in ("int16", "int32", "uint64")],
        [(16, "int32"), (16, "uint64"), (17, "int16"), (31, "int16")],
    ),
)
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_unsigned_shifts(rng, case, dtype):
    bits, out = case
    x, y, found = arguments(rng, np.dtype(dtype), out)
    with kd.use("cpu"):
        shifted_unsigned(bits).forall(SIZE)(x, y, found)
    product = (x.astype(np.int64) * y).view(np.uint64)
    assert np.array_equal(found, (product >> np.uint64(bits)).astype(out))


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_mulhi_of_64_bits(rng, dtype):
    x, y, found = arguments(rng, np.dtype(dtype), "int16")
    with kd.use("cpu"):
        upper_half_of_64_bits.forall(SIZE)(x, y, found)
    assert np.array_equal(found, np.where(x.astype(np.int64) * y < 0, -1, 0))


def test_both_halves_are_of_one_product(rng):
    x, y, found = arguments(rng, np.dtype("uint32"), "uint32")
    with kd.use("cpu"):
        both_halves.forall(SIZE)(x, y, found)
    product = x.astype(np.uint64) * y
    assert np.array_equal(found, ((product >> 32 ^ product) + SIZE // 3).astype(np.uint32))
    text = both_halves.llvm(x, y, found, forall=1, target="cpu")
    widths = re.findall(r" mul (?:nuw )?<\d+ x (i\d+)>", text)
    assert "i32" not in widths
