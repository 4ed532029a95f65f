"""Members of spaces of products that untuned launches take."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.launch import decision
from kerneldsl.tuning.candidates import find_candidates

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


def _first(space: kd.Space, extent: Any, dtype: str = "bfloat16", arch: str = "sm_90") -> Any:
    found = space.first_for(_device(arch), extent, [dtype] * 3)
    return found.members[0]


#: Extents, and tiles and threads within 0.02 of the fastest, as measured on an H200
#: (products-h200.json).
MEASURED = [
    ((1024, 1024), (128, 64, 256)),
    ((2048, 2048), (128, 256, 256)),
    ((4096, 4096), (128, 256, 256)),
    ((8192, 8192), (128, 256, 256)),
    ((64, 8192), (64, 64, 128)),
    ((512, 512), (64, 64, 128)),
    ((256, 6144), (128, 96, 256)),
    ((256, 28672), (128, 256, 256)),
    ((256, 4096), (128, 64, 256)),
    ((256, 10240), (128, 160, 256)),
    ((256, 8192), (128, 128, 256)),
    ((1024, 6144), (128, 192, 256)),
    ((1024, 28672), (128, 256, 256)),
    ((1024, 4096), (128, 256, 256)),
    ((1024, 10240), (128, 160, 256)),
    ((1024, 8192), (128, 256, 256)),
    ((4096, 6144), (128, 256, 256)),
    ((4096, 10240), (128, 256, 256)),
]


@pytest.mark.parametrize(("extent", "tile"), MEASURED)
def test_the_fastest_tiles_are_chosen(extent: tuple[int, int], tile: tuple[int, ...]) -> None:
    found = _first(kd.mma_space(*NAMES), extent)
    assert (found.BM, found.BN, found.block) == tile
    assert found.BK == 64


@pytest.mark.parametrize("about", [{"dtype": "float64"}, {"arch": "sm_80"}, {"extent": (4096,)}])
def test_other_launches_take_the_first_member(about: dict[str, Any]) -> None:
    found = _first(kd.mma_space(*NAMES), **{"extent": (4096, 4096), **about})
    assert (found.BM, found.BN, found.BK) == (64, 64, 64)


@pytest.mark.parametrize(
    ("dtype", "columns", "depth"),
    [("int8", 256, 128), ("uint8", 256, 128), ("float8_e4m3fn", 128, 128), ("float32", 128, 32)],
)
def test_rows_of_128_bytes_along_k_are_chosen(dtype: str, columns: int, depth: int) -> None:
    found = _first(kd.mma_space(*NAMES), (8192, 8192), dtype)
    assert (found.BM, found.BN, found.BK, found.block) == (128, columns, depth, 256)


def test_sums_that_are_not_promoted_have_large_tiles() -> None:
    for space in (kd.mma_space(*NAMES, promote=None), kd.mma_space(*NAMES[:2], promote=None)):
        found = _first(space, (8192, 8192), "float8_e4m3fn")
        has_depth = "BK" in space.parameters
        assert ((128, 256) if has_depth else (64, 64)) == (found.BM, found.BN)


def test_a_tuner_takes_members_by_their_expected_time() -> None:
    with kd.use("null"):
        a, b, c = (kd.empty((256, 6144), np.float16) for _ in range(3))
        launch = product.forall(256, 6144)
        found = find_candidates(launch._request((a, b, c)))
    best = dict(found[0].plan.parameters)
    assert (best["BM"], best["BN"], best["BK"]) == (128, 96, 64)
    times = [each.point.predicted_ns for each in found]
    assert times == sorted(times)


def test_results_of_all_members_are_in_registers() -> None:
    space = kd.mma_space(*NAMES)
    assert max(each.BM * each.BN / each.block_threads for each in space) == 128
    assert {each.BK for each in space} == {32, 64, 128}


def test_arrays_are_optional() -> None:
    space = kd.mma_space(*NAMES)
    found = space.first_for(_device(), (4096, 4096), [])
    assert [each.values for each in found] == [each.values for each in space.first()]


def _plan(dtype: Any, extent: tuple[int, int]) -> dict[str, Any]:
    with kd.use("null"):
        a, b, c = (kd.empty(extent, dtype) for _ in range(3))
        return dict(product.forall(*extent).plan(a, b, c).parameters)


@pytest.mark.parametrize(
    ("dtype", "extent", "tile"),
    [
        (np.float16, (256, 4096), (128, 64, 64)),
        (np.float16, (512, 128), (64, 64, 64)),
        (np.float32, (512, 512), (64, 64, 32)),
    ],
)
def test_a_plan_has_the_tiles(
    dtype: Any, extent: tuple[int, int], tile: tuple[int, int, int]
) -> None:
    found = _plan(dtype, extent)
    assert (found["BM"], found["BN"], found["BK"]) == tile


def test_nothing_is_counted_for_a_launch_of_the_only_first_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*about: Any) -> Any:
        raise AssertionError("the work of a member was counted")

    kernel = kd.kernel(product.function, space=kd.mma_space(*NAMES))
    with kd.use("null"):
        a, b, c = (kd.empty((512, 128), np.float16) for _ in range(3))
        monkeypatch.setattr(decision, "make_problems", refuse)
        kernel.forall(512, 128)(a, b, c)
        (choice,) = kernel._dispatcher.state().choices.values()
        monkeypatch.undo()
        assert dict(kernel.forall(512, 128).plan(a, b, c).parameters) == {
            "block": choice.candidate.member.block_threads,
            **dict(zip(NAMES, (64, 64, 64), strict=True)),
        }


def test_a_plan_has_the_blocks_of_its_launch() -> None:
    with kd.use("null"):
        a, b, c = (kd.empty((4096, 4096), np.float16) for _ in range(3))
        plan = product.forall(4096, 4096).plan(a, b, c)
        assert plan.grid_dim == (132, 1, 1)
        assert "132 blocks of 256 threads" in str(plan)


def test_a_space_of_one_block_has_its_best_member() -> None:
    found = _first(kd.mma_space(*NAMES, block=[128]), (4096, 4096))
    assert (found.BM, found.BN, found.BK) == (64, 256, 64)
    other = kd.mma_space(*NAMES, block=[512])
    found = _first(other, (4096, 4096))
    assert found.values == other.first().members[0].values


def test_a_pickled_space_chooses_the_same() -> None:
    space = kd.mma_space(*NAMES)
    found = [
        each.first_for(_device(), (4096, 4096), ["float16"]).members[0]
        for each in (space, pickle.loads(pickle.dumps(space)))  # noqa: S301
    ]
    assert found[0] == found[1]
    assert found[0].BN == 256
