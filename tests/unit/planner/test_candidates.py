"""Classes of extents: for speed alone; what fits a grid is never refused because of its class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.contract import Dim3
from kerneldsl.planner.candidates import block_shapes, extent_class, grid_ends
from targets import null
from targets.null.target import NullTarget
from tests.support.extent import examples

#: Grids of a device that is described: as NVIDIA's along y and z, and small along x too.
MOST = (70_000, 65_535, 65_535)
TILES = ((64, 1, 1), (32, 4, 1), (16, 6, 1))
LISTED = settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def fits(extent: tuple[int, ...], tile: Dim3, most: tuple[int, ...] = MOST) -> bool:
    return all(-(-n // width) <= top for n, width, top in zip(extent, tile, most, strict=False))


@st.composite
def extents(draw: Any, tiles: tuple[Dim3, ...] = TILES) -> tuple[int, ...]:
    """Extents of which each is small, or near what some grid covers, or in between."""
    found = []
    for top, *widths in zip(MOST, *tiles, strict=True):
        limit = top * draw(st.sampled_from(widths))
        near = st.integers(-3, 3).map(lambda d, limit=limit: limit + d)
        below = st.integers(limit * 3 // 4, limit)
        found.append(draw(st.integers(1, 300) | near | below))
    return tuple(found[: draw(st.sampled_from([1, 2, 3]))])


@pytest.fixture(scope="module")
def target() -> Iterator[NullTarget]:
    small = replace(null.H100, limits=replace(null.H100.limits, max_grid_dim=MOST))
    with null.described_as(small) as described, kd.use("null"):
        yield described


@pytest.fixture(scope="module")
def x(target: NullTarget) -> kd.DeviceArray:
    return kd.zeros((8, 8, 8), np.float32)


@kd.kernel(space=kd.Space(block=list(TILES)))
def shared_cells(x, *, block):
    cells = kd.shared.array(256, np.float32)
    cells[kd.threadIdx.x] = x[kd.blockIdx.x, kd.blockIdx.y, kd.blockIdx.z]
    kd.syncthreads()
    x[kd.blockIdx.x, kd.blockIdx.y, kd.blockIdx.z] = cells[kd.threadIdx.y]


@kd.kernel
def reads_its_thread(x):
    x[kd.blockIdx.x, kd.blockIdx.y, kd.threadIdx.x] = 1


def check(launch: Any, extent: tuple[int, ...], tiles: list[Dim3], x: Any, made: list[Any]) -> None:
    """A launch is made exactly where a grid of some block covers the extent."""
    before = len(made)
    if not any(fits(extent, tile) for tile in tiles):
        for refused in (launch, launch.plan):
            with pytest.raises(kd.LaunchConfigError, match="MAX_GRID_DIM") as caught:
                refused(x)
            assert not isinstance(caught.value, kd.ResourceLimitError)
            assert str(extent) in str(caught.value)
        assert len(made) == before
        return
    launch(x)
    config, plan = made[-1].config, launch.plan(x)
    assert len(made) == before + 1
    assert (plan.grid_dim, plan.block_dim) == (config.grid_dim, config.block_dim)
    assert config.block_dim in tiles
    whole = tuple(-(-n // width) for n, width in zip(extent, config.block_dim, strict=False))
    assert config.grid_dim == (*whole, 1, 1)[:3]
    assert all(n <= top for n, top in zip(config.grid_dim, MOST, strict=True))


@given(extents())
def test_what_fits_an_extent_fits_its_class(extent: tuple[int, ...]) -> None:
    whole = extent_class(extent, grid_ends(TILES, MOST))
    assert all(n <= top < 1.25 * n + 8 for n, top in zip(extent, whole, strict=True))
    assert extent_class(whole, grid_ends(TILES, MOST)) == whole
    assert [fits(extent, tile) for tile in TILES] == [fits(whole, tile) for tile in TILES]


@LISTED
@given(extents())
def test_a_space_serves_every_extent_that_a_member_can(
    target: NullTarget, x: Any, extent: tuple[int, ...]
) -> None:
    check(shared_cells.forall(extent), extent, list(TILES), x, target.launches)


@LISTED
@given(extents(), st.sampled_from([(1, 2, 1), (3, 2, 1), (1, 1, 4)]))
def test_grids_are_made_of_whole_clusters(
    target: NullTarget, x: Any, extent: tuple[int, ...], cluster: Dim3
) -> None:
    most = tuple(top // width * width for top, width in zip(MOST, cluster, strict=True))
    launch = shared_cells.forall(extent, cluster=cluster)
    if not any(fits(extent, tile, most) for tile in TILES):
        with pytest.raises(kd.LaunchConfigError, match="MAX_GRID_DIM"):
            launch(x)
        return
    launch(x)
    config = target.launches[-1].config
    assert config.block_dim in TILES
    assert all(n % width == 0 for n, width in zip(config.grid_dim, cluster, strict=True))
    assert all(n <= top for n, top in zip(config.grid_dim, most, strict=True))
    assert launch.plan(x).grid_dim == config.grid_dim


@LISTED
@given(extents(), st.sampled_from(TILES))
def test_a_given_block_serves_every_extent_that_it_can(
    target: NullTarget, x: Any, extent: tuple[int, ...], block: Dim3
) -> None:
    check(reads_its_thread.forall(extent, block=block), extent, [block], x, target.launches)


@LISTED
@given(extents(((64, 1, 1), (1024, 32, 1), (96, 64, 2))))
def test_some_block_serves_every_extent_that_it_can(
    target: NullTarget, x: Any, extent: tuple[int, ...]
) -> None:
    blocks = list(block_shapes(len(extent), target.devices()[0].limits, 1024))
    check(reads_its_thread.forall(extent), extent, blocks, x, target.launches)


def test_the_choice_does_not_depend_on_which_extent_came_first(target: NullTarget, x: Any) -> None:
    """65 535 rows fit a grid of every member, 65 536 one of two: classes end between them."""
    chosen = []
    for order in ((60_000, 65_535, 65_536, 70_000), (70_000, 65_536, 65_535, 60_000)):
        shared_cells._dispatcher.state().choices.clear()
        shared_cells._remember_launches()
        for rows in order:
            shared_cells.forall(64, rows)(x)
        chosen.append({rows: shared_cells.forall(64, rows).plan(x).block_dim for rows in order})
    assert chosen[0] == chosen[1]


def test_a_member_without_a_grid_is_told_of() -> None:
    """Where resources refuse the others."""

    @kd.kernel(
        space=kd.Space(block=[(64, 1), (32, 4)], shared=lambda c: 10**6 * (c.block_dim[1] > 1))
    )
    def greedy(x, *, block):
        cells = kd.shared.array(0, np.float32)
        cells[kd.threadIdx.x] = x[0]
        kd.syncthreads()
        x[0] = cells[0]

    with pytest.raises(kd.ResourceLimitError, match="1 member would need more blocks"):
        greedy.forall(64, 70_000).plan("float32[::1]", arch="sm_90")
