"""Products of tiles by tensor cores, run by the threads of a simulated device."""

from __future__ import annotations

import itertools
import math
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import Specialization
from targets.cuda.architectures import parse_arch
from targets.cuda.compile.region_code import device_texts
from tests.ptx.helpers import specialize
from tests.support.device_threads import simulate_device
from tests.support.extent import full_beyond

_PAIRS = (
    *(("float16",) * 2, ("bfloat16",) * 2, ("float32",) * 2, ("float64",) * 2),
    *itertools.product(("int8", "uint8"), repeat=2),
    *itertools.product(("float8_e4m3fn", "float8_e5m2"), repeat=2),
)
_QUICK = (
    ("float16",) * 2,
    ("float32",) * 2,
    ("float64",) * 2,
    ("int8", "uint8"),
    ("float8_e4m3fn",) * 2,
)
_TILE = (32, 16)


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def _depth(dtype: str) -> int:
    return 64 // _dtype(dtype).itemsize


def _total(dtype: str) -> str:
    """Name of the dtype of sums."""
    return "int32" if "int" in dtype else "float64" if dtype == "float64" else "float32"


@cache
def _product(one: str, two: str, turned: tuple[bool, bool]) -> Specialization:
    """A kernel that multiplies by tiles; factors may be read with their axes exchanged."""
    (rows, columns), depth = _TILE, _depth(one)
    turned_a, turned_b = turned
    is_integer = "int" in one
    precision = "tf32" if one == "float32" else "ieee"

    def product(a, b, c):
        m, n = kd.blockIdx.y * rows, kd.blockIdx.x * columns
        total = kd.int32 if is_integer else kd.float64 if one == "float64" else kd.float32
        acc = kd.tile.zeros((rows, columns), total)
        extent = a.shape[0] if turned_a else a.shape[1]
        for k in range(0, extent, depth):
            if turned_a:
                x = kd.tile.load(a, (k, m), (depth, rows)).T
            else:
                x = kd.tile.load(a, (m, k), (rows, depth))
            if turned_b:
                y = kd.tile.load(b, (n, k), (columns, depth)).T
            else:
                y = kd.tile.load(b, (k, n), (depth, columns))
            acc = kd.mma(x, y, acc, precision=precision)
        kd.tile.store(c, (m, n), acc)

    total = _total(one)
    signature = f"{one}[:,::1], {two}[:,::1], {total}[:,::1]"
    return specialize(product, signature, block=(64, 1, 1))


def _matrix(rng: np.random.Generator, shape: tuple[int, int], dtype: str) -> np.ndarray:
    """Small integers in memory that begins at a multiple of 16 bytes."""
    kind = _dtype(dtype)
    room = np.zeros(math.prod(shape) * kind.itemsize + 16, np.uint8)
    first = -room.ctypes.data % 16
    found = room[first : first + math.prod(shape) * kind.itemsize].view(kind).reshape(shape)
    found[:] = rng.integers(0 if dtype == "uint8" else -3, 4, shape).astype(kind)
    return found


#: Factors that are turned, and how far arrays go beyond whole tiles.
_ORDERS = [
    pytest.param(turned, edges)
    for turned in itertools.product((False, True), repeat=2)
    for edges in ((0, 0, 0), (3, 5, 7))
]


@pytest.mark.parametrize(
    ("turned", "edges"),
    full_beyond(_ORDERS, [_ORDERS[2], *_ORDERS[1::2]]),
)
@pytest.mark.parametrize("dtypes", full_beyond(_PAIRS, _QUICK))
def test_a_product_is_exact(
    dtypes: tuple[str, str], turned: tuple[bool, bool], edges: tuple[int, ...]
) -> None:
    spec = _product(*dtypes, turned)
    (text, *_) = device_texts(spec, "entry", parse_arch("sm_90"))
    assert "matrix_product_" + "_".join(dtypes) in text
    rng = np.random.default_rng(46)
    m, n, k = (e + more for e, more in zip((*_TILE, 2 * _depth(dtypes[0])), edges, strict=True))
    a = _matrix(rng, (k, m) if turned[0] else (m, k), dtypes[0])
    b = _matrix(rng, (n, k) if turned[1] else (k, n), dtypes[1])
    c = np.full((m, n), 99, _total(dtypes[0]))
    simulate_device(spec, (-(-n // _TILE[1]), -(-m // _TILE[0])), (a, b, c))
    left, right = (
        x.astype(c.dtype).T if t else x.astype(c.dtype) for x, t in zip((a, b), turned, strict=True)
    )
    np.testing.assert_array_equal(c, left @ right)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("precision", ["ieee", "reference", "tf32"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_product_without_an_instruction_is_added_in_order(
    dtype: str, precision: str, arch: str
) -> None:
    def product(a, b, c):
        x, y = kd.tile.load(a, (0, 0), (16, 16)), kd.tile.load(b, (0, 0), (16, 16))
        kd.tile.store(c, (0, 0), kd.mma(x, y, precision=precision))

    if precision == "tf32" and dtype != "float32":
        return
    signature = f"{dtype}[:,::1], {dtype}[:,::1], float32[:,::1]"
    spec = specialize(product, signature, block=(32, 1, 1))
    (text, *_) = device_texts(spec, "entry", parse_arch(arch))
    has_dtype = dtype == "float16" or arch == "sm_90"
    is_fast = precision == ("tf32" if dtype == "float32" else "ieee")
    assert ("matrix_product" in text) == (has_dtype and is_fast)


@pytest.mark.parametrize("promote", [64, 128, None])
def test_sums_of_narrow_floats_are_added_as_float32(promote: int | None) -> None:
    def product(a, b, c):
        x, y = kd.tile.load(a, (0, 0), (16, 256)), kd.tile.load(b, (0, 0), (8, 256))
        acc = kd.tile.load(c, (0, 0), (16, 8))
        kd.tile.store(c, (0, 0), kd.mma(x, y.T, acc, promote=promote))

    kind = "float8_e4m3fn[:,::1]"
    spec = specialize(product, f"{kind}, {kind}, float32[:,::1]", block=(32, 1, 1))
    counts = [
        device_texts(spec, "entry", parse_arch(arch))[0].count("fadd")
        for arch in ("sm_80", "sm_89", "sm_90")
    ]
    assert counts == [0, 0 if promote is None else 4 * 256 // promote, 0]
    rng = np.random.default_rng(46)
    a, b = _matrix(rng, (16, 256), "float8_e4m3fn"), _matrix(rng, (8, 256), "float8_e4m3fn")
    c = rng.integers(-9, 9, (16, 8)).astype(np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32).T + c
    simulate_device(spec, (1,), (a, b, c), arch="sm_89")
    np.testing.assert_array_equal(c, expected)
