"""Products with quantized numbers, and their formats, against NumPy in float64."""

from __future__ import annotations

import importlib
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentError, ArgumentValueError
from stdlib_kernels import quantized
from stdlib_kernels.quantized import by_warps, few_rows, many_rows, weights
from stdlib_kernels.quantized.formats import FORMATS
from tests.support.arrays import poisoned
from tests.support.extent import examples, full_beyond

pytest.importorskip("ml_dtypes")

INTEGERS = ["int8", "int4", "uint4", "ternary"]
FLOATS8 = ["float8_e4m3fn", "float8_e5m2"]
FLOATS = ["float32", "float16", "bfloat16"]
#: Columns and inner extents.
SIZES = [(1, 1), (7, 40), (33, 256), (130, 515)]
#: Unit of the last place of a dtype; weights are rounded to it, too.
UNITS = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def dtype_of(name):
    return np.dtype(getattr(kd, name))


def random_codes(rng, name, shape):
    """Numbers of a format, often the least and the largest."""
    chosen = FORMATS[name]
    if chosen.is_float:
        return rng.integers(-8, 9, shape).astype(chosen.dtype)
    ends = (int(chosen.smallest), int(chosen.largest))
    codes = rng.integers(ends[0], ends[1] + 1, shape)
    return np.where(rng.random(shape) < 0.2, rng.choice(ends, shape), codes).astype(chosen.dtype)


