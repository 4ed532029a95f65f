"""Register kernels of the CPU for processors with fewer or shorter vectors, and for all heights."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from targets.cpu.regions.tiles import register_kernels
from targets.cpu.regions.tiles.register_kernels import parts
from tests.support.arrays import assert_same_bits
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

    monkeypatch.setattr(register_kernels, "features_in_use", features)
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
