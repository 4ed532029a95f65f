"""Register kernels of the CPU for processors with fewer or shorter vectors, and for all heights."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import kerneldsl as kd
from targets.cpu.codegen.levels import features_in_use
from targets.cpu.regions.tiles import products
from targets.cpu.regions.tiles.products import parts
from tests.support.arrays import assert_same_bits
from tests.support.extent import full_beyond
from tests.support.tile_words import product

_FEATURES = {
    "avx512": {"avx", "avx2", "fma", "avx512f"},
    "avx2": {"avx", "avx2", "fma"},
    "sse": set[str](),
    "neon": {"neon"},
}


@pytest.mark.parametrize("name", _FEATURES)
@pytest.mark.parametrize("shape", [(8, 8, 4), (16, 56, 8), (40, 24, 20)])
def test_vectors(name: str, shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def features() -> frozenset[str]:
        asked.append(name)
        return frozenset(_FEATURES[name])

    monkeypatch.setattr(products, "features_in_use", features)
    monkeypatch.setenv("KERNELDSL_CACHE", "0")
    rows, columns, depth = shape

    @kd.kernel
    def multiplying(a, b, c):  # type: ignore[no-untyped-def]
        x = kd.tile.load(a, (0, 0), (rows, depth))
        y = kd.tile.load(b, (0, 0), (columns, depth))
        start = kd.tile.load(c, (0, 0), (rows, columns))
        kd.tile.store(c, (0, 0), kd.mma(x, y.T, start))

    rng = np.random.default_rng(3)
    a, b, c = (
        rng.standard_normal(each).astype(np.float32)
        for each in ((rows, depth), (columns, depth), (rows, columns))
    )
    expected = product(a, b.T, c)
    with kd.use("cpu"):
        multiplying[1, 32](a, b, c)
    assert asked, "the code is not compiled anew"
    assert_same_bits(c, expected, name)


_AVX2 = {"avx", "avx2", "fma"}
_UNITS = {
    "none": set[str](),
    "pairs": _AVX2,
    "pairs in long vectors": {*_AVX2, "avx512f", "avx512bw", "avx512vl"},
    "vnni": {*_AVX2, "avx512f", "avx512bw", "avx512vl", "avx512vnni"},
}


def _with_features(monkeypatch: pytest.MonkeyPatch, features: set[str]) -> None:
    if not features <= features_in_use():
        pytest.skip(f"this processor has not all of {sorted(features)}")
    monkeypatch.setattr(products, "features_in_use", lambda: frozenset(features))
    monkeypatch.setenv("KERNELDSL_CACHE", "0")


@pytest.mark.parametrize("name", _UNITS)
@pytest.mark.parametrize(
    "dtypes",
    full_beyond(itertools.product(("int8", "uint8"), repeat=2), [("int8",) * 2, ("uint8", "int8")]),
    ids="-".join,
)
def test_bytes(name: str, dtypes: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    _with_features(monkeypatch, _UNITS[name])
    rng = np.random.default_rng(4)
    limits = [np.iinfo(each) for each in dtypes]
    a, b = (rng.integers(each.min, each.max + 1, (48, 64)).astype(each.dtype) for each in limits)
    a[3], b[5] = limits[0].min, limits[1].min
    a[4], b[6] = limits[0].max, limits[1].max

    @kd.kernel
    def multiplying(a, b, c, d):  # type: ignore[no-untyped-def]
        x = kd.tile.load(a, (0, 0), (48, 64))
        y = kd.tile.load(b, (0, 0), (48, 64))
        kd.tile.store(c, (0, 0), kd.mma(x, y.T, kd.tile.full((48, 48), 7, kd.int32)))
        kd.tile.store(d, (0, 0), kd.mma(x.T, kd.tile.load(b, (0, 0), (48, 24))))

    c, d = np.zeros((48, 48), np.int32), np.zeros((64, 24), np.int32)
    with kd.use("cpu"):
        multiplying[1, 32](a, b, c, d)
    one, two = a.astype(np.int32), b.astype(np.int32)
    assert np.array_equal(c, one @ two.T + 7)
    assert np.array_equal(d, one.T @ two[:, :24])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn"])
def test_errors_are_in_the_bound(dtype: str) -> None:
    """Of sums of positive and negative numbers of many magnitudes, in the order of the unit."""
    rng = np.random.default_rng(5)
    kind = np.dtype(getattr(kd, dtype))
    a, b = (
        (rng.standard_normal((64, 512)) * 2.0 ** rng.integers(-5, 5, (64, 512))).astype(kind)
        for _ in range(2)
    )

    @kd.kernel
    def multiplying(a, b, c):  # type: ignore[no-untyped-def]
        acc = kd.tile.zeros((64, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a, (0, k), (64, 64))
            y = kd.tile.load(b, (0, k), (64, 64))
            acc = kd.mma(x, y.T, acc)
        kd.tile.store(c, (0, 0), acc)

    c = np.zeros((64, 64), np.float32)
    with kd.use("cpu"):
        multiplying[1, 32](a, b, c)
    one, two = a.astype(np.float64), b.astype(np.float64)
    bound = (512 / 2 + 2) * 2.0**-22 * (abs(one) @ abs(two).T)
    assert (abs(c - one @ two.T) <= bound).all()


@pytest.mark.parametrize("sizes", [(12, 8), (6, 4)])
def test_parts_cover_every_extent(sizes: tuple[int, int]) -> None:
    for extent in range(8, 520, 8):
        rows = [
            row
            for first, size, count in parts(extent, sizes)
            for start in range(first, first + size * count, size)
            for row in range(start, start + size)
        ]
        assert rows == list(range(extent)), extent