def spread(scales, shape):
    """Scales for each element, by what they are for."""
    (rows, inner), (count, groups) = shape, scales.shape
    height = {1: rows, rows: 1}.get(count, 128)
    equal = groups == 1 or (inner % groups == 0 and inner // groups % 16 == 0)
    found = np.asarray(scales, np.float64).repeat(max(height, 1), axis=0)
    found = found.repeat(max(inner // groups if equal else 128, 1), axis=1)
    return found[:rows, :inner]


def values_of(codes, scales, zeros=None):
    less = 0 if zeros is None else spread(zeros, codes.shape)
    return (codes.astype(np.float64) - less) * spread(scales, codes.shape)


def assert_product(got, left, right, dtype, unit=0.0):
    """The error is a few units of float32 of the sum of absolute products, and roundings."""
    expected = left @ right.T
    size = np.abs(left) @ np.abs(right).T
    bound = ((got.shape[1] and left.shape[1]) * 2.0**-23 + 2.0**-21 + unit) * size
    bound += np.abs(expected) * UNITS[dtype] + (2.0**-24 if dtype == "float16" else 1e-30)
    assert got.dtype == dtype_of(dtype)
    assert np.all(np.abs(got.astype(np.float64) - expected) <= bound)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("count", [0, 1, 3, 16, 33])
def test_numbers_are_packed_and_unpacked(call, rng, name, count):
    for shape in ((3, count), (2, 1, count), (count,)):
        codes = random_codes(rng, name, shape)
        words = call(quantized.pack, codes, name)
        assert words.dtype == FORMATS[name].stored
        assert np.array_equal(call(quantized.unpack, words, name, count), codes)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize(("k", "groups"), [(131073, 1), (131088, 1), (262176, 1), (262176, 2)])
def test_sums_beyond_int32(call, rows, k, groups):
    """Sums of parts are few bits, which float32 adds exactly."""
    x = np.full((rows, k), -128, np.int8)
    scales = np.full((3, groups), 0.5, np.float32)
    got = call(quantized.matmul, x, x[:1].repeat(3, 0), scales, format="int8")
    assert np.array_equal(got, np.full((rows, 3), k << 13, np.float64))


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("rows", [1, 3, 4, 5, 21])
def test_integers_are_exact(call, to_kind, rng, name, rows):
    """Powers of two as scales leave float32 sums of integers exact."""
    for columns, inner in SIZES:
        codes = random_codes(rng, name, (columns, inner))
        x = rng.integers(-128, 128, (rows, inner)).astype(np.int8)
        x[0] = -128
        scales = np.exp2(rng.integers(-3, 4, (columns, 1))).astype(np.float32)
        by = np.exp2(rng.integers(-3, 4, (rows, 1))).astype(np.float32)
        got = call(
            quantized.matmul,
            x,
            quantized.pack(codes, name),
            scales,
            format=name,
            x_scales=to_kind(by),
        )
        assert np.array_equal(got, values_of(x, by) @ values_of(codes, scales).T)


_SHAPES = st.tuples(st.integers(1, 20), st.integers(1, 70), st.integers(1, 6))


@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shape=_SHAPES,
    part=st.sampled_from([16, 32, 64, 80, 128]),
    name=st.sampled_from(INTEGERS),
    dtype=st.sampled_from([*FLOATS, "int8"]),
    rows=st.sampled_from(["one", "each"]),
    steps=st.sampled_from([(1, 1), (2, 1), (-1, 2)]),
    made=st.sampled_from(FLOATS),
)
def test_groups(call, to_kind, rng, shape, part, name, dtype, rows, steps, made):
    height, columns, groups = shape
    inner = groups * part
    spaced = np.s_[:: steps[0], :: steps[1]]
    double = (2 * height, 2 * inner)
    x = rng.integers(-128, 128, double) if dtype == "int8" else rng.standard_normal(double)
    x = x.astype(dtype_of(dtype))[spaced][:height, :inner]
    codes = random_codes(rng, name, (columns, inner))
    # float16 holds the products.
    scales = np.float32(2**-9) * rng.random((1 if rows == "one" else columns, groups), np.float32)
    zeros, by = None, None
    if name == "uint4":
        zeros = rng.integers(0, 16, scales.shape).astype(np.uint8)
    if dtype == "int8":
        by = rng.random((height, rng.choice([1, groups]))).astype(np.float32)
    words = np.repeat(quantized.pack(codes, name), 2, axis=0)[::2]
    arrays = [each for each in (x, words, scales, zeros) if each is not None]
    got = call(
        quantized.matmul,
        *arrays,
        format=name,
        x_scales=None if by is None else to_kind(by),
        dtype=made,
    )
    left = x.astype(np.float64) if by is None else values_of(x, by)
    unit = UNITS.get(dtype, 0.0)
    assert_product(got, left, values_of(codes, scales, zeros), made, unit)


@pytest.mark.parametrize("rows", [2, 9])
@pytest.mark.parametrize("groups", [1, 2])
def test_zeros_of_integers(call, rng, rows, groups):
    codes, x = random_codes(rng, "uint4", (9, 64)), rng.integers(-128, 128, (rows, 64))
    scales = np.exp2(rng.integers(-3, 4, (9, groups))).astype(np.float32)
    zeros = rng.integers(0, 16, (9, groups)).astype(np.uint8)
    arrays = (x.astype(np.int8), quantized.pack(codes, "uint4"), scales, zeros)
    got = call(quantized.matmul, *arrays, format="uint4")
    assert np.array_equal(got, x @ values_of(codes, scales, zeros).T)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("rows", [2, 17])
@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_scales_beyond_float16(call, rng, name, rows, size):
    """Rows of float16 by weights of any size, with and without tiles."""
    codes = random_codes(rng, name, (33, 256))
    x = rng.standard_normal((rows, 256)).astype(np.float16)
    scales = (size * rng.random((33, 2))).astype(np.float32)
    words = quantized.pack(codes, name)
    got = call(quantized.matmul, x, words, scales, format=name, dtype="float32")
    assert_product(got, x.astype(np.float64), values_of(codes, scales), "float32")


@pytest.mark.parametrize("name", FLOATS8)
@pytest.mark.parametrize("other", FLOATS8)
def test_floats_of_8_bits(call, to_kind, rng, name, other):
    for rows, columns, inner, blocks in ((5, 9, 96, False), (33, 300, 300, True)):
        x, codes = (
            random_codes(rng, other, (rows, inner)),
            random_codes(rng, name, (columns, inner)),
        )
        groups = -(-inner // 128) if blocks else 1
        scales = rng.random((-(-columns // 128) if blocks else 1, groups)).astype(np.float32)
        by = rng.random((rows if blocks else 1, groups)).astype(np.float32)
        got = call(quantized.matmul, x, codes, scales, format=name, x_scales=to_kind(by))
        assert_product(got, values_of(x, by), values_of(codes, scales), "float32")


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("shape", [(0, 5, 32), (3, 0, 32), (3, 5, 0), (8, 5, 0), (0, 0, 0)])
def test_empty_arrays(call, dtype, shape):
    rows, columns, inner = shape
    words = quantized.pack(np.zeros((columns, inner), np.int8), "ternary")
    scales = np.ones((columns, 1), np.float32)
    got = call(quantized.matmul, np.ones((rows, inner), dtype), words, scales, format="ternary")
    assert got.shape == (rows, columns)
    assert not got.any()


@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("groups", [1, 2])
def test_scales_that_are_no_numbers(call, rng, rows, dtype, groups):
    codes = random_codes(rng, "int4", (6, 64))
    x = rng.integers(1, 9, (rows, 64)).astype(dtype)
    scales = np.array([0, np.inf, -np.inf, np.nan, 1e-40, 1], np.float32)[:, None]
    scales = np.hstack([scales, np.ones((6, 1), np.float32)])[:, :groups]
    got = call(quantized.matmul, x, quantized.pack(codes, "int4"), scales, format="int4")
    with np.errstate(all="ignore"):
        expected = x.astype(np.float64) @ values_of(codes, scales).T
        if dtype == "int8":  # sums are multiplied by scales
            parts = np.stack(np.split(codes, groups, axis=1)).astype(np.float64)
            lefts = np.stack(np.split(x, groups, axis=1)).astype(np.float64)
            sums = np.einsum("gmk,gnk->gmn", lefts, parts)
            expected = (sums * scales.T.astype(np.float64)[:, None]).sum(axis=0)
    # Each thread multiplies its sum by the scale, and some sums are 0: infinity may become NaN.
    assert np.array_equal(np.isfinite(got), np.isfinite(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(got[finite], expected[finite], rtol=1e-5, atol=1e-38)


def test_out(target, rng):
    codes = random_codes(rng, "ternary", (7, 32))
    x, out = rng.standard_normal((3, 32)).astype(np.float32), poisoned((3, 7), np.float16)
    scales = np.ones((1, 1), np.float32)
    words = quantized.pack(codes, "ternary")
    found = quantized.matmul(x, words, scales, format="ternary", dtype=np.float16, out=out)
    assert found is out
    assert_product(out, x.astype(np.float64), codes.astype(np.float64), "float16")


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("rows", [2, 9])
def test_device_arrays_without_scales_of_rows(target, rng, dtype, rows):
    codes, x = random_codes(rng, "int4", (9, 64)), rng.integers(-9, 9, (rows, 64)).astype(dtype)
    arrays = [kd.to_device(a) for a in (x, quantized.pack(codes, "int4"), np.ones((9, 1), "f4"))]
    got = quantized.matmul(*arrays, format="int4").copy_to_host()
    assert np.array_equal(got, x.astype(np.float64) @ codes.T.astype(np.float64))


@pytest.mark.parametrize("kind", ["numpy", "device"])
@pytest.mark.parametrize("dtype", ["int8", "float32", "bfloat16"])
@pytest.mark.parametrize("rows", [1, 9, 33])
def test_integers_at_any_address(target, rng, kind, dtype, rows):
    """Numbers of 8 bits that do not begin at words, after a call with ones that do."""
    columns, inner = 9, 64
    make = kd.to_device if kind == "device" else np.asarray
    x = rng.integers(-9, 9, (rows, inner)).astype(dtype_of(dtype))
    data = rng.integers(-128, 128, columns * inner + 16).astype(np.int8)
    scales, stored = np.ones((columns, 1), np.float32), make(data)
    for first in (0, 0, 1, 2, 3, 3, 4, 16):
        part = slice(first, first + columns * inner)
        words = stored[part].reshape((columns, inner))
        got = quantized.matmul(make(x), words, make(scales), format="int8", dtype=np.float32)
        got = got.copy_to_host() if kind == "device" else got
        weights_of = data[part].reshape(columns, inner).astype(np.float64)
        assert np.array_equal(got, x.astype(np.float64) @ weights_of.T), first


def test_the_sums_of_a_long_row_are_exact():
    """Those of numbers that stay where they are in a byte would not fit in 32 bits."""
    x, codes = np.full((1, 9_000_000), 127, np.int8), np.ones((1, 9_000_000), np.int8)
    words, scales = quantized.pack(codes, "ternary"), np.full((1, 1), 2.0**-20, np.float32)
    got = quantized.matmul(x, words, scales, format="ternary")
    assert got[0, 0] == np.float32(127 * 9_000_000) * np.float32(2.0**-20)


# -- quantize --------------------------------------------------------------------------------------


def blocks_of(x, group):
    for i, j in itertools.product(*(range(0, n, g) for n, g in zip(x.shape, group, strict=True))):
        yield i // group[0], j // group[1], np.s_[i : i + group[0], j : j + group[1]]


def quantized_by_numpy(x, name, group):
    chosen = FORMATS[name]
    shape = tuple(-(-n // g) for n, g in zip(x.shape, group, strict=True))
    codes, scales, zeros = np.empty(x.shape), np.empty(shape, np.float32), np.zeros(shape)
    for i, j, part in blocks_of(x, group):
        v = x[part]
        low, high = min(v.min(), 0), max(v.max(), 0)
        scale = np.abs(v).max() / np.float32(chosen.largest)
        if name == "ternary":
            scale = np.float32(np.abs(v).mean(dtype=np.float64))
        if name == "uint4":
            scale = (high - low) / np.float32(15)
            zeros[i, j] = np.rint(-low / scale) if scale else 0
        scales[i, j] = scale
        found = v / scale if scale else 0 * v
        if not chosen.is_float:
            found = np.clip(np.rint(found) + zeros[i, j], chosen.smallest, chosen.largest)
        codes[part] = found.astype(chosen.dtype)
    return codes, scales, zeros


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("group", [None, 16, (128, 128)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_quantize(call, to_kind, rng, name, group, dtype):
    x = rng.standard_normal((130, 144)).astype(dtype_of(dtype))
    x[1] = 0
    extents = (1, 144) if group is None else (1, group) if group == 16 else group
    codes, scales, zeros = quantized_by_numpy(x.astype(np.float32), name, extents)
    found = quantized.quantize(to_kind(x), name, group)
    host = [each.copy_to_host() if isinstance(each, kd.DeviceArray) else each for each in found]
    np.testing.assert_allclose(host[1], scales, rtol=1e-6)
    got = quantized.unpack(host[0], name, 144).astype(np.float64)
    assert np.array_equal(got, codes)
    if name == "uint4":
        assert np.array_equal(host[2], zeros)
    back = call(quantized.dequantize, *host[: 2 + (name == "uint4")], format=name, count=144)
    expected = values_of(got, host[1], host[2])
    np.testing.assert_allclose(back, expected, rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("name", full_beyond(FORMATS, ["uint4"]))
def test_groups_are_read_as_they_were_made_or_refused(target, rng, name):
    # Of 285 numbers, three groups of words with room for 288 would be read as of 96 each.
    is_packed = FORMATS[name].numbers is not None
    for shape, group in [
        ((3, 24), 8), ((3, 20), 10), ((3, 40), 20), ((3, 160), 128), ((256, 64), (100, 64)),
        ((5, 64), (2, 64)), *[((3, 285), 128)] * is_packed,
    ]:  # fmt: skip
        with pytest.raises(ArgumentValueError, match="groups have 1, 128 or all rows"):
            quantized.quantize(np.ones(shape, np.float32), name, group)
    for k, group in [(288, 96), (257, 128), *[(285, 128)] * (not is_packed)]:
        x = rng.standard_normal((3, k)).astype(np.float32)
        codes, *others = quantized_by_numpy(x, name, (1, group))
        scales, zeros = (each.repeat(group, axis=1)[:, :k] for each in others)
        words, *found = quantized.quantize(x, name, group)
        back = quantized.dequantize(words, *found[: 1 + (name == "uint4")], format=name)
        np.testing.assert_allclose(back[:, :k], (codes - zeros) * scales, rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("name", FORMATS)
def test_quantize_numbers_near_the_largest(call, to_kind, rng, name):
    """Their sums and differences do not overflow."""
    x = (rng.uniform(-3e38, 3e38, (4, 200))).astype(np.float32)
    x[0], x[1, :2] = -3e38, (3e38, -3e38)
    codes, scales, zeros = quantized_by_numpy(x.astype(np.float64), name, (1, 200))
    found = quantized.quantize(to_kind(x), name)
    host = [each.copy_to_host() if isinstance(each, kd.DeviceArray) else each for each in found]
    np.testing.assert_allclose(host[1], scales, rtol=1e-6)
    back = call(quantized.dequantize, *host[: 2 + (name == "uint4")], format=name, count=200)
    off = np.abs(back.astype(np.float64) - values_of(codes, scales, zeros))
    assert (off <= scales * 1.001).all()


def test_a_group_with_nan_has_no_scale(call):
    x = np.array([[1, np.nan], [np.inf, 1], [2, 4]], np.float32)
    words, scales, _ = quantized.quantize(x, "int8")
    assert np.array_equal(scales[:, 0], np.array([np.nan, np.inf, 4 / 127], np.float32), True)
    assert np.array_equal(words, [[0, 0], [0, 0], [64, 127]]) or words[0, 0] in (0, 127)


# -- GGUF ------------------------------------------------------------------------------------------


def read_slowly(block, name):
    """Decode a block as GGML's specification describes it, number by number."""
    data = [int(each) for each in block]
    found = []
    if name in ("Q4_0", "Q8_0"):
        scale = np.frombuffer(bytes(data[:2]), "<f2")[0]
        data = data[2:]
        if name == "Q8_0":
            return scale, [each - 256 * (each > 127) for each in data]
        return scale, [each % 16 - 8 for each in data] + [each // 16 - 8 for each in data]
    scale = np.frombuffer(bytes(data[-2:]), "<f2")[0]
    if name == "TQ2_0":
        for half in (data[:32], data[32:64]):
            for shift in range(4):
                found += [each // 4**shift % 4 - 1 for each in half]
        return scale, found
    for part, count in ((data[:32], 5), (data[32:48], 5), (data[48:52], 4)):
        for digit in range(count):
            found += [(each * 3**digit % 256) * 3 // 256 - 1 for each in part]
    return scale, found


@pytest.mark.parametrize(
    ("name", "nbytes"), [("Q4_0", 18), ("Q8_0", 34), ("TQ1_0", 54), ("TQ2_0", 66)]
)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_gguf(target, rng, name, nbytes, count):
    blocks = rng.integers(0, 256, (4, count, nbytes)).astype(np.uint8)
    if name == "TQ2_0":  # no pair of bits is 3
        pairs = rng.integers(0, 3, (4, count, nbytes, 4))
        blocks = (pairs << np.arange(0, 8, 2)).sum(axis=-1).astype(np.uint8)
    at = slice(-2, None) if name[0] == "T" else slice(0, 2)
    blocks[..., at] = rng.random((4, count, 1)).astype(np.float16).view(np.uint8)
    (words, scales, zeros), form = quantized.read_gguf(blocks.reshape(4, -1), name)
    assert zeros is None
    codes = quantized.unpack(words, form)
    for row in range(4):
        for number in range(count):
            scale, numbers = read_slowly(blocks[row, number], name)
            size = len(numbers)
            assert scales[row, number] == scale
            assert codes[row, number * size : (number + 1) * size].tolist() == numbers
    if count:
        x = rng.standard_normal((2, codes.shape[1])).astype(np.float32)
        got = quantized.matmul(x, words, scales, format=form)
        assert_product(got, x.astype(np.float64), values_of(codes, scales), "float32")


# -- errors ----------------------------------------------------------------------------------------

_W = np.zeros((4, 8), np.uint32)
_X, _S = np.zeros((2, 64), np.float32), np.ones((4, 1), np.float32)


@pytest.mark.parametrize(
    ("call_wrongly", "said"),
    [
        (
            lambda: quantized.matmul(_X, _W, _S, format="int5"),
            "format is 'int5'. It must be one of",
        ),
        (lambda: quantized.matmul(_X[:, :32], _W, _S, format="int4"), "is packed in 4 elements"),
        (lambda: quantized.matmul(_X, _W.view(np.int32), _S, format="int4"), "view('uint32')"),
        (lambda: quantized.matmul(_X, _W, _S, format="int8"), "uint32: 'int4' or 'uint4' or"),
        (lambda: quantized.dequantize(_W.view("i1"), _S, format="int4"), "words of int8: 'int8'"),
        (lambda: quantized.unpack(_X, "int8"), "Pass quantized.quantize(w, 'int8')"),
        (lambda: quantized.matmul(_X, _W, _S[:3], format="int4"), "Rows have one scale together"),
        (lambda: quantized.matmul(_X, _W, np.ones((4, 8), "f4"), format="int4"), "multiples of 16"),
        (lambda: quantized.matmul(_X, _W, _S, _S, format="int4"), "zeros was given"),
        (lambda: quantized.matmul(_X, _W, _S, _S, format="uint4"), "zeros has the dtype float32"),
        (lambda: quantized.matmul(_X, _W, _S, format="int4", x_scales=_S[:2]), "Omit it, or quant"),
        (
            lambda: quantized.matmul(_X, _W, _S, format="int4", dtype="float64"),
            "dtype is 'float64'",
        ),
        (lambda: quantized.matmul(_X, _W, _S, format="float8_e5m2"), "x has the dtype float32"),
        (lambda: quantized.pack(np.array([[3]]), "ternary"), "Values of kd.ternary are -1 to 1"),
        (lambda: quantized.unpack(_W, "int4", 65), "A row of words holds 64 numbers"),
        (lambda: quantized.quantize(_X, "int4", 0), "It must be an int from 1 on"),
        (
            lambda: quantized.quantize(_X, "int4", (1, 2, 3)),
            "It must be an int, or (rows, columns)",
        ),
        (lambda: quantized.read_gguf(np.zeros((1, 17), np.uint8), "Q4_0"), "has 18 bytes"),
        (lambda: quantized.read_gguf(np.full((1, 66), 255, np.uint8), "TQ2_0"), "are -1 to 1"),
    ],
)
def test_errors(call_wrongly, said):
    with pytest.raises(ArgumentError) as caught:
        call_wrongly()
    assert said in str(caught.value)


# -- kernels of a GPU, on any target ---------------------------------------------------------------


#: Kernels, by the most rows that are tried.
KERNELS = {
    16: by_warps.multiply_by_warps,
    64: few_rows.multiply_planes,
    20: many_rows.multiply_many,
}
OF_GPUS = [
    *itertools.product(INTEGERS, ["int8", "float16", "bfloat16"], [16], [0, 1, 128]),
    *itertools.product(["int4", "uint4", "ternary"], ["float16", "bfloat16"], [64], [0, 1, 128]),
    *itertools.product(INTEGERS, ["int8", "bfloat16"], [20], [0, 1, 128]),
]
QUICK_OF_GPUS = [
    ("int8", "int8", 16, 1),
    ("int4", "bfloat16", 16, 1),
    ("uint4", "float16", 16, 0),
    ("int4", "bfloat16", 64, 128),
    ("ternary", "float16", 64, 0),
    ("uint4", "int8", 20, 1),
]


@pytest.mark.parametrize(
    ("name", "dtype", "most", "grouped"),
    full_beyond(
        itertools.starmap(pytest.param, OF_GPUS), [*itertools.starmap(pytest.param, QUICK_OF_GPUS)]
    ),
)
def test_kernels_of_gpus_are_exact(rng, name, dtype, most, grouped):
    """Those of few and of many rows, by scales of rows, of groups and of blocks."""
    chosen, multiply = FORMATS[name], KERNELS[most]
    unit = (512 if most == 64 else 128) // chosen.bits
    rows = int(rng.integers(17 if most == 64 else 1, most + 1))
    columns = 256 if grouped == 128 else int(rng.integers(1, 300))
    groups = int(rng.integers(2, 5)) if grouped else 1
    inner = unit * groups if grouped else 4 * int(rng.integers(1, 40))
    codes = random_codes(rng, name, (columns, inner))
    x = rng.integers(-128, 128, (rows, inner)).astype(dtype_of(dtype))
    height = grouped or 1
    scales = np.exp2(rng.integers(-3, 4, (columns // height, groups))).astype(np.float32)
    zeros = rng.integers(0, 16, scales.shape).astype(np.uint8) if chosen.has_zeros else None
    by = np.exp2(rng.integers(-2, 3, (rows, 1))).astype(np.float32)
    group = inner // groups if grouped else weights.WHOLE
    words = quantized.pack(codes, name)
    right = weights.Weights(chosen, words, scales, zeros, by, height, group)
    out = poisoned((rows, columns), np.float32)
    is_scaled = multiply is many_rows.multiply_many and dtype == "bfloat16"  # numbers, not sums
    with kd.use("cpu"):
        multiply(x, right, out)
    expected = x.astype(np.float64) @ values_of(codes, scales, zeros).T
    assert np.array_equal(out, expected * (1 if is_scaled else by))


@pytest.mark.parametrize(
    ("shape", "whole"),
    [
        ((4096, 7168), 4032),  # 9 rounds of 132 tiles, and 10 with the last rows
        ((4096, 8192), 0),  # 11 rounds, also with the last rows
        ((4097, 7168), 0),
        ((4032, 7168), 0),
        ((64, 7168), 0),
        ((4096, 32768), 0),
    ],
)
def test_a_few_rows_that_would_take_another_round_are_left(shape, whole):
    limits = SimpleNamespace(multiprocessor_count=132)
    out = SimpleNamespace(shape=shape, device=SimpleNamespace(limits=limits))
    assert many_rows._whole_rows(out) == whole


@pytest.mark.parametrize("groups", [1, 2])
def test_rows_that_are_left_are_exact(rng, monkeypatch, groups):
    monkeypatch.setattr(many_rows, "has_tensor_cores", lambda *given: True)
    monkeypatch.setattr(many_rows, "MIN_TILES", 4)
    monkeypatch.setattr(many_rows, "_whole_rows", lambda out: 192 * (out.shape[0] > 192))
    x, words = (rng.integers(-4, 5, (rows, 256)).astype(kd.float8_e4m3fn) for rows in (216, 256))
    scales = np.exp2(rng.integers(-3, 4, (2, 2))).astype(np.float32)
    by = np.exp2(rng.integers(-2, 3, (216, groups))).astype(np.float32)
    right = weights.Weights(FORMATS["float8_e4m3fn"], words, scales, None, by, 128, 128)
    out = poisoned((216, 256), np.float32)
    with kd.use("cpu"):
        many_rows.multiply_many(x, right, out)
    one, two = x.astype(np.float64), words.astype(np.float64)
    one *= by.repeat(256 // groups, axis=1)
    expected = one @ (two * scales.repeat(128, axis=0).repeat(128, axis=1)).T
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("name", ["ternary", "uint4"])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_a_call_like_one_before_is_not_planned_again(rows, name, monkeypatch):
    rng, chosen = np.random.default_rng(rows), FORMATS[name]
    words = quantized.pack(random_codes(rng, name, (16, 256)), name)
    scales = rng.random((16, 2)).astype(np.float32)
    zeros = rng.integers(0, 16, (16, 2)).astype(np.uint8) if chosen.has_zeros else None
    x = rng.integers(-8, 8, (rows, 256)).astype(np.int8)
    with kd.use("cpu"):  # arrays of the host are no memory of a GPU
        expected = quantized.matmul(x, words, scales, zeros, format=name)
        monkeypatch.setattr(importlib.import_module(quantized.matmul.__module__), "Weights", None)
        for _ in range(2):
            got = quantized.matmul(x, words, scales, zeros, format=name)
            np.testing.assert_array_equal(got, expected)
