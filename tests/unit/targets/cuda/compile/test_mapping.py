"""The default mapping of ``forall`` covers every index of an extent."""

from __future__ import annotations

import math

import pytest

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.contract import LaunchConfig, Resources
from kerneldsl.errors import LaunchConfigError, ResourceLimitError
from targets.cuda.compile.mapping import choose_block, map_extent
from targets.cuda.device.carveout import check_resources
from targets.null.devices import H100, SMALL_OLD_CARD


def _traits(*, uses_block: bool = False, uses_grid_only: bool = True) -> KernelTraits:
    none: frozenset[int] = frozenset()
    return KernelTraits(uses_block, uses_grid_only, frozenset({1}), uses_block, False, 0, none, ())


@pytest.mark.parametrize("extent", [(1,), (255,), (257,), (1000, 3), (3, 1000), (5, 7, 33)])
def test_grid_covers_the_extent_last_axis_along_x(extent: tuple[int, ...]) -> None:
    config = map_extent(_traits(), H100, extent, None, max_block_threads=1024)
    assert config.extent == extent
    covered = [g * b for g, b in zip(config.grid_dim, config.block_dim, strict=True)]
    wanted = (*reversed(extent), 1, 1)[:3]
    for have, want, block in zip(covered, wanted, config.block_dim, strict=True):
        assert want <= have < want + block


def test_a_kernel_that_reads_its_block_has_the_first_axis_along_x() -> None:
    config = map_extent(
        _traits(uses_grid_only=False), H100, (1000, 3), (100, 1, 1), max_block_threads=1024
    )
    assert config.grid_dim == (10, 3, 1)


def test_long_outer_axes_are_cut_to_the_limit() -> None:
    config = map_extent(_traits(), H100, (10**7, 4), None, max_block_threads=1024)
    assert config.grid_dim == (1, 65535, 1)


def test_kernels_without_the_loop_are_refused_instead() -> None:
    with pytest.raises(LaunchConfigError, match="MAX_GRID_DIM_Y"):
        map_extent(_traits(uses_grid_only=False), H100, (4, 10**7), None, max_block_threads=1024)


def test_a_block_kernel_needs_a_block() -> None:
    with pytest.raises(LaunchConfigError, match="has no block"):
        map_extent(
            _traits(uses_block=True, uses_grid_only=False),
            H100,
            (4,),
            None,
            max_block_threads=1024,
        )


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("limit", [1024, 200, 128, 32, 1])
def test_blocks_shrink_to_what_the_kernel_can_have(ndim: int, limit: int) -> None:
    assert math.prod(choose_block(ndim, limit)) <= limit


def _resources(registers: int | None, shared: int, threads: int) -> Resources:
    return Resources(registers, 0, 0, shared, threads)


def test_a_block_beyond_what_registers_allow_is_refused() -> None:
    config = LaunchConfig((1, 1, 1), (32, 32, 1))
    with pytest.raises(ResourceLimitError, match=r"1024 threads.*128 registers.*512") as caught:
        check_resources("k", _resources(128, 0, 512), H100, config)
    assert caught.value.value == (32, 32, 1)


def test_shared_memory_is_counted_together() -> None:
    config = LaunchConfig((1, 1, 1), (32, 1, 1), shared_bytes=40_000)
    check_resources("k", _resources(32, 10_000, 1024), H100, config)
    with pytest.raises(ResourceLimitError, match=r"50000 bytes.*10000 static, 40000 dynamic"):
        check_resources("k", _resources(32, 10_000, 1024), SMALL_OLD_CARD, config)
