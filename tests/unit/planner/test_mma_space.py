"""Members of spaces of products that untuned launches take."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.planner.mma_space import best_for

NAMES = ("BM", "BN", "BK")


@kd.kernel(space=kd.mma_space(*NAMES))
def product(a, b, c, *, BM, BN, BK):
    for m, n in kd.tiles(c.shape, (BM, BN)):
        acc = kd.tile.zeros((BM, BN), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], BK)):
            x = kd.tile.load(a, (m, k), (BM, BK))
            acc = kd.mma(x, kd.tile.load(b, (n, k), (BN, BK)).T, acc)
        kd.tile.store(c, (m, n), acc)


def _device(arch: str = "sm_90") -> Any:
    return kd.get_target("cuda").described(arch)


def _values(extent: tuple[int, int], dtype: str = "bfloat16", arch: str = "sm_90") -> Any:
    return best_for(NAMES, _device(arch), extent, [dtype] * 3)


#: Extents, and the faster of two tiles as measured on an H200 (products-h200.json).
MEASURED = [
    ((4096, 4096), (128, 256)),
    ((8192, 8192), (128, 256)),
    ((256, 28672), (128, 256)),
    ((256, 10240), (128, 256)),
    ((256, 6144), (128, 128)),
    ((256, 8192), (128, 128)),
    ((1024, 6144), (128, 128)),
    ((1024, 10240), (128, 128)),
    ((4096, 8192), (128, 256)),
]


@pytest.mark.parametrize(("extent", "tile"), MEASURED)
def test_the_faster_tiles_are_chosen(extent: tuple[int, int], tile: tuple[int, int]) -> None:
    assert _values(extent) == {"BM": tile[0], "BN": tile[1], "BK": 64, "block": 256}


@pytest.mark.parametrize(
    "about",
    [
        {"dtype": "float32"},
        {"dtype": "float64"},
        {"arch": "sm_80"},
        {"extent": (255, 4096)},
        {"extent": (4096, 64)},
    ],
)
def test_other_launches_take_the_first_member(about: dict[str, Any]) -> None:
    assert _values(**{"extent": (4096, 4096), **about}) is None


@pytest.mark.parametrize(
    ("dtype", "columns"), [("int8", 256), ("uint8", 256), ("float8_e4m3fn", 128)]
)
def test_rows_of_128_bytes_along_k_are_chosen(dtype: str, columns: int) -> None:
    found = _values((8192, 8192), dtype)
    assert found == {"BM": 128, "BN": columns, "BK": 128, "block": 256}


def test_results_of_all_members_are_in_registers() -> None:
    space = kd.mma_space(*NAMES)
    assert max(each.BM * each.BN / each.block_threads for each in space) == 128
    assert {each.BK for each in space} == {32, 64, 128}


def test_arrays_are_optional() -> None:
    assert best_for(NAMES, _device(), (4096, 4096), []) is None


def _plan(dtype: Any, extent: tuple[int, int]) -> dict[str, Any]:
    with kd.use("null"):
        a, b, c = (kd.empty(extent, dtype) for _ in range(3))
        return dict(product.forall(*extent).plan(a, b, c).parameters)


@pytest.mark.parametrize(
    ("dtype", "extent", "tile"),
    [
        (np.float16, (512, 512), (128, 128)),
        (np.float16, (512, 128), (64, 64)),
        (np.float32, (512, 512), (64, 64)),
    ],
)
def test_a_plan_has_the_tiles(dtype: Any, extent: tuple[int, int], tile: tuple[int, int]) -> None:
    found = _plan(dtype, extent)
    assert (found["BM"], found["BN"], found["BK"]) == (*tile, 64)


def test_a_space_without_the_member_has_its_first() -> None:
    space = kd.mma_space(*NAMES, block=[128])
    first = space.first_for(_device(), (4096, 4096), ["float16"])
    assert [member.values for member in first] == [member.values for member in space.first()]


def test_a_pickled_space_chooses_the_same() -> None:
    space = kd.mma_space(*NAMES)
    found = [
        each.first_for(_device(), (4096, 4096), ["float16"]).members[0]
        for each in (space, pickle.loads(pickle.dumps(space)))  # noqa: S301
    ]
    assert found[0] == found[1]
    assert found[0].BN == 256
